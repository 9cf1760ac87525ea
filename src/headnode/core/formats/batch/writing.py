"""Write a job with one program as a batch script; say what the form cannot.

The options are in `option_lines`.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from headnode.core.formats.batch.lines import RULES, BatchSystem, read_by
from headnode.core.formats.batch.option_lines import OPTION_LINES, SWEPT
from headnode.core.formats.fidelity import Fidelity, FidelityReport, LossReport, WrittenParts, lost_fields
from headnode.core.model.batch_variables import processors_of_process
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import HeldAmounts, JobSpec, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import ARRAY_INDEX, TEMPORARY_VARIABLES, Distribution, TaskSpec, TaskType

Written = tuple[bytes, FidelityReport]
_JOB, _TASK = JobSpec(), TaskSpec()
_PARTS: Final[WrittenParts] = {
    HeldAmounts: frozenset({"memory"}),
    NodeNeeds: frozenset({"features"}),
    Distribution: frozenset({"per_node", "nodes"}),
}
_SHAPE: Final = frozenset({"minimum_sockets", "minimum_cores_per_socket", "minimum_threads_per_core"})
_PARTS_WITH_SHAPE: Final[WrittenParts] = {**_PARTS, NodeNeeds: _PARTS[NodeNeeds] | _SHAPE}
_SAID_OF_JOB: Final = frozenset((
    *("name", "project", "template", "run_time", "single_node", "exclusive", "held", "process_memory"),
    *("minimum", "maximum", "tasks", "dialect", "needs", "parents", "after_failure", "after_exit"),
    *("after_start", "after_corresponding", "dependencies", "any_dependency", "hold_until", "holds"),
    *("email", "notify_on_start"),
    "notify_on_completion",
    "environment",
))  # fmt: skip
_NOTHING: Final[frozenset[str]] = frozenset()
_SAID_BY: Final[Mapping[BatchSystem, tuple[frozenset[str], frozenset[str]]]] = {
    BatchSystem.SLURM: (
        frozenset((
            *("node_groups", "excluded_nodes", "licences", "reservation", "end_by", "description"),
            *("signal", "singleton", "switches", "switches_wait", "minimum_processors_per_node"),
            *("minimum_run_time", "contiguous"),
        )),
        _NOTHING,
    ),
    BatchSystem.PBS: (frozenset({"minimum_run_time"}), _NOTHING),
    BatchSystem.GRID_ENGINE: (frozenset({"signal"}), _NOTHING),
    BatchSystem.LSF: (
        frozenset((
            *("excluded_nodes", "reservation", "end_by", "description", "requested_nodes", "job_group"),
            *("named_parents", "resource_limits", "signal"),
        )),
        frozenset({"append_output", "append_error"}),
    ),
}  # fmt: skip
"""Fields of the job, and of its task, that only some schedulers have options for."""
_SAID_OF_TASK: Final = frozenset((
    *("name", "command", "script", "kind", "start", "end", "increment", "minimum", "maximum", "run_time"),
    *("distribution", "standard_input", "standard_output", "standard_error", "work_directory", "environment"),
    "rerunnable",
))  # fmt: skip


def write_script(spec: JobSpec, system: BatchSystem) -> Written:
    """Return a script for a scheduler.

    Raises:  BadRequest ``one-task`` when the job has several programs.
    """
    losses = LossReport()
    task = _only_program(spec, system)
    if spec.tasks[0].kind is TaskType.SWEEP and system is BatchSystem.PBS and len(spec.tasks) > 1:
        losses.add(Fidelity.NOT_SUPPORTED, "tasks", "PBS has one range of numbers: the others are left out")
    merged = replace(spec, run_time=task.run_time if spec.run_time == FOREVER else spec.run_time)
    lines = [f"{RULES[system].mark} {each}" for each in OPTION_LINES[system](merged, task, losses)]
    of_job, of_task = _SAID_BY.get(system, (_NOTHING, _NOTHING))
    parts = _PARTS_WITH_SHAPE if system in (BatchSystem.SLURM, BatchSystem.LSF) else _PARTS
    counted = {"unit", "processors_per_gpu"} if spec.unit is UnitType.GPU else _NOTHING
    for field in lost_fields(spec, _JOB, _SAID_OF_JOB | of_job | counted, parts):
        losses.add(Fidelity.NOT_SUPPORTED, "job", f"{field}: a {RULES[system].title} has no such option")
    of_task |= _temporary(spec, task, system, losses)
    for field in lost_fields(task, _TASK, _SAID_OF_TASK | of_task, parts):
        losses.add(Fidelity.NOT_SUPPORTED, "task", f"{field}: a {RULES[system].title} has no such option")
    each = processors_of_process(spec, task)
    if each > 1 and system in (BatchSystem.LSF, BatchSystem.GRID_ENGINE):
        what = f"processes: a slot is a processor there, and each process here has {each}"
        losses.add(Fidelity.NOT_SUPPORTED, "task", what)
    first, body = _program(task, system, losses)
    report_foreign_variables(body if task.script else "", system, losses)
    variables = {**spec.environment, **task.environment}
    exports = [
        f"export {name}={shlex.quote(value)}" for name, value in own_variables(variables, task).items()
    ]
    if exports and task.script and not _is_shell(first):
        losses.add(Fidelity.NOT_SUPPORTED, "environment", "only a script of a shell can set its variables")
        exports = []
    return "\n".join([first, *lines, *exports, body]).encode(), losses.report()


def _temporary(spec: JobSpec, task: TaskSpec, system: BatchSystem, losses: LossReport) -> frozenset[str]:
    """Report what becomes of the temporary directory of a task; return its field if it is not lost."""
    has, made_there = task.has_temporary_directory(spec.dialect), system.value in TEMPORARY_VARIABLES
    if task.temporary_directory and made_there:
        losses.add(Fidelity.TRANSLATED, "task", "temporary_directory: every job has one there")
        return frozenset({"temporary_directory"})
    if has and not made_there and task.temporary_directory is None and "TMPDIR" in task.script:
        what = f"$TMPDIR is no directory of the job in a {RULES[system].title}; write TMPDIR=$(mktemp -d)"
        losses.add(Fidelity.NOT_SUPPORTED, "script", what)
    return _NOTHING


def _only_program(spec: JobSpec, system: BatchSystem) -> TaskSpec:
    """Return the one program of a job; the ranges of one sweep may be several tasks.

    Raises:  BadRequest ``one-task``.
    """
    plain = {_without_range(task) for task in spec.tasks}
    kind = spec.tasks[0].kind if spec.tasks else TaskType.BASIC
    is_array = kind is TaskType.SWEEP and len(plain) == 1
    if not is_array and (kind is not TaskType.BASIC or len(spec.tasks) != 1):
        raise BadRequest(
            code="one-task",
            what=f"a {RULES[system].title} runs one program, and the job has {len(spec.tasks)} tasks",
            fix="write the job as native or hpcpack, or each program into a job of its own",
        )
    return spec.tasks[0]


def _without_range(task: TaskSpec) -> str:
    """Return what is the same in all ranges of one sweep."""
    return repr(replace(task, start=0, end=0, increment=1, name=""))


def _program(task: TaskSpec, system: BatchSystem, losses: LossReport) -> tuple[str, str]:
    """Return the first line of the script, and the lines behind its options."""
    if task.script:
        first, _, rest = task.script.partition("\n")
        read = [RULES[each].directive for each in read_by(system)]
        kept = [line for line in rest.splitlines() if not any(mark.match(line) for mark in read)]
        if task.kind is not TaskType.SWEEP and len(task.command.split()) > 1:
            losses.add(
                Fidelity.NOT_SUPPORTED, "command", "arguments follow the script: sbatch SCRIPT ARGUMENT"
            )
        return first, "\n".join(kept) + "\n"
    command = task.command
    if task.kind is TaskType.SWEEP:
        command = SWEPT.sub(lambda match: _value_of(match, system), command)
    if "%" in command:
        losses.add(Fidelity.NOTE, "command", "names in percent signs are not replaced by other schedulers")
    return "#!/bin/sh", command + "\n"


def report_foreign_variables(body: str, system: BatchSystem | None, losses: LossReport) -> None:
    """Report each variable of another scheduler that a script reads: it is not set there.

    system:  where the script will run; None: where there is no variable with the number of an array
    """
    commands = "\n".join(line for line in body.splitlines() if not line.lstrip().startswith("#"))
    known = "|".join(each for other, rules in RULES.items() if other is not system for each in rules.prefixes)
    for name in dict.fromkeys(re.findall(rf"\$\{{?((?:{known})\w+)", commands)):
        fix = f"; write ${ARRAY_INDEX[system.value]}" if system and name in ARRAY_INDEX.values() else ""
        losses.add(Fidelity.NOT_SUPPORTED, "script", f"${name} is not set there{fix}")


def _value_of(match: "re.Match[str]", system: BatchSystem) -> str:
    if match[1]:
        return str(match[1])
    name = ARRAY_INDEX[system.value]
    return f"${{{name}}}" if len(match[2]) == 1 else f"$(printf %0{len(match[2])}d ${{{name}}})"


def _is_shell(first: str) -> bool:
    return re.search(r"\b(?:ba|da|k|z)?sh\b", first) is not None


def own_variables(variables: Mapping[str, str], task: TaskSpec) -> dict[str, str]:
    """Return the variables but those that the schedulers set themselves."""
    theirs = (*(prefix for rules in RULES.values() for prefix in rules.prefixes), "CCP_", "HEADNODE_")
    return {
        name: value
        for name, value in variables.items()
        if not name.startswith(theirs)
        and (not task.script or name not in ("NCPUS", "NSLOTS", "QUEUE", "JOB_NAME", "ENVIRONMENT"))
    }
