"""Jobs that wait for one another: every small graph, every way to end, and what can be taken back."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import msgspec
import pytest
from worlds import ADA, BOB, ROOT, World

from depth import thinned
from headnode.apps.server.api.job_objects import progress_of
from headnode.core.model.dependency import Condition, DependencyLink, JobDependency
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, WrongState
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec
from headnode.core.model.quantities import Instant, JobId, Priority
from headnode.core.model.task import TaskSpec
from headnode.core.state.depend import DependencyState, ParentOutcome, dependency_state, outcome_of
from headnode.core.state.groups import CreateJobs, SubmitJobs
from headnode.core.state.job_events import JobEnded, JobStarted, JobSubmitted
from headnode.core.state.job_record import JobRecord, spec_of
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.transitions import JobState
from headnode.engine.recovery import save

SUCCESS, FAILURE, EXIT, START, CORRESPONDING = (
    Condition.ON_SUCCESS,
    Condition.ON_FAILURE,
    Condition.ON_EXIT,
    Condition.ON_START,
    Condition.ON_CORRESPONDING,
)
TASK = TaskSpec(command="x", rerunnable=True)
A, B, C = JobId(1), JobId(2), JobId(3)
PAIRS = list(combinations(range(3), 2))
GRAPHS = [
    tuple(
        DependencyLink(child, parent, wanted)
        for (parent, child), wanted in zip(PAIRS, chosen, strict=True)
        if wanted
    )
    for chosen in product((None, *Condition), repeat=len(PAIRS))
]
WAYS = ("finishes", "fails", "is canceled", "is dropped")
"""How a job ends once it may start; a dropped one is canceled before anything starts."""


def group(*links: DependencyLink, jobs: int = 3) -> CreateJobs:
    specs = tuple(JobSpec(name="abc"[n % 3], job_group="g", tasks=(TASK,)) for n in range(jobs))
    return CreateJobs(by=ADA, specs=specs, links=links, submit=True)


def end(world: World, job: JobId, way: str) -> None:
    """Let a running job end."""
    if way == "is canceled":
        world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
        world.end(job, 1, kind="stopped")
    else:
        world.end(job, 1, exit_code=int(way == "fails"))


def live_through(links: Sequence[DependencyLink], ways: Sequence[str]) -> World:
    """Let three jobs live: each ends its way as soon as it runs."""
    world = World(4)
    dropped = [
        StopJob(by=ROOT, job=JobId(number + 1), outcome="canceled")
        for number, way in enumerate(ways)
        if way == "is dropped"
    ]
    world.do(group(*links), *dropped)
    while world.cluster.running:
        job = min(world.cluster.running)
        end(world, job, ways[job - 1])
    return world


BECOMES = {
    "finishes": "finished",
    "fails": "failed",
    "is canceled": "canceled",
    "is dropped": "dropped",
}
MET = {
    SUCCESS: {"finished"},
    FAILURE: {"failed", "canceled", "dropped"},
    EXIT: {"finished", "failed", "canceled", "dropped", "skipped"},
    START: {"finished", "failed", "canceled"},
    CORRESPONDING: {"finished"},
}
NEVER = {
    SUCCESS: {"failed", "canceled", "dropped", "skipped"},
    FAILURE: {"finished", "skipped"},
    EXIT: set[str](),
    START: {"dropped", "skipped"},
    CORRESPONDING: {"failed", "canceled", "dropped", "skipped"},
}


def expected(links: Sequence[DependencyLink], ways: Sequence[str]) -> list[str]:
    """Return what becomes of each job, by the tables above alone."""
    outcomes: list[str] = []
    for number, way in enumerate(ways):
        waits = [(link.condition, outcomes[link.parent]) for link in links if link.child == number]
        if way == "is dropped":
            outcomes.append("dropped")
        elif any(outcome in NEVER[wanted] for wanted, outcome in waits):
            outcomes.append("skipped")
        elif all(outcome in MET[wanted] for wanted, outcome in waits):
            outcomes.append(BECOMES[way])
        else:
            outcomes.append("waiting")
    return outcomes


def what_became(record: JobRecord) -> str:
    if record.skipped:
        return "skipped"
    if record.state is JobState.QUEUED:
        return "waiting"
    if record.state is JobState.CANCELED and not outcome_of(record).started:
        return "dropped"
    return record.state.value


@pytest.mark.parametrize("first", WAYS)
def test_every_graph_of_three_jobs_ends_as_its_conditions_say(first: str) -> None:
    for links, second, third in thinned(product(GRAPHS, WAYS, WAYS)):
        ways = (first, second, third)
        world = live_through(links, ways)
        found = [what_became(world.record(job)) for job in (A, B, C)]
        assert found == expected(links, ways), (links, ways)
        no_job_started_too_soon(world)
        world.check_replay()


def no_job_started_too_soon(world: World) -> None:
    """Go through the journal: at each start, all that the job waited for had happened."""
    started: set[int] = set()
    ended: dict[int, str] = {}
    specs = {job: world.cluster.written(world.record(job)) for job in (A, B, C)}
    for _, event in world.journal.replay():
        if isinstance(event, JobStarted):
            spec = specs[event.job]
            assert all(ended.get(parent) == "finished" for parent in spec.parents)
            assert all(ended.get(parent) in ("failed", "canceled") for parent in spec.after_failure)
            assert all(parent in ended for parent in spec.after_exit)
            assert all(parent in started for parent in spec.after_start)
            started.add(event.job)
        elif isinstance(event, JobEnded):
            ended[event.job] = event.outcome


def test_what_waits_in_vain_is_canceled_down_the_graph_and_says_why() -> None:
    world = live_through((DependencyLink(1, 0, FAILURE), DependencyLink(2, 1, SUCCESS)), ("finishes",) * 3)
    assert [world.record(job).message for job in (B, C)] == [
        "it waits for job 1 to fail (OnFailure), and job 1 finished",
        "it waits for job 2 to finish (OnSuccess), and job 2 was canceled before it started, "
        "because its dependencies could no longer be satisfied",
    ]
    archived = world.record(B)
    assert len(progress_of(archived, spec_of(archived), 1).canceled) == 1


def test_a_long_chain_of_jobs_in_vain_ends_in_one_step() -> None:
    chain = [DependencyLink(1, 0, FAILURE), *(DependencyLink(n, n - 1) for n in range(2, 300))]
    world = World(1)
    world.do(group(*chain, jobs=300))
    before = sum(1 for _ in world.journal.replay())
    world.end(A, 1)
    skipped = [e for _, e in world.journal.replay(before) if isinstance(e, JobEnded) and e.skipped]
    assert len(skipped) == 299
    assert world.cluster.jobs == {}


def test_what_waits_for_a_start_starts_in_the_same_moment_down_a_chain() -> None:
    world = World(3)
    world.do(group(DependencyLink(1, 0, START), DependencyLink(2, 1, START)))
    assert world.cluster.running == {A, B, C}


def test_a_job_that_is_finished_before_it_started_can_never_start() -> None:
    world = World(1)
    world.submit(TASK, run_until_canceled=True, minimum=1, maximum=1)
    waits = world.submit(TASK)
    child = world.submit(TASK, after_start=(waits,))
    world.do(StopJob(by=ROOT, job=waits, outcome="finished"))
    assert world.record(child).skipped
    assert world.record(child).message.endswith(f"and job {waits} finished without ever starting")


# What can be taken back


@pytest.mark.parametrize(
    ("wanted", "way", "after_end", "after_requeue"),
    [
        (FAILURE, "fails", False, True),
        (FAILURE, "is canceled", False, True),
        (EXIT, "fails", False, True),
        (START, "fails", False, False),
    ],
)
def test_a_parent_that_runs_again_takes_back_what_has_come_true_while_the_child_has_not_started(
    wanted: Condition, way: str, after_end: bool, after_requeue: bool
) -> None:
    world = World(1, 1)
    parent = world.submit(TASK)
    keeper = world.submit(TASK)  # keeps the other node, so that the child has nowhere to run
    child = world.submit(TASK, minimum=2, maximum=2, **{DEPENDENCY_FIELDS[wanted]: (parent,)})
    end(world, parent, way)
    assert (parent in world.record(child).waits_for) is after_end
    world.do(RequeueJob(by=ROOT, job=parent, archived=world.archived(parent)))
    assert (parent in world.record(child).waits_for) is after_requeue
    assert world.record(child).state is JobState.QUEUED
    world.check_replay()
    for job in (parent, keeper):
        world.end(job, 1, exit_code=int(wanted is FAILURE))
    assert world.record(child).state is JobState.RUNNING
    assert world.record(child).satisfied == ()


def test_a_child_that_has_started_goes_on_when_its_parent_runs_again() -> None:
    world = World(2)
    parent = world.submit(TASK)
    child = world.submit(TASK, after_failure=(parent,))
    end(world, parent, "fails")
    world.do(RequeueJob(by=ROOT, job=parent, archived=world.archived(parent)))
    assert world.record(child).state is JobState.RUNNING
    world.do(RequeueJob(by=ROOT, job=child))  # back in the queue, it still waits for nobody
    world.end(child, 1, kind="stopped")
    assert world.record(child).waits_for == ()


def test_a_skipped_job_cannot_run_again_as_long_as_its_condition_is_lost() -> None:
    world = live_through((DependencyLink(1, 0, FAILURE),), ("finishes",) * 3)
    outcomes = {A: outcome_of(world.record(A))}
    with pytest.raises(WrongState, match=r"it waits for job 1 to fail \(OnFailure\), and job 1 finished"):
        world.do(RequeueJob(by=ROOT, job=B, archived=world.archived(B), parents=outcomes))


def test_a_child_that_was_put_back_into_the_queue_while_it_ran_waits_for_nobody() -> None:
    world = World(1)
    parent = world.submit(TASK)
    child = world.submit(TASK, after_failure=(parent,))
    end(world, parent, "fails")
    other = world.submit(TASK, priority=Priority(4000))
    world.do(RequeueJob(by=ROOT, job=child))
    world.end(child, 1, kind="stopped")
    assert world.dispatched(other)
    world.do(RequeueJob(by=ROOT, job=parent, archived=world.archived(parent)))
    assert (world.record(child).state, world.record(child).waits_for) == (JobState.QUEUED, ())


def test_a_parent_that_is_being_changed_takes_back_what_had_come_true() -> None:
    world = World(1)
    parent = world.submit(TASK)
    child = world.submit(TASK, minimum=1, maximum=1, after_exit=(parent,))
    world.submit(TASK, priority=Priority(4000))
    end(world, parent, "fails")
    assert world.record(child).waits_for == ()
    spec = JobSpec(name="again", tasks=(TASK,))
    world.do(ModifyJob(by=ROOT, job=parent, spec=spec, fields=("name",), archived=world.archived(parent)))
    assert world.record(child).waits_for == (parent,)


def test_a_skipped_job_may_run_once_what_it_waits_for_may_happen_again() -> None:
    world = live_through((DependencyLink(1, 0, FAILURE), DependencyLink(2, 1)), ("finishes",) * 3)
    free = JobSpec(tasks=(TASK,))
    world.do(ModifyJob(by=ROOT, job=B, spec=free, fields=("after_failure",), archived=world.archived(B)))
    world.do(SubmitJob(by=ROOT, job=B))
    world.do(RequeueJob(by=ROOT, job=C, archived=world.archived(C)))
    assert (world.record(C).waits_for, world.record(C).skipped) == ((B,), False)
    end(world, B, "finishes")
    end(world, C, "fails")
    assert (what_became(world.record(B)), what_became(world.record(C))) == ("finished", "failed")


def test_a_job_that_started_once_has_started_though_it_is_in_the_queue_again() -> None:
    world = World(1)
    parent = world.submit(TASK)
    world.submit(TASK, priority=Priority(4000))
    world.do(RequeueJob(by=ROOT, job=parent))
    world.end(parent, 1, kind="stopped")
    assert world.record(parent).state is JobState.QUEUED
    child = world.submit(TASK, after_start=(parent,))
    assert world.record(child).waits_for == ()


# What comes back with its parent


def skipped_for(world: World, job: JobId) -> tuple[JobRecord, ...]:
    """Return the jobs that were canceled for the end of a job, and for theirs, as they are in the archive."""
    found: dict[int, JobRecord] = {}
    ahead = list(world.record(job).skipped_jobs)
    while ahead:
        one = world.archived(JobId(ahead.pop()))
        if one is not None and one.id not in found:
            found[one.id] = one
            ahead += one.skipped_jobs
    return tuple(found.values())


def outcomes(world: World) -> dict[int, ParentOutcome]:
    """Return what became of all jobs that are over."""
    over = (world.archived(JobId(job)) for job in range(1, world.cluster.next_job))
    return {one.id: outcome_of(one) for one in over if one is not None}


def requeue(world: World, job: JobId) -> None:
    world.do(
        RequeueJob(
            by=ROOT,
            job=job,
            archived=world.archived(job),
            parents=outcomes(world),
            skipped=skipped_for(world, job),
        )
    )
    world.check_replay()


def change(world: World, job: JobId, spec: JobSpec, *fields: str) -> None:
    world.do(
        ModifyJob(
            by=ROOT,
            job=job,
            spec=spec,
            fields=fields,
            archived=world.archived(job),
            parents=outcomes(world),
            skipped=skipped_for(world, job),
        )
    )
    world.check_replay()


def test_what_was_canceled_for_a_failed_parent_comes_back_with_it_down_the_graph() -> None:
    world = live_through((DependencyLink(1, 0), DependencyLink(2, 1)), ("fails", "finishes", "finishes"))
    assert [what_became(world.record(job)) for job in (A, B, C)] == ["failed", "skipped", "skipped"]
    assert world.record(B).message == "it waits for job 1 to finish (OnSuccess), and job 1 failed"
    requeue(world, A)
    assert [world.record(job).waits_for for job in (B, C)] == [(A,), (B,)]
    assert world.record(B).message == "job 1 runs again"
    for job in (A, B, C):
        end(world, job, "finishes")
    assert [what_became(world.record(job)) for job in (A, B, C)] == ["finished"] * 3


def test_what_was_canceled_for_a_parent_comes_back_when_that_is_changed() -> None:
    world = live_through((DependencyLink(1, 0),), ("fails", "finishes", "finishes"))
    change(world, A, JobSpec(name="again", tasks=(TASK,)), "name")
    assert (world.record(B).state, world.record(B).waits_for) == (JobState.QUEUED, (A,))
    world.do(SubmitJob(by=ROOT, job=A))
    end(world, A, "finishes")
    assert world.record(B).state is JobState.RUNNING


def test_what_another_parent_has_decided_too_stays_canceled_until_that_runs_again() -> None:
    world = live_through((DependencyLink(2, 0), DependencyLink(2, 1)), ("fails", "fails", "finishes"))
    requeue(world, A)
    assert what_became(world.record(C)) == "skipped"
    requeue(world, B)
    world.do(RequeueJob(by=ROOT, job=C, archived=world.archived(C), parents=outcomes(world)))
    assert world.record(C).waits_for == (A, B)


def test_what_somebody_canceled_himself_does_not_come_back() -> None:
    world = World(1)
    world.do(group(DependencyLink(1, 0), jobs=2))
    world.do(StopJob(by=ADA, job=B, outcome="canceled"))
    end(world, A, "fails")
    requeue(world, A)
    assert (world.record(B).state, world.record(B).skipped) == (JobState.CANCELED, False)


def test_what_has_missed_its_deadline_does_not_come_back() -> None:
    world = World(1)
    parent = world.submit(TASK)
    late = world.submit(TASK, parents=(parent,), end_by=Instant(world.clock.now() + 500))
    end(world, parent, "fails")
    world.wait(600)
    requeue(world, parent)
    assert what_became(world.record(late)) == "skipped"


# Submission


def test_what_is_true_already_is_not_waited_for_and_what_is_lost_is_refused() -> None:
    world = World(1)
    good, bad = world.submit(TASK), world.submit(TASK)
    end(world, good, "finishes")
    end(world, bad, "fails")
    outcomes = {job: outcome_of(world.record(job)) for job in (good, bad)}
    allowed = {
        good: {SUCCESS: (), EXIT: (), START: (), CORRESPONDING: ()},
        bad: {FAILURE: (), EXIT: (), START: ()},
    }
    for parent, wanted in product((good, bad), Condition):
        spec = JobSpec(tasks=(TASK,), **{DEPENDENCY_FIELDS[wanted]: (parent,)})
        command = CreateJob(by=ADA, spec=spec, submit=True, parents=outcomes)
        if wanted in allowed[parent]:
            submitted = next(e for e in world.do(command) if isinstance(e, JobSubmitted))
            assert submitted.waits_for == allowed[parent][wanted]
        else:
            with pytest.raises(WrongState, match="never-possible"):
                world.do(command)


@pytest.mark.parametrize("wanted", list(Condition))
def test_a_parent_must_exist_and_be_submitted_whatever_is_waited_for(wanted: Condition) -> None:
    world = World(1)
    created = world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(TASK,))))[0].job  # type: ignore[attr-defined]
    with pytest.raises(NotFound, match="no-such-parent"):
        world.submit(TASK, **{DEPENDENCY_FIELDS[wanted]: (99,)})
    with pytest.raises(WrongState, match="parent-not-submitted"):
        world.submit(TASK, **{DEPENDENCY_FIELDS[wanted]: (created,)})


def test_a_job_brought_back_cannot_close_a_circle() -> None:
    world = World(1)
    first = world.submit(TASK)
    second = world.submit(TASK, parents=(first,))
    third = world.submit(TASK, parents=(second,))
    end(world, first, "fails")
    spec = JobSpec(tasks=(TASK,), parents=(third,))
    change(world, first, spec, "parents")
    with pytest.raises(BadRequest, match=f"{first} -> {third} -> {second} -> {first}"):
        world.do(SubmitJob(by=ROOT, job=first))


# Several jobs in one step


def test_jobs_of_one_file_get_ids_in_their_order_and_wait_for_each_other() -> None:
    world = World(1)
    world.submit(TASK)
    world.do(group(DependencyLink(0, 2), DependencyLink(1, 2, EXIT), DependencyLink(1, 0, START)))
    assert [world.record(JobId(job)).waits_for for job in (2, 3, 4)] == [(4,), (4, 2), ()]
    assert [world.record(JobId(job)).order for job in (2, 3, 4)] == [2, 3, 4]


def test_what_refuses_one_job_refuses_all_and_says_which() -> None:
    world = World(1)
    specs = (
        JobSpec(name="good", tasks=(TASK,)),
        JobSpec(name="high", priority=Priority(4000), tasks=(TASK,)),
    )
    with pytest.raises(NotAllowed, match=r"^job 2 'high' of 2: only operators and administrators"):
        world.do(CreateJobs(by=ADA, specs=specs, submit=True))
    orphan = JobSpec(tasks=(TASK,), after_exit=(77,))
    with pytest.raises(NotFound, match=r"^job 1 of 2: parent job 77 does not exist"):
        world.do(CreateJobs(by=ADA, specs=(orphan, specs[0]), submit=True))
    with pytest.raises(BadRequest, match=r"^jobs wait for each other: job 1 'a' -> job 3 'c' -> job 1 'a'"):
        world.do(group(DependencyLink(0, 2), DependencyLink(2, 0)))
    with pytest.raises(BadRequest, match="job-link"):
        world.do(group(DependencyLink(0, 3)))
    assert (world.cluster.jobs, world.cluster.next_job) == ({}, 1)


def test_jobs_of_one_file_can_be_made_without_being_submitted() -> None:
    world = World(1)
    world.do(msgspec.structs.replace(group(DependencyLink(1, 0)), submit=False))
    assert {record.state for record in world.cluster.jobs.values()} == {JobState.CONFIGURING}
    with pytest.raises(WrongState, match="parent-not-submitted"):
        world.do(SubmitJob(by=ADA, job=B))
    world.do(SubmitJob(by=ADA, job=A), SubmitJob(by=ADA, job=B))
    assert world.record(B).waits_for == (A,)


def test_jobs_that_were_made_are_submitted_in_one_step_whichever_waits_for_which() -> None:
    world = World(1)
    world.do(msgspec.structs.replace(group(DependencyLink(0, 1), DependencyLink(1, 2, EXIT)), submit=False))
    with pytest.raises(NotAllowed, match=r"^job 1"):
        world.do(SubmitJobs(by=BOB, jobs=(A, B, C)))
    world.do(SubmitJobs(by=ADA, jobs=(A, B, C)))
    assert [world.record(job).waits_for for job in (A, B, C)] == [(B,), (C,), ()]
    assert [world.record(job).order for job in (A, B, C)] == [1, 2, 3]
    with pytest.raises(WrongState, match="already-submitted"):
        world.do(SubmitJobs(by=ADA, jobs=(A, B)))


def test_no_circle_is_made_of_ids_that_are_guessed() -> None:
    world = World(1)
    specs = (JobSpec(name="a", tasks=(TASK,), parents=(B,)), JobSpec(name="b", tasks=(TASK,)))
    with pytest.raises(BadRequest, match=r"^jobs wait for each other: job 1 -> job 2 -> job 1"):
        world.do(CreateJobs(by=ADA, specs=specs, links=(DependencyLink(1, 0),), submit=True))
    with pytest.raises(NotFound, match="no-such-parent"):
        world.do(CreateJobs(by=ADA, specs=(JobSpec(tasks=(TASK,), after_exit=(A,)),), submit=True))
    world.do(CreateJobs(by=ADA, specs=specs, links=(DependencyLink(1, 0),)))
    with pytest.raises(BadRequest, match="job-circle"):
        world.do(SubmitJobs(by=ADA, jobs=(A, B)))


# What is kept


def snapshots(world: World) -> Iterator[bytes]:
    """Yield the state as a restart finds it: from the events, and from a snapshot of now."""
    yield save(world.replayed())
    world.engine.snapshot_if_due(1)
    yield save(world.replayed())


def test_conditions_survive_a_restart_with_and_without_a_snapshot() -> None:
    world = World(1)
    world.do(group(DependencyLink(1, 0, FAILURE), DependencyLink(2, 0, START)))
    for state in snapshots(world):
        assert state == save(world.cluster)
    world.engine.recover()
    end(world, A, "finishes")
    assert [what_became(world.record(job)) for job in (B, C)] == ["skipped", "running"]


def test_every_condition_says_of_every_end_whether_it_has_come_true() -> None:
    world = live_through((DependencyLink(1, 0, FAILURE),), ("finishes", "finishes", "fails"))
    finished, skipped, failed = (outcome_of(world.record(job)) for job in (A, B, C))
    table = {
        wanted: [
            dependency_state(JobDependency(A, wanted), outcome) for outcome in (finished, failed, skipped)
        ]
        for wanted in Condition
    }
    met, never = DependencyState.MET, DependencyState.NEVER
    assert table == {
        SUCCESS: [met, never, never],
        FAILURE: [never, met, never],
        EXIT: [met, met, met],
        START: [met, met, never],
        CORRESPONDING: [met, never, never],
    }
