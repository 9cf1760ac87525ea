"""A class name means one thing, no modules import each other, and files and functions fit a glance."""

import ast
import re
from pathlib import Path

import pytest
from house import (
    HEAD,
    HEAD_MODULES,
    MAX_FILE,
    circles,
    homonyms,
    imports_of,
    long_functions,
    modules_loaded,
    modules_of,
)

PACKAGE = Path(__file__).parents[2] / "src" / "headnode"


@pytest.fixture(scope="module")
def modules() -> list:
    return modules_of(PACKAGE)


def test_a_class_name_is_used_once(modules: list) -> None:
    assert homonyms(modules) == {}


def test_no_modules_import_each_other(modules: list) -> None:
    known = {module.name for module in modules}
    assert circles({module.name: imports_of(module, known) for module in modules}) == []


def test_files_and_functions_fit_a_glance(modules: list) -> None:
    long = [f"{module.name} ({module.lines})" for module in modules if module.lines > MAX_FILE]
    assert not long, f"more than {MAX_FILE} lines; move one subject of it to another file: {long}"
    functions = list(long_functions(modules))
    assert not functions, f"too long; name a part of it and make it a function: {functions}"


def test_a_head_imports_no_more_modules_than_a_plain_one_needs() -> None:
    """What few clusters use is imported with its first use (`apps/server/optional_services`, `VERBS`)."""
    loaded = len(modules_loaded(PACKAGE, HEAD))
    way_out = "import what a plain head does without where it is first used, in a function"
    assert loaded <= HEAD_MODULES, f"{loaded} modules, {HEAD_MODULES} at most; {way_out}"


def test_circles_and_homonyms_are_found(tmp_path: Path) -> None:
    package = tmp_path / "made"
    package.mkdir()
    (package / "a.py").write_text("from made import b\nclass Same: ...\n")
    (package / "b.py").write_text("from made.a import Same as Other\nclass Same: ...\n")
    (package / "c.py").write_text("import made.a\n")
    made = modules_of(package)
    known = {module.name for module in made}
    assert homonyms(made) == {"Same": ["made.a", "made.b"]}
    assert circles({each.name: imports_of(each, known) for each in made}) == [{"made.a", "made.b"}]


def test_own_processes_are_started_by_commands_of_one_module(modules: list) -> None:
    """Others use `sys.executable` to find programs beside it, never to run a module of ours."""
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "sys.executable" in path.read_text()
    }
    assert users == {
        "adapters/own_python.py",
        "apps/agent/task_tools.py",
        "apps/cli/commands/compat.py",
        "apps/cli/resident.py",  # only compares the file with the one that runs
        "apps/simulate/html/page.py",
        "sdk/executor/executor.py",  # the command of tasks, which run as their user
        "sdk/executor/worker.py",
    }
    assert '"-m"' not in (PACKAGE / "apps/agent/task_tools.py").read_text()


def wrong_possessives(pattern: str) -> list[str]:
    """Return the groups of a pattern that are repeated without going back, and hold what may go back."""
    plain = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", pattern, flags=re.DOTALL)
    groups = re.findall(r"(\((?:\?:)?[^()]*\)|\))[*+?]\+", plain)
    return [group for group in groups if re.search(r"^\)|(?<![*+?}(])[*+?}](?!\+)", group)]


def test_possessive_groups_hold_nothing_that_python_before_3_11_5_matches_wrongly(modules: list) -> None:
    """Inside of them, a choice of how often matches nothing there.  Debian 12 has such a Python."""
    texts = [
        node.value
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert [text for text in texts if wrong_possessives(text)] == []
    assert wrong_possessives(r"(?:[a]++|b(?!c))*+") == [")"]
    assert wrong_possessives(r"(?:[a]++|b?c)++") == ["(?:x++|b?c)"]
