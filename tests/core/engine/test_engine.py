"""The one writer: nothing is answered or done that is not durable, and it remembers what it did."""

import logging
from collections.abc import Iterable, Sequence

import pytest
from worlds import ROOT, World

from headnode.adapters.clock import VirtualClock
from headnode.core.model.errors import Refused, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.scheduling.plan import Grow, Plan, Start
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import View
from headnode.core.state.apply_events import pass_time
from headnode.core.state.events import Event
from headnode.core.state.modify import SetProgress
from headnode.core.state.start import StartJob
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState
from headnode.engine.engine import Engine
from headnode.engine.ports import EndedJob
from headnode.engine.recovery import recover, save
from journal_model import ModelJournal
from testbed.in_process import InProcessNodes

TRUE = TaskSpec(command="/bin/true", rerunnable=True)
SUBMIT = CreateJob(by=ROOT, spec=JobSpec(tasks=(TRUE,)), submit=True)


class FullDisk(ModelJournal):
    """A journal whose disk is full whenever `full` says so."""

    full = False

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        """Record the events, if there is room."""
        if self.full:
            raise Unavailable(code="journal-full", what="the disk is full", fix="make room")
        return super().append(events, ended, revived)


class FullDiskWorld(World):
    """A world on such a disk."""

    journal: FullDisk

    def __init__(self, *processors: int) -> None:
        super().__init__(*processors)
        kept = self.journal
        self.journal = FullDisk()
        self.journal.append([event for _, event in kept.replay()])
        self.engine = Engine(self.journal, self.clock, dict(POLICIES), self.nodes)


def test_when_the_journal_cannot_write_nothing_of_the_batch_has_happened() -> None:
    world = FullDiskWorld(1)
    job = world.submit(TRUE)
    held = world.nodes.running()[0]
    before = save(world.cluster)
    world.journal.full = True
    wrong = StopJob(by=ROOT, job=JobId(99), outcome="canceled")
    answers = world.engine.handle([world.nodes.ended(held, world.clock.now()), SUBMIT, wrong])
    assert [getattr(answer, "code", None) for answer in answers] == ["journal-full"] * 3
    assert save(world.cluster) == before
    assert world.engine.write_problem  # for hn cluster view
    assert world.nodes.running() == []  # nothing was dispatched: the node had told us of its only task
    world.check_replay()
    world.journal.full = False
    world.do(world.nodes.ended(held, world.clock.now()))
    assert world.record(job).state is JobState.FINISHED
    assert world.engine.write_problem == ""


def test_what_the_journal_could_not_write_is_tried_again_by_itself_soon_afterwards() -> None:
    world = FullDiskWorld(1)
    job = world.submit(TRUE, hold_until=Instant(world.clock.now() + 10))
    world.journal.full = True
    world.clock.advance(Seconds(10.0))
    world.engine.tick()
    assert world.record(job).state is JobState.QUEUED
    assert world.engine.next_wake() == world.clock.now() + 1
    world.journal.full = False
    world.wait(1)
    assert world.record(job).state is JobState.RUNNING
    assert world.engine.next_wake() is None


def test_a_deadline_that_could_not_be_written_down_is_not_forgotten() -> None:
    world = FullDiskWorld(1)
    job = world.submit(TRUE, run_time=60.0)
    world.journal.full = True
    world.clock.advance(Seconds(61.0))
    world.engine.tick()
    assert world.record(job).state is JobState.RUNNING
    world.journal.full = False
    world.wait(1)
    assert world.record(job).state is JobState.ENDING


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_that_is_set_while_the_journal_cannot_write_moves_time_limits_once_it_can(by: float) -> None:
    world = FullDiskWorld(1)
    job = world.submit(TRUE, run_time=60.0)
    world.journal.full = True
    world.clock.jump(Instant(world.clock.now() + by))
    world.engine.tick()
    assert isinstance(world.engine.handle([SUBMIT])[0], Unavailable)
    world.journal.full = False
    world.wait(58)
    assert world.record(job).state is JobState.RUNNING
    world.wait(2)
    assert world.record(job).state is JobState.ENDING
    world.check_replay()


