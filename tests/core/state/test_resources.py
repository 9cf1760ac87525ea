"""Jobs at resources with their own schedulers: what the head decides, and what it remembers of them."""

from typing import Any, Literal

import pytest
from msgspec.structs import replace
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, WrongState
from headnode.core.model.job import Alternative, JobSpec, Licence, TaskAlternative
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.resource import BatchResource, InstanceHandOff, PlaceEstimate, StartBasis
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.task import StagedFile, TaskSpec, TaskType
from headnode.core.model.template import JobTemplate, TemplateRule
from headnode.core.state.command import AttemptReport
from headnode.core.state.hold import HoldJob, HoldTask, ReleaseJob, ReleaseTask
from headnode.core.state.job_events import InstanceStage, InstanceStart
from headnode.core.state.job_record import decode_spec
from headnode.core.state.modify import ModifyJob, RequeueJob, SetProgress
from headnode.core.state.place_choice import PlaceJob, places_of
from headnode.core.state.report import ReportEnded, ReportStaging, ReportStarted
from headnode.core.state.resources import RemoveResource, ReportHanded, SetResource
from headnode.core.state.stop import RequeueTask, StopJob, StopTask
from headnode.core.state.submit import CreateJob
from headnode.core.state.suspend import SuspendJob
from headnode.core.state.templates import SetTemplate
from headnode.core.state.transitions import JobState, TaskState

PEER = BatchResource(name="Peer", system=ResourceSystem.SLURM, mark="0a1b2c3d", most_jobs=2)
ONE = TaskSpec(command="x", rerunnable=True)


def with_resource(*processors: int, resource: BatchResource = PEER) -> World:
    world = World(*processors)
    world.do(SetResource(by=ROOT, resource=resource))
    return world


def hand(world: World, job: JobId, attempt: int = 1, id_: str = "7") -> None:
    handed = (InstanceHandOff(1, 1, attempt, id_),)
    world.do(ReportHanded(resource="peer", job=job, handed=handed))


def stage(world: World, job: JobId, direction: Literal["in", "out"]) -> None:
    found = (InstanceStage(1, 1, 1, direction, world.clock.now()),)
    world.do(ReportStaging(node="@peer", job=job, staging=found))


def start(world: World, job: JobId, task: int = 1, instance: int = 1, attempt: int = 1) -> None:
    begun = (InstanceStart(task, instance, attempt, world.clock.now()),)
    world.do(ReportStarted(node="@peer", job=job, starts=begun))


def end(
    world: World, job: JobId, outcome: AttemptOutcome, task: int = 1, instance: int = 1, attempt: int = 1
) -> None:
    report = AttemptReport(task=task, instance=instance, attempt=attempt, outcome=outcome)
    world.do(ReportEnded(node="@peer", job=job, reports=(report,)))


def live(world: World, job: JobId) -> dict[tuple[int, int], int]:
    """Return the attempts of a job that are at the resource, by task and instance."""
    run = world.record(job).run
    assert run is not None
    return {(t, i): one.attempt for t, each in enumerate(run.tasks, 1) for i, one in each.live.items()}


def tour_of_a_resource(world: World) -> None:
    """Take each arrow of a job that another scheduler has."""
    world.do(SetResource(by=ROOT, resource=PEER))
    tour_of_what_waits_there(world)
    first, second = (world.submit(ONE, resource="peer") for _ in range(2))
    hand(world, first)
    start(world, first)
    hand(world, first, id_="8")  # an id that becomes known late
    world.do(StopJob(by=ROOT, job=first, outcome="canceled"))
    hand(world, first, id_="9")
    end(world, first, AttemptOutcome("stopped"))
    end(world, second, AttemptOutcome("exited", exit_code=0))
    world.do(RemoveResource(by=ROOT, name="PEER"))


