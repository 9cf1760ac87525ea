"""Read a batch script as a job: its options, and itself as the program.

The tables at the end of the file have a row for each scheduler.
"""

import posixpath
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NoReturn

from headnode.core.formats.batch.draft import BatchDraft, Reader
from headnode.core.formats.batch.lines import (
    RULES,
    BatchSystem,
    Directive,
    OptionsText,
    Word,
    command_words,
    directives,
    refuse_long_options,
    system_of,
)
from headnode.core.formats.batch.lsf import lsf_file
from headnode.core.formats.batch.lsf_options import bsub_options
from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.batch.qsub import grid_engine_file
from headnode.core.formats.batch.qsub_options import qsub_options
from headnode.core.formats.batch.slurm_nodes import settle_sockets
from headnode.core.formats.batch.slurm_options import OPTIONS, VARIABLES, file_name, options_in
from headnode.core.formats.fidelity import Awareness, Fidelity, FidelityReport, ReportItem, apply_awareness
from headnode.core.formats.text.source_text import SourceText, decode
from headnode.core.model.errors import Path, TextPosition
from headnode.core.model.job import JobSpec
from headnode.core.model.task import PROCESS_COUNT, ScriptOrigin

NAME: Final = "script"  # of a script that came without a name


_UNKNOWN = ScriptOrigin()


def is_batch_script(text: str) -> bool:
    """Return whether the beginning of a file has options for another scheduler."""
    return text.startswith("#") and system_of(text) is not None


def place_of(_data: bytes | str, _path: Path) -> TextPosition:
    """Return the beginning: a script is one job of one task."""
    return TextPosition(1, 0)


def read_script(
    data: bytes | str,
    origin: ScriptOrigin = _UNKNOWN,
    *,
    awareness: Awareness = Awareness.WARN,
) -> tuple[JobSpec, FidelityReport]:
    """Return the job that a script describes, and what became of its options.

    Raises:  BadRequest with line and column: ``not-a-job-file``, ``line-ends``, ``quote``, ``value``,
             ``option``, ``options``, ``not-supported``, ``resource``; ``not-understood`` under awareness
             policy Reject.
    """
    text = decode(data)
    script = SourceText(text)
    system = BatchSystem(origin.system) if origin.system else system_of(text)
    if system is None:
        script.refuse(0, "not-a-job-file", "the script has no options for a scheduler", "submit its path")
    if "\r\n" in text and system is not BatchSystem.GRID_ENGINE:
        fix = "convert it: dos2unix FILE"
        script.refuse(text.index("\r\n"), "line-ends", "the lines of the script end as in Windows", fix)
    draft = BatchDraft(system)
    for line in directives(script, system):
        _read_line(script, draft, line)
    if system is BatchSystem.SLURM:
        for variable, name in VARIABLES.items():
            if value := origin.environment.get(variable):
                OPTIONS[name].read(draft, OptionPlace(script, 0, variable, draft.items), value)
    if origin.options:
        command = OptionsText(shlex.join(origin.options))
        refuse_long_options(command, 0, len(command.text))
        _read_line(command, draft, Directive(system, command_words(origin.options)))
    draft.count_gpus()
    settle_sockets(draft)
    draft.settle_time()
    words = (posixpath.basename(origin.words[0]) or NAME, *origin.words[1:]) if origin.words else (NAME,)
    _set_files(draft, words[0], origin.directory)
    _set_environment(draft, origin)
    spec = draft.spec(_program(draft, text), words)
    return spec, apply_awareness(awareness, [*draft.items, *_of_the_whole(draft)])


def _read_line(script: SourceText, draft: BatchDraft, line: Directive) -> None:
    def refuse(word: Word, what: str, fix: str) -> NoReturn:
        script.refuse(word.start, "option", what, fix)

    for read, name, value, start in _OPTIONS[line.system](line.words, refuse):
        read(draft, OptionPlace(script, start, name, draft.items), value)


_Refuse = Callable[[Word, str, str], NoReturn]
_Found = Iterator[tuple[Reader, str, str, int]]
"""Of each option: its reader, its name, its value, where it stands."""


def _slurm_options(words: Sequence[Word], refuse: _Refuse) -> _Found:
    return (
        (OPTIONS[name].read, f"--{name}", value, start) for name, value, start in options_in(words, refuse)
    )


