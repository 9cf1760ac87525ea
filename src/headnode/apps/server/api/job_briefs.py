"""What lists show of a job: its names, its size, the numbers of an array, and how far its instances are."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from headnode.core.model.job import JobRequest, JobSpec, UnitType
from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.model.task import ARRAY_INDEX, TaskSpec, TaskType, public_command
from headnode.core.state import job_events as j
from headnode.core.state.job_events import JobEvent
from headnode.core.state.job_record import JobRecord, JobRun, TaskProgress, written_spec
from headnode.core.state.job_request import own_request
from headnode.core.state.transitions import TaskState
from headnode.protocol.answers import InstanceCounts

MAX_COMMAND = 120  # characters, in lists


class Brief(NamedTuple):
    """What lists show of the description of a job."""

    name: str
    project: str
    minimum: int
    maximum: int
    unit: str
    run_time: Seconds | None
    minimum_run_time: Seconds | None
    command: str  # of the first task, cut; "" of a job without tasks
    instances: int
    array: str
    node_groups: tuple[str, ...]
    template: str
    nodes: int  # that it requests at least


def brief_of(record: JobRecord, spec: JobSpec) -> Brief:
    """Return what lists show of a job's description.  Cost: O(tasks)."""
    written = written_spec(record, spec)
    request = own_request(written)
    command = public_command(spec.tasks[0].command) if spec.tasks else ""
    if len(command) > MAX_COMMAND:
        command = f"{command[: MAX_COMMAND - 1]}…"
    return Brief(
        name=spec.name,
        project=spec.project,
        minimum=request.minimum,
        maximum=request.maximum,
        unit=written.unit.value,
        run_time=None if written.run_time == FOREVER else written.run_time,
        minimum_run_time=written.minimum_run_time,
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


def task_counts(instances: int, run: JobRun | None) -> InstanceCounts:
    """Return how many instances of a job are in each state; `instances`: how many it has before it runs."""
    if run is None:
        return InstanceCounts(total=instances, queued=instances, running=0, finished=0, failed=0, canceled=0)
    if not run.tasks:  # canceled before anything of it was touched
        return InstanceCounts(instances, 0, 0, 0, 0, canceled=instances)
    counts = [0, 0, 0, 0, 0]
    for progress in run.tasks:
        counts = [before + more for before, more in zip(counts, _counted(progress), strict=True)]
    return InstanceCounts(sum(counts), *counts)


def _counted(progress: TaskProgress) -> tuple[int, int, int, int, int]:
    """Return how many instances of a task are queued, running, finished, failed and canceled."""
    begun = begun_of(progress) if progress.live else 0
    queued = progress.queued.count + progress.blocked.count + len(progress.live) - begun
    return queued, begun, progress.finished.count, progress.failed.count, progress.canceled.count


class WatchedCounts:
    """How many instances of a job are in each state, kept up to date by its events as long as it is watched.

    Cost of an update:  of the tasks that have changed since the last; of all if an event does not name them.
    """

    def __init__(self) -> None:
        self._run: JobRun | None = None
        self._tasks: list[tuple[int, int, int, int, int]] = []  # of the tasks of that run
        self._sums = [0, 0, 0, 0, 0]
        self._changed: set[int] | None = None  # numbers of tasks; None: any of them

    def note(self, event: JobEvent) -> None:
        """Note what an event may have changed."""
        if self._changed is None:
            return
        numbers = _tasks_of(event)
        if numbers is None:
            self._changed = None
        else:
            self._changed.update(numbers)

    def of(self, instances: int, run: JobRun | None) -> InstanceCounts:
        """Return the counts now; `instances`: how many the job has before it runs."""
        if run is None or not run.tasks:
            return task_counts(instances, run)
        if self._changed is None or run is not self._run or len(run.tasks) != len(self._tasks):
            self._run, self._tasks = run, [_counted(progress) for progress in run.tasks]
            self._sums = [sum(counts) for counts in zip(*self._tasks, strict=True)]
        else:
            for number in self._changed:
                before, now = self._tasks[number - 1], _counted(run.tasks[number - 1])
                self._tasks[number - 1] = now
                self._sums = [a - b + c for a, b, c in zip(self._sums, before, now, strict=True)]
        self._changed = set()
        return InstanceCounts(sum(self._sums), *self._sums)


def _tasks_of(event: JobEvent) -> Collection[int] | None:
    """Return the numbers of the tasks that an event changes; None: they are not known."""
    match event:
        case j.InstancesStarted(started=some) | j.InstancesEnded(ended=some):
            return {each.task for each in some}
        case (
            j.InstancesDispatched(task=task)
            | j.InstancesStopping(task=task)
            | j.InstancesCanceled(task=task)
            | j.InstancesRequeued(task=task)
            | j.InstancesHeld(task=task)
            | j.InstancesReleased(task=task)
        ):
            return (task,)
        case j.TasksCanceled(tasks=spans) if spans:
            return {task for task, _ in spans}
        case j.AllocationGrown() | j.AllocationShrunk() | j.InstancesStaging() | j.ProgressSet():
            return ()
        case _:
            return None


def begun_of(progress: TaskProgress) -> int:
    """Return how many instances of a task run."""
    return sum(1 for live in progress.live.values() if live.state is not TaskState.DISPATCHED)
