"""The live attempts at resources, what becomes of news about them, and their staged files."""

import pwd
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from headnode.adapters.batch.commands import home_of
from headnode.adapters.batch.orders import FilesToStage
from headnode.adapters.nodes.event_dispatch import storage_shares, transfer_rules
from headnode.adapters.wire.agent_messages import AttemptTransfers
from headnode.core.batch.attempt import ForeignAttempt
from headnode.core.batch.dialect import AttemptPlace
from headnode.core.batch.staged_files import SCRATCH, TransferProgress
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
from headnode.engine.settings import Settings


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
        yield ReportStarted(node=place, job=job, starts=begun)
    if one.kind == "ended" and one.outcome is not None:
        report = AttemptReport(task=one.task, instance=one.instance, attempt=one.attempt, outcome=one.outcome)
        yield ReportEnded(node=place, job=job, reports=(report,))


def files_to_stage(attempt: ForeignAttempt, cluster: ClusterState, state: Path) -> FilesToStage | None:
    """Return what is transferred for an attempt; None if it stages no files."""
    if not attempt.stages:
        return None
    rules = transfer_rules(Settings(cluster.parameters), storage_shares(cluster))
    plan = attempt.transfers(
        root=attempt.resource.directory or attempt.home,
        base=attempt.base,
        marker=attempt.marker,
        scratch=SCRATCH,
        home=attempt.home,
        timeout=rules.timeout,
        networks=rules.networks,
        at_once=rules.per_host,
    )
    incoming, outgoing = plan.pop("in"), plan.pop("out")
    encode = msgspec.json.encode
    return FilesToStage(
        order=plan,
        incoming=encode(incoming),
        outgoing=encode(outgoing),
        has_results=bool(outgoing),
        per_job=rules.at_once,
        per_node=rules.per_node,
        per_storage=rules.per_storage,
        state=str(state),
    )


class TransfersThere:
    """How far the files of the attempts at one resource are, as a node says it of its own."""

    def __init__(self) -> None:
        self._known: dict[tuple[JobId, int, int], AttemptTransfers] = {}

    @property
    def transfers(self) -> Mapping[tuple[JobId, int, int], AttemptTransfers]:
        """How far they are, by job, task and instance."""
        return self._known

    def note(self, key: AttemptPlace, progress: TransferProgress) -> bool:
        """Remember how far the files of an attempt are; return whether they did not go this way before."""
        _, task, instance, attempt = key
        of = (JobId(key.job), task, instance)
        before, self._known[of] = self._known.get(of), AttemptTransfers(task, instance, attempt, *progress)
        return before is None or (before.attempt, before.direction) != (attempt, progress.direction)

    def forget(self, key: AttemptPlace) -> None:
        """The attempt is over."""
        self._known.pop((JobId(key.job), key.task, key.instance), None)
