"""Prologs, epilogs and node filters: what a site does on a node around a job, and what the head waits for."""

from msgspec.structs import replace

from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event, NodeDrained, SuspectJob
from headnode.core.state.job_events import (
    AllocationLost,
    AllocationShrunk,
    JobAutoRequeued,
    NodePrepared,
    NodesCleaning,
)
from headnode.core.state.job_record import JobRecord, JobRun, started_run
from headnode.core.state.node_faults import blame_for_prolog, in_doubt, is_held_for_prologs
from headnode.core.state.node_loss import is_too_small_without
from headnode.core.state.node_record import MAX_REASON, NodeRecord
from headnode.core.state.transitions import (
    Holding,
    JobState,
    NodePhase,
    job_target,
    set_phase,
    set_prolog_due,
)


class ReportReady(Command, frozen=True):
    """Node: the prolog of the job has ended there; its tasks may be dispatched."""

    node: str
    job: JobId


class ReportClosed(Command, frozen=True):
    """Node: no process of the job is left there, and its epilog has ended."""

    node: str
    job: JobId


class ReportHook(Command, frozen=True):
    """Node: the prolog or the epilog (`hook`) of the job failed there; `reason` describes it.

    of_node:  it was not even started there, so the job is not to blame
    """

    node: str
    job: JobId
    hook: str
    reason: str
    of_node: bool = False


PROLOG_TIMEOUT = 300
EPILOG_TIMEOUT = 300
NODE_FILTER_TIMEOUT = 60
"""How long each may take, in seconds, unless the parameters of these names say otherwise."""

MARGIN = 60.0
"""Seconds that a node has, beside the time its programs may take, to kill what a job left and to say so."""

_PROLOG, _EPILOG, _NODE_FILTERS = "PrologProgram", "EpilogProgram", "NodeFilterDirectory"
"""The parameters that name what nodes run before a job comes and after it has gone."""


def readies_nodes(cluster: ClusterState) -> bool:
    """Whether nodes do something before a job that comes to them may start anything there."""
    values = cluster.parameters
    return bool(values) and bool(values.get(_PROLOG) or values.get(_NODE_FILTERS))


def cleans_nodes(cluster: ClusterState) -> bool:
    """Whether nodes do something after a job has gone."""
    values = cluster.parameters
    return bool(values) and bool(values.get(_EPILOG) or values.get(_NODE_FILTERS))


def cleaning_time(cluster: ClusterState, *, unready: bool) -> Seconds:
    """Return how long a node may take until it must be clean; if it is `unready` a prolog must end first."""
    wanted = {"EpilogTimeout": EPILOG_TIMEOUT, "NodeFilterTimeout": NODE_FILTER_TIMEOUT}
    if unready:
        wanted["PrologTimeout"] = PROLOG_TIMEOUT
    return Seconds(
        MARGIN + sum(float(cluster.parameters.get(name, default)) for name, default in wanted.items())
    )


def prolog_ended(cluster: ClusterState, command: ReportReady, now: Instant) -> list[Event]:
    """Return that the node is ready for the job, or nothing if the job does not wait for that."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None or command.node not in record.run.unready:
        return []
    if not record.state.is_active:
        return []
    return [NodePrepared(at=now, job=record.id, node=command.node)]


def epilog_ended(cluster: ClusterState, command: ReportClosed, now: Instant) -> list[Event]:
    """A node says that nothing of a job is left there: what the job held of it is free."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None or command.node not in record.run.cleaning:
        return []
    return _given_back(record, record.run, (command.node,), now)


def hook_failed(cluster: ClusterState, command: ReportHook, now: Instant) -> list[Event]:
    """A hook failed: the node takes no new jobs, and a job for which it is not ready goes on without it.

    A job that needs the node goes back to the queue; that does not count as one of its returns.
    """
    if command.node not in cluster.nodes:
        return []
    record = cluster.jobs.get(command.job)
    if command.hook == "prolog" and not command.of_node and is_held_for_prologs(record):
        return []
    reason = f"the {command.hook} of job {command.job} failed: {command.reason}"
    of_job = command.hook == "prolog" and not command.of_node
    doubt = in_doubt(cluster, command.node, command.job, now) if of_job else None
    events = _drained(cluster, command.node, reason, now, doubt)
    if doubt is not None and (record is None or not record.state.is_active):  # else when it goes back
        doubts = {**cluster.suspects, command.node: doubt}
        events += blame_for_prolog(cluster, doubt.owner, command.reason, now, doubts)
    if command.hook != "prolog" or record is None or record.run is None:
        return events
    run = record.run
    if not record.state.is_active or command.node not in run.unready or command.node not in run.places:
        return events
    if cluster.graph(record.id).lanes_on(command.node):
        return events  # the node was started anew, and has not said what became of that; it says this again
    small = run.end is None and is_too_small_without(cluster, record, run, command.node)
    lost = AllocationLost(
        at=now,
        job=record.id,
        removed=((command.node, run.places[command.node]),),
        too_small=small,
        message=f"node {command.node} could not be made ready: {command.reason}",
        uncounted=True,
    )
    return [*events, lost]


