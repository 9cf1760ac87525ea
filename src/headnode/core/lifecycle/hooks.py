"""What a site does on a node before a job comes there and after it has gone: prologs, epilogs, node filters.

Nothing of a job is dispatched to a node before its prolog has ended there, and what it holds of a node is
given back when its epilog has, or should have.  Preparing and releasing by tasks of the job is in `stays`.
Source: Slurm, "Prolog and Epilog Guide"; HPC Pack, execution filters of the Linux node manager.
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_losses import is_too_small_without
from headnode.core.lifecycle.events import Doubt, Event
from headnode.core.lifecycle.failed_prologs import blamed, in_doubt, is_held_for_prologs
from headnode.core.lifecycle.hook_settings import cleaning_time, cleans_nodes
from headnode.core.lifecycle.records import LONGEST_REASON, JobRecord, Run
from headnode.core.lifecycle.states import JobState
from headnode.core.model.quantities import Instant


def ready(cluster: Cluster, command: c.ReportReady, now: Instant) -> list[Event]:
    """A node says that tasks of a job may come; whoever did not wait for that has heard it before."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None or command.node not in record.run.unready:
        return []
    if not record.state.is_active:
        return []
    return [e.NodeReadied(at=now, job=record.id, node=command.node)]


def cleaned(cluster: Cluster, command: c.ReportClosed, now: Instant) -> list[Event]:
    """A node says that nothing of a job is left there: what the job held of it is free."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None or command.node not in record.run.cleaning:
        return []
    return _given_back(record, record.run, (command.node,), now)


def failed(cluster: Cluster, command: c.ReportHook, now: Instant) -> list[Event]:
    """A hook failed: the node takes no new jobs, and a job for which it is not ready goes on without it.

    A job that needs the node goes back to the queue; that does not count as one of its returns.  The same
    becomes of a job whose node has an agent that knows no prolog: that closes the node by itself.
    """
    if command.node not in cluster.nodes:
        return []
    record = cluster.jobs.get(command.job)
    if command.hook == "prolog" and not command.of_node and is_held_for_prologs(record):
        return []
    events: list[Event] = []
    if command.hook != c.OLD_AGENT:
        reason = f"the {command.hook} of job {command.job} failed: {command.said}"
        of_job = command.hook == "prolog" and not command.of_node
        doubt = in_doubt(cluster, command.node, command.job, now) if of_job else None
        events = _drained(cluster, command.node, reason, now, doubt)
        if doubt is not None and (record is None or not record.state.is_active):  # else when it goes back
            doubts = {**cluster.doubts, command.node: doubt}
            events += blamed(cluster, doubt.owner, command.said, now, doubts)
    if command.hook not in ("prolog", c.OLD_AGENT) or record is None or record.run is None:
        return events
    run = record.run
    if not record.state.is_active or command.node not in run.unready or command.node not in run.places:
        return events
    if cluster.flow(record.id).lanes_on(command.node):
        return events  # the node was started anew, and has not said what became of that; it says this again
    small = run.outcome is None and is_too_small_without(cluster, record, run, command.node)
    lost = e.AllocationLost(
        at=now,
        job=record.id,
        removed=((command.node, run.places[command.node]),),
        too_small=small,
        message=f"node {command.node} could not be made ready: {command.said}",
        forgiven=True,
    )
    return [*events, lost]


def _drained(
    cluster: Cluster, node: str, reason: str, now: Instant, doubt: Doubt | None = None
) -> list[Event]:
    reason = reason[:LONGEST_REASON]
    if any(drain.cause == "hook" and drain.reason == reason for drain in cluster.nodes[node].drains):
        return []
    return [e.NodeDrained(at=now, node=node, closes=now, cause="hook", reason=reason, doubt=doubt)]


def cleaned_first(cluster: Cluster, record: JobRecord, given: list[Event]) -> list[Event]:
    """Return what gives processors back; whole nodes are cleaned before.

    A job that would go back to the queue with its last processors starts nothing more until they are.
    """
    flow = cluster.flow(record.id)
    if not given or not (flow.run.cleaning or cleans_nodes(cluster)):
        return given
    found: list[Event] = []
    for event in given:
        if isinstance(event, e.JobReturned):
            found.append(
                e.AllocationLost(
                    at=event.at,
                    job=record.id,
                    removed=(),
                    too_small=True,
                    message=event.message,
                    forgiven=True,
                )
            )
            continue
        if not isinstance(event, e.AllocationShrunk):
            found.append(event)
            continue
        held = flow.run.allocation
        whole = tuple(node for node, numbers in event.removed if len(numbers) == len(held[node]))
        rest = tuple(share for share in event.removed if share[0] not in whole)
        fresh = tuple(node for node in whole if node not in flow.run.cleaning)
        if rest:
            found.append(e.AllocationShrunk(at=event.at, job=record.id, removed=rest, message=event.message))
        if fresh:
            found.append(_begin(cluster, record, flow.run, fresh, event.at, event.message))
    return found


def see_off(cluster: Cluster, record: JobRecord, now: Instant) -> list[Event] | None:
    """Return what lets the nodes of a job be cleaned of which nothing runs any more.

    None: they are clean, and it may end or go back to the queue.
    """
    run = cluster.flow(record.id).run
    held = run.allocation
    if not held or not (run.cleaning or cleans_nodes(cluster)):
        return None
    fresh = tuple(node for node in held if node not in run.cleaning)
    if fresh and cleans_nodes(cluster):
        return [_begin(cluster, record, run, fresh, now), *overdue(cluster, record, now)]
    if not any(node in run.cleaning for node in held):
        return None
    return overdue(cluster, record, now)


def _begin(
    cluster: Cluster, record: JobRecord, run: Run, nodes: tuple[str, ...], now: Instant, message: str = ""
) -> e.NodesCleaning:
    unready = any(node in run.unready for node in nodes)
    until = Instant(now + cleaning_time(cluster, unready=unready))
    return e.NodesCleaning(at=now, job=record.id, nodes=nodes, until=until, message=message)


def overdue(cluster: Cluster, record: JobRecord, now: Instant) -> list[Event]:
    """Return what gives nodes back that should have been cleaned long ago; they take no new jobs."""
    run = cluster.flow(record.id).run
    late = tuple(node for node, until in run.cleaning.items() if until <= now and node in run.places)
    events: list[Event] = []
    for node in late:
        if node in cluster.nodes:
            reason = (
                f"the epilog of job {record.id} has not ended: the node has not reported that it is clean"
            )
            events += _drained(cluster, node, reason, now)
    return [*events, *_given_back(record, run, late, now)]


def _given_back(record: JobRecord, run: Run, nodes: tuple[str, ...], now: Instant) -> list[Event]:
    removed = tuple((node, run.places[node]) for node in nodes if node in run.places)
    if not removed:
        return []
    if record.state in (JobState.RUNNING, JobState.ENDING) and not record.is_aside:
        return [e.AllocationShrunk(at=now, job=record.id, removed=removed)]
    if record.state.is_active:  # what is suspended has nothing that could shrink
        return [e.AllocationLost(at=now, job=record.id, removed=removed, message="the job released the node")]
    return []