def tour_of_what_waits_there(world: World) -> None:
    sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=5, rerunnable=True)
    job = world.submit(sweep, resource="peer")
    world.do(HoldJob(by=ROOT, job=job, name="user"))
    world.do(ReleaseJob(by=ROOT, job=job, name=None))
    limited(world, job, 60.0)
    world.do(SetProgress(by=ROOT, job=job, percent=3))
    world.do(HoldTask(by=ROOT, job=job, task=1, instance=5))
    world.do(ReleaseTask(by=ROOT, job=job, task=1, instance=5))
    stage(world, job, "in")
    hand(world, job)
    for instance in (4, 1):
        world.do(StopTask(by=ROOT, job=job, task=1, instance=instance))
    end(world, job, AttemptOutcome("never-ran"))
    world.do(RequeueTask(by=ROOT, job=job, task=1, instance=1))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", graceful=True))
    for (task, instance), attempt in live(world, job).items():
        end(world, job, AttemptOutcome("never-ran"), task, instance, attempt)
    canceled = world.submit(ONE, resource="peer")
    world.do(StopJob(by=ROOT, job=canceled, outcome="canceled"))
    end(world, canceled, AttemptOutcome("never-ran"))
    failed = world.submit(TaskSpec(command="x"), resource="peer")
    end(world, failed, AttemptOutcome("exited", exit_code=1))


def limited(world: World, job: JobId, seconds: float) -> None:
    spec = replace(decode_spec(world.record(job).spec), run_time=Seconds(seconds))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("run_time",)))


def test_a_job_for_a_resource_takes_no_processors_and_waits_for_none() -> None:
    world = with_resource(1)
    busy = world.submit(TaskSpec(command="x"))
    job = world.submit(ONE, resource="PEER")
    record = world.record(job)
    assert record.state is JobState.HANDED
    assert live(world, job) == {(1, 1): 1}
    assert world.cluster.cores.free["node1"] == []
    assert world.record(busy).state is JobState.RUNNING
    world.check_replay()


def test_no_change_makes_a_job_of_it_that_the_resource_cannot_run() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer", hold_until=Instant(world.clock.now() + 1000.0))
    spec = replace(decode_spec(world.record(job).spec), licences=(Licence("solver", 1),))
    with pytest.raises(BadRequest, match="does not support licences"):
        world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("licences",)))


@pytest.mark.parametrize(
    "limits", [{"switches": 1}, {"contiguous": True}, {"minimum_run_time": Seconds(60.0)}]
)
def test_what_decides_where_or_when_it_starts_on_own_nodes_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="that is for own nodes"):
        with_resource().submit(ONE, resource="peer", run_time=Seconds(600.0), **limits)


def test_its_time_counts_from_its_start_there() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer", run_time=Seconds(60.0))
    world.wait(1000)
    assert world.record(job).state is JobState.HANDED
    hand(world, job)
    start(world, job)
    record = world.record(job)
    assert record.state is JobState.RUNNING
    assert record.run is not None
    assert record.run.started == world.clock.now()
    assert record.run.deadline == world.clock.now() + 60
    world.wait(61)
    assert world.record(job).state is JobState.ENDING
    end(world, job, AttemptOutcome("stopped"))
    assert world.record(job).state is JobState.CANCELED
    world.check_replay()


@pytest.mark.parametrize(
    ("outcome", "state", "code"),
    [
        (AttemptOutcome("exited", exit_code=0), JobState.FINISHED, 0),
        (AttemptOutcome("exited", exit_code=7), JobState.FAILED, 7),
        (AttemptOutcome("exited", signal=9), JobState.FAILED, 137),
        (AttemptOutcome("not-started", message="refused"), JobState.FAILED, None),
        (AttemptOutcome("timed-out"), JobState.FAILED, None),
    ],
)
def test_it_ends_as_its_task_did(outcome: AttemptOutcome, state: JobState, code: int | None) -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer")
    hand(world, job)
    end(world, job, outcome)
    record = world.record(job)
    assert record.state is state
    assert record.run is not None
    assert record.run.usage.exit_code == code


def test_what_is_lost_there_runs_again_under_another_number() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer")
    hand(world, job)
    end(world, job, AttemptOutcome("lost", message="gone"))
    assert live(world, job) == {(1, 1): 2}
    end(world, job, AttemptOutcome("exited", exit_code=0))  # of the first attempt: it is known to be over
    assert live(world, job) == {(1, 1): 2}
    end(world, job, AttemptOutcome("exited", exit_code=0), attempt=2)
    assert world.record(job).state is JobState.FINISHED


