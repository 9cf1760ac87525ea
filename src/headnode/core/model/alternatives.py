"""Alternatives of a request: what a job would do with instead, in the order in which it prefers them.

Source: SSS 3.1.0, "Requested" (attributes conj, group and preference).
"""

import msgspec
from msgspec.structs import fields, replace

from headnode.core.model.job import JobSpec, TaskAlternative
from headnode.core.model.task import TaskSpec


def chosen(spec: JobSpec, option: int) -> JobSpec:
    """Return the job with its request replaced: option 0 is what it says itself, n its n-th alternative.

    Raises:  IndexError when it has no such alternative.
    """
    if option == 0:
        return spec
    other = spec.alternatives[option - 1]
    tasks = tuple(map(_task, spec.tasks, other.tasks)) if other.tasks else spec.tasks
    return replace(spec, **_said(other, "tasks"), tasks=tasks)


def _task(task: TaskSpec, other: TaskAlternative) -> TaskSpec:
    return replace(task, **_said(other))


def _said(other: msgspec.Struct, *aside: str) -> dict[str, object]:
    values = {field.name: getattr(other, field.name) for field in fields(other) if field.name not in aside}
    return {name: value for name, value in values.items() if value is not None}
