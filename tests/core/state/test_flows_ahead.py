"""Flows that are dispatched ahead: they come to the same ends as task by task, and no child is early."""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest
from worlds import ROOT, World

from headnode.core.model.outcome import AttemptOfTask, Ending
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.job_end import RequeueTask
from headnode.core.state.modify import RequeueJob
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.task_parents import MOST_PARENTS
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
        self.runs: dict[int, int] = {}  # by task number: how often it ran
        self.attempts: set[tuple[int, int]] = set()
        self.over: set[int] = set()  # tasks whose last run was their end
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

    def startable(self) -> list[Held]:
        """Return what a node could start: each place runs one at a time, of those whose parents ended well."""
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
            early = [p for p in self.flow.parents[n] if p not in self.over]
            assert not early, f"task {n} ran before its parents {early}"
            script = self.flow.ends[n]
            kind, code = script[min(number, len(script)) - 1]
            if (kind, code) == GOOD or number == 2:
                self.over.add(n)
        if (kind, code) == GOOD:
            self.good.add((held.task, held.instance, held.attempt))
        self.report(held, kind, code)

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
    choices = [
        [tuple(p for p in range(n) if mask >> p & 1) for mask in range(1 << n)] for n in range(count)
    ]
    yield from product(*choices)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "children first"])
@pytest.mark.parametrize("fails", [False, True], ids=["children run", "children fail"])
@pytest.mark.parametrize("processors", [1, 2])
def test_every_small_flow_ends_as_task_by_task(processors: int, fails: bool, reverse: bool, last: bool) -> None:
    ahead = 0
    for parents in flows(3):
        for ends in product(ENDS, repeat=3):
            flow = Flow(parents, ends, fails, reverse, processors)
            together, singly = Play(flow, SHORT), Play(flow, LONG)
            together.finish(last)
            singly.finish(last)
            assert together.result() == singly.result(), flow
            assert singly.most_ahead == 0
            ahead += together.most_ahead
    assert ahead > 100, "children were dispatched before their parents had ended"
