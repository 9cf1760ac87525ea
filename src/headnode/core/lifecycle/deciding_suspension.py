"""Decide about suspending jobs and letting them go on.

Source: SSS 3.1.0, "Suspendable" and the state Suspended; grid, state paused.
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.allocating import pick
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event, Place
from headnode.core.lifecycle.permission import may_change
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.resuming import suspension_of
from headnode.core.lifecycle.states import JobState, TaskState
from headnode.core.model.errors import WrongState
from headnode.core.model.quantities import Instant


def suspend(cluster: Cluster, command: c.SuspendJob, now: Instant) -> list[Event]:
    """Stop a running job.  One that waits to go on waits no more; one that is suspended stays so."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if record.state in (JobState.SUSPENDING, JobState.SUSPENDED):
        return []
    if record.state is JobState.RESUMING:
        return [e.JobSuspended(at=now, job=record.id, by=command.by.name)]
    if record.state is not JobState.RUNNING or record.run is None:
        raise WrongState(
            code="not-running",
            what=f"job {record.id} is {record.state.value}: only a running job can be suspended",
            fix=f"hold it instead: hn job hold {record.id}"
            if record.state in (JobState.CONFIGURING, JobState.QUEUED)
            else "",
        )
    if not cluster.spec(record).suspendable:
        raise WrongState(
            code="not-suspendable",
            what=f"job {record.id} is not suspendable",
            fix=f"hn job modify {record.id} /suspendable:true, or submit it with /suspendable",
        )
    return [e.JobSuspending(at=now, job=record.id, number=record.run.suspensions + 1, by=command.by.name)]


def stopped(cluster: Cluster, command: c.ReportSuspended, now: Instant) -> list[Event]:
    """Note that everything stands still on a node; old reports, and those said twice, cause nothing."""
    record = cluster.jobs.get(command.job)
    if record is None or record.state is not JobState.SUSPENDING:
        return []
    suspension = suspension_of(record.run)
    if suspension.number != command.number or command.node not in suspension.awaited:
        return []
    return [e.ProcessesStopped(at=now, job=record.id, node=command.node)]


def stand_still(record: JobRecord, now: Instant) -> list[Event]:
    """Return what follows for a job whose processes are being stopped: nothing until all nodes said so.

    What is being ended does not stand still: until it is over it has its grace, on processors of its own.
    """
    run = record.run
    if record.state is not JobState.SUSPENDING or run is None or suspension_of(run).awaited:
        return []
    if any(live.state is TaskState.ENDING for progress in run.tasks for live in progress.live.values()):
        return []
    return [e.JobSuspended(at=now, job=record.id)]


def resume(cluster: Cluster, command: c.ResumeJob, now: Instant) -> list[Event]:
    """Let a suspended job wait in its old place of the queue for what it held."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if record.state in (JobState.RUNNING, JobState.RESUMING):
        return []
    if record.state is JobState.SUSPENDING and record.run is not None:
        place = tuple(record.run.allocation.items())
        return [e.JobResumed(at=now, job=record.id, allocation=place, by=command.by.name)]
    if record.state is not JobState.SUSPENDED:
        raise WrongState(
            code="not-suspended",
            what=f"job {record.id} is {record.state.value}: only a suspended job can be resumed",
            fix=f"release its holds instead: hn job release {record.id} --all" if record.holds else "",
        )
    return [e.JobResuming(at=now, job=record.id, by=command.by.name)]


def go_on(cluster: Cluster, command: c.StartJob, record: JobRecord, now: Instant) -> list[Event]:
    """Scheduler: a job that waits to go on has its processors again.

    Raises:  WrongState ``stale-plan``.
    """
    places = suspension_of(record.run).places
    had = tuple((node, len(numbers)) for node, numbers in places.items())
    if record.holds or sorted(command.shares) != sorted(had):
        raise WrongState(
            code="stale-plan",
            what=f"job {record.id} is held, or can resume only with the processors that it had",
        )
    end = Instant(now + cluster.request(record).run_time)
    free = dict(pick(cluster, record.id, cluster.given(record), had, now, end))
    allocation: Place = tuple((node, _as_before(cluster, node, places[node], free[node])) for node in places)
    return [e.JobResumed(at=now, job=record.id, allocation=allocation)]


def _as_before(cluster: Cluster, node: str, had: tuple[int, ...], picked: tuple[int, ...]) -> tuple[int, ...]:
    """Return the processors that a job had where they are free, and the first free ones for the others."""
    free = set(cluster.free[node])
    again = [number for number in had if number in free]
    others = [number for number in cluster.free[node] if number not in had]
    return tuple(sorted((again + others)[: len(picked)]))
