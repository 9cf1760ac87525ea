"""What of a batch script follows from the request of its job, after the request has changed.

The size of its one program, and variables.  Both are made when the script is read
(`core/formats/batch/reading`) and kept with its task.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import PROCESS_COUNT, TaskSpec, TaskType, asked_processes

ALL_NODES = "all"
"""The partition of Slurm that has every node: a job in it names no node group."""

_DEFAULT_QUEUE = "Default"


def _name(spec: JobSpec) -> str:
    return spec.name


def _queue(spec: JobSpec) -> str:
    return spec.template or _DEFAULT_QUEUE


def _memory(spec: JobSpec) -> str:
    return str(spec.held.memory or "")


_OF_JOB: Mapping[str, Mapping[str, Callable[[JobSpec], str]]] = MappingProxyType(
    {
        "slurm": {"SLURM_JOB_NAME": _name, "SLURM_MEM_PER_NODE": _memory},
        "pbs": {"PBS_JOBNAME": _name, "PBS_QUEUE": _queue},
        "gridengine": {"JOB_NAME": _name, "QUEUE": _queue},
        "lsf": {"LSB_JOBNAME": _name, "LSB_QUEUE": _queue},
    }
)
"""The variables that say what the job has, whatever its size."""


def shares_processors(spec: JobSpec, task: TaskSpec) -> bool:
    """Tell whether a script says how many processes share its GPUs, or its processors: fewer than these."""
    processes = asked_processes(task, spec.dialect)
    if processes is None:
        return False
    return spec.unit is UnitType.GPU or (spec.unit is UnitType.PROCESSOR and processes < task.minimum)


def processors_of_process(spec: JobSpec, task: TaskSpec) -> int:
    """Return how many processors each process of a script has; 1 if they cannot be divided evenly."""
    processes = asked_processes(task, spec.dialect) or 1
    if spec.unit is UnitType.GPU or not shares_processors(spec, task) or task.minimum % processes:
        return 1
    return task.minimum // processes


def follow_request(before: JobSpec, after: JobSpec) -> JobSpec:
    """Return a changed batch script in which the variables of its batch script say what the job asks for now.

    A script is one program: if the job gets another size, so does the program.  Where the new size does not
    tell how many processes share it, their number stays in proportion.
    """
    after = _resized(before, after)
    pairs = zip(before.tasks, after.tasks, strict=False)
    followed = tuple(_followed(before, after, was, task) for was, task in pairs)
    if followed == after.tasks[: len(followed)]:
        return after
    return replace(after, tasks=followed + after.tasks[len(followed) :])


def _resized(before: JobSpec, after: JobSpec) -> JobSpec:
    """Return a job whose only program has the size of the job, if that is what the program had before."""
    least, most = after.minimum, after.maximum
    if least is None or most is None or (least, most) == (before.minimum, before.maximum):
        return after
    if len(after.tasks) != 1 or before.tasks != after.tasks or after.alternatives:
        return after
    (task,) = after.tasks
    alike = before.minimum in (None, task.minimum) and before.maximum in (None, task.maximum)
    if not alike or task.kind is not TaskType.BASIC:
        return after
    return replace(after, tasks=(replace(task, minimum=least, maximum=most),))


def _followed(before: JobSpec, after: JobSpec, former: TaskSpec, task: TaskSpec) -> TaskSpec:
    variables = dict(task.environment)
    for variable, value in _OF_JOB[after.dialect].items():
        if variables.get(variable) == value(before):  # else it was set in another way
            variables[variable] = value(after)
            if not variables[variable]:
                del variables[variable]
    size = _size(after, task)
    if size != _size(before, former):
        _resize(variables, after, size, _size(before, former), asked_processes(former, after.dialect))
    return task if variables == task.environment else replace(task, environment=variables)


def _size(spec: JobSpec, task: TaskSpec) -> tuple[int, int]:
    """Return how many units a task asks for, and the processors of each; 0 if they are not GPUs."""
    return task.minimum, spec.processors_per_gpu if spec.unit is UnitType.GPU else 0


def _resize(
    variables: dict[str, str],
    spec: JobSpec,
    size: tuple[int, int],
    former: tuple[int, int],
    requested: int | None,
) -> None:
    """Set the variables of the size anew.  Those that no longer agree with it are left out."""
    units, of_gpu = size
    processors, before = units * (of_gpu or 1), former[0] * (former[1] or 1)
    processes = max(1, (requested or 1) * units // max(1, former[0]))
    if requested is not None:
        variables[PROCESS_COUNT[spec.dialect]] = str(processes)
    if "SLURM_NPROCS" in variables:
        variables["SLURM_NPROCS"] = str(processes)
    if "SLURM_CPUS_PER_GPU" in variables:
        variables["SLURM_CPUS_PER_GPU"] = str(of_gpu or "")
    each = _number(variables, "SLURM_CPUS_PER_TASK")
    if each and (each * processes > processors or of_gpu != former[1]):
        variables["SLURM_CPUS_PER_TASK"] = str(max(1, processors // processes))
    for variable in ("NCPUS", "OMP_NUM_THREADS"):  # the second is of PBS, where it sets both
        if "NCPUS" in variables and _number(variables, variable) in (before, *range(processors + 1, before)):
            variables[variable] = str(processors)
    agree: dict[str, Callable[[int], bool]] = {
        "SLURM_NTASKS_PER_NODE": lambda number: number <= processes,
        "SLURM_CPUS_PER_GPU": lambda number: number == of_gpu,
        "SLURM_MEM_PER_GPU": lambda _: of_gpu == former[1],
        "SLURM_NTASKS_PER_GPU": lambda number: -(-processes // number) == units,
        "SLURM_GPUS_PER_TASK": lambda number: number * processes == units,
        "SLURM_GPUS_PER_NODE": lambda number: units % number == 0,
    }
    for variable, agrees in agree.items():
        number = _number(variables, variable)
        if variable in variables and (("GPU" in variable and not of_gpu) or not number or not agrees(number)):
            del variables[variable]
    if "SLURM_GPUS" in variables:
        model, colon, _ = variables.pop("SLURM_GPUS").rpartition(":")
        variables |= {"SLURM_GPUS": f"{model}{colon}{units}"} if of_gpu else {}


def _number(variables: Mapping[str, str], variable: str) -> int:
    """Return the number in a variable, behind the model of GPUs; 0 if it has none."""
    text = variables.get(variable, "").rpartition(":")[2]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0
