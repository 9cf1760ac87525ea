"""Flows that are dispatched ahead: they come to the same ends as task by task, and no child is early."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import pytest
from worlds import ROOT, World

from depth import every, thinned
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOfTask, Ending
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import Distribution, TaskSpec
from headnode.core.state.job_record import TaskProgress
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import RequeueJob
from headnode.core.state.nodes import SetParameter
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.task_lines import MAX_PARENTS
from headnode.core.state.task_placement import task_reasons
from headnode.core.state.transitions import JobState
from testbed.in_process import Held

SHORT, LONG = 0.001, 10.0  # seconds that tasks run
GOOD: tuple[Ending, int] = ("exited", 0)
ENDS: tuple[tuple[tuple[Ending, int], ...], ...] = (
    (GOOD,),
    (("exited", 1), ("exited", 1)),
    (("exited", 1), GOOD),
    (("lost", 0), GOOD),
)
"""How the first, the second ... run of a task ends."""


class Flow(NamedTuple):
    """Parents of each task by index, and how its runs end."""

    parents: tuple[tuple[int, ...], ...]
    ends: tuple[tuple[tuple[Ending, int], ...], ...]
    fail_dependents: bool = False
    reverse: bool = False  # children come before their parents in the list
    processors: int = 1


class Play:
    """A job of a warm-up task and a flow, and a node that starts a child when its parents have ended well."""

    def __init__(self, flow: Flow, run_time: float) -> None:
        self.flow, self.run_time = flow, run_time
        self.world = World(flow.processors)
        self.boot("one")
        self.runs: dict[int, int] = {}  # by task number: how often it ran
        self.attempts: set[tuple[int, int]] = set()
        self.good: set[AttemptOfTask] = set()
        count = len(flow.parents)
        self.index = {(count - 1 - n if flow.reverse else n) + 2: n for n in range(count)}
        tasks = [
            TaskSpec(
                command=f"x {n}",
                name=f"t{n}",
                depends_on=tuple(f"t{p}" for p in flow.parents[n]),
                rerunnable=True,
            )
            for _, n in sorted(self.index.items())
        ]
        self.job = self.world.submit(
            TaskSpec(command="warm up", rerunnable=True),
            *tasks,
            fail_dependent_tasks=flow.fail_dependents,
            task_retry_limit=1,
        )
        self.most_ahead = 0

    def boot(self, boot: str) -> None:
        """Let the node say hello, of this boot."""
        facts = NodeFacts(name="node1", processors=self.flow.processors, memory=1024, boot_id=boot)
        self.world.do(RegisterNode(facts=facts, approved=True))

    def startable(self) -> list[Held]:
        """Return what a node could start: one at each place, of those whose parents have ended well."""
        places: set[object] = set()
        found = []
        for held in self.world.nodes.running():
            if all(key in self.good for key in held.after) and held.place not in places:
                places.add(held.place)
                found.append(held)
        return found

    def end(self, held: Held) -> None:
        """Let an attempt run and end, and give back what comes after it if it did not end well."""
        assert (held.task, held.attempt) not in self.attempts, f"{held} ran before"
        self.attempts.add((held.task, held.attempt))
        number = self.runs[held.task] = self.runs.get(held.task, 0) + 1
        kind, code = GOOD
        if held.task in self.index:
            n = self.index[held.task]
            early = [p for p in self.flow.parents[n] if not self.progress(p).is_done]
            assert not early, f"task {n} ran before its parents {early}"
            script = self.flow.ends[n]
            kind, code = script[min(number, len(script)) - 1]
        if (kind, code) == GOOD:
            self.good.add((held.task, held.instance, held.attempt))
        self.report(held, kind, code)

    def progress(self, n: int) -> TaskProgress:
        """Return the progress of a task of the flow."""
        run = self.world.record(self.job).run
        assert run is not None
        return run.tasks[next(number for number, each in self.index.items() if each == n) - 1]

    def report(self, held: Held, kind: Ending, code: int = 0) -> None:
        """Let the head know an end, and then what is given back for it."""
        now = self.world.clock.now()
        started = None if kind == "never-ran" else Instant(now - self.run_time)
        self.world.do(self.world.nodes.ended(held, now, kind=kind, exit_code=code, started=started))
        if (kind, code) != GOOD:
            key = (held.task, held.instance, held.attempt)
            for child in self.world.nodes.running():
                if key in child.after and child in self.world.nodes.running():
                    self.report(child, "never-ran")

    def step(self, last: bool = False) -> bool:
        """Let one attempt end; return False if there is none."""
        for held in list(self.world.nodes.stopping()):
            if held in self.world.nodes.running():
                self.report(held, "never-ran")
        ready = self.startable()
        if not ready:
            assert not self.world.nodes.running(), "what the node has waits for ever"
            return False
        self.end(ready[-1 if last else 0])
        self.most_ahead = max(self.most_ahead, sum(bool(h.after) for h in self.world.nodes.running()))
        return True

    def finish(self, last: bool = False) -> None:
        """Go on to the end of the job."""
        for _ in range(100):
            if not self.step(last):
                break
        record = self.world.record(self.job)
        assert record.state.is_final, f"the job is {record.state}"

    def result(self) -> object:
        """Return how the job and its tasks ended, and how often each ran."""
        record = self.world.record(self.job)
        assert record.run is not None
        states = [(list(t.finished), list(t.failed), list(t.canceled)) for t in record.run.tasks]
        return record.state, states, self.runs


def flows(count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield the parents of so many tasks in all ways in which only earlier ones are parents."""
    choices = [[tuple(p for p in range(n) if mask >> p & 1) for mask in range(1 << n)] for n in range(count)]
    yield from product(*choices)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "children first"])
