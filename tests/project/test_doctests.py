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


FOLDERS = sorted({name.rpartition(".")[0] for name in MODULES})


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_examples_of(folder: str) -> None:
    for name in MODULES:
        if name.rpartition(".")[0] == folder:
            module = importlib.import_module(name)
            failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
            assert failed == 0, f"{name}: see the examples above"


def test_the_core_has_examples() -> None:
    names = [name for name in MODULES if name.startswith("headnode.core.")]
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = [
        found for name in names for found in finder.find(importlib.import_module(name)) if found.examples
    ]
    assert headnode.core.__doc__
    assert len(examples) >= 5
