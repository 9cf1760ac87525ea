"""A job whose tasks wait for each other as the jobs of a group, because task groups all start together.

Source: SSS 3.1.0, "JobGroup": the equivalent of a multi-step job; "Dependency".
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Item, Kind, Report, lost_fields
from headnode.core.formats.links import Condition, Link
from headnode.core.formats.sss.meaning.documents import WRITTEN
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec

GROUP = "steps"
"""The name of the group of a job that has no name."""

MOST_LINKS = 200_000  # dependencies between the steps of one job
_DEFAULTS = JobSpec()
_WHOLE = {
    "minimum": "each step asks for what its task needs",
    "maximum": "each step asks for what its task needs",
    "run_time": "it is the limit of each step, not of all together",
    "single_node": "each step is on one node, not all on the same one",
    "licences": "each step asks for them",
    "notify_on_start": "it is said of each step",
    "notify_on_completion": "it is said of each step",
    "fail_on_task_failure": "only the steps that wait for a failed one are canceled",
}
"""Fields of a job that mean something else in each of its steps, and what."""

_SIZES = {"minimum": None, "maximum": None, "fail_on_task_failure": False, "fail_dependent_tasks": False}


class Steps(NamedTuple):
    """The jobs that a job becomes, what they wait for, and what is told of it."""

    jobs: tuple[JobSpec, ...]
    links: tuple[Link, ...]
    report: Report


def steps_of(spec: JobSpec) -> Steps | None:
    """Return the job as one job for each task; None if no task waits, or jobs of a group cannot say it.

    Cost:  O(tasks + dependencies).
    """
    if not any(task.depends_on for task in spec.tasks) or not _is_divisible(spec):
        return None
    links = _links(spec)
    if links is None:
        return None
    name = spec.job_group or spec.name.strip() or GROUP
    jobs = tuple(_step(spec, task, number, name) for number, task in enumerate(spec.tasks, 1))
    return Steps(jobs, links, tuple(_told(spec, name)))


def _is_divisible(spec: JobSpec) -> bool:
    """Whether each task can be a job of its own."""
    if spec.alternatives or spec.together or spec.group_edges or spec.run_until_canceled:
        return False
    return all(task.kind in WRITTEN and task.group is None for task in spec.tasks)


def _step(spec: JobSpec, task: TaskSpec, number: int, group: str) -> JobSpec:
    name = task.name.strip() or f"step{number}"
    return replace(spec, name=name, job_group=group, tasks=(replace(task, depends_on=()),), **_SIZES)


def _links(spec: JobSpec) -> tuple[Link, ...] | None:
    """Return which step waits for which; None if there are more than `MOST_LINKS`."""
    by_name: dict[str, list[int]] = {}
    for number, task in enumerate(spec.tasks):
        by_name.setdefault(task.name, []).append(number)
    waits = [[by_name.get(name, []) for name in task.depends_on] for task in spec.tasks]
    if sum(len(parents) for some in waits for parents in some) > MOST_LINKS:
        return None
    strict = spec.fail_on_task_failure or spec.fail_dependent_tasks
    condition = Condition.ON_SUCCESS if strict else Condition.ON_EXIT
    return tuple(Link(child, parent, condition) for child, some in enumerate(waits) for parent in _flat(some))


def _flat(some: Sequence[Sequence[int]]) -> dict[int, None]:
    return {parent: None for parents in some for parent in parents}


def _told(spec: JobSpec, name: str) -> Iterator[Item]:
    what = f"depends_on: each task is a job of the group {name!r} with its dependencies"
    yield Item(Kind.TRANSLATED, "job", what)
    lost = lost_fields(spec, _DEFAULTS, set(spec.__struct_fields__) - _WHOLE.keys())
    for field in lost:
        yield Item(Kind.APPROXIMATED, "job", f"{field}: {_WHOLE[field]}")
