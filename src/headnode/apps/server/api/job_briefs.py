"""What lists show of the description of a job: its names, its size, the numbers of an array."""

from collections.abc import Sequence
from typing import NamedTuple

from headnode.core.model.job import JobRequest, JobSpec, UnitType
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.task import ARRAY_INDEX, TaskSpec, TaskType
from headnode.core.state.job_record import JobRecord, written_spec
from headnode.core.state.job_request import own_request

LONGEST_COMMAND = 120  # characters, in lists


class Brief(NamedTuple):
    """What lists show of the description of a job."""

    name: str
    project: str
    minimum: int
    maximum: int
    unit: str
    run_time: Seconds | None
    command: str  # of the first task, cut; "" of a job without tasks
    instances: int
    array: str
    node_groups: tuple[str, ...]
    template: str
    nodes: int  # that it requests at least


def brief_of(record: JobRecord, spec: JobSpec) -> Brief:
    """Return what lists show of a job's description.  Cost: O(tasks)."""
    given = written_spec(record, spec)
    request = own_request(given)
    command = spec.tasks[0].command if spec.tasks else ""
    if len(command) > LONGEST_COMMAND:
        command = f"{command[: LONGEST_COMMAND - 1]}…"
    return Brief(
        name=spec.name,
        project=spec.project,
        minimum=request.minimum,
        maximum=request.maximum,
        unit=given.unit.value,
        run_time=None if given.run_time == FOREVER else given.run_time,
        command=command,
        instances=sum(task.instances for task in spec.tasks),
        array=array_of(spec),
        node_groups=spec.node_groups,
        template=spec.template,
        nodes=_nodes_at_least(request, spec),
    )


def array_of(spec: JobSpec) -> str:
    """Return the numbers of an array, ``1-9:2%4``: a job of ranges of one sweep, or of a task for each."""
    first = spec.tasks[0] if spec.tasks else None
    if first is None:
        return ""
    index = ARRAY_INDEX.get(spec.dialect, "")
    if first.kind is TaskType.SWEEP and all(task.command == first.command for task in spec.tasks):
        ranges = [_range(task.start, task.end, task.increment) for task in spec.tasks]
    elif index and all(_is_of_array(task, index) for task in spec.tasks):
        ranges = folded_numbers([int(task.name) for task in spec.tasks])
    else:
        return ""
    counts = spec.maximum is not None and first.minimum > 0 and bool(index)
    return ",".join(ranges) + (f"%{(spec.maximum or 0) // first.minimum}" if counts else "")


def _is_of_array(task: TaskSpec, index: str) -> bool:
    """Whether a task is one of an array, named by its number; any user can set the variable alone."""
    name = task.name
    return name.isascii() and name.isdigit() and len(name) <= 10 and task.environment.get(index) == name


def _nodes_at_least(request: JobRequest, spec: JobSpec) -> int:
    """Return how many nodes the largest task of a job needs."""
    if spec.unit is UnitType.NODE:
        return request.minimum
    return max((_spread(task) for task in spec.tasks), default=1)


def _spread(task: TaskSpec) -> int:
    layout = task.distribution
    if layout is None:
        return 1
    return layout.nodes or (-(-task.minimum // layout.per_node) if layout.per_node else 1)


def _range(first: int, last: int, step: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" + (f":{step}" if step != 1 else "")


def folded_numbers(numbers: Sequence[int]) -> list[str]:
    """Return increasing numbers as ranges.

    >>> folded_numbers([1, 2, 3, 7])
    ['1-3', '7']
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [_range(first, last, 1) for first, last in runs]