def test_what_may_not_run_twice_fails_when_it_is_lost() -> None:
    world = with_resource()
    job = world.submit(TaskSpec(command="x"), resource="peer")
    hand(world, job)
    end(world, job, AttemptOutcome("lost", message="gone"))
    assert world.record(job).state is JobState.FAILED


def test_no_more_are_handed_over_than_the_resource_takes() -> None:
    world = with_resource()
    sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=5)
    job, other = world.submit(sweep, resource="peer"), world.submit(ONE, resource="peer")
    assert live(world, job) == {(1, 1): 1, (1, 2): 1}
    assert world.record(other).state is JobState.QUEUED
    for instance in range(1, 6):
        assert world.cluster.resource_index.handed == {"peer": min(2, 7 - instance)}
        end(world, job, AttemptOutcome("exited", exit_code=0), instance=instance)
    assert world.record(job).state is JobState.FINISHED
    assert live(world, other) == {(1, 1): 1}
    world.do(
        SetResource(
            by=ROOT, resource=BatchResource(name="peer", system=PEER.system, mark="0a1b2c3d", most_jobs=9)
        )
    )
    assert set(live(world, world.submit(sweep, resource="peer"))) == {(1, n) for n in range(1, 6)}
    world.check_replay()


def test_all_room_is_used_when_several_end_at_once() -> None:
    world = with_resource()
    sweep = world.submit(TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=2), resource="peer")
    others = [world.submit(ONE, resource="peer") for _ in range(3)]
    done = AttemptOutcome("exited", exit_code=0)
    reports = tuple(AttemptReport(task=1, instance=n, attempt=1, outcome=done) for n in (1, 2))
    world.do(ReportEnded(node="@peer", job=sweep, reports=reports))
    assert [bool(live(world, job)) for job in others] == [True, True, False]


def test_tasks_there_wait_for_those_before_them() -> None:
    world = with_resource()
    second = TaskSpec(command="y", depends_on=("a",))
    job = world.submit(TaskSpec(command="x", name="a"), second, resource="peer")
    assert live(world, job) == {(1, 1): 1}
    end(world, job, AttemptOutcome("exited", exit_code=0))
    assert live(world, job) == {(2, 1): 1}


def test_held_jobs_stay_here_until_they_are_released() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer", holds=("user",))
    assert world.record(job).state is JobState.QUEUED
    world.do(ReleaseJob(by=ROOT, job=job, name=None))
    assert live(world, job)


def test_a_job_is_held_there_until_it_starts() -> None:
    world = with_resource()
    sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=3)
    job = world.submit(sweep, resource="peer")
    world.do(HoldJob(by=ROOT, job=job, name="user"))
    end(world, job, AttemptOutcome("exited", exit_code=0))
    assert set(live(world, job)) == {(1, 2)}  # the room is free, and nothing more goes there
    world.do(ReleaseJob(by=ROOT, job=job, name=None))
    assert set(live(world, job)) == {(1, 2), (1, 3)}
    start(world, job, instance=2)
    with pytest.raises(WrongState):
        world.do(HoldJob(by=ROOT, job=job, name="user"))
    world.check_replay()


def test_a_canceled_job_ends_when_the_resource_has_ended_it() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer")
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    run = world.record(job).run
    assert world.record(job).state is JobState.ENDING
    assert run is not None
    assert run.tasks[0].live[1].state is TaskState.ENDING
    end(world, job, AttemptOutcome("never-ran"))
    assert world.record(job).state is JobState.CANCELED


def test_a_requeued_job_goes_there_again_under_another_number() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer")
    hand(world, job)
    start(world, job)
    world.do(RequeueJob(by=ROOT, job=job))
    end(world, job, AttemptOutcome("stopped"))
    assert live(world, job) == {(1, 1): 2}
    assert world.record(job).state is JobState.HANDED
    world.check_replay()


