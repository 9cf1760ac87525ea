"""The end of a job, running jobs and tasks again, and purging what ended long ago.

Source:  Slurm, slurmdbd.conf, PurgeJobAfter; HPC Pack, cluster parameter TTLCompletedJobs.
"""

from collections.abc import Iterable
from typing import Final

from headnode.core.model.errors import Broken, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_runnable
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state import job_events as e
from headnode.core.state import job_record as suspension
from headnode.core.state import modify as c
from headnode.core.state import task_progress as instances
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.depend import set_awaited, waits
from headnode.core.state.events import Event, JobsPurged
from headnode.core.state.job_record import (
    JobRecord,
    JobRun,
    RunEnd,
    TaskProgress,
    decode_record,
    encode_record,
    not_begun,
)
from headnode.core.state.job_request import check_end_by
from headnode.core.state.modify import living_or_archived_job
from headnode.core.state.permissions import may_change
from headnode.core.state.start import run_of, take_option
from headnode.core.state.stop import refuse_rerun, return_to_queue
from headnode.core.state.submit import await_instances, awaiting
from headnode.core.state.transitions import JobState, job_target

TTL_COMPLETED_JOBS: Final = "TTLCompletedJobs"
"""The parameter: for how many days after the end of a job nodes keep its captured output; 0: for ever."""
PURGE_JOBS_AFTER: Final = "PurgeJobsAfter"
"""The parameter: how many days after its end a job is purged; 0: never."""


class PurgeJobs(Command, frozen=True):
    """Remove the records of ended jobs."""

    jobs: tuple[JobId, ...]


def requeue(cluster: ClusterState, command: c.RequeueJob, now: Instant) -> list[Event]:
    """Run a running, failed or canceled job again, but for what has finished."""
    record = living_or_archived_job(cluster, command)
    may_change(command.by, record)
    spec = cluster.spec(record)
    if record.state.is_active and record.run is not None:
        return return_to_queue(cluster, record, command.by, f"requeued by {command.by.name}", now)
    if record.state in (JobState.FAILED, JobState.CANCELED) and command.archived is not None:
        _refuse_unvalidated(record)
        tasks = record.run.tasks if record.run else []
        refuse_rerun(record, spec, [i for i, p in enumerate(tasks) if p.failed])
        check_end_by(cluster.written(record), now)
        check_runnable(spec)
        return _submitted_again(cluster, command, record, spec, now)
    raise WrongState(
        code="not-requeueable",
        what=f"job {record.id} is {record.state.value}: running, failed and canceled jobs can be requeued",
        fix=f"make a copy with `hn job clone {record.id}`" if record.state is JobState.FINISHED else "",
    )


def _submitted_again(
    cluster: ClusterState, command: c.RequeueJob, record: JobRecord, spec: JobSpec, now: Instant
) -> list[Event]:
    """Return how an ended job comes back into the queue, with those that were canceled for its end.

    Raises:  WrongState ``limit``.
    """
    from headnode.core.state.revive import revived_with_parent  # few jobs run again

    by = command.by.name
    awaited = waits(cluster, spec, command.parents, record.id, record.owner)
    events: list[Event] = [
        e.JobUnarchived(at=now, job=record.id, record=encode_record(record), by=by),
        e.JobRequeued(
            at=now,
            job=record.id,
            by=by,
            waits_for=awaited.waits_for,
            awaiting=awaiting(cluster, spec, command.parents, record.id),
            satisfied=awaited.satisfied,
            start_after=awaited.start_after,
        ),
        *revived_with_parent(cluster, record, command.skipped, command.parents, by, now),
    ]
    cluster.limit_index.check_events(events)
    return events


def _refuse_unvalidated(record: JobRecord) -> None:
    if record.unvalidated:
        raise WrongState(
            code="not-validated",
            what=f"job {record.id} never passed the submission filters",
            fix=f"copy it, correct the copy and submit it: hn job clone {record.id}",
        )


_STATES = {state.value: state for state in JobState}  # a look-up costs a tenth of JobState(...)


def job_ending(cluster: ClusterState, event: e.JobEnding) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run = run_of(cluster, record)
    if record.state is JobState.RESUMING:
        cluster.dequeue(record)
    before = run.end or RunEnd(outcome=event.outcome)
    run.end = RunEnd(
        outcome=event.outcome,
        requeue=event.requeue,
        uncounted=event.uncounted,
        preempted_by=event.preempted_by or before.preempted_by,
        skip_release=before.skip_release or event.force or bool(event.preempted_by),
    )
    record.message = event.message
    cluster.move(record, state)
    cluster.update_releasing(record)


def dispatch_stopped(cluster: ClusterState, event: e.DispatchStopped) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    run.end = RunEnd(outcome=event.outcome)
    record.message = event.message
    cluster.agenda.dirty_jobs.add(event.job)