@pytest.mark.parametrize("fails", [False, True], ids=["children run", "children fail"])
@pytest.mark.parametrize("processors", [1, 2])
def test_every_small_flow_ends_as_task_by_task(
    processors: int, fails: bool, reverse: bool, last: bool
) -> None:
    ahead = 0
    for parents, ends in thinned(product(flows(3), product(ENDS, repeat=3))):
        flow = Flow(parents, ends, fails, reverse, processors)
        together, singly = Play(flow, SHORT), Play(flow, LONG)
        together.finish(last)
        singly.finish(last)
        assert together.result() == singly.result(), flow
        assert singly.most_ahead == 0
        ahead += together.most_ahead
    assert ahead > 100 / every(), "children were dispatched before their parents had ended"


def _reboot(play: Play) -> None:
    """Let the node come back without anything."""
    play.world.nodes.forget()
    play.good.clear()
    play.boot("two")


def _lose_shepherd(play: Play) -> None:
    """Let what runs be lost, and what waits have never run, told in order."""
    running = {held.place: held for held in reversed(play.startable())}
    for held in play.world.nodes.running():
        if held in play.world.nodes.running():
            play.report(held, "lost" if running.get(held.place) == held else "never-ran")


def _cancel(task: int) -> Callable[[Play], None]:
    return lambda play: play.world.do(StopTask(by=ROOT, job=play.job, task=task)) and None


