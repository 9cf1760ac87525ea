"""The core thinks: it never looks at a clock, a file, a socket, a thread, the environment or chance."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "headnode"
CORE = sorted((SOURCE / "core").rglob("*.py"))

PURE_MODULES = {
    "abc", "array", "base64", "binascii", "bisect", "collections", "copy", "cronsim", "dataclasses",
    "datetime", "difflib",
    "enum", "fractions", "functools", "hashlib", "heapq", "headnode", "hmac", "itertools", "math", "msgspec",
    "operator", "posixpath", "re", "shlex", "string", "types", "typing", "zoneinfo",
}  # fmt: skip
IN_XML_FORMATS = {"lxml", "xml"}
IMPURE_NAMES = {
    "breakpoint", "compile", "eval", "exec", "exit", "globals", "id", "input", "locals", "open", "print",
    "vars",
}  # fmt: skip
CLOCK_METHODS = {"now", "utcnow", "today"}  # of datetime and date, which are pure otherwise


def impurities(tree: ast.AST, allowed: set[str]) -> Iterator[tuple[int, str]]:
    """Yield the line and the sentence of everything in `tree` that does not belong in the core."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    if name.name.split(".")[0] not in allowed:
                        yield node.lineno, f"imports {name.name}"
            case ast.ImportFrom(module=module, level=level):
                if level or (module or "").split(".")[0] not in allowed:
                    yield node.lineno, f"imports from {module}"
            case ast.AsyncFunctionDef(name=name):
                yield node.lineno, f"async def {name}"
            case ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield node.lineno, "awaits"
            case ast.Global():
                yield node.lineno, "changes a global"
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_NAMES:
                yield node.lineno, f"calls {name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name)) if (
                name in CLOCK_METHODS
            ):
                yield node.lineno, f"looks at the clock with {name}"


def allowed_in(file: Path) -> set[str]:
    xml = "sss" in file.parts or any(
        part.removesuffix(".py").endswith(("_xml", "xml_text")) for part in file.parts
    )
    return PURE_MODULES | (IN_XML_FORMATS if xml else set())


def test_the_core_is_pure() -> None:
    found = {
        str(file.relative_to(SOURCE)): list(impurities(ast.parse(file.read_text()), allowed_in(file)))
        for file in CORE
    }
    assert len(found) > 100
    assert {file: impure for file, impure in found.items() if impure} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import time",
        "import os.path",
        "from random import random",
        "from . import neighbour",
        "async def f(): pass",
        "def f():\n    global x",
        "print('here')",
        "open('file')",
        "input()",
        "datetime.now()",
        "date.today()",
        "from lxml import etree",
    ],
)
def test_what_is_impure_is_seen(line: str) -> None:
    assert list(impurities(ast.parse(line), PURE_MODULES)) != []


def test_no_module_has_a_name_that_hides_a_noun() -> None:
    nameless = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}
    named_so = [
        file for file in SOURCE.rglob("*.py") if file.stem in nameless or file.parent.name in nameless
    ]
    assert named_so == []