def job_ended(cluster: ClusterState, event: e.JobEnded) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event, _STATES[event.outcome])
    if record.state is JobState.QUEUED:
        cluster.dequeue(record)
    cluster.close_run(record)
    run = run_of(cluster, record)
    suspension.end_suspension(run, event.at)
    run.usage.end(run.started, run.not_run, event.at)
    run.ended, run.deadline = event.at, None
    record.message, record.hold_until, record.skipped = event.message, None, event.skipped
    decided = cluster.agenda.for_archive.get(event.parent)
    if decided is not None:  # in the same batch: it goes to the archive with this
        decided.skipped_jobs += (event.job,)
    cluster.move(record, state)
    _to_archive(cluster, record)
    if record.id in cluster.children:
        from headnode.core.state.children import update_children  # few jobs have children

        update_children(cluster, record)
    if record.id in cluster.followers:
        from headnode.core.state.instance_waits import parent_over  # of few jobs

        parent_over(cluster, record)


def _to_archive(cluster: ClusterState, record: JobRecord) -> None:
    """An ended job leaves memory; the archive has it."""
    del cluster.jobs[record.id]
    cluster.counts[record.state] -= 1
    cluster.agenda.dirty_jobs.discard(record.id)
    cluster.agenda.for_archive[record.id] = record


def job_requeued(cluster: ClusterState, event: e.JobRequeued) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.close_run(record)
    run = run_of(cluster, record)
    suspension.end_suspension(run, event.at)
    if not record.state.is_final:
        run.usage.end(run.started, run.not_run, event.at)
    for progress in run.tasks:
        instances.run_again(progress, event)
    run.auto_requeues = 0
    _wait_again(cluster, record, event)
    await_instances(cluster, record, event.awaiting)
    _back_in_queue(cluster, record, run, state, event.message)
    if record.id in cluster.children:
        from headnode.core.state.children import update_children  # few jobs have children

        update_children(cluster, record)


def _wait_again(cluster: ClusterState, record: JobRecord, event: e.JobRequeued) -> None:
    """Set the dependencies of a requeued job: all of an ended job; of a running one, only the open ones."""
    record.skipped, record.skipped_jobs = False, ()
    if record.state.is_final:
        set_awaited(cluster, record, event)
    else:
        record.forget_parents()
        record.waits_for = event.waits_for


def job_returned(cluster: ClusterState, event: e.JobAutoRequeued) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.close_run(record)
    run = run_of(cluster, record)
    suspension.end_suspension(run, event.at)
    run.usage.end(run.started, run.not_run, event.at)
    run.auto_requeues += not (event.preempted_by or event.uncounted)
    run.preempted_by = event.preempted_by
    _back_in_queue(cluster, record, run, state, event.message)


def _back_in_queue(
    cluster: ClusterState, record: JobRecord, run: JobRun, state: JobState, message: str
) -> None:
    run.deadline, run.started, run.ended, run.resource = None, None, None, ""
    take_option(record, run, 0)
    run.requeues += 1
    record.message, record.filter_reply, record.placement = message, None, None
    cluster.move(record, state)
    cluster.enqueue(record)


def canceled_untouched(task: TaskSpec) -> TaskProgress:
    """Return the progress of a task of a job whose run has no tasks (`TasksCanceled`)."""
    progress = not_begun(task)
    progress.queued, progress.canceled = progress.canceled, progress.queued
    return progress


def job_revived(cluster: ClusterState, event: e.JobUnarchived) -> None:
    if event.job in cluster.jobs:
        raise Broken(code="job-twice", what=f"job {event.job} came back from the archive and was there")
    record = decode_record(event.record)
    if record.run is not None and not record.run.tasks:  # canceled before anything of it was touched
        record.run.tasks = [canceled_untouched(task) for task in cluster.written(record).tasks]
    cluster.adopt(record)


def purgeable(cluster: ClusterState, jobs: Iterable[JobId]) -> tuple[JobId, ...]:
    """Return those of the jobs that have ended, and that neither a child nor a bank needs.

    Cost:  O(jobs + runs that a bank was told of).
    """
    unpaid = {job for job, _ in cluster.bank.entries}
    needed = (cluster.jobs, cluster.children, cluster.followers, unpaid)
    return tuple(job for job in jobs if not any(job in each for each in needed))


def purge_jobs(cluster: ClusterState, command: PurgeJobs, now: Instant) -> list[Event]:
    """Purge jobs; those that are needed again stay.

    Raises:  WrongState ``job-needed`` when none is left.
    """
    jobs = purgeable(cluster, command.jobs)
    if not jobs:
        raise WrongState(
            code="job-needed", what="these jobs have not ended, or others that have not need them"
        )
    return [JobsPurged(at=now, jobs=jobs)]


def jobs_purged(cluster: ClusterState, event: JobsPurged) -> None:
    """The state has nothing of ended jobs.

    Raises:  Broken ``job-alive``.
    """
    if alive := [job for job in event.jobs if job in cluster.jobs]:
        raise Broken(code="job-alive", what=f"job {alive[0]} is purged and has not ended")
