"""Count the source tree: files, lines, class names, import circles, modules of the head.

`house.py [PACKAGE]` prints the figures beside their goals; PACKAGE is a folder, `src/headnode` by default.
`house.py --list` also names what is over a goal.  Exit status 1 if a figure is over its goal.
`house.py --features` prints files and lines of each feature instead, `--features --list` also their files.
"""

import argparse
import ast
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

MAX_FILE, MAX_FUNCTION = 400, 40  # lines
HEAD, HEAD_MODULES = "headnode.apps.server.main", 200
PRINTED = "Printed by `make bless`"  # in the docstring of a module that a program writes
LIST_MODULES = (
    "import importlib, sys; importlib.import_module(sys.argv[1]); "
    "print(*(name for name in sys.modules if name.partition('.')[0] == sys.argv[2]), sep='\\n')"
)
FEATURES = (
    ("SDK", "sdk/*"),
    ("console", "apps/web/console/*"),
    ("HPC Pack REST", "apps/web/hpc_pack/*"),
    ("Pilot and grid services", "apps/web/pilot/* apps/cli/commands/grid.py"),
    (
        "SSSRMAP",
        "apps/web/sssrmap/* core/formats/sss/sssrmap/* adapters/wire/sssrmap*.py apps/cli/commands/sss.py",
    ),
    (
        "gateway: HTTP, REST version 1, log-in",
        "apps/web/* protocol/rest_routes.py apps/cli/web_gateway.py apps/cli/commands/web.py"
        " apps/client/web_connection.py apps/server/event_webhooks.py apps/server/api/event*.py"
        " protocol/event_answers.py",
    ),
    (
        "staging of files, delegations",
        "adapters/staging/* core/model/staging.py core/launching/staging.py core/state/staging.py"
        " adapters/processes/staging.py adapters/processes/transfer_*.py */delegations.py",
    ),
    ("bank", "*/bank.py */bank_*.py"),
    ("overlay", "*/site.py */site_*.py */slurm_site.py */slurm_reasons.py"),
    ("elastic nodes", "*/elastic.py */elastic_*.py"),
    (
        "hand-off to other schedulers",
        "apps/handoff.py adapters/batch/* core/batch/* apps/server/hand_off.py apps/server/place_desk.py"
        " core/state/place_*.py core/state/resource*.py core/model/resource*.py */resources.py"
        " protocol/resource_answers.py apps/cli/commands/resource.py",
    ),
    ("batch scripts", "core/formats/batch/* core/formats/option_words.py"),
    (
        "commands of Slurm, PBS and HPC Pack",
        "apps/cli/batch_programs/* apps/cli/slurm_and_pbs.py apps/cli/other_schedulers.py"
        " apps/cli/hpc_pack_programs.py apps/cli/commands/compat.py",
    ),
    ("resident client, vacant shepherds", "apps/cli/resident.py apps/cli/program.py */vacant_shepherds.py"),
    ("everything else", "*"),
)
"""Features and the files that are theirs alone; a file belongs to the first feature that matches it."""


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
                if lines > MAX_FUNCTION:
                    yield f"{module.name}.{node.name}: {lines} lines"


def modules_loaded(package: Path, start: str) -> list[str]:
    """Return the modules of the package that a process has after it imported `start`."""
    words = [sys.executable, "-c", LIST_MODULES, start, package.name]
    done = subprocess.run(words, cwd=package.parent, capture_output=True, text=True, check=True)
    return sorted(done.stdout.split())


def figures(package: Path) -> list[Figure]:
    """Return the figures of a package."""
    modules = modules_of(package)
    known = {module.name for module in modules}
    lengths = [module.lines for module in modules]
    long_files = tuple(f"{each.name}: {each.lines} lines" for each in modules if each.lines > MAX_FILE)
    several = homonyms(modules)
    in_circles = circles({module.name: imports_of(module, known) for module in modules})
    functions = tuple(long_functions(modules))
    of_head = modules_loaded(package, HEAD)
    return [
        Figure("files", len(modules), 360),
        Figure("lines", sum(lengths), 74_000),
        Figure("lines of a file, median", statistics.median(lengths)),
        Figure("lines of a file, largest", max(lengths), MAX_FILE),
        Figure(f"files over {MAX_FILE} lines", len(long_files), 0, long_files),
        Figure(f"functions over {MAX_FUNCTION} lines", len(functions), 0, functions),
        Figure(
            "class names with several meanings",
            len(several),
            0,
            tuple(f"{name}: {', '.join(places)}" for name, places in several.items()),
        ),
        Figure("import circles", len(in_circles), 0, tuple(", ".join(sorted(each)) for each in in_circles)),
        Figure("modules imported by the head", len(of_head), HEAD_MODULES, tuple(of_head)),
    ]


def by_feature(package: Path) -> dict[str, list[Module]]:
    """Return the modules of each feature."""
    found: dict[str, list[Module]] = {name: [] for name, _ in FEATURES}
    for module in modules_of(package):
        path = module.path.relative_to(package).as_posix()
        name = next(name for name, mine in FEATURES if any(fnmatch(path, each) for each in mine.split()))
        found[name].append(module)
    return found


def print_features(package: Path, *, names: bool) -> None:
    """Print files and lines of each feature, the largest first."""
    found = by_feature(package)
    lines = {name: sum(module.lines for module in modules) for name, modules in found.items()}
    for name in sorted(found, key=lambda one: -lines[one]):
        print(f"{name:40}{len(found[name]):>6}{lines[name]:>10,}")
        if names:
            print(*(f"    {module.name}: {module.lines}" for module in found[name]), sep="\n")
    print(f"{'all':40}{sum(map(len, found.values())):>6}{sum(lines.values()):>10,}")


def main() -> int:
    """Print the figures; return 1 if one is over its goal."""
    asked = argparse.ArgumentParser(description="Count the source tree.")
    asked.add_argument("package", nargs="?", type=Path, default=Path("src/headnode"))
    asked.add_argument("--list", action="store_true", help="name what is over a goal")
    asked.add_argument("--features", action="store_true", help="print files and lines of each feature")
    options = asked.parse_args()
    if options.features:
        print_features(options.package.resolve(), names=options.list)
        return 0
    missed = 0
    for figure in figures(options.package.resolve()):
        goal = "" if figure.goal is None else f"   goal {figure.goal:,}"
        missed += figure.goal is not None and figure.value > figure.goal
        print(f"{figure.name:36}{figure.value:>10,.0f}{goal}")
        if options.list:
            over = figure.over if figure.value > (figure.goal or 0) else ()
            print(*(f"    {each}" for each in over), sep="\n", end="\n" if over else "")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
