"""Which nodes drain, and what jobs give up of a node that is taken out of service."""

from msgspec.structs import replace

from headnode.core.model.errors import BadRequest
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import NEVER, Instant
from headnode.core.model.task import SPECIAL
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state import job_events as job_events_e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptReport, Command
from headnode.core.state.events import Event
from headnode.core.state.hooks import cleaned_first
from headnode.core.state.job_record import JobRecord, LiveAttempt
from headnode.core.state.node_loss import LOST, goes_on_with
from headnode.core.state.node_record import MAX_REASON, Drain, NodeRecord
from headnode.core.state.permissions import must_administer
from headnode.core.state.prep_release import released_first
from headnode.core.state.report import ReportEnded, ended
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.task_placement import uses_from
from headnode.core.state.transitions import SUSPENDED_STATES, TaskState


class DrainNode(Command, frozen=True):
    """Drain a node: it starts nothing that may still run at `closes`; None: nothing from now on."""

    by: User
    node: str
    closes: Instant | None = None
    reason: str = ""
    force: bool = False  # at once, and what runs there is stopped


class ReportHealth(Command, frozen=True):
    """Node: the result of its health check; `reason` if it is not `well`."""

    node: str
    well: bool
    reason: str = ""


class ReportNonsense(Command, frozen=True):
    """Head: the node has reported something impossible; `reason` describes it."""

    node: str
    reason: str


def drain(cluster: ClusterState, command: DrainNode, now: Instant) -> list[Event]:
    """Close a node, now or later; saying it twice changes nothing.

    Raises:  NotAllowed; NotFound ``no-such-node``; BadRequest ``drain-reason`` or ``drain-date``.
    """
    must_administer(command.by, "drain nodes")
    known = cluster.node(command.node)
    _check_drain(command, now)
    before = _of("request", known)
    force = command.force or (before is not None and before.force)
    closes = now if command.closes is None else command.closes
    if before is not None and command.closes is None:
        closes = min(before.closes, now)  # it may be closed already
    details = (closes, command.reason, force)
    if before is not None and (before.closes, before.reason, before.force) == details:
        return []
    drained = e.NodeDrained(
        at=now, node=command.node, closes=closes, reason=command.reason, by=command.by.name, force=force
    )
    if not command.force:
        return [drained]
    why = f"node {command.node} was taken offline by {command.by.name}"
    message = f"{why}: {command.reason}" if command.reason else why
    return [drained, *vacate_node(cluster, command.node, 0, message, now, force=True)]


def _check_drain(command: DrainNode, now: Instant) -> None:
    """Refuse a reason that is too long, a date in the past, and force at a date."""
    if len(command.reason) > MAX_REASON:
        raise BadRequest(
            code="drain-reason",
            what=f"the reason has {len(command.reason)} characters",
            fix=f"use up to {MAX_REASON}",
        )
    if command.closes is not None and not now < command.closes < NEVER:
        raise BadRequest(
            code="drain-date",
            what="the date of the drain is in the past",
            fix="choose a date in the future, or leave it out to drain the node now",
        )
    if command.force and command.closes is not None:
        raise BadRequest(
            code="drain-date",
            what="--force and --at cannot be used together",
            fix="leave out --at to kill the tasks now, or --force to drain the node at that date",
        )


def health(cluster: ClusterState, command: ReportHealth, now: Instant) -> list[Event]:
    """Close a node that is not well, and open it again when it is, if nothing else closes it."""
    known = cluster.nodes.get(command.node)
    before = None if known is None else _of("health", known)
    if known is None or (command.well and before is None):
        return []
    if command.well:
        return [e.NodeDrainLifted(at=now, node=command.node, cause="health")]
    reason = command.reason[:MAX_REASON]
    if before is not None and before.reason == reason:
        return []
    closes = now if before is None else before.closes
    return [e.NodeDrained(at=now, node=command.node, closes=closes, cause="health", reason=reason)]


def nonsense(cluster: ClusterState, command: ReportNonsense, now: Instant) -> list[Event]:
    """Close a node that says what cannot be, until an administrator resumes it."""
    known = cluster.nodes.get(command.node)
    if known is None or _of("bad-report", known) is not None:
        return []
    reason = f"it sent an invalid report: {command.reason}"[:MAX_REASON]
    return [e.NodeDrained(at=now, node=command.node, closes=now, cause="bad-report", reason=reason)]


def lift_drains(node: NodeRecord, by: User, now: Instant) -> list[Event]:
    """Return the events that lift all drains of a node, whatever their cause."""
    return [
        e.NodeDrainLifted(at=now, node=node.facts.name, cause=each.cause, by=by.name) for each in node.drains
    ]


def _of(cause: e.DrainCause, node: NodeRecord) -> Drain | None:
    return next((each for each in node.drains if each.cause == cause), None)


def vacate_node(
    cluster: ClusterState, node: str, usable: int, message: str, now: Instant, *, force: bool = False
) -> list[Event]:
    """Stop what uses processors of a node with numbers of `usable` or more; with `force` all of it.

    What a suspended job has there cannot go on elsewhere, nor a gang without a part of it: by force they are
    sent back to the queue as a whole.
    """
    events: list[Event] = []
    away = force and cluster.nodes[node].state in LOST
    for job in sorted(cluster.on_node(node)):
        record = cluster.jobs[job]
        if job not in cluster.graphs or record.run is None:
            continue
        events += _skipped_release(record, cluster.graph(job), node, now) if force else []
        if not record.state.is_active:
            continue
        over = _lost_for_good(cluster, record, node, message, now) if away else []
        events += over
        if any(isinstance(event, job_events_e.JobEnding) for event in over):
            continue
        graph, gang = cluster.graph(job), cluster.started_request(record).together and record.run.end is None
        if force and (gang or record.state in SUSPENDED_STATES):
            events += _but_for(over, sent_back(record, graph, message, now))
        elif record.state not in SUSPENDED_STATES:
            events += _but_for(over, _stops(record, graph, node, usable, message, now, force=force))
    return events