_OPTIONS: Final[Mapping[BatchSystem, Callable[[Sequence[Word], _Refuse], _Found]]] = {
    BatchSystem.SLURM: _slurm_options,
    BatchSystem.PBS: partial(qsub_options, BatchSystem.PBS),
    BatchSystem.GRID_ENGINE: partial(qsub_options, BatchSystem.GRID_ENGINE),
    BatchSystem.LSF: bsub_options,
}


def _set_files(draft: BatchDraft, name: str, directory: str) -> None:
    """Set the names of files and the work directory, with what the scheduler takes where nothing is said."""
    task, job = draft.task, draft.job
    job.setdefault("name", name)
    if draft.own_directory:
        task["work_directory"] = posixpath.join(directory, task.get("work_directory", ""))
    output, error = _FILES[draft.system](draft, job["name"])
    if draft.system is BatchSystem.PBS:  # files are brought to where the job was submitted
        output, error = (posixpath.join(directory, path) if path else path for path in (output, error))
    task["standard_output"], task["standard_error"] = output, output if draft.merged else error


def _slurm_files(draft: BatchDraft, name: str) -> tuple[str, str]:  # noqa: ARG001
    usual = "slurm-%A_%a.out" if draft.array else "slurm-%j.out"
    output = usual if draft.output is None else draft.output  # "": the cluster keeps what it prints
    return file_name(draft, output), file_name(draft, draft.error or "")


def _pbs_files(draft: BatchDraft, name: str) -> tuple[str, str]:
    number = "%CCP_JOBID%" + (".*" if draft.array else "")
    return _named(draft, f"{name}.o{number}", f"{name}.e{number}", lambda text: text)


def _grid_engine_files(draft: BatchDraft, name: str) -> tuple[str, str]:
    number = "%CCP_JOBID%" + (".*" if draft.array else "")
    return _named(
        draft, f"{name}.o{number}", f"{name}.e{number}", lambda text: grid_engine_file(draft, text, name)
    )


def _lsf_files(draft: BatchDraft, name: str) -> tuple[str, str]:  # noqa: ARG001
    """Return both files; LSF sends output by mail that has no file: the cluster keeps it."""
    number = "%CCP_JOBID%" + (".*" if draft.array else "")
    ours = partial(lsf_file, draft)
    output, error = _named(draft, f"{number}.out", f"{number}.err", ours)
    return output if draft.output else "", error if draft.error else ""


def _named(draft: BatchDraft, output: str, error: str, ours: Callable[[str], str]) -> tuple[str, str]:
    """Return the names of both files: those that were given, or the usual ones in a given directory."""
    paths = []
    for path, usual in ((draft.output, output), (draft.error, error)):
        if path is None:
            paths.append(usual)
        elif path.endswith("/"):
            paths.append(ours(path) + usual)
        else:
            paths.append(ours(path))
    return paths[0], paths[1]


_FILES: Final = {
    BatchSystem.SLURM: _slurm_files,
    BatchSystem.PBS: _pbs_files,
    BatchSystem.GRID_ENGINE: _grid_engine_files,
    BatchSystem.LSF: _lsf_files,
}


def _set_environment(draft: BatchDraft, origin: ScriptOrigin) -> None:
    """Set the variables that do not depend on where the job runs; a node adds the others."""
    own = dict(_FIXED[draft.system](draft, origin.directory))
    if draft.gpu_size is not None:
        own[PROCESS_COUNT[draft.system.value]] = str(
            draft.processes if draft.system is BatchSystem.SLURM else draft.processors
        )
    elif draft.chunk_processes is not None:
        own[PROCESS_COUNT[draft.system.value]] = str(draft.processes * draft.chunk_processes)
    shell = (
        origin.environment
        if draft.all_variables
        else {name: origin.environment[name] for name in draft.named_variables if name in origin.environment}
    )
    draft.variables = {**shell, **draft.variables, **own}


def _slurm_variables(draft: BatchDraft, directory: str) -> Mapping[str, str]:
    variables = {
        "SLURM_JOB_NAME": str(draft.job["name"]),
        "SLURM_NTASKS": str(draft.processes),
        "SLURM_NPROCS": str(draft.processes),
        "SLURM_CPUS_PER_TASK": str(draft.processors_per_task),
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
    }
    if directory:
        variables["SLURM_SUBMIT_DIR"] = directory
    if draft.tasks_per_node is not None:
        variables["SLURM_NTASKS_PER_NODE"] = str(draft.tasks_per_node)
    if draft.memory:
        variables["SLURM_MEM_PER_NODE"] = str(draft.memory)
    variables |= _slurm_gpus(draft)
    if draft.array:
        variables |= {f"SLURM_ARRAY_TASK_{name}": value for name, value in _array_numbers(draft).items()}
    return variables


