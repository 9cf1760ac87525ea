"""Policies of other packages: found, guarded, chosen, simulated; the head goes on, whatever is wrong."""

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.clock import VirtualClock
from headnode.adapters.own_python import SOURCE_ROOT
from headnode.adapters.policy_plug_ins import GROUP, load
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.plan import Plan, Reason, Reservation, Start, Wait, Why
from headnode.core.scheduling.policies import POLICIES, Policy
from headnode.core.scheduling.view import View
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState
from headnode.engine.engine import Engine
from headnode.engine.policy_registry import BETWEEN_COMPLAINTS, PolicyRegistry
from headnode.engine.settings import check_parameter, parameters_with
from headnode.testing import FAIR, QUICK, PromiseBroken, check_policy, check_streams
from journal_model import ModelJournal

EXAMPLE = Path(__file__).parents[2] / "examples" / "policy"
ROOT = User(name="root", uid=0, gid=0, administrator=True)
LOG = """; MaxProcs: 4
1 0 -1 100 4 -1 -1 4 100 -1 1 1 1 -1 1 -1 -1 -1
2 10 -1 400 4 -1 -1 4 400 -1 1 1 1 -1 1 -1 -1 -1
3 20 -1 50 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1
"""


def install(folder: Path, name: str, modules: dict[str, str], **offered: str) -> list[EntryPoint]:
    """Put a package where Python finds it, as an installer would; return what it offers."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{policy} = {where}\n" for policy, where in offered.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return list(Distribution.at(info).entry_points.select(group=GROUP))


def test_a_policy_of_another_package_is_found_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    text = "def plan(view):\n    return 'planned'\n"
    points = install(tmp_path, "night", {"night_shift": text}, **{"night-shift": "night_shift:plan"})
    found = load([*points, *points])  # a package may be on the path twice
    assert dict(found.troubles) == {}
    assert found.policies["night-shift"](View(Instant(0), {}, [], [])) == "planned"


@pytest.mark.parametrize(
    ("name", "where", "text", "message"),
    [
        ("gone", "no_such_module_here:plan", "", "does not load: ModuleNotFoundError"),
        ("gone", "broken_gone:plan", "", "does not load: AttributeError"),
        ("typo", "broken_typo:plan", "def plan(view:", "does not load: SyntaxError"),
        ("exits", "broken_exits:plan", "import sys\nsys.exit('never')", "does not load: SystemExit: never"),
        ("empty", "broken_empty:plan", "plan = None", "is not a function of one view"),
        ("greedy", "broken_greedy:plan", "def plan(view, more): ...", "is not a function of one view"),
        ("easy", "broken_easy:plan", "def plan(view): ...", "a policy of Headnode; rename it"),
        ("EASY", "broken_upper:plan", "def plan(view): ...", "a policy of Headnode; rename it"),
        ("a,b", "broken_comma:plan", "def plan(view): ...", "in a name"),
    ],
)
def test_what_cannot_be_used_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str, text: str, message: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = load(
        install(
            tmp_path,
            "strange",
            {where.partition(":")[0]: text} if text or "gone:" in where else {},
            **{name: where},
        )
    )
    assert dict(found.policies) == {}
    assert "strange" in found.troubles[name]
    assert message in found.troubles[name]


def test_of_two_packages_with_one_name_neither_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    one = install(tmp_path, "first", {"twice_first": "def plan(view): ..."}, night="twice_first:plan")
    other = install(tmp_path, "second", {"twice_second": "def plan(view): ..."}, night="twice_second:plan")
    found = load([*one, *other])
    assert not found.policies
    assert "first (twice_first:plan) and second (twice_second:plan) both offer" in found.troubles["night"]


class Untold:
    """Nobody is told."""

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Do nothing."""


