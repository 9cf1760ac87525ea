"""Nodes and the cluster as clients see them.  The shapes are those of the local protocol."""

from typing import Any

from headnode.core.lifecycle.allocating import exclusive_holder
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import NodeRecord
from headnode.core.model.node import NodeState

_SAY = {
    NodeState.PENDING: "Pending",
    NodeState.READY: "Ready",
    NodeState.PAUSED: "Paused",
    NodeState.UNREACHABLE: "Unreachable",
    NodeState.LOST_PAUSED: "Unreachable",
}


def node_state(node: NodeRecord) -> str:
    """Return the word people see."""
    return _SAY[node.state]


def node_object(cluster: Cluster, node: NodeRecord) -> dict[str, Any]:
    """Return a node as lists show it."""
    facts, name = node.facts, node.facts.name
    free = len(cluster.free.get(name, ()))
    owner = exclusive_holder(cluster, name)
    return {
        "name": name,
        "state": node_state(node),
        "since": node.since,
        "processors": facts.processors,
        "sockets": facts.sockets,
        "memory": facts.memory,
        "speed": facts.speed,
        "used": facts.processors - free,
        "free": free,
        "jobs": len(cluster.holders.get(name, ())),
        "groups": list(facts.groups),
        "features": list(facts.features),
        "architecture": facts.architecture,
        "system": facts.system,
        "exclusive": owner,
    }


def detailed_node(cluster: Cluster, node: NodeRecord) -> dict[str, Any]:
    """Return a node with its jobs and what runs on each processor."""
    name = node.facts.name
    jobs = sorted(cluster.holders.get(name, ()))
    return node_object(cluster, node) | {"jobs": jobs, "cores": _cores(cluster, name, node.facts.processors)}


def _cores(cluster: Cluster, name: str, processors: int) -> list[dict[str, Any]]:
    cores: list[dict[str, Any]] = [
        {"processor": number, "job": None, "task": None, "command": ""} for number in range(processors)
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
    return cores


def cluster_counts(cluster: Cluster) -> dict[str, Any]:
    """Return nodes by state, processors, and how many tasks run."""
    by_state: dict[str, int] = {}
    for node in cluster.nodes.values():
        by_state[node_state(node)] = by_state.get(node_state(node), 0) + 1
    total = sum(node.facts.processors for node in cluster.nodes.values())
    free = sum(len(cluster.free.get(name, ())) for name in cluster.nodes)
    live = sum(len(progress.live) for job in cluster.running for progress in cluster.flow(job).run.tasks)
    return {
        "nodes": by_state,
        "processors": {"total": total, "free": free, "used": total - free},
        "tasks_running": live,
    }
