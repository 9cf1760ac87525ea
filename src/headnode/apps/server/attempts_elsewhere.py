"""The live attempts at resources, and what becomes of news about them."""

import pwd
from collections.abc import Iterator, Sequence

from headnode.adapters.batch.commands import home_of
from headnode.core.batch.dialect import AttemptPlace
from headnode.core.batch.tracked import HandOffReport
from headnode.core.model.quantities import JobId
from headnode.core.model.resource import PLACE_MARK, InstanceHandOff
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptReport, Command
from headnode.core.state.job_record import JobRecord, LiveAttempt
from headnode.core.state.report import ReportEnded, ReportStaging, ReportStarted
from headnode.core.state.resources import ReportHanded
from headnode.core.state.transitions import JobState


def home_of_owner(owner: str) -> str:
    """Return the home of a user; empty for one that is not known here."""
    try:
        return home_of(pwd.getpwnam(owner))
    except KeyError:
        return ""


def stopped_keys(cluster: ClusterState, event: e.InstancesStopping) -> Iterator[AttemptPlace]:
    """Yield the attempts that are being stopped."""
    run = cluster.jobs[event.job].run
    live = run.tasks[event.task - 1].live if run is not None else {}
    for instance in event.instances:
        if instance in live:
            yield AttemptPlace(event.job, event.task, instance, live[instance].attempt)


def live_keys(cluster: ClusterState, jobs: Sequence[JobId]) -> Iterator[AttemptPlace]:
    """Yield all live attempts of jobs."""
    for job in jobs:
        run = cluster.jobs[job].run
        for index, progress in enumerate(run.tasks if run is not None else ()):
            for instance, live in sorted(progress.live.items()):
                yield AttemptPlace(job, index + 1, instance, live.attempt)


def live_of(cluster: ClusterState, key: AttemptPlace) -> tuple[JobRecord | None, LiveAttempt | None]:
    """Return the job of an attempt and the attempt, if it is live."""
    record = cluster.jobs.get(JobId(key.job))
    if (
        record is None
        or record.run is None
        or not (record.state.is_active or record.state is JobState.ENDING)
    ):
        return None, None
    live = record.run.tasks[key.task - 1].live.get(key.instance)
    return record, live if live is not None and live.attempt == key.attempt else None


def commands_of(one: HandOffReport, resource: str) -> Iterator[Command]:
    """Yield what the engine is told of what has become known of an attempt."""
    job, place = JobId(one.job), PLACE_MARK + resource
    if one.id and one.kind != "waits":
        ids = (InstanceHandOff(one.task, one.instance, one.attempt, one.id),)
        yield ReportHanded(resource=resource, job=job, handed=ids)
    if one.progress is not None:
        stage = e.InstanceStage(one.task, one.instance, one.attempt, one.progress.direction, one.progress.at)
        yield ReportStaging(node=place, job=job, staging=(stage,))
    if one.kind == "started" and one.at is not None:
        begun = (e.InstanceStart(one.task, one.instance, one.attempt, one.at),)
        yield ReportStarted(node=place, job=job, begun=begun)
    if one.kind == "ended" and one.outcome is not None:
        report = AttemptReport(task=one.task, instance=one.instance, attempt=one.attempt, outcome=one.outcome)
        yield ReportEnded(node=place, job=job, reports=(report,))
