"""Only `core/state` changes the state of the cluster.  What the engine changes is its agenda."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec
import pytest
from test_histories import Hooked, Player, Preempting

import headnode
from headnode.core.state.agenda import Agenda, Timers
from headnode.core.state.apply_events import apply_event, pass_time
from headnode.core.state.cluster_state import ClusterState

SOURCE = Path(headnode.__file__).parent
STATE = SOURCE / "core" / "state"
OUTSIDE = sorted(path for path in SOURCE.rglob("*.py") if STATE not in path.parents)
CHANGES = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault"}
CHANGES |= {"sort", "update"}
PARTS = ("cluster_state", "indexes", "reservation_index", "task_graph")


def chain(node: ast.expr) -> list[str]:
    """Return the names of ``a.b[c].d``: a, b, d."""
    names: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        node = node.value
    return [*([node.id] if isinstance(node, ast.Name) else []), *reversed(names)]


def changed(tree: ast.AST, calls: set[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield what is assigned, deleted, or changed by a call of one of these methods, and in which line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            for target in node.targets:
                for each in target.elts if isinstance(target, ast.Tuple) else (target,):
                    yield node.lineno, chain(each)
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            yield node.lineno, chain(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in calls:
            yield node.lineno, chain(node.func)


@cache
def writers() -> frozenset[str]:
    """Return the methods of the state that change it, by themselves or through another."""
    methods = {
        method.name: method
        for part in PARTS
        for each in ast.parse((STATE / f"{part}.py").read_text()).body
        if isinstance(each, ast.ClassDef)
        for method in each.body
        if isinstance(method, ast.FunctionDef)
    }
    found: set[str] = set()
    while True:
        more = {
            name
            for name, method in methods.items()
            if any(names[0] == "self" and len(names) > 1 for _, names in changed(method, CHANGES | found))
        }
        if more <= found:
            return frozenset(found - {"__init__"})
        found |= more


def writes(tree: ast.AST) -> list[str]:
    """Return where the state is changed, but for its agenda."""
    found = []
    for line, names in changed(tree, CHANGES | set(writers())):
        after = names[names.index("cluster") + 1 :] if "cluster" in names else []
        if after and after[0] != "agenda":
            found.append(f"{line}: {'.'.join(names)}")
    return found


def test_nothing_outside_of_the_state_changes_it() -> None:
    sources = {str(path.relative_to(SOURCE)): path.read_text() for path in OUTSIDE}
    naming = {path: source for path, source in sources.items() if "cluster" in source}
    assert len(naming) > 20
    assert {path: found for path, source in naming.items() if (found := writes(ast.parse(source)))} == {}


@pytest.mark.parametrize(
    "line",
    [
        "self.cluster.next_job += 1",
        "cluster.jobs[job].run.alternative = 2",
        "del context.cluster.nodes[name]",
        "cluster.parameters, other = {}, 1",
        "engine.cluster.running.discard(job)",
        "cluster.cores.take(job, node, ())",
        "cluster.release_due(now)",
    ],
)
def test_changes_of_the_state_are_found(line: str) -> None:
    assert writes(ast.parse(line))
    assert not writes(ast.parse("cluster.agenda.dirty_jobs.add(job); cluster.cores.free_on(node)"))


def test_only_the_engine_applies_events_and_the_time() -> None:
    names = {apply_event.__name__, pass_time.__name__}
    users = {
        path.parent.name
        for path in OUTSIDE
        if any(name in (source := path.read_text()) for name in names)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and names & {alias.name for alias in node.names}
    }
    assert "engine" in users
    assert users <= {"engine", "journal"}  # a backup is checked by applying its events


def held_in(value: object) -> object:
    """Return what a part of the state holds, derived or not; the agenda and its timers are no part of it."""
    if isinstance(value, Agenda | Timers):
        return None
    if isinstance(value, Mapping):
        return {key: held_in(each) for key, each in value.items()}
    if isinstance(value, msgspec.Struct) or not hasattr(value, "__dict__"):
        return value
    return {name: held_in(each) for name, each in vars(value).items()}


@pytest.mark.parametrize("kind", [Player, Preempting, Hooked])
@pytest.mark.parametrize("seed", range(4))
def test_the_events_and_the_time_alone_make_all_of_the_state(kind: type[Player], seed: int) -> None:
    player = kind(seed)
    for _ in range(150):
        player.step()
    world = player.world
    world.engine.tick()
    replayed = ClusterState()
    for _, event in world.journal.replay(0):
        apply_event(replayed, event)
    pass_time(replayed, world.clock.now())
    live, again = vars(world.cluster), vars(replayed)
    for part in live:
        assert held_in(again[part]) == held_in(live[part]), part
