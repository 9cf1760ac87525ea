"""Compare what a node has with what the head expects there, and find the messages that put it right."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from headnode.adapters.wire.agent_messages import Holdings, ReportedAttempt
from headnode.adapters.wire.message_checks import Piece, digest_of, health_check_text
from headnode.adapters.wire.messages import CheckHealth, Continue, FromHead, Run, Stop, Suspend
from headnode.core.model.node import NodeState
from headnode.core.model.outcome import AttemptOfTask, AttemptOutcome
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptReport
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesDispatched, InstancesEnded
from headnode.core.state.job_record import JobRecord, LiveAttempt
from headnode.core.state.report import ReportEnded, ReportStarted, may_follow, waits_for
from headnode.core.state.transitions import JobState, TaskState
from headnode.engine.settings import Settings


class ExpectedAttempt(NamedTuple):
    """An attempt that the head knows to be live."""

    job: JobId
    task: int
    instance: int
    live: LiveAttempt
    unstarted: tuple[tuple[int, int], ...] = ()  # as in `Run`
    after: tuple[AttemptOfTask, ...] | None = ()  # as in `Run`; None: a parent did not succeed


class AttemptsByNode:
    """The live attempts by the node that starts them: the first one of their allocation."""

    def __init__(self, cluster: ClusterState) -> None:
        self._on: dict[str, set[tuple[JobId, int, int]]] = {}
        for job, graph in cluster.graphs.items():
            for index, progress in enumerate(graph.run.tasks):
                for instance, live in progress.live.items():
                    self._of(live.placement[0][0]).add((job, index + 1, instance))

    def _of(self, node: str) -> set[tuple[JobId, int, int]]:
        return self._on.setdefault(node, set())

    def note(self, events: Sequence[Event]) -> None:
        """Take in what has happened."""
        for event in events:
            if isinstance(event, InstancesDispatched):
                attempts = self._of(event.placement[0][0])
                attempts.update((event.job, event.task, instance) for instance, _ in event.attempts)
            elif isinstance(event, InstancesEnded):
                for how in event.ended:
                    self._of(how.node).discard((event.job, how.task, how.instance))

    def of(self, node: str, cluster: ClusterState) -> list[ExpectedAttempt]:
        """Return the live attempts of a node, by job, task and instance."""
        return [
            known
            for key in sorted(self._on.get(node, ()))
            if (known := _expected_attempt(cluster, node, *key))
        ]


def _expected_attempt(
    cluster: ClusterState, node: str, job: JobId, task: int, instance: int
) -> ExpectedAttempt | None:
    record = cluster.jobs.get(job)
    if record is None or record.run is None or task > len(record.run.tasks):
        return None
    progress = record.run.tasks[task - 1]
    live = progress.live.get(instance)
    if live is None or live.placement[0][0] != node:
        return None
    after = tuple(waits_for(record.run, live)) if may_follow(record.run, live) else None
    return ExpectedAttempt(job, task, instance, live, progress.unstarted_among((instance,)), after)


Key = tuple[int, int, int, int]


class CatchUp(msgspec.Struct, frozen=True):
    """What to say to a node, and what to report on its behalf."""

    messages: tuple[FromHead, ...]
    reports: tuple[ReportStarted | ReportEnded, ...]


def suspend_or_continue(cluster: ClusterState, job: JobId) -> Suspend | Continue | None:
    """Return the message that suspends or continues the processes of a job; None if it does not run."""
    record = cluster.jobs.get(job)
    run = record.run if record is not None else None
    if record is None or run is None:
        return None
    if record.state is JobState.RUNNING or (run.suspension is not None and releases_nodes(cluster, job)):
        return Continue(job=job, deadline=deadline_of(record))
    if run.suspension is None or not record.state.is_active:
        return None
    return Suspend(job=job, number=run.suspension.number)


def deadline_of(record: JobRecord) -> Instant:
    """Return when the tasks of a job are ended where they run; what releases its nodes ends by itself."""
    if record.state is JobState.ENDING or record.run is None or record.run.deadline is None:
        return NEVER
    return record.run.deadline


def releases_nodes(cluster: ClusterState, job: JobId) -> bool:
    """Whether a job is ending and releases its nodes before it is over."""
    record, graph = cluster.jobs.get(job), cluster.graphs.get(job)
    if record is None or graph is None or graph.release is None:
        return False
    end = graph.run.end
    return record.state is JobState.ENDING and not (end is not None and end.skip_release)


def suspensions_to_repeat(cluster: ClusterState, node: str, holdings: Holdings) -> list[FromHead]:
    """Return messages that suspend jobs on a node, and continue others that the node still suspends."""
    messages: list[FromHead] = []
    for job in sorted(cluster.on_node(node)):
        message = suspend_or_continue(cluster, job)
        if isinstance(message, Suspend) or (message is not None and job in holdings.suspended):
            messages.append(message)
    return messages


def attempts_to_stop(cluster: ClusterState, node: str, holdings: Holdings) -> list[FromHead]:
    """Return what stops the attempts that the head no longer wants."""
    messages: list[FromHead] = []
    for live in holdings.live:
        known = _live_attempt(cluster, live)
        if known is None or known.placement[0][0] != node:
            attempt = (live.task, live.instance, live.attempt)
            messages.append(Stop(job=live.job, attempts=(attempt,), force=True))
    return messages


def _live_attempt(cluster: ClusterState, live: ReportedAttempt) -> LiveAttempt | None:
    record = cluster.jobs.get(live.job)
    if record is None or record.run is None or not 1 <= live.task <= len(record.run.tasks):
        return None
    known = record.run.tasks[live.task - 1].live.get(live.instance)
    return known if known is not None and known.attempt == live.attempt else None


def orders_to_repeat(
    node: str, expected: Iterable[ExpectedAttempt], holdings: Holdings, fresh: Collection[Key] = ()
) -> CatchUp:
    """Return what a node must hear again, and what to report on its behalf of the attempts it should have.

    An attempt that the head knows to have started and that the node has neither live nor ended is lost.
    One that is not known to have started never ran there, so it may be handed over again, unless a parent
    after which it comes did not succeed.  `fresh` are those
    handed over, or heard of, since the node was asked: the answer does not speak of them.
    """
    live = {(x.job, x.task, x.instance, x.attempt): x for x in holdings.live}
    ended = {(x.job, x.task, x.instance, x.attempt) for x in holdings.ended}
    runs: list[FromHead] = []
    stops: list[FromHead] = []
    begun: dict[JobId, list[e.InstanceStart]] = {}
    gone: dict[JobId, list[AttemptReport]] = {}
    for each in expected:
        attempt = each.live.attempt
        key = (each.job, each.task, each.instance, attempt)
        if key in live:
            since = live[key].since
            if since is not None and each.live.started is None:  # the start was not reported yet
                begun.setdefault(each.job, []).append(
                    e.InstanceStart(each.task, each.instance, attempt, since)
                )
            if each.live.state is TaskState.ENDING:
                stops.append(Stop(job=each.job, attempts=(key[1:],)))
        elif key in ended or key in fresh:
            continue
        elif each.live.state is TaskState.DISPATCHED and each.after is not None:
            runs.append(_handed_over_again(each, each.after))
        else:
            gone.setdefault(each.job, []).append(_lost_report(each))
    reports: list[ReportStarted | ReportEnded] = []
    reports += [ReportStarted(node=node, job=job, starts=tuple(these)) for job, these in begun.items()]
    reports += [ReportEnded(node=node, job=job, reports=tuple(these)) for job, these in gone.items()]
    return CatchUp(messages=(*runs, *stops), reports=tuple(reports))


def _handed_over_again(expected: ExpectedAttempt, after: tuple[AttemptOfTask, ...]) -> Run:
    return Run(
        job=expected.job,
        task=expected.task,
        placement=expected.live.placement,
        attempts=((expected.instance, expected.live.attempt),),
        unstarted=expected.unstarted,
        after=after,
    )


def _lost_report(expected: ExpectedAttempt) -> AttemptReport:
    started = expected.live.started
    never_ran = AttemptOutcome("never-ran")
    lost = AttemptOutcome("lost", started=started, message="the node no longer has the task")
    outcome = never_ran if started is None else lost
    return AttemptReport(expected.task, expected.instance, expected.live.attempt, outcome)


def health_check(cluster: ClusterState, node: str) -> CheckHealth:
    """Return the health check that a node should run; without a program while it is not approved."""
    settings, record = Settings(cluster.parameters), cluster.nodes.get(node)
    is_in = record is not None and record.state is not NodeState.PENDING
    program = settings.text("HealthCheckProgram") if is_in else ""
    return CheckHealth(program=program, interval=Seconds(settings.number("HealthCheckInterval")))


def unchecked(cluster: ClusterState, node: str) -> bool:
    """Return whether a health check has drained a node that runs none any more."""
    record = cluster.nodes.get(node)
    drained = record is not None and any(drain.cause == "health" for drain in record.drains)
    return drained and not health_check(cluster, node).program


def expected_digest(
    cluster: ClusterState, node: str, expected: Iterable[ExpectedAttempt], opened: Iterable[tuple[JobId, int]]
) -> bytes:
    """Return the digest of what a node has if no message was lost and none is on its way."""
    attempts: list[Piece] = [
        (each.job, each.task, each.instance, each.live.attempt, each.live.started is not None)
        for each in expected
    ]
    suspended = [
        job for job in cluster.on_node(node) if isinstance(suspend_or_continue(cluster, job), Suspend)
    ]
    check = health_check(cluster, node)
    return digest_of(attempts, opened, suspended, health_check_text(check.program, check.interval))


def awaits_report(cluster: ClusterState, node: str, expected: Iterable[ExpectedAttempt]) -> bool:
    """Return whether the head waits for a report of a node: the order or the report may be lost."""
    if any(each.live.state is TaskState.ENDING for each in expected):
        return True
    runs = (cluster.jobs[job].run for job in cluster.on_node(node))
    return any(
        run is not None
        and (node in run.cleaning or (run.suspension is not None and node in run.suspension.pending_nodes))
        for run in runs
    )