_GPU_VARIABLES: Final = {
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
}


def _slurm_gpus(draft: BatchDraft) -> dict[str, str]:
    """Return the variables of the options that count GPUs, where they were given."""
    gpus = draft.gpus
    variables = {
        variable: ":".join(filter(None, (gpus.counts[option].model, str(gpus.counts[option].number))))
        for option, variable in _GPU_VARIABLES.items()
        if option in gpus.counts
    }
    more = {
        "SLURM_CPUS_PER_GPU": gpus.processors,
        "SLURM_MEM_PER_GPU": gpus.memory,
        "SLURM_NTASKS_PER_GPU": gpus.processes,
    }
    return {**variables, **{variable: str(value[0]) for variable, value in more.items() if value is not None}}


def _array_numbers(draft: BatchDraft) -> dict[str, str]:
    count = sum((last - first) // step + 1 for first, last, step in draft.array)
    return {
        "MIN": str(min(first for first, _, _ in draft.array)),
        "MAX": str(max(first + (last - first) // step * step for first, last, step in draft.array)),
        "STEP": str(draft.array[0][2]),
        "COUNT": str(count),
    }


def _pbs_variables(draft: BatchDraft, directory: str) -> Mapping[str, str]:
    variables = {
        "PBS_JOBNAME": str(draft.job["name"]),
        "PBS_ENVIRONMENT": "PBS_BATCH",
        "PBS_QUEUE": str(draft.job.get("template", "Default")),
        "NCPUS": str(draft.processors_per_task),
    }
    if draft.chunk_processes is not None:  # as PBS Professional sets both for chunks
        variables["NCPUS"] = str(draft.threads or draft.processors_per_task)
        variables["OMP_NUM_THREADS"] = variables["NCPUS"]
    return {**variables, "PBS_O_WORKDIR": directory} if directory else variables


def _grid_engine_variables(draft: BatchDraft, directory: str) -> Mapping[str, str]:
    variables = {
        "JOB_NAME": str(draft.job["name"]),
        "ENVIRONMENT": "BATCH",
        "QUEUE": str(draft.job.get("template", "Default")),
    }
    if draft.array:
        numbers = _array_numbers(draft)
        variables |= {f"SGE_TASK_{ours}": numbers[name] for ours, name in _SGE_NAMES}
    return {**variables, "SGE_O_WORKDIR": directory} if directory else variables


def _lsf_variables(draft: BatchDraft, directory: str) -> Mapping[str, str]:
    variables = {
        "LSB_JOBNAME": str(draft.job["name"]),
        "LSB_QUEUE": str(draft.job.get("template", "Default")),
        "LSB_JOBINDEX": "0",
    }
    if draft.array:
        numbers = _array_numbers(draft)
        variables |= {"LSB_JOBINDEX_STEP": numbers["STEP"], "LSB_JOBINDEX_END": numbers["MAX"]}
    return {**variables, "LS_SUBCWD": directory} if directory else variables


_SGE_NAMES: Final = (("FIRST", "MIN"), ("LAST", "MAX"), ("STEPSIZE", "STEP"))
_FIXED: Final = {
    BatchSystem.SLURM: _slurm_variables,
    BatchSystem.PBS: _pbs_variables,
    BatchSystem.GRID_ENGINE: _grid_engine_variables,
    BatchSystem.LSF: _lsf_variables,
}


def _program(draft: BatchDraft, text: str) -> str:
    """Return the script as it runs: with a first line that names its shell."""
    first, newline, rest = text.partition("\n")
    if draft.shell:
        return f"#!{draft.shell}\n{rest if first.startswith('#!') else text}"
    if first.startswith("#!"):
        return first.rstrip("\r") + newline + rest
    return f"#!/bin/sh\n{text}"


def _of_the_whole(draft: BatchDraft) -> Sequence[ReportItem]:
    """Return the findings about several options together."""
    several = draft.processes > 1 and draft.processors_per_task > 1
    if several and draft.nodes is None and draft.tasks_per_node is None and draft.gpu_size is None:
        what = "the processors of one process may be on several nodes; write how many processes a node has"
        return [ReportItem(Fidelity.APPROXIMATED, RULES[draft.system].title, what)]
    return []
