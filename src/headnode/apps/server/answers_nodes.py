"""Nodes and the cluster as clients see them.  The shapes are those of the local protocol."""

from typing import Any

from headnode.core.lifecycle.allocating import exclusive_holder
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import Drain, NodeRecord
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant

_SAY = {
    NodeState.PENDING: "Pending",
    NodeState.READY: "Ready",
    NodeState.PAUSED: "Paused",
    NodeState.UNREACHABLE: "Unreachable",
    NodeState.LOST_PAUSED: "Unreachable",
}


NODE_WORDS = ("Pending", "Ready", "Paused", "Draining", "Drained", "Unreachable")
"""Every state of a node that people see.  One that drains is Drained once no job has anything of it."""


def node_state(cluster: Cluster, node: NodeRecord, now: Instant) -> str:
    """Return the word people see."""
    if node.state not in (NodeState.READY, NodeState.PAUSED) or node.closes > now:
        return _SAY[node.state]
    return "Draining" if cluster.on_node(node.facts.name) else "Drained"


def node_object(cluster: Cluster, node: NodeRecord, now: Instant) -> dict[str, Any]:
    """Return a node as lists show it."""
    facts, name = node.facts, node.facts.name
    free = len(cluster.free_on(name))
    overdrawn = cluster.overdrawn(name)
    owner = exclusive_holder(cluster, name)
    return {
        "name": name,
        "state": node_state(cluster, node, now),
        "since": node.since,
        "processors": facts.processors,
        "sockets": facts.sockets,
        "memory": facts.memory,
        "speed": facts.speed,
        "disk": facts.disk,
        "swap": facts.swap,
        "serves": facts.serves,
        "used": facts.processors - free,
        "free": free,
        "jobs": len(cluster.holders.get(name, ())),
        "groups": list(facts.groups),
        "features": list(facts.features),
        "architecture": facts.architecture,
        "system": facts.system,
        "control_groups": facts.control_groups,
        "enforced": list(facts.enforced),
        "machine_processors": list(facts.machine_processors),
        "exclusive": owner,
        "comment": node.comment,
        "remote": bool(node.key),
        "version": facts.version,
        "address": facts.address,
        "reservations": [
            {"name": each.name, "begins": each.begins, "ends": each.ends, "says": each.says()}
            for each in cluster.bookings.on.get(name, ())
            if each.ends > now
        ],
        "oversubscribed": [{"job": job, "processors": count} for job, count in overdrawn.items()],
        "drains": [_drain(drain) for drain in sorted(node.drains, key=lambda drain: drain.closes)],
    }


def _drain(drain: Drain) -> dict[str, Any]:
    return {
        "closes": drain.closes,
        "since": drain.since,
        "cause": drain.cause,
        "reason": drain.reason,
        "by": drain.by,
        "force": drain.force,
    }


def detailed_node(cluster: Cluster, node: NodeRecord, now: Instant) -> dict[str, Any]:
    """Return a node with its jobs and what runs on each processor."""
    name = node.facts.name
    jobs = sorted(cluster.holders.get(name, ()))
    cores = _cores(cluster, name, node.facts.processors)
    return node_object(cluster, node, now) | {"jobs": jobs, "cores": cores}


def _cores(cluster: Cluster, name: str, processors: int) -> list[dict[str, Any]]:
    held = [max(cluster.flow(job).run.allocation.get(name) or (0,)) for job in cluster.holders.get(name, ())]
    most = max([processors - 1, *held]) + 1  # some may be held that the node has no more
    cores: list[dict[str, Any]] = [
        {"processor": number, "job": None, "task": None, "command": ""} for number in range(most)
    ]
    for job in cluster.holders.get(name, ()):
        flow = cluster.flow(job)
        for number in flow.run.allocation.get(name, ()):
            cores[number]["job"] = job
        for index, progress in enumerate(flow.run.tasks):
            for live in progress.live.values():
                for node, numbers in live.place:
                    for number in numbers if node == name else ():
                        cores[number] |= {"task": index + 1, "command": flow.spec.tasks[index].command}
    return [core for core in cores if core["processor"] < processors or core["job"] is not None]


def _next_reservation(cluster: Cluster, now: Instant) -> dict[str, Any] | None:
    """Return what there is of the reservation that began first, or will."""
    coming = [each for each in cluster.bookings.named.values() if each.ends > now]
    first = min(coming, key=lambda each: (each.begins, each.key), default=None)
    if first is None:
        return None
    return {"name": first.name, "begins": first.begins, "ends": first.ends, "nodes": len(first.nodes)}


def cluster_counts(cluster: Cluster, now: Instant) -> dict[str, Any]:
    """Return nodes by state, processors, and how many tasks run.  Only those of ready nodes are free."""
    by_state: dict[str, int] = {}
    total = ready = free = used = 0
    for name, node in cluster.nodes.items():
        state = node_state(cluster, node, now)
        by_state[state] = by_state.get(state, 0) + 1
        processors, idle = node.facts.processors, len(cluster.free_on(name))
        total += processors
        used += processors - idle
        if state == _SAY[NodeState.READY]:
            ready += processors
            free += idle
    live = sum(len(progress.live) for job in cluster.flows for progress in cluster.flow(job).run.tasks)
    return {
        "nodes": by_state,
        "processors": {"total": total, "ready": ready, "free": free, "used": used},
        "tasks_running": live,
        "next_reservation": _next_reservation(cluster, now),
    }