class House:
    """A head with one node of two processors, whose policies are ours and those given."""

    def __init__(self, **plug_ins: Policy) -> None:
        self.clock = VirtualClock(Instant(1000.0))
        self.roster = PolicyRegistry(plug_ins, {}, self.clock)
        self.engine = Engine(ModelJournal(), self.clock, self.roster, Untold())
        self.engine.handle([RegisterNode(facts=NodeFacts(name="a", processors=2), approved=True)])

    def choose(self, policy: str) -> None:
        self.engine.handle([SetParameter(by=ROOT, name="SchedulingPolicy", value=policy)])

    def submit(self, processors: int = 1) -> JobState:
        spec = JobSpec(minimum=processors, maximum=processors, tasks=(TaskSpec(command="true"),))
        answer = self.engine.handle([CreateJob(by=ROOT, spec=spec, submit=True)])[0]
        assert isinstance(answer, tuple), answer
        newest = max(self.engine.cluster.jobs)
        return self.engine.cluster.jobs[newest].state


def raises(view: View) -> Plan:
    raise ZeroDivisionError("no nodes at night")


def says_nothing(view: View) -> Plan:
    return Plan((), (), {})


def answers_none(view: View) -> Plan:
    return None


def wakes_at_once(view: View) -> Plan:
    return msgspec.structs.replace(POLICIES["easy"](view), wake=view.now)


def gives_words(view: View) -> Plan:
    first = view.queue[0].turns[0].job
    return Plan((Start(first, (("a", "two"),)),), (), {})


def empties_the_queue(view: View) -> Plan:
    view.queue[0].turns.clear()  # type: ignore[attr-defined]
    return Plan((), (), {})


def takes_a_node_away(view: View) -> Plan:
    del view.nodes["a"]  # type: ignore[attr-defined]
    return Plan((), (), {})


def gives_too_much(view: View) -> Plan:
    starts = tuple(Start(turn.job, (("a", 3),)) for each in view.queue for turn in each.turns)
    return Plan(starts, (), {})


def gives_one_node_twice(view: View) -> Plan:
    starts = tuple(Start(turn.job, (("a", 1), ("a", 1))) for each in view.queue for turn in each.turns)
    return Plan(starts, (), {})


def takes_an_option_there_is_not(view: View) -> Plan:
    starts = tuple(Start(turn.job, (("a", 1),), option=1) for each in view.queue for turn in each.turns)
    return Plan(starts, (), {})


def takes_an_option_by_name(view: View) -> Plan:
    turn = view.queue[0].turns[0]
    return Plan((Start(turn.job, (("a", 1),), option="second"),), (), {})


def gives_parts_that_are_words(view: View) -> Plan:
    turn = view.queue[0].turns[0]
    return Plan((Start(turn.job, (("a", 1),), parts=("a",)),), (), {})


def promises_an_option_there_is_not(view: View) -> Plan:
    made = promises_the_past(view)
    kept = msgspec.structs.replace(made.reservations[0], at=view.now, option=2)
    return msgspec.structs.replace(made, reservations=(kept,))


def gives_no_reason(view: View) -> Plan:
    return Plan((), (), {each.request: Wait(()) for each in view.queue})


def gives_words_for_reasons(view: View) -> Plan:
    return Plan((), (), {each.request: Wait(("it is late",)) for each in view.queue})


def promises_the_past(view: View) -> Plan:
    (waiting,) = view.queue
    turn = waiting.turns[0]
    wait = Wait((Reason(Why.POLICY, "later"),))
    kept = Reservation(turn.job, Instant(view.now - 1), (("a", 1),), turn, waiting.request)
    return Plan((), (), {waiting.request: wait}, (kept,))