def _skipped_release(record: JobRecord, graph: TaskGraph, node: str, now: Instant) -> list[Event]:
    """Return events that end the grace of attempts already stopping on a node; their outcome stays."""
    events: list[Event] = []
    for index, progress in enumerate(graph.run.tasks):
        for instance, live in sorted(progress.live.items()):
            if live.outcome is None or not any(name == node for name, _ in live.placement):
                continue
            events.append(
                job_events_e.InstancesStopping(
                    at=now,
                    job=record.id,
                    task=index + 1,
                    instances=(instance,),
                    outcome=live.outcome,
                    message=live.message,
                    cause=live.cause,
                    force=True,
                )
            )
    return events


def _lost_for_good(
    cluster: ClusterState, record: JobRecord, node: str, message: str, now: Instant
) -> list[Event]:
    """End what may not run twice on a node that is away: nothing of it needs to be heard any more.

    The rest may run elsewhere only when it surely stands still, and waits until the node is given up.
    """
    graph = cluster.graph(record.id)
    outcome = AttemptOutcome("lost", ended=now, message=message)
    reports = tuple(
        AttemptReport(index + 1, instance, live.attempt, outcome)
        for index, progress in enumerate(graph.run.tasks)
        for instance, live in sorted(progress.live.items())
        if live.placement[0][0] == node and not graph.spec.tasks[index].rerunnable
        if graph.spec.tasks[index].kind not in SPECIAL
    )
    return ended(cluster, ReportEnded(node=node, job=record.id, reports=reports), now) if reports else []


def _but_for(over: list[Event], stops: list[Event]) -> list[Event]:
    """Return what stops instances, without those that are over by the other events."""
    gone = {
        (how.task, how.instance)
        for event in over
        if isinstance(event, job_events_e.InstancesEnded)
        for how in event.ended
    }
    events: list[Event] = []
    for event in stops:
        if gone and isinstance(event, job_events_e.InstancesStopping):
            left = tuple(n for n in event.instances if (event.task, n) not in gone)
            events += [replace(event, instances=left)] if left else []
        else:
            events.append(event)
    return events


def sent_back(record: JobRecord, graph: TaskGraph, message: str, now: Instant) -> list[Event]:
    """Stop all that a job has and queue it again; what may not run twice fails."""
    stops = [
        stop
        for index, progress in enumerate(graph.run.tasks)
        for stop in _stop(record, graph, index, progress.live, message, now, force=True)
    ]
    lost = job_events_e.AllocationLost(
        at=now, job=record.id, removed=(), too_small=True, message=message, uncounted=True
    )
    return [*stops, lost]


def _stops(
    record: JobRecord, graph: TaskGraph, node: str, usable: int, message: str, now: Instant, *, force: bool
) -> list[Event]:
    events: list[Event] = []
    for index, progress in enumerate(graph.run.tasks):
        task = graph.spec.tasks[index]
        if task.kind not in SPECIAL and (force or task.rerunnable):
            there = {n: live for n, live in progress.live.items() if uses_from(live.placement, node, usable)}
            events += _stop(record, graph, index, there, message, now, force=force)
    return events


def _stop(
    record: JobRecord,
    graph: TaskGraph,
    index: int,
    live: dict[int, LiveAttempt],
    message: str,
    now: Instant,
    *,
    force: bool,
) -> list[Event]:
    fresh = tuple(sorted(n for n, each in live.items() if each.state is not TaskState.ENDING))
    if not fresh:
        return []
    again = graph.spec.tasks[index].rerunnable and graph.spec.tasks[index].kind not in SPECIAL
    return [
        job_events_e.InstancesStopping(
            at=now,
            job=record.id,
            task=index + 1,
            instances=fresh,
            outcome="canceled" if again else "failed",
            message=message,
            cause="preempted" if again else "system",
            force=force,
        )
    ]


def leave_nodes(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """Return events that release idle processors out of service; whole nodes are released first.

    A job that runs elsewhere goes on there, also with less than its minimum, and grows as others do.  Where
    it cannot, it starts nothing more, and goes back to the queue when what runs has ended.
    """
    graph = cluster.graph(record.id)
    if not graph.run.allocation.keys() & cluster.cores.reduced:
        return []
    idle, kept = [], {}
    for node, held in graph.run.allocation.items():
        usable = cluster.cores.usable(node)
        gone = tuple(number for number in graph.free[node] if number >= usable)
        if gone:
            idle.append((node, gone))
        kept[node] = tuple(number for number in held if number < usable)
    if not idle:
        return []
    message = "nodes were taken out of service" if len(idle) > 1 else f"{idle[0][0]} is out of service"
    shrunk = job_events_e.AllocationShrunk(at=now, job=record.id, removed=tuple(idle), message=message)
    given = cleaned_first(cluster, record, released_first(record, [shrunk], graph))
    if graph.run.end is not None or goes_on_with(cluster, record, kept):
        return given
    lost = job_events_e.AllocationLost(
        at=now, job=record.id, removed=(), too_small=True, message=message, uncounted=True
    )
    return [lost, *given]
