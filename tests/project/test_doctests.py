"""The examples in the docstrings are true."""

import doctest
import importlib
import pkgutil

import pytest

import headnode.core

MODULES = sorted(
    found.name
    for package in ("headnode.core", "headnode.engine", "headnode.adapters", "headnode.apps")
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    if not found.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_the_core_has_examples() -> None:
    names = [name for name in MODULES if name.startswith("headnode.core.")]
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [
        found for name in names for found in finder.find(importlib.import_module(name)) if found.examples
    ]
    assert headnode.core.__doc__
    assert len(examples) >= 5
