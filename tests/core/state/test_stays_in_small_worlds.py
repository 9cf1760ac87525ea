"""Whatever happens to a job that prepares and releases its nodes: each node is prepared before anything else
of the job is there, and released after everything, once for each time that the job has it."""

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import Refused
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import job_events as e
from headnode.core.state.command import Command
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.stop import StopJob
from headnode.core.state.suspend import ResumeJob, SuspendJob

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


def _told(command: Command) -> Move:
    return lambda world: void(world.do(command))


def void(_: object) -> None:
    """Return nothing."""


def _lose(world: World) -> None:
    world.do(NodeVanished(node="node1"), GiveUpNode(node="node1"))


def _suspend(world: World) -> None:
    world.do(SuspendJob(by=ROOT, job=JOB))
    world.do(*world.nodes.stopped(JOB))


MOVES: tuple[Move, ...] = (
    _end("exited", 0, last=False),
    _end("exited", 1, last=True),
    _lose,
    _suspend,
    _told(StopJob(by=ROOT, job=JOB, outcome="canceled")),
    _told(RequeueJob(by=ROOT, job=JOB)),
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
    for wish in (RegisterNode(facts=facts), ResumeJob(by=ROOT, job=JOB)):
        try:
            world.do(wish)
        except Refused:
            continue
    for turn, _ in enumerate(ends(world)):
        if turn == 30:
            world.do(StopJob(by=ROOT, job=JOB, outcome="finished"))
        _end("exited", 0, last=False)(world)
    return world


def check_stays(world: World, prep: int, release: int) -> None:
    """Go through the events of the job, node by node."""
    prepared: dict[str, bool] = {}
    live: dict[tuple[int, int, int], str] = {}
    for _, event in world.journal.replay():
        match event:
            case e.InstancesDispatched(task=task, placement=place, attempts=attempts):
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
            case e.JobStarted() | e.JobAutoRequeued() | e.JobRequeued():
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
