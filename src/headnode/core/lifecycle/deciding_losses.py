"""Decide what becomes of jobs on a node that is given up.

Source: HPC Pack, node loss: tasks there run again if they may run twice and fail if not; a job that has less
than its minimum left goes back to the queue.
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.allocating import held_units
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_reports import ended
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.records import JobRecord, LiveInstance, Run
from headnode.core.lifecycle.states import JobState
from headnode.core.lifecycle.units import units_in
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant

LOST = (NodeState.UNREACHABLE, NodeState.LOST_PAUSED)


def give_up_node(cluster: Cluster, command: c.GiveUpNode, now: Instant) -> list[Event]:
    """What ran on a node that does not come back is lost, and its jobs go on without it.

    A node that can be reached after all is not given up: it will say itself what it has.
    """
    known = cluster.nodes.get(command.node)
    if known is None or known.state not in LOST:
        return []
    events: list[Event] = []
    for job in sorted(cluster.holders.get(command.node, ())):
        record = cluster.jobs[job]
        if record.run is not None and job in cluster.flows:
            events += _give_up(cluster, record, record.run, command.node, now)
    return events


def _give_up(cluster: Cluster, record: JobRecord, run: Run, node: str, now: Instant) -> list[Event]:
    over = ended(cluster, c.ReportEnded(node=node, job=record.id, reports=_lost(run, node, now)), now)
    if record.state is JobState.ENDING or any(isinstance(event, e.JobEnding) for event in over):
        return over
    return [*over, *_stop_elsewhere(record, run, node, now), *_lose(cluster, record, run, node, now)]


def _lost(run: Run, node: str, now: Instant) -> tuple[c.Report, ...]:
    return tuple(
        c.Report(
            task=index + 1,
            instance=instance,
            attempt=live.attempt,
            kind="lost",
            ended=now,
            message=f"node {node} was lost",
        )
        for index, progress in enumerate(run.tasks)
        for instance, live in sorted(progress.live.items())
        if live.place[0][0] == node
    )


def _stop_elsewhere(record: JobRecord, run: Run, node: str, now: Instant) -> list[Event]:
    """Parallel instances that only reach into the node still run on another, and must be stopped there."""
    found: list[Event] = []
    for index, progress in enumerate(run.tasks):
        reaching = tuple(n for n, live in sorted(progress.live.items()) if _reaches(live, node))
        fresh = tuple(n for n in reaching if progress.live[n].outcome is None)
        if fresh:
            found.append(
                e.InstancesStopping(
                    at=now,
                    job=record.id,
                    task=index + 1,
                    instances=fresh,
                    outcome="failed",
                    message=f"node {node} was lost",
                    cause="system",
                )
            )
    return found


def _reaches(live: LiveInstance, node: str) -> bool:
    return live.place[0][0] != node and any(name == node for name, _ in live.place)


def _lose(cluster: Cluster, record: JobRecord, run: Run, node: str, now: Instant) -> list[Event]:
    """Take the node out of the allocation, but for what instances that are being stopped still use."""
    used = {
        number
        for progress in run.tasks
        for live in progress.live.values()
        if _reaches(live, node)
        for name, numbers in live.place
        if name == node
        for number in numbers
    }
    gone = tuple(number for number in run.allocation[node] if number not in used)
    small = run.outcome is None and _is_too_small(cluster, record, run, node)
    if not gone and not small:
        return []
    return [
        e.AllocationLost(
            at=now,
            job=record.id,
            removed=((node, gone),) if gone else (),
            too_small=small,
            message=f"node {node} was lost" if small else "",
        )
    ]


def _is_too_small(cluster: Cluster, record: JobRecord, run: Run, node: str) -> bool:
    request = cluster.request(record)
    there = units_in(request.unit, len(run.allocation[node]), cluster.nodes[node].facts)
    required = {name.lower() for name in request.required_nodes}
    return node.lower() in required or held_units(cluster, record) - there < request.minimum
