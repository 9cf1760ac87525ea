"""The attributes of a real job that only the scheduler writes."""

from typing import Any

from headnode.core.formats.compute_cluster_xml.dialects import CCS
from headnode.core.formats.live_jobs import Live, LiveTask
from headnode.core.lifecycle.states import JobState, TaskState

_HPC_WORDS = {
    "configuring": "Configuring",
    "validating": "Validating",
    "queued": "Queued",
    "dispatched": "Dispatching",
    "running": "Running",
    "suspending": "Running",  # these know no such state; its tasks are running, too
    "suspended": "Running",
    "resuming": "Running",
    "ending": "Finishing",
    "finished": "Finished",
    "failed": "Failed",
    "canceled": "Canceled",
}
_CCS_WORDS = {
    "configuring": "NotSubmitted",
    "validating": "Queued",
    "queued": "Queued",
    "dispatched": "Queued",
    "running": "Running",
    "suspending": "Running",
    "suspended": "Running",
    "resuming": "Running",
    "ending": "Running",
    "finished": "Completed",
    "failed": "Failed",
    "canceled": "Cancelled",
}


def state_word(state: JobState | TaskState, dialect: str) -> str:
    """Return what `dialect` calls a state."""
    return (_CCS_WORDS if dialect == CCS else _HPC_WORDS)[state.value]


def live_job(live: Live | None, dialect: str, version: str) -> dict[str, Any]:
    """Return the values of the rows of Job that only the scheduler writes."""
    values: dict[str, Any] = {"live.version": version or None}
    if live is None:
        return values
    word = live.phase if live.phase and dialect != CCS else state_word(live.state, dialect)
    known = {
        "id": live.id,
        "state": word,
        "submitted": live.submitted,
        "created": live.created,
        "started": live.started,
        "ended": live.ended,
        "owner": live.owner or None,
        "user": live.owner or None,
        "requeues": live.requeues,
        "pending_reason": live.pending_reason or None,
        "message": live.message or None,
        "progress": None if live.progress is None else str(live.progress),
        "progress_message": live.progress_message or None,
        "allocated_nodes": live.nodes if dialect == CCS else None,
        "backfilled": live.backfilled if dialect == CCS else None,
    }
    return values | {f"live.{name}": value for name, value in known.items()}


def live_task(live: Live | None, number: int, dialect: str, version: str) -> dict[str, Any]:
    """Return the values of the rows of Task that only the scheduler writes."""
    values: dict[str, Any] = {"live.version": version or None}
    if live is None:
        return values
    task = live.tasks.get(number, LiveTask())
    known = {
        "id": number,
        "parent_job": live.id,
        "nice_id": number,
        "state": state_word(task.state, dialect),
        "exit_code": task.exit_code,
        "message": task.message or None,
        "allocated_nodes": ",".join(task.nodes) or None,
        "submitted": task.submitted,
        "created": task.created,
        "started": task.started,
        "ended": task.ended,
        "requeues": task.requeues,
        "pending_reason": task.pending_reason or None,
    }
    return values | {f"live.{name}": value for name, value in known.items()}
