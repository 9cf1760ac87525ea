"""Decide what jobs give up of a node that is taken out of service by force, or has come back smaller.

What runs on processors that are out of service is stopped and runs again elsewhere if it may run twice.  Else
it fails where an administrator asked for that, and goes on where the node has only fewer processors than
before.  What is idle is given back at once, whatever else the job runs.  By force nothing has grace.

Source: HPC Pack, node offline with ``/force``: running jobs are canceled.
"""

from msgspec.structs import replace

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_losses import LOST, goes_on_with
from headnode.core.lifecycle.deciding_reports import ended
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.hooks import cleaned_first
from headnode.core.lifecycle.records import JobRecord, LiveInstance
from headnode.core.lifecycle.room import uses_from
from headnode.core.lifecycle.states import STANDING_STILL, TaskState
from headnode.core.lifecycle.stays import released_first
from headnode.core.model.quantities import Instant
from headnode.core.model.task import SPECIAL


def vacated(
    cluster: Cluster, node: str, usable: int, message: str, now: Instant, *, force: bool = False
) -> list[Event]:
    """Stop what uses processors of a node with numbers of `usable` or more; with `force` all of it.

    What a suspended job has there cannot go on elsewhere, nor a gang without a part of it: by force they are
    sent back to the queue as a whole.
    """
    found: list[Event] = []
    away = force and cluster.nodes[node].state in LOST
    for job in sorted(cluster.on_node(node)):
        record = cluster.jobs[job]
        if job not in cluster.flows or record.run is None:
            continue
        found += _hurried(record, cluster.flow(job), node, now) if force else []
        if not record.state.is_active:
            continue
        over = _lost_for_good(cluster, record, node, message, now) if away else []
        found += over
        if any(isinstance(event, e.JobEnding) for event in over):
            continue
        flow, gang = cluster.flow(job), cluster.given(record).together and record.run.outcome is None
        if force and (gang or record.state in STANDING_STILL):
            found += _but_for(over, sent_back(record, flow, message, now))
        elif record.state not in STANDING_STILL:
            found += _but_for(over, _stops(record, flow, node, usable, message, now, force=force))
    return found


def _hurried(record: JobRecord, flow: Flow, node: str, now: Instant) -> list[Event]:
    """Let what is being stopped on a node already have no grace any more; it ends as it was to."""
    found: list[Event] = []
    for index, progress in enumerate(flow.run.tasks):
        for instance, live in sorted(progress.live.items()):
            if live.outcome is None or not any(name == node for name, _ in live.place):
                continue
            found.append(
                e.InstancesStopping(
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
    return found


def _lost_for_good(cluster: Cluster, record: JobRecord, node: str, message: str, now: Instant) -> list[Event]:
    """End what may not run twice on a node that is away: nothing of it needs to be heard any more.

    The rest may run elsewhere only when it surely stands still, and waits until the node is given up.
    """
    flow = cluster.flow(record.id)
    reports = tuple(
        c.Report(index + 1, instance, live.attempt, "lost", ended=now, message=message)
        for index, progress in enumerate(flow.run.tasks)
        for instance, live in sorted(progress.live.items())
        if live.place[0][0] == node and not flow.spec.tasks[index].rerunnable
        if flow.spec.tasks[index].kind not in SPECIAL
    )
    return ended(cluster, c.ReportEnded(node=node, job=record.id, reports=reports), now) if reports else []


def _but_for(over: list[Event], stops: list[Event]) -> list[Event]:
    """Return what stops instances, without those that are over by the other events."""
    gone = {
        (how.task, how.instance)
        for event in over
        if isinstance(event, e.InstancesEnded)
        for how in event.ended
    }
    found: list[Event] = []
    for event in stops:
        if gone and isinstance(event, e.InstancesStopping):
            left = tuple(n for n in event.instances if (event.task, n) not in gone)
            found += [replace(event, instances=left)] if left else []
        else:
            found.append(event)
    return found


def sent_back(record: JobRecord, flow: Flow, message: str, now: Instant) -> list[Event]:
    """Stop all that a job has and queue it again; what may not run twice fails."""
    stops = [
        stop
        for index, progress in enumerate(flow.run.tasks)
        for stop in _stop(record, flow, index, progress.live, message, now, force=True)
    ]
    lost = e.AllocationLost(at=now, job=record.id, removed=(), too_small=True, message=message, forgiven=True)
    return [*stops, lost]


def _stops(
    record: JobRecord, flow: Flow, node: str, usable: int, message: str, now: Instant, *, force: bool
) -> list[Event]:
    found: list[Event] = []
    for index, progress in enumerate(flow.run.tasks):
        task = flow.spec.tasks[index]
        if task.kind not in SPECIAL and (force or task.rerunnable):
            there = {n: live for n, live in progress.live.items() if uses_from(live.place, node, usable)}
            found += _stop(record, flow, index, there, message, now, force=force)
    return found


def _stop(
    record: JobRecord,
    flow: Flow,
    index: int,
    live: dict[int, LiveInstance],
    message: str,
    now: Instant,
    *,
    force: bool,
) -> list[Event]:
    fresh = tuple(sorted(n for n, each in live.items() if each.state is not TaskState.ENDING))
    if not fresh:
        return []
    again = flow.spec.tasks[index].rerunnable and flow.spec.tasks[index].kind not in SPECIAL
    return [
        e.InstancesStopping(
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


def leaves(cluster: Cluster, record: JobRecord, now: Instant) -> list[Event]:
    """Return what gives back processors that are out of service and idle; whole nodes are released first.

    A job that runs elsewhere goes on there, also with less than its minimum, and grows as others do.  Where
    it cannot, it starts nothing more, and goes back to the queue when what runs has ended.
    """
    flow = cluster.flow(record.id)
    if not flow.run.allocation.keys() & cluster.reduced:
        return []
    idle, kept = [], {}
    for node, held in flow.run.allocation.items():
        usable = cluster.usable(node)
        gone = tuple(number for number in flow.free[node] if number >= usable)
        if gone:
            idle.append((node, gone))
        kept[node] = tuple(number for number in held if number < usable)
    if not idle:
        return []
    message = "nodes were taken out of service" if len(idle) > 1 else f"{idle[0][0]} is out of service"
    shrunk = e.AllocationShrunk(at=now, job=record.id, removed=tuple(idle), message=message)
    given = cleaned_first(cluster, record, released_first(record, [shrunk], flow))
    if flow.run.outcome is not None or goes_on_with(cluster, record, kept):
        return given
    lost = e.AllocationLost(at=now, job=record.id, removed=(), too_small=True, message=message, forgiven=True)
    return [lost, *given]