TROUBLES: dict[str, Callable[[Play], object]] = {
    "reboot": _reboot,
    "shepherd lost": _lose_shepherd,
    "job canceled": lambda play: play.world.do(StopJob(by=ROOT, job=play.job, outcome="canceled")),
    "job requeued": lambda play: play.world.do(RequeueJob(by=ROOT, job=play.job)),
    **{f"task {task} canceled": _cancel(task) for task in (2, 3, 4, 5)},
}
SHAPES = {
    "chain": ((), (0,), (1,), (2,)),
    "diamond": ((), (0,), (0,), (1, 2)),
    "join": ((), (), (), (0, 1, 2)),
    "fork": ((), (0,), (0,), (0,)),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_flow_survives_trouble_at_each_moment(shape: str, trouble: str) -> None:
    for processors, moment, last, reverse in product((1, 2), range(6), (False, True), (False, True)):
        play = Play(Flow(SHAPES[shape], ((GOOD,),) * 4, False, reverse, processors), SHORT)
        for _ in range(moment):
            play.step(last)
            play.world.check_replay()
        if play.world.record(play.job).state.is_final:
            continue
        TROUBLES[trouble](play)
        play.world.check_replay()
        play.finish(last)
        state = play.world.record(play.job).state
        assert state in (
            (JobState.CANCELED,) if "job canceled" in trouble else (JobState.FINISHED, JobState.FAILED)
        )
        if "canceled" not in trouble:
            assert state is JobState.FINISHED
            assert set(play.runs) == {1, 2, 3, 4, 5}


def _ahead(*tasks: TaskSpec, processors: tuple[int, ...] = (2,), **options: object) -> tuple[World, JobId]:
    """Return a world in which a short first task of a job has just ended."""
    world = World(*processors)
    job = world.submit(TaskSpec(command="warm up"), *tasks, **options)
    held = world.nodes.running()[0]
    world.do(world.nodes.ended(held, world.clock.now(), started=Instant(world.clock.now() - SHORT)))
    return world, job


def _chain(length: int) -> list[TaskSpec]:
    return [TaskSpec(command="x", name=f"t{n}", depends_on=(f"t{n - 1}",)[: n > 0]) for n in range(length)]


def test_a_chain_is_dispatched_ahead_to_the_place_of_its_first_task() -> None:
    world, _ = _ahead(*_chain(200))
    held = world.nodes.running()
    assert len(held) > 30
    assert len({each.place for each in held}) == 1
    assert [each.after for each in held] == [(), *[((each.task, 1, 1),) for each in held[:-1]]]


def _behind(world: World) -> set[int]:
    return {held.task for held in world.nodes.running() if held.after}


@pytest.mark.parametrize(
    "options",
    [{"distribution": Distribution(per_node=1)}, {"fail_job_on_failure": True}, {"minimum": 2, "maximum": 2}],
    ids=["laid out", "fails the job", "not alike"],
)
@pytest.mark.parametrize("which", ["child", "parent"])
def test_only_alike_tasks_run_behind_their_parents(which: str, options: dict[str, object]) -> None:
    parent = TaskSpec(command="p", name="p", **(options if which == "parent" else {}))
    child = TaskSpec(command="c", depends_on=("p",), **(options if which == "child" else {}))
    world, _ = _ahead(parent, child, minimum=2, maximum=2)
    assert [held.task for held in world.nodes.running()] == [2]


def test_a_child_of_parents_on_two_nodes_waits_for_their_ends() -> None:
    parents = [TaskSpec(command="p", name="p", required_nodes=(f"node{n}",)) for n in (1, 2)]
    world, _ = _ahead(
        *parents, TaskSpec(command="c", depends_on=("p",)), processors=(1, 1), minimum=2, maximum=2
    )
    assert sorted(held.task for held in world.nodes.running()) == [2, 3]


def test_a_child_of_many_parents_waits_until_few_are_left() -> None:
    parents = [TaskSpec(command="p", name="p") for _ in range(MAX_PARENTS + 8)]
    world, _ = _ahead(*parents, *[TaskSpec(command="c", depends_on=("p",))] * 4, processors=(1,))
    while not _behind(world):
        held = world.nodes.running()[0]
        assert held.task <= len(parents) + 1
        world.do(world.nodes.ended(held, world.clock.now(), started=Instant(world.clock.now() - SHORT)))
    assert all(len(held.after) <= MAX_PARENTS for held in world.nodes.running())


def test_nothing_is_dispatched_behind_a_parent_that_is_known_to_run() -> None:
    world, _ = _ahead(
        *[TaskSpec(command="p", name="p")] * 9, TaskSpec(command="c", depends_on=("p",)), processors=(1,)
    )
    first, *others = world.nodes.running()
    world.do(world.nodes.started(first, world.clock.now()))
    for held in others:
        world.do(world.nodes.ended(held, world.clock.now(), started=Instant(world.clock.now() - SHORT)))
    assert not _behind(world)


def test_a_child_that_was_given_back_waits_until_its_parent_has_ended() -> None:
    world, job = _ahead(
        TaskSpec(command="p", name="p"), TaskSpec(command="c", depends_on=("p",)), processors=(1,)
    )
    assert _behind(world) == {3}
    child = world.nodes.running()[1]
    world.do(world.nodes.ended(child, world.clock.now(), kind="never-ran"))
    assert [held.task for held in world.nodes.running()] == [2]
    world.end(job, 2)
    assert [(held.task, held.attempt, held.after) for held in world.nodes.running()] == [(3, 2, ())]


def test_a_start_that_overtakes_the_end_of_a_parent_is_no_news_yet() -> None:
    world, job = _ahead(
        TaskSpec(command="p", name="p"), TaskSpec(command="c", depends_on=("p",)), processors=(1,)
    )
    parent, child = world.nodes.running()
    assert world.do(world.nodes.started(child, world.clock.now())) == ()
    world.end(job, parent.task)
    assert world.do(world.nodes.started(child, world.clock.now())) != ()


def test_a_task_that_waits_on_a_node_for_its_parent_says_so() -> None:
    world, job = _ahead(
        TaskSpec(command="p", name="p"), TaskSpec(command="c", depends_on=("p",)), processors=(1,)
    )
    reasons = task_reasons(world.cluster, world.record(job), 2)
    assert [reason.text for reason in reasons] == ["it waits for task 'p' to end"]
    world.end(job, 2)
    assert task_reasons(world.cluster, world.record(job), 2) == []


def test_node_filters_see_no_task_before_its_parents_have_ended() -> None:
    world = World(1)
    job = world.submit(*_chain(5))
    world.do(SetParameter(by=ROOT, name="NodeFilterDirectory", value="/filters"))
    while world.record(job).state is JobState.RUNNING:
        assert not _behind(world)
        held = world.nodes.running()[0]
        world.do(world.nodes.ended(held, world.clock.now(), started=Instant(world.clock.now() - SHORT)))
