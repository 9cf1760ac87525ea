"""The lines with options of a batch script, for each scheduler; they say what it cannot be told.

Source:  Slurm, sbatch(1); PBS, qsub(1B); Grid Engine, qsub(1); IBM Spectrum LSF 10.1, bsub(1).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Final

from headnode.core.formats.batch.dependencies import (
    grid_engine_lines,
    lsf_condition,
    pbs_dependency,
    slurm_dependency,
)
from headnode.core.formats.batch.gpus import grid_engine_gpus, lsf_gpus, lsf_span, slurm_gpus
from headnode.core.formats.batch.lines import LIMIT_OPTIONS, BatchSystem
from headnode.core.formats.batch.signal_lines import grid_engine_signal, lsf_signal, slurm_signal
from headnode.core.formats.batch.slurm_nodes import lines_of_nodes, lines_of_tasks
from headnode.core.formats.fidelity import Fidelity, LossReport
from headnode.core.model import bounds
from headnode.core.model.batch_variables import processors_of_process
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.model.task import TaskSpec, TaskType

SWEPT: Final = re.compile(r"\^([*^])|(\*+)")
"""The stars of a sweep in a text, and those that are only stars."""
_JOB_ID: Final = re.compile("%CCP_JOBID%", re.IGNORECASE)


def _word(text: str) -> str:
    return text if re.fullmatch(r"[\w@%+=:,./$*-]+", text) else '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _clock(seconds: Seconds) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _slurm_clock(seconds: Seconds) -> str:
    days, rest = divmod(-(-round(seconds) // 60), 1440)
    clock = f"{rest // 60:02}:{rest % 60:02}:00"
    return f"{days}-{clock}" if days else clock


_LAST_DATE: Final = bounds.TIME.most - 86_400  # later ones are in the year 10000 somewhere


def _date(at: Instant) -> datetime:
    return datetime.fromtimestamp(min(at, _LAST_DATE)).astimezone()


def _ranges(spec: JobSpec) -> str:
    """Return the numbers of a sweep: ``1-9:2``."""
    steps = (f":{task.increment}" if task.increment != 1 else "" for task in spec.tasks)
    return ",".join(f"{task.start}-{task.end}{step}" for task, step in zip(spec.tasks, steps, strict=True))


def _at_once(spec: JobSpec, task: TaskSpec) -> int | None:
    """Return how many instances of a sweep run at once, where the size of the job says it."""
    if task.kind is not TaskType.SWEEP or spec.maximum is None or spec.maximum % task.minimum:
        return None
    return spec.maximum // task.minimum


def _file(text: str, task: TaskSpec, job: str, value: str) -> str:
    named = _JOB_ID.sub(job, text)
    if task.kind is not TaskType.SWEEP:
        return named
    return SWEPT.sub(lambda match: str(match[1]) if match[1] else value, named)


def _own_error(task: TaskSpec) -> str:
    """Return the file of standard error; "" where it goes where output goes."""
    return "" if task.standard_error == task.standard_output else task.standard_error


def _slurm(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    yield from _texts({"--job-name": spec.name, "--account": spec.project, "--qos": spec.template})
    if task.minimum != task.maximum:
        losses.add(Fidelity.APPROXIMATED, "task", f"it has {task.minimum} {spec.unit.word}s, and never more")
    yield from slurm_gpus(spec, task, losses) if spec.unit is UnitType.GPU else lines_of_tasks(spec, task)
    yield from lines_of_nodes(spec, task)
    if spec.run_time != FOREVER:
        yield f"--time={_slurm_clock(spec.run_time)}"
    if task.kind is TaskType.SWEEP:
        limit = _at_once(spec, task)
        yield f"--array={_ranges(spec)}" + (f"%{limit}" if limit else "")
    if spec.held.memory:
        yield f"--mem={spec.held.memory}M"
    if spec.process_memory:
        yield f"--mem-per-cpu={spec.process_memory}M"
    yield from _texts({
        "--partition": ",".join(spec.node_groups),
        "--constraint": "&".join("|".join(choice) for choice in spec.needs.features),
        "--exclude": ",".join(spec.excluded_nodes),
        "--licenses": ",".join(f"{each.feature}:{each.amount or task.minimum}" for each in spec.licences),
        "--reservation": spec.reservation,
        "--time-min": _slurm_clock(spec.minimum_run_time) if spec.minimum_run_time else "",
        "--switches": _switches(spec, losses),
        "--mincpus": str(spec.minimum_processors_per_node or ""),
        "--dependency": slurm_dependency(spec, losses),
        "--comment": spec.description,
        "--mail-user": spec.email,
        "--mail-type": ",".join(_mail(spec, "BEGIN", "END,FAIL")),
        "--chdir": task.work_directory,
        "--input": task.standard_input,
        "--output": _file(task.standard_output, task, "%j", "%a"),
        "--error": _file(_own_error(task), task, "%j", "%a"),
        "--begin": _date(spec.hold_until).strftime("%Y-%m-%dT%H:%M:%S") if spec.hold_until else "",
        "--deadline": _date(spec.end_by).strftime("%Y-%m-%dT%H:%M:%S") if spec.end_by else "",
    })  # fmt: skip
    yield from slurm_signal(spec, losses)
    yield from _flags(
        {"--exclusive": spec.exclusive, "--contiguous": spec.contiguous, "--hold": bool(spec.holds)}
    )
    yield "--requeue" if task.rerunnable else "--no-requeue"


_PLAIN = JobSpec()


def _switches(spec: JobSpec, losses: LossReport) -> str:
    if spec.switches_wait != _PLAIN.switches_wait and not spec.switches:
        losses.add(Fidelity.NOT_SUPPORTED, "job", "switches_wait: without switches it cannot be written")
    wait = "UNLIMITED" if spec.switches_wait == FOREVER else _slurm_clock(spec.switches_wait)
    return f"{spec.switches}@{wait}" if spec.switches else ""


def _mail(spec: JobSpec, start: str, end: str) -> Iterator[str]:
    if spec.notify_on_start:
        yield start
    if spec.notify_on_completion:
        yield end


def _texts(options: Mapping[str, str]) -> Iterator[str]:
    for name, value in options.items():
        if value:
            yield f"{name}={_word(value)}"


def _flags(options: Mapping[str, bool]) -> Iterator[str]:
    return (name for name, is_set in options.items() if is_set)


def _qsub(system: BatchSystem) -> Callable[[JobSpec, TaskSpec, LossReport], Iterator[str]]:
    """Return the writer of what PBS and Grid Engine have in common, and of their resources."""
    resources = _pbs_resources if system is BatchSystem.PBS else _grid_engine_resources

    def write(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
        value = "$TASK_ID" if system is BatchSystem.GRID_ENGINE else "^array_index^"
        number = "$JOB_ID" if system is BatchSystem.GRID_ENGINE else "$PBS_JOBID"
        if task.minimum != task.maximum:
            what = f"it has {task.minimum} {spec.unit.word}s, and never more"
            losses.add(Fidelity.APPROXIMATED, "task", what)
        yield from (f"{name} {_word(text)}" for name, text in (
            ("-N", spec.name),
            ("-P" if system is BatchSystem.GRID_ENGINE else "-A", spec.project),
            ("-q", spec.template),
            ("-M", spec.email),
            ("-m", "".join(_mail(spec, "b", "ea"))),
            ("-o", _file(task.standard_output, task, number, value)),
            ("-e", _file(_own_error(task), task, number, value)),
            ("-a", _date(spec.hold_until).strftime("%Y%m%d%H%M.%S") if spec.hold_until else ""),
            ("-wd" if system is BatchSystem.GRID_ENGINE else "-w", task.work_directory),
        ) if text)  # fmt: skip
        if task.standard_output and task.standard_output == task.standard_error:
            yield "-j y" if system is BatchSystem.GRID_ENGINE else "-j oe"
        yield from resources(spec, task, losses)
        yield f"-r {'y' if task.rerunnable else 'n'}"
        yield from _flags({"-h": bool(spec.holds)})
        if task.standard_input and system is BatchSystem.PBS:
            losses.add(Fidelity.NOT_SUPPORTED, "task", "standard_input: a PBS job script has no such option")
        elif task.standard_input:
            yield f"-i {_word(task.standard_input)}"

    return write


def _pbs_resources(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    layout = task.distribution
    if layout is not None and layout.nodes:
        chunks, each = layout.nodes, -(-task.minimum // layout.nodes)
    elif layout is not None and layout.per_node:
        chunks, each = -(-task.minimum // layout.per_node), layout.per_node
    elif spec.single_node or task.minimum == 1:
        chunks, each = 1, task.minimum
    else:
        chunks, each = task.minimum, 1
    memory = f":mem={spec.held.memory}mb" if spec.held.memory else ""
    features = "".join(f":{choice[0]}=true" for choice in spec.needs.features)
    if spec.unit is UnitType.GPU:
        if chunks * each != task.minimum:
            what = f"it has {chunks * each} GPUs, as many in each chunk"
            losses.add(Fidelity.APPROXIMATED, "task", what)
        yield f"-l select={chunks}:ncpus={each * spec.processors_per_gpu}:ngpus={each}{memory}{features}"
    else:
        threads = processors_of_process(spec, task)
        ranks = f":mpiprocs={each // threads}:ompthreads={threads}" if each > threads else ""
        yield f"-l select={chunks}:ncpus={each}{ranks}{memory}{features}"
    scattered = "scatter" if layout is not None and layout.nodes else "free"
    yield f"-l place={scattered}{':excl' if spec.exclusive else ''}"
    if spec.process_memory:
        yield f"-l pmem={spec.process_memory}mb"
    if spec.run_time != FOREVER:
        yield f"-l {'max_' if spec.minimum_run_time else ''}walltime={_clock(spec.run_time)}"
    if spec.minimum_run_time:
        yield f"-l min_walltime={_clock(spec.minimum_run_time)}"
    if task.kind is TaskType.SWEEP:
        yield f"-J {_ranges(spec).partition(',')[0]}"
        if _at_once(spec, task):
            what = "maximum: PBS does not bound how many instances run at once"
            losses.add(Fidelity.NOT_SUPPORTED, "job", what)
    if when := pbs_dependency(spec, losses):
        yield f"-W depend={when}"


def _grid_engine_resources(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    slots = task.minimum * (spec.processors_per_gpu if spec.unit is UnitType.GPU else 1)
    if spec.unit is UnitType.GPU:
        yield from grid_engine_gpus(spec, losses)
    if slots > 1:
        name = "smp" if spec.single_node else "mpi"
        yield f"-pe {name} {slots}"
        what = f"-pe {name}: the names of parallel environments are those of the site"
        losses.add(Fidelity.APPROXIMATED, "task", what)
    if task.distribution is not None:
        losses.add(
            Fidelity.NOT_SUPPORTED, "task", "distribution: the parallel environment of the site decides it"
        )
    if spec.process_memory:
        yield f"-l h_vmem={spec.process_memory}M"
    if spec.held.memory:
        losses.add(Fidelity.NOT_SUPPORTED, "job", "held.memory: Grid Engine counts memory for each slot")
    if spec.run_time != FOREVER:
        yield f"-l h_rt={round(spec.run_time)}"
    yield from grid_engine_signal(spec, losses)
    if spec.exclusive:
        yield "-l exclusive=true"
    for choice in spec.needs.features:
        losses.add(Fidelity.NOT_SUPPORTED, "job", f"feature {'|'.join(choice)}: a resource of the site")
    if task.kind is TaskType.SWEEP:
        yield f"-t {_ranges(spec).partition(',')[0]}"
        if len(spec.tasks) > 1:
            losses.add(Fidelity.NOT_SUPPORTED, "tasks", "Grid Engine has one range: the others are left out")
        if limit := _at_once(spec, task):
            yield f"-tc {limit}"
    yield from grid_engine_lines(spec, losses)


def _lsf(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    limit = _at_once(spec, task)
    numbers = f"[{_ranges(spec)}]" + (f"%{limit}" if limit else "") if task.kind is TaskType.SWEEP else ""
    if spec.unit is UnitType.GPU:
        yield from lsf_gpus(spec, task, losses)
    else:
        yield f"-n {task.minimum}" + (f",{task.maximum}" if task.maximum != task.minimum else "")
    if spec.run_time != FOREVER:
        minutes = -(-round(spec.run_time) // 60)
        yield f"-W {minutes // 60}:{minutes % 60:02}"
        if spec.run_time % 60:
            losses.add(Fidelity.APPROXIMATED, "job", f"run_time: {minutes} minutes, as LSF has no seconds")
    yield from (f"{name} {_word(text)}" for name, text in (
        ("-J", (spec.name or ("array" if numbers else "")) + numbers),
        ("-Jd", spec.description),
        ("-P", spec.project),
        ("-q", spec.template),
        ("-g", spec.job_group),
        ("-U", spec.reservation),
        ("-m", " ".join(spec.requested_nodes)),
        ("-R", " ".join(_lsf_resources(spec, task, losses))),
        ("-w", lsf_condition(spec, losses)),
        ("-b", _lsf_date(spec, "hold_until", losses)),
        ("-t", _lsf_date(spec, "end_by", losses)),
        ("-u", spec.email),
        ("-cwd", task.work_directory),
        ("-i", _file(task.standard_input, task, "%J", "%I")),
        ("-o" if task.append_output else "-oo", _file(task.standard_output, task, "%J", "%I")),
        ("-e" if task.append_error else "-eo", _file(_own_error(task), task, "%J", "%I")),
    ) if text)  # fmt: skip
    yield from _flags({
        "-x": spec.exclusive,
        "-H": bool(spec.holds),
        "-B": spec.notify_on_start,
        "-N": spec.notify_on_completion,
    })  # fmt: skip
    yield from _lsf_limits(spec, losses)
    yield from lsf_signal(spec, losses)
    yield "-r" if task.rerunnable else "-rn"


def _lsf_limits(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    for each in spec.resource_limits:
        option, soft = LIMIT_OPTIONS.get(each.name), each.soft
        if option is None or soft is None or soft < 0 or soft % 1024 or each.hard is not None:
            losses.add(
                Fidelity.NOT_SUPPORTED, "job", f"resource_limits: {each.name} has no option of bsub so"
            )
        else:
            yield f"{option} {soft // 1024}K"


def _lsf_date(spec: JobSpec, field: str, losses: LossReport) -> str:
    at: Instant | None = getattr(spec, field)
    if at is None:
        return ""
    if at % 60:
        losses.add(Fidelity.APPROXIMATED, "job", f"{field}: the minute of it, as LSF has no seconds")
    return _date(at).strftime("%Y:%m:%d:%H:%M")


def _lsf_resources(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    layout = task.distribution
    chosen = ["(" + " || ".join(choice) + ")" if choice[1:] else choice[0] for choice in spec.needs.features]
    chosen += [f"hname!='{node}'" for node in spec.excluded_nodes]
    needs = spec.needs
    least = (needs.minimum_sockets, needs.minimum_cores_per_socket, needs.minimum_threads_per_core)
    chosen += [
        f"{name}>={each}" for name, each in zip(("nprocs", "ncores", "nthreads"), least, strict=True) if each
    ]
    if chosen:
        yield f"select[{' && '.join(chosen)}]"
    if spec.held.memory:
        yield f"rusage[mem={spec.held.memory}MB]"
        if spec.process_memory:
            losses.add(Fidelity.NOT_SUPPORTED, "job", "process_memory: LSF counts memory in one way only")
    elif spec.process_memory:
        yield f"rusage[mem={spec.process_memory}MB/task]"
    if spec.unit is UnitType.GPU:
        yield lsf_span(spec, task)
    elif layout is not None and layout.nodes:
        each = -(-task.minimum // layout.nodes)
        even = Fidelity.APPROXIMATED if task.minimum % layout.nodes else Fidelity.TRANSLATED
        losses.add(
            even, "task", f"distribution: {each} processors on each node, which are {layout.nodes} nodes"
        )
        yield f"span[ptile={each}]"
    elif layout is not None and layout.per_node:
        yield f"span[ptile={layout.per_node}]"
    elif task.minimum > 1 and spec.single_node:
        yield "span[hosts=1]"


OPTION_LINES: Final[Mapping[BatchSystem, Callable[[JobSpec, TaskSpec, LossReport], Iterator[str]]]] = {
    BatchSystem.SLURM: _slurm,
    BatchSystem.PBS: _qsub(BatchSystem.PBS),
    BatchSystem.GRID_ENGINE: _qsub(BatchSystem.GRID_ENGINE),
    BatchSystem.LSF: _lsf,
}
"""Of each scheduler: what yields the options of a job, without the mark of the lines."""