def test_single_tasks_are_stopped_and_run_again() -> None:
    world = with_resource()
    sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=4, rerunnable=True)
    job = world.submit(sweep, resource="peer")
    world.do(StopTask(by=ROOT, job=job, task=1, instance=4))
    world.do(StopTask(by=ROOT, job=job, task=1, instance=1))
    end(world, job, AttemptOutcome("never-ran"))
    assert set(live(world, job)) == {(1, 2), (1, 3)}
    world.do(RequeueTask(by=ROOT, job=job, task=1, instance=1))
    end(world, job, AttemptOutcome("exited", exit_code=0), instance=2)
    assert live(world, job) == {(1, 3): 1, (1, 1): 2}


def test_a_job_at_a_resource_is_not_suspended() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer", suspendable=True)
    with pytest.raises(WrongState, match="at a resource"):
        world.do(SuspendJob(by=ROOT, job=job))


def test_late_ids_and_those_of_others_change_nothing() -> None:
    world = with_resource()
    job = world.submit(ONE, resource="peer")
    before = world.engine.number
    hand(world, job, attempt=2)
    hand(world, JobId(99))
    world.do(ReportHanded(resource="other", job=job, handed=(InstanceHandOff(1, 1, 1, "7"),)))
    assert world.engine.number == before
    hand(world, job)
    hand(world, job)
    assert world.engine.number == before + 1


def test_transfers_count_towards_no_limit_of_a_job_at_a_resource() -> None:
    world = with_resource()
    staging = TaskSpec(command="x", stage_in=(StagedFile("x", "https://example.org/x"),))
    job = world.submit(staging, resource="peer", run_time=Seconds(60.0))
    run = world.record(job).run
    assert run is not None
    stage(world, job, "in")
    assert run.tasks[0].live[1].staging == "in"
    world.wait(500)
    assert run.deadline is None
    hand(world, job)
    assert run.tasks[0].live[1].staging == ""
    world.wait(500)
    start(world, job)
    assert run.deadline == world.clock.now() + 60
    world.wait(50)
    stage(world, job, "out")
    assert run.deadline is None
    end(world, job, AttemptOutcome("exited", exit_code=0))
    assert world.record(job).state is JobState.FINISHED


def test_a_node_cannot_speak_for_a_resource() -> None:
    world = with_resource(1)
    job = world.submit(ONE, resource="peer")
    report = AttemptReport(task=1, instance=1, attempt=1, outcome=AttemptOutcome("exited", exit_code=0))
    world.do(ReportEnded(node="peer", job=job, reports=(report,)))
    assert live(world, job)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (TaskSpec(command="x", kind=TaskType.SERVICE), {}),
        (TaskSpec(command="x", stage_in=(StagedFile("/tmp/x", "https://example.org/x"),)), {}),
        (TaskSpec(command="x", required_nodes=("n1",)), {}),
        (TaskSpec(command="x"), {"together": True}),
        (TaskSpec(command="x"), {"licences": (Licence("a", 1),)}),
        (TaskSpec(command="x"), {"node_groups": ("g",)}),
        (TaskSpec(command="x"), {"run_until_canceled": True, "minimum": 1, "maximum": 2}),
    ],
)
def test_what_a_resource_is_not_told_is_refused(task: TaskSpec, options: dict[str, object]) -> None:
    world = with_resource()
    with pytest.raises(BadRequest, match="resource 'Peer'"):
        world.submit(task, resource="peer", **options)


def test_here_are_own_nodes_and_what_is_unknown_is_refused() -> None:
    world = with_resource(1)
    job = world.submit(TaskSpec(command="x"), resource="here")
    assert world.dispatched(job) == [(1, 1)]
    with pytest.raises(NotFound, match="here, Peer"):
        world.submit(ONE, resource="pear")