def _drained(
    cluster: ClusterState, node: str, reason: str, now: Instant, doubt: SuspectJob | None = None
) -> list[Event]:
    reason = reason[:MAX_REASON]
    if any(drain.cause == "hook" and drain.reason == reason for drain in cluster.nodes[node].drains):
        return []
    return [NodeDrained(at=now, node=node, closes=now, cause="hook", reason=reason, suspect=doubt)]


def cleaned_first(cluster: ClusterState, record: JobRecord, events: list[Event]) -> list[Event]:
    """Return what gives processors back; whole nodes are cleaned before.

    A job that would go back to the queue with its last processors starts nothing more until they are.
    """
    graph = cluster.graph(record.id)
    if not events or not (graph.run.cleaning or cleans_nodes(cluster)):
        return events
    found: list[Event] = []
    for event in events:
        if isinstance(event, JobAutoRequeued):
            found.append(
                AllocationLost(
                    at=event.at,
                    job=record.id,
                    removed=(),
                    too_small=True,
                    message=event.message,
                    uncounted=True,
                )
            )
            continue
        if not isinstance(event, AllocationShrunk):
            found.append(event)
            continue
        held = graph.run.allocation
        whole = tuple(node for node, numbers in event.removed if len(numbers) == len(held[node]))
        rest = tuple(share for share in event.removed if share[0] not in whole)
        fresh = tuple(node for node in whole if node not in graph.run.cleaning)
        if rest:
            found.append(AllocationShrunk(at=event.at, job=record.id, removed=rest, message=event.message))
        if fresh:
            found.append(_begin(cluster, record, graph.run, fresh, event.at, event.message))
    return found


def start_epilogs(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event] | None:
    """Return what lets the nodes of a job be cleaned of which nothing runs any more.

    None: they are clean, and it may end or go back to the queue.
    """
    run = cluster.graph(record.id).run
    held = run.allocation
    if not held or not (run.cleaning or cleans_nodes(cluster)):
        return None
    fresh = tuple(node for node in held if node not in run.cleaning)
    if fresh and cleans_nodes(cluster):
        return [_begin(cluster, record, run, fresh, now), *overdue_epilogs(cluster, record, now)]
    if not any(node in run.cleaning for node in held):
        return None
    return overdue_epilogs(cluster, record, now)


def _begin(
    cluster: ClusterState,
    record: JobRecord,
    run: JobRun,
    nodes: tuple[str, ...],
    now: Instant,
    message: str = "",
) -> NodesCleaning:
    unready = any(node in run.unready for node in nodes)
    until = Instant(now + cleaning_time(cluster, unready=unready))
    return NodesCleaning(at=now, job=record.id, nodes=nodes, until=until, message=message)


def overdue_epilogs(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """Return what gives nodes back that should have been cleaned long ago; they take no new jobs."""
    run = cluster.graph(record.id).run
    late = tuple(node for node, until in run.cleaning.items() if until <= now and node in run.places)
    events: list[Event] = []
    for node in late:
        if node in cluster.nodes:
            reason = (
                f"the epilog of job {record.id} has not ended: the node has not reported that it is clean"
            )
            events += _drained(cluster, node, reason, now)
    return [*events, *_given_back(record, run, late, now)]


def _given_back(record: JobRecord, run: JobRun, nodes: tuple[str, ...], now: Instant) -> list[Event]:
    removed = tuple((node, run.places[node]) for node in nodes if node in run.places)
    if not removed:
        return []
    if record.state in (JobState.RUNNING, JobState.ENDING) and not record.is_detached:
        return [AllocationShrunk(at=now, job=record.id, removed=removed)]
    if record.state.is_active:  # what is suspended has nothing that could shrink
        return [AllocationLost(at=now, job=record.id, removed=removed, message="the job released the node")]
    return []


def wait_for_prologs(run: JobRun, readied: bool) -> None:
    """A job comes to its nodes; `readied`: they must say that they are ready for it."""
    run.prolog = readied
    run.holdings = {node: Holding(prolog_due=True) for node in run.allocation} if readied else {}


def start_anew(run: JobRun, node: str) -> None:
    """A node was started anew: it must make itself ready once more for what is to come."""
    if run.prolog and node in run.places:
        set_prolog_due(run.holdings, node, due=True)


def readied(cluster: ClusterState, event: e.NodePrepared) -> None:
    """A node is ready."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = started_run(record)
    set_prolog_due(run.holdings, event.node, due=False)
    cluster.ready_prologs.ended(record.owner, event.at)
    if event.node in cluster.nodes:
        cluster.nodes[event.node].suspect = None
    for node in [node for node, doubt in cluster.suspects.items() if doubt.job == event.job]:
        _blame_node(cluster, cluster.nodes[node])  # the same job was made ready elsewhere
    cluster.agenda.dirty_jobs.add(event.job)


def _blame_node(cluster: ClusterState, node: NodeRecord) -> None:
    node.drains = tuple(replace(drain, suspect=None) for drain in node.drains)
    cluster.update_doubts(node)


def cleaning(cluster: ClusterState, event: e.NodesCleaning) -> None:
    """Nodes are being cleaned."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = started_run(record)
    for node in event.nodes:
        set_phase(run.holdings, node, event, NodePhase.CLEANING, event.until)
        cluster.agenda.wake_ups.set((event.job, node), event.until)
    cluster.agenda.dirty_jobs.add(event.job)