def test_effects_come_after_the_journal_and_only_for_what_it_has() -> None:
    order: list[str] = []

    class WatchedProcesses(FullDisk):
        def append(self, *arguments: object) -> int:
            order.append("journal")
            return super().append(*arguments)

    class Effects:
        def perform(self, events: Sequence[Event], cluster: object) -> None:
            order.append("effects")

    journal = WatchedProcesses()
    engine = Engine(journal, VirtualClock(Instant(1.0)), dict(POLICIES), Effects())
    engine.handle([SUBMIT])
    assert order == ["journal", "effects"]
    journal.full = True
    engine.handle([SUBMIT])
    assert order == ["journal", "effects", "journal"]
    assert engine.handle([StopJob(by=ROOT, job=JobId(9), outcome="canceled")])[0].code == "no-such-job"
    assert order == ["journal", "effects", "journal"]  # nothing happened: nothing is written


def test_the_second_command_of_a_batch_sees_what_the_first_did() -> None:
    world = World(1)
    stop = StopJob(by=ROOT, job=JobId(1), outcome="canceled")
    answers = world.engine.handle([stop, SUBMIT, stop, stop, SUBMIT])
    assert [isinstance(answer, Refused) for answer in answers] == [True, False, False, True, False]
    assert world.record(JobId(1)).state is JobState.CANCELED
    assert world.record(JobId(2)).state is JobState.RUNNING


def test_a_snapshot_and_the_events_after_it_make_the_same_cluster_as_the_events_alone() -> None:
    world = World(2)
    sweep = TaskSpec(command="x *", kind=TaskType.SWEEP, start=1, end=5, rerunnable=True)
    first = world.submit(sweep, TRUE, run_time=500.0)
    world.submit(TRUE, hold_until=Instant(world.clock.now() + 100))
    world.submit(TRUE, parents=(first,))
    assert world.engine.snapshot_if_due(at_least=1)
    assert not world.engine.snapshot_if_due(at_least=1)
    world.end(first, 1, 1)
    world.end(first, 1, 2, kind="lost")
    later = world.submit(TRUE, minimum=2, maximum=2)
    world.do(StopTask(by=ROOT, job=first, task=2))
    with_snapshot = save(world.replayed())
    cluster, number, kept = recover(_without_snapshots(world.journal))
    pass_time(cluster, world.clock.now())
    assert (save(cluster), kept) == (with_snapshot, 0)
    assert with_snapshot == save(world.cluster)
    assert number == world.engine.number > recover(world.journal)[2] > 0
    assert later in cluster.jobs


def _without_snapshots(journal: ModelJournal) -> ModelJournal:
    bare = ModelJournal()
    bare.append([event for _, event in journal.replay()])
    return bare


def test_a_snapshot_is_due_after_so_many_events_and_not_before() -> None:
    world = World(1)
    assert not world.engine.snapshot_if_due(at_least=world.engine.number + 1)
    assert world.engine.snapshot_if_due(at_least=world.engine.number)
    assert world.engine.kept == world.engine.number


def test_a_snapshot_that_does_not_read_is_said_to_be_damaged() -> None:
    journal = ModelJournal()
    journal.keep_snapshot(1, b"\xc1 nonsense")
    with pytest.raises(Unavailable, match="journal-damaged"):
        Engine(journal, VirtualClock(Instant(1.0)), dict(POLICIES), InProcessNodes())


def test_a_restart_goes_on_where_the_head_was() -> None:
    world = World(1)
    running, waiting = world.submit(TRUE), world.submit(TRUE)
    world.engine = Engine(world.journal, world.clock, dict(POLICIES), world.nodes)
    world.end(running, 1)
    assert world.dispatched(waiting) == [(1, 1)]
    world.end(waiting, 1)
    assert world.record(waiting).state is JobState.FINISHED