def test_resources_are_changed_by_administrators_and_removed_when_nothing_is_there() -> None:
    world = with_resource()
    with pytest.raises(NotAllowed):
        world.do(SetResource(by=ADA, resource=PEER))
    job = world.submit(ONE, resource="peer")
    with pytest.raises(WrongState, match=f": {job}"):
        world.do(RemoveResource(by=ROOT, name="peer"))
    with pytest.raises(WrongState):
        world.do(
            SetResource(
                by=ROOT, resource=BatchResource(name="peer", system=PEER.system, mark="0a1b2c3d", host="far")
            )
        )
    end(world, job, AttemptOutcome("exited", exit_code=0))
    world.do(RemoveResource(by=ROOT, name="peer"))
    with pytest.raises(NotFound):
        world.do(RemoveResource(by=ROOT, name="peer"))
    world.check_replay()


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "here"},
        {"name": "@x"},
        {"host": "-oProxyCommand=x"},
        {"queue": "a b"},
        {"programs": "bin"},
        {"directory": "/a\nb"},
        {"most_jobs": 0},
        {"poll": Seconds(0.1)},
        {"mark": "x"},
    ],
)
def test_a_wrong_resource_is_refused(wrong: dict[str, object]) -> None:
    whole: dict[str, object] = {"name": "peer", "system": ResourceSystem.SLURM, "mark": "0a1b2c3d", **wrong}
    with pytest.raises(BadRequest):
        World().do(SetResource(by=ROOT, resource=BatchResource(**whole)))


def test_a_restart_remembers_where_everything_is() -> None:
    world = with_resource()
    jobs = [world.submit(ONE, resource="peer") for _ in range(3)]
    hand(world, jobs[0], id_="12")
    start(world, jobs[0])
    again = world.replayed()
    assert again.resource_index.elsewhere == set(jobs[:2])
    assert again.resource_index.outbound == {jobs[2]: "peer"}
    assert again.resource_index.handed == {"peer": 2}
    run = again.jobs[jobs[0]].run
    assert run is not None
    assert run.tasks[0].live[1].foreign == "12"
    assert run.started == Instant(world.clock.now())


OVER = replace(PEER, overlay=True)


def test_a_job_that_names_no_resource_goes_to_the_one_under_the_overlay() -> None:
    world = with_resource(1, resource=OVER)
    job, own = world.submit(ONE), world.submit(ONE, resource="here")
    assert decode_spec(world.record(job).spec).resource == "Peer"
    assert live(world, job) == {(1, 1): 1}
    assert world.dispatched(own) == [(1, 1)]
    with pytest.raises(BadRequest, match="does not support licences"):
        world.submit(ONE, licences=(Licence("solver", 1),))
    world.check_replay()


def test_a_template_comes_before_the_overlay() -> None:
    other = replace(PEER, name="other", mark="0a1b2c3e")
    world = with_resource(resource=OVER)
    world.do(SetResource(by=ROOT, resource=other))
    rule = TemplateRule(field="resource", default=JobSpec(resource="other"))
    world.do(SetTemplate(by=ROOT, template=JobTemplate(name="Default", rules=(rule,))))
    assert decode_spec(world.record(world.submit(ONE)).spec).resource == "other"


def test_one_slurm_or_grid_engine_is_under_the_overlay() -> None:
    world = with_resource(resource=OVER)
    with pytest.raises(WrongState, match="over the resource 'Peer' already"):
        world.do(SetResource(by=ROOT, resource=replace(OVER, name="other", mark="0a1b2c3e")))
    world.do(SetResource(by=ROOT, resource=replace(OVER, most_jobs=5)))
    with pytest.raises(BadRequest, match="over Slurm or Grid Engine"):
        World().do(SetResource(by=ROOT, resource=replace(OVER, system=ResourceSystem.PBS)))


def test_all_room_is_used_by_jobs_that_were_handed_over_together() -> None:
    world = with_resource()
    done = AttemptOutcome("exited", exit_code=0)
    spec = JobSpec(tasks=(ONE,), resource="peer")
    world.do(*(CreateJob(by=ROOT, spec=spec, submit=True) for _ in range(9)))
    jobs = set(world.cluster.jobs)
    while jobs:
        there = {job for job in jobs if live(world, job)}
        assert len(there) == min(len(jobs), PEER.most_jobs)
        report = (AttemptReport(task=1, instance=1, attempt=1, outcome=done),)
        world.do(*(ReportEnded(node="@peer", job=job, reports=report) for job in there))
        jobs -= there


