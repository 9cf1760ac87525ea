"""Whether a queued job will end by its deadline, as far as its start is known or expected."""

from typing import Any

from headnode.core.lifecycle.deadlines import last_start
from headnode.core.model.job import JobSpec

Object = dict[str, Any]


def deadline_object(spec: JobSpec, answer: Object) -> Object | None:
    """Return a job's deadline, and by how many seconds it would be late; None for a job without one.

    `answer` is an explanation.  A job is taken to run as long as its limit lets it, without one not at all.
    `by_limits` follows from the promised start, `expected` and `at_worst` from those expected half of the
    time and nine times of ten.  None: no such start is known; 0 or less: it would be in time.
    """
    latest = last_start(spec)
    if latest is None:
        return None
    expected = answer["expected"] or {}
    starts = {
        "by_limits": expected.get("promise") or answer["not_before"],
        "expected": expected.get("p50"),
        "at_worst": expected.get("p90"),
    }
    late = {name: None if at is None else at - latest for name, at in starts.items()}
    return {"at": spec.end_by, "last_start": latest, **late}
