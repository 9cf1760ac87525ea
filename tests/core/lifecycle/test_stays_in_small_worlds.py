"""Whatever happens to a job that prepares and releases its nodes: each node is prepared before anything else
of the job is there, and released after everything, once for each time that the job has it."""

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from worlds import ROOT, World

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.model.errors import Refused
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType

PREP = TaskSpec(command="prepare", kind=TaskType.NODE_PREP)
RELEASE = TaskSpec(command="release", kind=TaskType.NODE_RELEASE)
WORK = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=3, rerunnable=True)
SERVICE = TaskSpec(command="x", kind=TaskType.SERVICE)
JOB, LENGTH = JobId(1), 3
Move = Callable[[World], None]


def _end(kind: str, code: int, last: bool) -> Move:
    """Return the end of the first or the last attempt that a reachable node has."""

    def move(world: World) -> None:
        record = world.cluster.jobs.get(JOB)
        live = {
            (number, instance)
            for number, progress in enumerate(record.run.tasks if record and record.run else (), 1)
            for instance in progress.live
        }
        held = [h for h in world.nodes.running() if (h.task, h.instance) in live]
        if held:
            one = held[-1 if last else 0]
            world.do(world.nodes.ended(one, world.clock.now(), kind=kind, exit_code=code))

    return move


def _told(command: c.Command) -> Move:
    return lambda world: void(world.do(command))


def void(_: object) -> None:
    """Return nothing."""


def _lose(world: World) -> None:
    world.do(c.NodeVanished(node="node1"), c.GiveUpNode(node="node1"))


def _suspend(world: World) -> None:
    world.do(c.SuspendJob(by=ROOT, job=JOB))
    world.do(*world.nodes.stopped(JOB))


MOVES: tuple[Move, ...] = (
    _end("exited", 0, last=False),
    _end("exited", 1, last=True),
    _lose,
    _suspend,
    _told(c.StopJob(by=ROOT, job=JOB, outcome="canceled")),
    _told(c.RequeueJob(by=ROOT, job=JOB)),
)


def ends(world: World) -> Iterator[None]:
    """Let everything end that runs, for so long as the job takes."""
    for _ in range(60):
        if JOB not in world.cluster.jobs:
            return
        yield
    raise AssertionError(f"job 1 does not end: {world.record(JOB)}")


def play(tasks: tuple[TaskSpec, ...], moves: tuple[Move, ...]) -> World:
    world = World(1, 1)
    world.submit(*tasks, minimum=1, maximum=2, suspendable=True)
    for move in moves:
        try:
            move(world)
        except Refused:
            continue
    facts = world.cluster.nodes["node1"].facts
    for wish in (c.RegisterNode(facts=facts), c.ResumeJob(by=ROOT, job=JOB)):
        try:
            world.do(wish)
        except Refused:
            continue
    for turn, _ in enumerate(ends(world)):
        if turn == 30:
            world.do(c.StopJob(by=ROOT, job=JOB, outcome="finished"))
        _end("exited", 0, last=False)(world)
    return world


def check_stays(world: World, prep: int, release: int) -> None:
    """Go through the events of the job, node by node."""
    prepared: dict[str, bool] = {}
    live: dict[tuple[int, int, int], str] = {}
    for _, event in world.journal.replay():
        match event:
            case e.InstancesDispatched(task=task, place=place, attempts=attempts):
                for node, _ in place:
                    there = {name[0] for name, where in live.items() if where == node}
                    if task == prep:
                        assert not there
                        assert not prepared.get(node)
                    elif task == release:
                        assert not there
                        assert prepared.get(node)
                    else:
                        assert prepared.get(node)
                        assert not there & {prep, release}
                    live |= {(task, *attempt): node for attempt in attempts}
            case e.InstancesEnded(ended=ended):
                for how in ended:
                    node = live.pop((how.task, how.instance, how.attempt))
                    if how.task in (prep, release):
                        prepared[node] = how.task == prep and how.state == "finished"
            case e.JobStarted() | e.JobReturned() | e.JobRequeued():
                prepared.clear()
            case e.AllocationLost(removed=removed) | e.AllocationShrunk(removed=removed):
                for node, _ in removed:
                    prepared.pop(node, None)
            case _:
                pass


@pytest.mark.parametrize("work", [WORK, SERVICE], ids=["work", "service"])
def test_nodes_are_prepared_first_and_released_last_in_every_small_world(work: TaskSpec) -> None:
    for moves in product(MOVES, repeat=LENGTH):
        world = play((PREP, work, RELEASE), moves)
        check_stays(world, prep=1, release=3)
        world.check_replay()
