"""Why a task of a job does not run yet.

The scheduler says why a job waits; this says why a task waits inside its job.
"""

import msgspec

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState


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
    if not record.run.tasks[index].queued:
        return []
    awaited = flow.awaited(index) if index in flow.blocks else []
    if awaited:
        return [_dependency(flow.remaining.get(key, 0), key) for key in awaited]
    return [_room(cluster, record, index)]


def _dependency(left: int, key: str | int) -> TaskReason:
    what = f"task {key!r}" if isinstance(key, str) else f"task group {key}"
    number = f"; {left} tasks of that name are not over" if left > 1 else ""
    return TaskReason("dependency", f"it waits for {what} to end{number}", str(key))


def _room(cluster: Cluster, record: JobRecord, index: int) -> TaskReason:
    flow = cluster.flow(record.id)
    task = flow.spec.tasks[index]
    first = flow.ready[0] if flow.ready else index
    free = sum(map(len, flow.free.values()))
    held = sum(map(len, flow.run.allocation.values()))
    if first < index:
        return TaskReason(
            "order",
            f"tasks are dispatched in list order, and task {first + 1} waits before it",
            str(first + 1),
        )
    if task.required_nodes:
        nodes = ", ".join(task.required_nodes)
        return TaskReason("node", f"it needs room on {nodes}, which its job's other tasks use", nodes)
    unit = flow.spec.unit.value
    return TaskReason(
        "processors",
        f"it needs {task.minimum} {unit}{'s' if task.minimum != 1 else ''}; "
        f"{free} of the job's {held} processors are free",
    )