def stale(view: View) -> Plan:
    """Plan with eyes closed: start everything on node1 as if it were free, and grow what runs there."""
    starts = [Start(turn.job, (("node1", 1),)) for kind in view.queue for turn in kind.turns]
    grows = [Grow(job.job, (("node9", 1),)) for job in view.running]
    return Plan(tuple(starts), tuple(grows), {})


def test_what_is_stale_of_a_plan_is_refused_and_told_and_the_rest_holds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(1)
    world.engine.policies["easy"] = stale
    with caplog.at_level(logging.WARNING, logger="headnode.engine"):
        first, second = world.submit(TRUE), world.submit(TRUE)
    assert world.record(first).state is JobState.RUNNING
    assert world.record(second).state is JobState.QUEUED
    found = [record.getMessage() for record in caplog.records]
    assert any("a plan was stale: node 'node1' no longer has 1 free processors for job 2" in t for t in found)
    assert any("node 'node9'" in t for t in found)


def test_a_plan_that_lets_others_into_an_exclusive_jobs_node_is_refused() -> None:
    world = World(2)
    owner = world.submit(TRUE, exclusive=True, minimum=1, maximum=1)
    assert world.record(owner).state is JobState.RUNNING
    run = world.record(owner).run
    assert run is not None
    held = len(run.allocation["node1"])
    other = world.submit(TRUE)
    answer = world.engine.handle([StartJob(job=other, shares=(("node1", 1),))])[0]
    assert getattr(answer, "code", None) == "stale-plan", held


def test_a_plan_that_gives_an_exclusive_job_a_shared_node_is_refused() -> None:
    world = World(4)
    world.submit(TRUE)
    owner = world.submit(TRUE, exclusive=True)
    answer = world.engine.handle([StartJob(job=owner, shares=(("node1", 3),))])[0]
    assert getattr(answer, "code", None) == "stale-plan"
    for shares in ((("node1", 0),), (("node1", 4),), (("node2", 1),)):
        answer = world.engine.handle([StartJob(job=owner, shares=shares)])[0]
        assert getattr(answer, "code", None) == "stale-plan"


def test_a_policy_that_never_comes_to_rest_does_not_end_the_head(caplog: pytest.LogCaptureFixture) -> None:
    world = World(2)

    def greedy(view: View) -> Plan:
        """Let a job grow that will give everything back at once."""
        return Plan((), tuple(Grow(job.job, (("node1", 1),)) for job in view.running), {})

    job = world.submit(TaskSpec(command="x", minimum=1), minimum=1, maximum=2)
    world.engine.policies["easy"] = greedy
    queued = world.submit(TRUE, minimum=2, maximum=2)
    assert world.record(queued).state is JobState.QUEUED
    assert "is not complete" in caplog.text
    assert world.engine.next_wake() == world.clock.now() + 1
    assert world.do(SetProgress(by=ROOT, job=job, percent=5))


class SlowClock(VirtualClock):
    """Each look at the clock takes a while, as a long pass would."""

    step = 0.0

    def now(self) -> Instant:
        """Return the present instant, later each time."""
        self.advance(Seconds(self.step))
        return super().now()


def test_a_long_pass_is_told_in_the_log_and_the_next_one_waits_as_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = SlowClock(Instant(100.0))
    engine = Engine(ModelJournal(), clock, dict(POLICIES), InProcessNodes())
    clock.step = 2.0
    engine.handle([SUBMIT])
    assert "a scheduling pass took 2.0 s: 0 jobs run, 1 kinds of job wait on 0 nodes" in caplog.text
    clock.step = 0.0
    clock.jump(Instant(103.0))
    engine.handle([SUBMIT])
    wake = engine.next_wake()
    assert wake == 106.0
    clock.advance(Seconds(10.0))
    engine.tick()
    assert engine.next_wake() is None


def test_an_ended_job_leaves_memory_once_the_archive_has_it() -> None:
    world = World(1)
    job = world.submit(TRUE)
    world.end(job, 1)
    assert (job in world.cluster.jobs, world.cluster.agenda.for_archive) == (False, {})
