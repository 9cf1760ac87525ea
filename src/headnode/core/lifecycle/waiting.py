"""Why a task of a job does not run yet.

The scheduler says why a job waits; this says why a task waits inside its job.
"""

from collections.abc import Collection

import msgspec

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.gang import TAKE_TASKS, has_parts
from headnode.core.lifecycle.records import JobRecord, Stay
from headnode.core.lifecycle.states import JobState
from headnode.core.model.errors import WrongState
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.node_objections import objection
from headnode.core.model.task import TaskSpec, TaskType

WAY_OUT = "cancel the task, and submit it as a job of its own"
"""What to do about a task that its job can never run."""


class TaskReason(msgspec.Struct, frozen=True):
    """One reason: `why` is its kind, `text` says it to a reader, `what` names what it is about."""

    why: str
    text: str
    what: str = ""


def task_reasons(cluster: Cluster, record: JobRecord, index: int) -> list[TaskReason]:
    """Return every reason why queued instances of a task wait; none when nothing of it is queued."""
    if record.state is not JobState.RUNNING or record.run is None:
        return [TaskReason("job", f"its job is {record.state.value}")] if not record.state.is_final else []
    flow = cluster.flow(record.id)
    waits = record.run.tasks[index].endless and not record.run.tasks[index].live
    if not record.run.tasks[index].queued and not waits:
        return []
    awaited = flow.awaited(index) if index in flow.blocks else []
    if awaited:
        return [_dependency(flow.remaining.get(key, 0), key) for key in awaited]
    return [_room(cluster, record, index)]


def _dependency(left: int, key: str | int) -> TaskReason:
    what = f"task {key!r}" if isinstance(key, str) else f"task group {key}"
    number = f"; {left} tasks of that name have not ended" if left > 1 else ""
    return TaskReason("dependency", f"it waits for {what} to end{number}", str(key))


def _room(cluster: Cluster, record: JobRecord, index: int) -> TaskReason:
    flow = cluster.flow(record.id)
    unready = [node for node in flow.run.allocation if not flow.is_usable(node)]
    if flow.tends_nodes and unready:
        return _unready(flow, unready)
    if has_parts(flow):
        return _gang(cluster, flow, index)
    task = flow.spec.tasks[index]
    first = flow.ready[0] if flow.ready else index
    free = sum(map(len, flow.free.values()))
    held = sum(map(len, flow.run.allocation.values()))
    if first < index:
        return TaskReason(
            "order",
            f"tasks are dispatched in list order, and task {first + 1} is still queued",
            str(first + 1),
        )
    if task.required_nodes:
        nodes = ", ".join(task.required_nodes)
        gone = not_held(flow.run.allocation, task)
        if gone:
            what = f"it requires {', '.join(gone)}, which its job does not hold and will not get: {WAY_OUT}"
            return TaskReason("node", what, gone[0])
        return TaskReason(
            "node", f"it needs free processors on {nodes}, which other tasks of its job use", nodes
        )
    if task.node_group or task.needs != ANY_NODE:
        return _suitable(cluster, flow, task)
    if task.distribution is not None and task.kind is not TaskType.SWEEP:
        return TaskReason(
            "processors",
            f"its {task.minimum} processes need a distribution over nodes that is not free yet; "
            f"{free} of the job's {held} processors are free",
        )
    if flow.run.tasks[index].endless and free >= task.minimum:
        return TaskReason("service", "its program ended within a second; it starts again a second later")
    unit = flow.spec.unit.value
    return TaskReason(
        "processors",
        f"it needs {task.minimum} {unit}{'s' if task.minimum != 1 else ''}; "
        f"{free} of the job's {held} processors are free",
    )


def _unready(flow: Flow, nodes: list[str]) -> TaskReason:
    """Tasks wait for nodes that are being prepared, or released."""
    leaving = flow.run.stays.get(nodes[0]) in (Stay.LEAVING, Stay.LEFT)
    index, done = (flow.release, "released") if leaving else (flow.prep, "prepared")
    task = f" by task {index + 1}" if index is not None else ""
    which = f"{', '.join(nodes)} {'are' if len(nodes) > 1 else 'is'}"
    return TaskReason("preparing", f"it waits until {which} {done}{task}", nodes[0])


def _gang(cluster: Cluster, flow: Flow, index: int) -> TaskReason:
    """Tasks that start together wait for a node of their part, or for a process that has their place."""
    for node, _ in flow.run.parts[index]:
        known = cluster.nodes.get(node)
        if known is None or known.state not in TAKE_TASKS:
            return TaskReason("node", f"node {node}, which holds its processors, accepts no tasks now", node)
    return TaskReason("processors", "its processors are in use; it starts when they are free")


def _suitable(cluster: Cluster, flow: Flow, task: TaskSpec) -> TaskReason:
    """The task asks for nodes of a kind: say which of the job's nodes are, or why none is."""
    reasons = {node: unsuitable(cluster, node, task) for node in flow.run.allocation}
    fitting = ", ".join(node for node, reason in reasons.items() if not reason)
    if fitting:
        what = f"it needs free processors on {fitting}: no other node of its job is eligible"
        return TaskReason("node", what, fitting)
    node, reason = next(iter(reasons.items()), ("", "it holds none"))
    return TaskReason("node", f"no node of its job is eligible: {node} {reason}; {WAY_OUT}", node)


def not_held(held: Collection[str], task: TaskSpec) -> list[str]:
    """Return the nodes that a task requires and that are not among those its job holds."""
    there = {node.casefold() for node in held}
    return [node for node in task.required_nodes if node.casefold() not in there]


def check_could_run(cluster: Cluster, record: JobRecord, task: TaskSpec, whose: str) -> None:
    """Refuse a task for which a job that was started has no node.

    Raises:  WrongState ``not-held``.
    """
    held = record.run.places if record.run is not None else {}
    gone = not_held(held, task)
    reasons = {node: unsuitable(cluster, node, task) for node in held}
    if gone:
        what = f"{whose} requires node {gone[0]!r}, which job {record.id} does not hold"
    elif reasons and all(reasons.values()):
        node, reason = next(iter(reasons.items()))
        what = f"{whose} needs a node that job {record.id} does not hold: {node} {reason}"
    else:
        return
    there = ", ".join(held)
    raise WrongState(
        code="not-held",
        what=what,
        fix="submit it as a job of its own" + (f", or ask for what {there} can give" if there else ""),
    )


def unsuitable(cluster: Cluster, node: str, task: TaskSpec) -> str:
    """Return why a node is not what the task asks for, or nothing if it is."""
    facts = cluster.nodes[node].facts if node in cluster.nodes else None
    if facts is None:
        return "is gone"
    if task.node_group and task.node_group.lower() not in {name.lower() for name in facts.groups}:
        return f"is not in node group {task.node_group!r}"
    return objection(task.needs, facts)