def promises_a_ghost(view: View) -> Plan:
    made = promises_the_past(view)
    ghost = msgspec.structs.replace(made.reservations[0], job=77, at=view.now)
    return msgspec.structs.replace(made, reservations=(ghost,))


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (gives_no_reason, "reasons are Reason(Why, text)"),
        (gives_words_for_reasons, "reasons are Reason(Why, text)"),
        (promises_the_past, "at 999.0, and now is 1000.0"),
        (promises_a_ghost, "no job waits for it"),
        (promises_an_option_there_is_not, "which has no such"),
        (takes_an_option_there_is_not, "the job waits for nothing"),
        (takes_an_option_by_name, "which is not a number"),
        (gives_parts_that_are_words, "each is pairs as an allocation is"),
        (gives_too_much, "'a' does not have that much free"),
        (gives_one_node_twice, "a node twice"),
        (raises, "ZeroDivisionError: no nodes at night"),
        (says_nothing, "its plan has no entry for job 1"),
        (answers_none, "it answered with a NoneType instead of a Plan"),
        (wakes_at_once, "it wants to be woken at 1000.0"),
        (gives_words, "an allocation is pairs of node and processors"),
        (empties_the_queue, "AttributeError"),
        (takes_a_node_away, "TypeError"),
    ],
)
def test_where_a_plug_in_fails_the_default_policy_plans_and_it_is_reported(
    policy: Callable[[View], Plan], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(strange=policy)
    house.choose("strange")
    assert house.submit() is JobState.RUNNING
    assert text in house.roster.trouble("strange")
    assert "easy plans instead" in house.roster.trouble("strange")
    assert any("strange" in record.message and text in record.message for record in caplog.records)


def test_failures_are_reported_once_a_minute_until_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    fails = [True]

    def sometimes(view: View) -> Plan:
        return raises(view) if fails[0] else POLICIES["fcfs"](view)

    house = House(moody=sometimes)
    house.choose("moody")
    for after in (0.0, 1.0, 58.0, 2.0):
        house.clock.jump(Instant(house.clock.now() + after))
        house.submit()
    assert sum("moody" in record.message for record in caplog.records) == 2, BETWEEN_COMPLAINTS
    fails[0] = False
    house.submit(2)
    assert house.roster.trouble("moody") == ""


def test_a_policy_that_was_uninstalled_is_made_up_for_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    house.choose("night-shift")
    assert house.submit() is JobState.RUNNING
    assert house.roster.trouble("night-shift") == "not installed; easy plans instead"
    assert "the policy night-shift is not installed; easy plans instead" in caplog.text


def test_plug_ins_are_among_the_choices_of_the_scheduling_policy() -> None:
    there_are = parameters_with(PolicyRegistry({"night": raises}, {}, VirtualClock(Instant(0))))
    assert check_parameter("schedulingpolicy", "night", there_are).choices[-1] == "night"


def hn(folder: Path, *words: str, state: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run hn where the packages of a folder are installed, for the head with this state."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{SOURCE_ROOT}"}
    if state is not None:
        environment["HEADNODE_STATE"] = str(state)
    command = [sys.executable, "-m", "headnode.apps.cli", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def installed_example(folder: Path) -> None:
    """Install the example as its pyproject.toml says."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    modules = {file.stem: file.read_text() for file in sorted((EXAMPLE / "src").glob("*.py"))}
    install(folder, project["name"], modules, **project["entry-points"][GROUP])


@pytest.mark.parametrize("how", [("--engine",), ("--nodes", "2x2")])
def test_an_example_is_simulated_beside_ours(tmp_path: Path, how: tuple[str, ...]) -> None:
    installed_example(tmp_path / "site")
    log = tmp_path / "three.swf"
    log.write_text(LOG)
    result = hn(tmp_path / "site", "simulate", str(log), *how, "--compare", "easy,shortest-first", "--json")
    assert result.returncode == 0, result.stderr
    waits = {each["policy"]: each["mean_wait"] for each in msgspec.json.decode(result.stdout)}
    assert waits == {"easy": 190, "shortest-first": pytest.approx(220 / 3)}


def test_a_policy_that_orders_the_queue_is_simulated_with_the_owners_of_the_log(tmp_path: Path) -> None:
    installed_example(tmp_path / "site")
    log = tmp_path / "two.swf"
    jobs = [(number, 1 if number <= 6 else 2) for number in range(1, 9)]
    lines = [f"{job} {job} -1 100 4 -1 -1 4 100 -1 1 {owner} 1 -1 1 -1 -1 -1" for job, owner in jobs]
    log.write_text("; MaxProcs: 4\n" + "\n".join(lines) + "\n")
    order = {}
    for policy in ("easy", "fair-share"):
        listed = tmp_path / policy
        result = hn(
            tmp_path / "site", "simulate", str(log), "--engine", "--policy", policy, "--starts", str(listed)
        )
        assert result.returncode == 0, result.stderr
        rows = [[float(cell) for cell in line.split(",")] for line in listed.read_text().splitlines()[1:]]
        order[policy] = [int(row[0]) for row in sorted(rows, key=lambda row: row[2])]
    assert order["easy"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert order["fair-share"][:2] == [1, 7], "the owner 2 has used nothing when the first job ends"


def test_a_plug_in_that_fails_ends_the_simulation_with_its_words(tmp_path: Path) -> None:
    text = "def plan(view):\n    raise ValueError('not at night')\n"
    install(tmp_path / "site", "bad", {"bad_policy": text}, bad="bad_policy:plan")
    log = tmp_path / "three.swf"
    log.write_text(LOG)
    result = hn(tmp_path / "site", "simulate", str(log), "--engine", "--policy", "bad")
    assert result.returncode == 2
    assert "the policy 'bad' has failed: ValueError: not at night" in result.stderr


def example(name: str = "shortest_first") -> dict[str, object]:
    names: dict[str, object] = {"__name__": name}
    exec(compile((EXAMPLE / "src" / f"{name}.py").read_text(), f"{name}.py", "exec"), names)
    return names


@pytest.mark.parametrize("name", ["shortest_first", "fair_share"])
def test_the_examples_keep_what_they_promise(name: str) -> None:
    check_policy(example(name)["plan"], FAIR, effort=QUICK)


def test_without_its_bound_the_example_lets_a_job_starve_and_the_promises_say_so() -> None:
    names = example()
    names["OVERTAKERS"] = 10**9
    with pytest.raises(PromiseBroken, match="it starves"):
        check_streams(names["plan"])


def test_reasons_are_what_a_plug_in_makes_them() -> None:
    def nobody(view: View) -> Plan:
        why = Reason(Why.POLICY, "closed for the night")
        return Plan((), (), {each.request: Wait((why,)) for each in view.queue})

    house = House(night=nobody)
    house.choose("night")
    assert house.submit() is JobState.QUEUED
    assert house.roster.trouble("night") == ""


def test_a_head_finds_its_plug_ins_offers_them_and_says_what_is_wrong_with_others(tmp_path: Path) -> None:
    site, state = tmp_path / "site", tmp_path / "state"
    installed_example(site)
    install(site, "strange", {}, gone="no_such_module_here:plan")
    environment = {**os.environ, "PYTHONPATH": f"{site}:{SOURCE_ROOT}", "HEADNODE_STATE": str(state)}
    state.mkdir()
    command = [sys.executable, "-m", "headnode.apps.server", "--state", str(state), "--nodes", "0"]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, env=environment, stderr=log) as head:
        try:
            deadline = time.monotonic() + 30
            while not (state / "head.sock").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            seen = hn(site, "cluster", "view", state=state)
            assert "Plug-ins" in seen.stdout, seen
            assert (
                "fair-share; shortest-first; gone (strange (no_such_module_here:plan) does not load"
                in seen.stdout
            )
            chosen = hn(site, "cluster", "params", "SchedulingPolicy=shortest-first", state=state)
            assert ", ".join((*POLICIES, "fair-share", "shortest-first")) in chosen.stdout, chosen
            refused = hn(site, "cluster", "params", "SchedulingPolicy=gone", state=state)
            assert (refused.returncode, "shortest-first" in refused.stderr) == (2, True)
        finally:
            hn(site, "down", state=state)
            head.terminate()
    assert "the policy gone cannot be used" in (tmp_path / "log").read_text()