OTHER = BatchResource(name="Other", system=ResourceSystem.GRID_ENGINE, mark="0a1b2c3e")


def with_choice(resource: str = "any", *processors: int) -> tuple[World, JobId]:
    """Return a world of two resources, and a job with a choice that waits behind another on own nodes."""
    world = with_resource(*(processors or (1,)))
    world.do(SetResource(by=ROOT, resource=OTHER))
    world.submit(TaskSpec(command="x"))
    return world, world.submit(ONE, resource=resource)


def estimates(world: World, **seconds: float | None) -> tuple[PlaceEstimate, ...]:
    """Return what is known of places; None: they cannot be used."""
    now, known = world.clock.now(), StartBasis.QUEUE
    return tuple(
        PlaceEstimate(place, problem="away")
        if wait is None
        else PlaceEstimate(place, Instant(now + wait), known)
        for place, wait in seconds.items()
    )


def tour_of_a_choice(world: World) -> None:
    """Take the arrow of a job that goes to one of the places that it names."""
    world.do(SetResource(by=ROOT, resource=PEER))
    world.submit(TaskSpec(command="x"))
    job = world.submit(ONE, resource="any")
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, peer=0.0)))


def test_a_job_with_a_choice_waits_for_own_nodes_until_another_place_is_earlier() -> None:
    world, job = with_choice()
    world.do(PlaceJob(job=job, estimates=estimates(world, here=30.0, other=None, peer=0.0)))
    assert world.record(job).state is JobState.QUEUED
    known = estimates(world, here=900.0, other=None, peer=0.0)
    world.do(PlaceJob(job=job, estimates=known))
    record = world.record(job)
    assert record.state is JobState.HANDED
    assert record.run is not None
    assert record.run.resource == "peer"
    assert record.placement is not None
    assert record.placement.estimates == known
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, other=0.0, peer=90.0)))
    assert world.record(job).placement == record.placement
    world.check_replay()


def test_a_job_with_a_choice_starts_on_own_nodes_as_any_other() -> None:
    world, job = with_choice("any", 2)
    assert world.record(job).state is JobState.RUNNING
    assert not world.record(job).is_elsewhere
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, peer=0.0)))
    assert not world.record(job).is_elsewhere
    world.check_replay()


@pytest.mark.parametrize("resource", ["peer,other", "PEER, Other"])
def test_a_job_for_one_of_several_resources_never_runs_on_own_nodes(resource: str) -> None:
    world, job = with_choice(resource, 4)
    assert world.record(job).state is JobState.QUEUED
    assert job not in {turn.job for turns in world.cluster.queue.by_request.values() for turn in turns}
    world.do(PlaceJob(job=job, estimates=estimates(world, here=-900.0, other=0.0, peer=5.0)))
    run = world.record(job).run
    assert run is not None
    assert run.resource == "other"
    world.check_replay()


def test_a_place_is_chosen_anew_when_the_job_is_changed_or_requeued() -> None:
    world, job = with_choice()
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, peer=0.0)))
    world.do(RequeueJob(by=ROOT, job=job))
    end(world, job, AttemptOutcome("never-ran"))
    assert world.record(job).state is JobState.QUEUED
    assert world.record(job).placement is None
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, other=0.0)))
    run = world.record(job).run
    assert run is not None
    assert run.resource == "other"
    assert live(world, job) == {(1, 1): 2}  # an attempt number is never used twice
    world.check_replay()


def test_a_held_job_gets_no_place() -> None:
    world, job = with_choice()
    world.do(HoldJob(by=ROOT, job=job, name="user"))
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, peer=0.0)))
    assert world.record(job).placement is None
    world.do(ReleaseJob(by=ROOT, job=job, name=None))
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, peer=0.0)))
    assert world.record(job).is_elsewhere


