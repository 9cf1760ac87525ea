"""The examples in the docstrings are true."""

import doctest
import importlib
import importlib.util
import pkgutil
from pathlib import Path

import pytest

import headnode.core


def has_examples(module: pkgutil.ModuleInfo) -> bool:
    """Tell whether a source has one: to look through a module takes much longer than to read it."""
    found = importlib.util.find_spec(module.name)
    return found is not None and found.origin is not None and ">>>" in Path(found.origin).read_text()


MODULES = sorted(
    found.name
    for package in ("headnode.core", "headnode.engine", "headnode.adapters", "headnode.apps")
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    if not found.name.endswith("__main__") and has_examples(found)
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried > 0
    assert failed == 0, f"{name}: see the examples above"


def test_the_core_has_examples() -> None:
    assert headnode.core.__doc__
    assert len([name for name in MODULES if name.startswith("headnode.core.")]) >= 5
