"""Count the source tree: files, lines, class names, import circles, modules of the head.

`house.py [PACKAGE]` prints the figures beside their goals; PACKAGE is a folder, `src/headnode` by default.
`house.py --list` also names what is over a goal.  Exit status 1 if a figure is over its goal.
"""

import argparse
import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

LONGEST_FILE, LONGEST_FUNCTION = 400, 40  # lines
HEAD = "headnode.apps.server.main"
PRINTED = "Printed by `make bless`"  # in the docstring of a module that a program writes
COUNT_MODULES = (
    "import importlib, sys; importlib.import_module(sys.argv[1]); "
    "print(sum(name.partition('.')[0] == sys.argv[2] for name in sys.modules))"
)


class Module(NamedTuple):
    """One source file, parsed."""

    name: str
    path: Path
    lines: int
    tree: ast.Module


class Figure(NamedTuple):
    """One line of the report; `goal` is None for a figure without a goal."""

    name: str
    value: float
    goal: int | None = None
    over: tuple[str, ...] = ()


def modules_of(package: Path) -> list[Module]:
    """Return the modules of a package, in the order of their paths."""
    found = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        text = path.read_text()
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, path, text.count("\n"), ast.parse(text)))
    return found


def homonyms(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the class names that several modules define, with the modules."""
    places = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def imports_of(module: Module, known: set[str]) -> set[str]:
    """Return the known modules that a module names in its imports, those for types included."""
    named = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= below if below <= known else {node.module} | below
    return (named & known) - {module.name}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return sets of modules that import each other: strongly connected parts of more than one module."""
    found, left = [], {name: set(others) for name, others in graph.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            start = error.args[1][0]
            circle = reachable(left, start) & reachable(reverse(left), start)
            found.append(circle)
            left = {name: others - circle for name, others in left.items() if name not in circle}
        else:
            return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return the modules that can be reached from one, itself included."""
    seen, waiting = {start}, [start]
    while waiting:
        fresh = graph.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting += fresh
    return seen


def reverse(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph with every arrow turned round."""
    turned: dict[str, set[str]] = {name: set() for name in graph}
    for name, others in graph.items():
        for other in others:
            turned.setdefault(other, set()).add(name)
    return turned


def long_functions(modules: Iterable[Module]) -> Iterator[str]:
    """Yield the functions of more lines than fit a glance, in modules that are written by hand."""
    for module in modules:
        if PRINTED in (ast.get_docstring(module.tree) or ""):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
                lines = node.end_lineno - node.lineno + 1
                if lines > LONGEST_FUNCTION:
                    yield f"{module.name}.{node.name}: {lines} lines"


def modules_loaded(package: Path, start: str) -> int:
    """Return how many modules of the package a process has after it imported `start`."""
    words = [sys.executable, "-c", COUNT_MODULES, start, package.name]
    done = subprocess.run(words, cwd=package.parent, capture_output=True, text=True, check=True)
    return int(done.stdout)


def figures(package: Path) -> list[Figure]:
    """Return the figures of a package."""
    modules = modules_of(package)
    known = {module.name for module in modules}
    lengths = [module.lines for module in modules]
    long_files = tuple(f"{each.name}: {each.lines} lines" for each in modules if each.lines > LONGEST_FILE)
    several = homonyms(modules)
    in_circles = circles({module.name: imports_of(module, known) for module in modules})
    functions = tuple(long_functions(modules))
    return [
        Figure("files", len(modules), 360),
        Figure("lines", sum(lengths), 74_000),
        Figure("lines of a file, median", statistics.median(lengths)),
        Figure("lines of a file, largest", max(lengths), LONGEST_FILE),
        Figure(f"files over {LONGEST_FILE} lines", len(long_files), 0, long_files),
        Figure(f"functions over {LONGEST_FUNCTION} lines", len(functions), 0, functions),
        Figure(
            "class names with several meanings",
            len(several),
            0,
            tuple(f"{name}: {', '.join(places)}" for name, places in several.items()),
        ),
        Figure("import circles", len(in_circles), 0, tuple(", ".join(sorted(each)) for each in in_circles)),
        Figure("modules imported by the head", modules_loaded(package, HEAD), 200),
    ]


def main() -> int:
    """Print the figures; return 1 if one is over its goal."""
    asked = argparse.ArgumentParser(description="Count the source tree.")
    asked.add_argument("package", nargs="?", type=Path, default=Path("src/headnode"))
    asked.add_argument("--list", action="store_true", help="name what is over a goal")
    options = asked.parse_args()
    missed = 0
    for figure in figures(options.package.resolve()):
        goal = "" if figure.goal is None else f"   goal {figure.goal:,}"
        missed += figure.goal is not None and figure.value > figure.goal
        print(f"{figure.name:36}{figure.value:>10,.0f}{goal}")
        if options.list:
            print(*(f"    {each}" for each in figure.over), sep="\n", end="\n" if figure.over else "")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
