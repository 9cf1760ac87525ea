"""The mark and the words of each state of jobs, tasks and nodes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_SAME_SYMBOL = {"suspended": "held", "draining": "paused", "drained": "paused"}


def symbol_of(mark: str) -> str:
    """Return the drawing of a mark: several marks share one, and differ in colour and words."""
    return _SAME_SYMBOL.get(mark, mark)


def job_mark(job: "Mapping[str, Any]") -> str:
    """Return the mark of a job, in lower case as style sheets name it."""
    if job["state"] == "Queued" and (job.get("holds") or job.get("held")):
        return "held"
    return str(job["state"]).lower()


def node_mark(node: "Mapping[str, Any]") -> str:
    """Return the mark of a node: ready ones by how much of them is used."""
    state = str(node["state"]).lower()
    if state != "ready" or not node["used"]:
        return state
    return "full" if not node["free"] else "busy"
