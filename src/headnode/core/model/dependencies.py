"""Which jobs wait for which, and for what to become of them.

Source: SSS 3.1.0, "Dependency" (attribute condition); HPC Pack, ParentJobIds.
"""

from collections.abc import Iterator

import msgspec

from headnode.core.model.job import JobSpec
from headnode.core.model.named_parents import Condition as Condition


class Link(msgspec.Struct, frozen=True):
    """Job `child` waits for job `parent`, both by their place among the jobs of a file, from 0."""

    child: int
    parent: int
    condition: Condition = Condition.ON_SUCCESS


FIELDS = {
    Condition.ON_SUCCESS: "parents",
    Condition.ON_FAILURE: "after_failure",
    Condition.ON_EXIT: "after_exit",
    Condition.ON_START: "after_start",
}
"""The field of a job that holds the ids of jobs which it waits for in that way."""


def dependencies(spec: JobSpec) -> Iterator[tuple[int, Condition]]:
    """Yield the id of every job that a job waits for, with what must have become of it."""
    for condition, field in FIELDS.items():
        for parent in getattr(spec, field):
            yield parent, condition


def parents(spec: JobSpec) -> tuple[int, ...]:
    """Return the ids of the jobs that a job waits for, each once."""
    return tuple(dict.fromkeys(parent for parent, _ in dependencies(spec)))