def test_every_place_that_a_job_names_must_be_there_and_run_it() -> None:
    world = with_resource(1)
    with pytest.raises(NotFound, match="no resource 'nosuch'"):
        world.submit(ONE, resource="here,nosuch")
    with pytest.raises(BadRequest, match="does not support licences"):
        world.submit(ONE, resource="here,peer", licences=(Licence("solver", 1),))
    assert world.submit(ONE, resource="any", licences=(Licence("solver", 1),))


@pytest.mark.parametrize(
    ("named", "places"),
    [("any", ("here", "other", "peer")), ("peer,any", ("peer", "here", "other")), ("", ("here",))],
)
def test_any_place_is_own_nodes_and_each_resource(named: str, places: tuple[str, ...]) -> None:
    world, _ = with_choice()
    assert places_of(world.cluster.resource_index.named, JobSpec(resource=named)) == places


def test_an_alternative_for_a_resource_is_what_the_job_asks_for_there() -> None:
    small = Alternative(tasks=(TaskAlternative(minimum=1, maximum=1),))
    there = Alternative(
        run_time=Seconds(60.0), resource="Peer", tasks=(TaskAlternative(minimum=3, maximum=3),)
    )
    world = with_resource(2)
    world.submit(TaskSpec(command="x", minimum=2, maximum=2))
    wide = TaskSpec(command="x", minimum=2, maximum=2, rerunnable=True)
    job = world.submit(wide, alternatives=(small, there))
    request = world.cluster.request(world.record(job))
    assert (request.resource, len(request.alternatives)) == ("here,peer", 1)
    world.do(PlaceJob(job=job, estimates=estimates(world, here=900.0, peer=0.0)))
    record = world.record(job)
    assert record.run is not None
    assert (record.run.resource, record.run.alternative) == ("peer", 2)
    spec = world.cluster.spec(record)
    assert (spec.tasks[0].minimum, spec.run_time) == (3, 60.0)
    world.check_replay()
    world.do(RequeueJob(by=ROOT, job=job))
    end(world, job, AttemptOutcome("stopped"))
    assert world.cluster.spec(world.record(job)).tasks[0].minimum == 2
    world.check_replay()


def test_a_job_for_a_resource_takes_its_own_request_there_and_that_of_the_other_elsewhere() -> None:
    other = Alternative(resource="other", tasks=(TaskAlternative(minimum=1, maximum=1),))
    world = with_resource(1, resource=replace(PEER, most_jobs=9))
    world.do(SetResource(by=ROOT, resource=replace(OTHER, system=ResourceSystem.SLURM)))
    big = TaskSpec(command="x", minimum=4, maximum=4)
    jobs = {place: world.submit(big, resource="peer", alternatives=(other,)) for place in ("peer", "other")}
    for place, option in (("peer", 0), ("other", 1)):
        late = {each: 900.0 for each in jobs if each != place}
        world.do(PlaceJob(job=jobs[place], estimates=estimates(world, **late, **{place: 0.0})))
        record = world.record(jobs[place])
        assert record.run is not None
        assert (record.run.resource, record.run.alternative) == (place, option)
    world.check_replay()


@pytest.mark.parametrize(
    ("alternatives", "words"),
    [
        ((Alternative(resource="here"),), "alternative 1 is for 'here'"),
        ((Alternative(resource="any"),), "alternative 1 is for 'any'"),
        ((Alternative(resource=""),), "alternative 1 is for ''"),
        ((Alternative(resource="peer"), Alternative(minimum=1)), "one for a resource is before it"),
        ((Alternative(resource="peer", licences=(Licence("a", 1),)),), "does not support licences"),
    ],
)
def test_an_alternative_that_cannot_act_is_refused(alternatives: tuple[Alternative, ...], words: str) -> None:
    with pytest.raises(BadRequest, match=words) as wrong:
        with_resource(2).submit(ONE, alternatives=alternatives)
    assert wrong.value.path[:2] == ("alternatives", len(alternatives) - 1)


def test_an_alternative_for_a_resource_that_is_not_there_is_refused() -> None:
    with pytest.raises(NotFound, match="there is no resource 'nosuch'"):
        with_resource(2).submit(ONE, alternatives=(Alternative(resource="nosuch"),))
