"""Write a job as a submit file of HTCondor; say what the language cannot.

The commands of a job are in `command_lines`, those of a task here.
Source:  HTCondor 24, condor_submit(1).
"""

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from headnode.core.formats.batch.writing import own_variables, report_foreign_variables
from headnode.core.formats.condor.command_lines import (
    NO_CALL,
    WRITTEN_OF_JOB,
    WRITTEN_OF_TASK,
    WRITTEN_PARTS,
    commands_of_job,
    is_gang,
    queue_of,
)
from headnode.core.formats.condor.draft import USER_LOG
from headnode.core.formats.condor.words import written_words
from headnode.core.formats.fidelity import Fidelity, FidelityReport, LossReport, lost_fields
from headnode.core.formats.grid.command_lines import join
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import FOREVER
from headnode.core.model.staging import NEW_FILES, StorageBase, local_path
from headnode.core.model.task import StagedFile, TaskSpec, TaskType, argv_of, program_url
from headnode.core.model.variable_names import DOLLAR, PERCENT

_STARS = re.compile(r"\^([*^])|(\*+)")
_NUMBER, _BEGIN, _END = "\ud800", "\ud801", "\ud802"
_SIGNS = re.compile(f"({_NUMBER}+)|{_BEGIN}(.*?){_END}")
"""Signs for the value of a sweep and around a name: halves of surrogate pairs, which no text has."""
_SHELL_VARIABLE = re.compile(f"{PERCENT.pattern}|{DOLLAR.pattern}")


def commands_of_task(spec: JobSpec, task: TaskSpec, losses: LossReport) -> dict[str, str]:
    """Return the commands of the processes of a task."""
    return dict(_TaskLines(spec, task, losses).commands())


class _TaskLines:
    """The commands of one task."""

    def __init__(self, spec: JobSpec, task: TaskSpec, losses: LossReport) -> None:
        self._spec, self._task, self._losses = spec, task, losses
        self._uses_value = self._uses_number = False

    def commands(self) -> Iterator[tuple[str, str]]:
        """Yield all commands; one that is not set is empty, since one of a task before could be."""
        task, spec = self._task, self._spec
        if len(spec.tasks) > 1 and task.name:
            self._add(Fidelity.NOT_SUPPORTED, f"name: {task.name!r}: a process has a number")
        elif task.name:
            self._add(Fidelity.NOT_SUPPORTED, f"name: {task.name!r}: only the job has a name")
        if set(task.properties) - {USER_LOG}:
            self._add(Fidelity.NOT_SUPPORTED, "properties: attributes are those of the job")
        found = dict((*self._program(), *self._streams(), *self._files()))
        if task.kind is TaskType.SWEEP and task.instances == 1:
            self._add(Fidelity.TRANSLATED, f"kind: the sweep has one instance, {task.start}")
        unused = task.kind is TaskType.SWEEP and not self._uses_number
        if unused and (task.start, task.increment) != (0, 1):
            what = f"start, end, increment: {task.start}-{task.end}:{task.increment}: processes count from 0"
            self._add(Fidelity.TRANSLATED, what)
        variables = own_variables({**spec.environment, **task.environment}, task)
        for name in [name for name in variables if "=" in name or name != name.strip()]:
            self._add(Fidelity.NOT_SUPPORTED, f"environment: {name!r} is no name of a variable")
            del variables[name]
        words = [NO_CALL.sub("$(DOLLAR)", f"{name}={value}") for name, value in variables.items()]
        found["environment"] = self._line(written_words(words), "environment") if words else ""
        limit = min(task.run_time, spec.run_time)
        if limit != FOREVER:
            self._add(Fidelity.TRANSLATED, "run_time: a process is held after its limit, and has not failed")
        found["allowed_execute_duration"] = "" if limit == FOREVER else str(-int(-limit // 1))
        if self._uses_value:
            yield "Value", f"$(Step) * {task.increment} + {task.start}"
        yield from found.items()

    def _add(self, kind: Fidelity, what: str) -> None:
        self._losses.add(kind, "task", what)

    def _line(self, text: str, field: str) -> str:
        if "\n" in text:
            self._add(Fidelity.NOT_SUPPORTED, f"{field}: a line break is written as a blank")
        return text.replace("\n", " ")

    def _text(self, text: str, field: str, variables: "re.Pattern[str]" = PERCENT) -> str:
        """Return a text with the macros that stand for what Headnode replaces in it."""
        return self._written(self._marked(text, field, variables), field)

    def _marked(self, text: str, field: str, variables: "re.Pattern[str]" = PERCENT) -> str:
        """Return a text with signs for the values of a sweep and for variables of the task."""
        if self._task.kind is TaskType.SWEEP:
            text = _STARS.sub(lambda found: str(found[1] or _NUMBER * len(found[2])), text)
        return variables.sub(lambda found: self._variable(found, field), text)

    def _variable(self, match: "re.Match[str]", field: str) -> str:
        name = re.sub("[()]", "", next(filter(None, match.groups())))
        if name.upper() != "CCP_JOBID":
            what = f"{field}: {match[0]} is that of the shell in which the file is submitted"
            self._add(Fidelity.APPROXIMATED, what)
        return f"{_BEGIN}{name}{_END}"

    def _written(self, marked: str, field: str) -> str:
        """Return a text with macros in place of signs."""
        parts = _SIGNS.split(marked)
        found = [NO_CALL.sub("$(DOLLAR)", parts[0])]
        for numbers, name, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            if numbers:
                found.append(self._value(len(numbers)))
            else:
                found.append("$(Cluster)" if name.upper() == "CCP_JOBID" else f"$ENV({name}:)")
            found.append(NO_CALL.sub("$(DOLLAR)", after))
        return self._line("".join(found), field)

    def _value(self, width: int) -> str:
        self._uses_number = True
        if is_gang(self._spec):
            return "$(Node)" if width == 1 else f"$INT(Node,%0{width}d)"
        if (self._task.start, self._task.increment) == (0, 1):
            return "$(Step)" if width == 1 else f"$INT(Step,%0{width}d)"
        self._uses_value = True
        return "$INT(Value)" if width == 1 else f"$INT(Value,%0{width}d)"

    def _program(self) -> Iterator[tuple[str, str]]:
        task = self._task
        command = self._marked(task.command, "command")
        words = list(argv_of(command))
        if task.script:
            what = f"script: its text is not in a submit file: write it into {words[0]!r}"
            self._add(Fidelity.NOT_SUPPORTED, what)
            report_foreign_variables(task.script, None, self._losses)
        url = program_url(task.command)
        if url:
            words[0] = self._marked(local_path(url) or url, "command")
        elif words[0] and "/" not in words[0] and not task.script:
            self._add(Fidelity.TRANSLATED, "command: /usr/bin/env looks for the program in PATH")
            words = ["/usr/bin/env", *words]
        if join(words) != command and not task.script and not url:
            self._add(Fidelity.TRANSLATED, "command: it is written as a program with its arguments")
        yield "executable", self._written(words[0], "command")
        yield "transfer_executable", "true" if url or task.script else "false"
        arguments = [self._written(word, "command") for word in words[1:]]
        yield "arguments", written_words(arguments) if arguments else ""

    def _streams(self) -> Iterator[tuple[str, str]]:
        task = self._task
        for name, path in (
            ("initialdir", task.work_directory),
            ("input", task.standard_input),
            ("log", task.properties.get(USER_LOG, "")),
            ("output", task.standard_output),
            ("error", task.standard_error),
        ):
            text = self._text(path, name, _SHELL_VARIABLE)
            if text != text.strip() or text.endswith("\\"):
                self._add(Fidelity.NOT_SUPPORTED, f"{name}: blanks around it, or a backslash at its end")
                text = text.strip().rstrip("\\")
            elif name == "initialdir" and text and posixpath.normpath(text) != text:
                self._add(Fidelity.TRANSLATED, f"initialdir: it is read as {posixpath.normpath(text)!r}")
            yield name, text

    def _files(self) -> Iterator[tuple[str, str]]:
        task = self._task
        if not task.stages:
            yield "should_transfer_files", "YES" if task.private_directory else "NO"
            yield "transfer_input_files", ""
            yield "transfer_output_files", '""' if task.private_directory else ""
            yield "transfer_output_remaps", ""
            return
        base = StorageBase(task.storage_base or self._spec.storage_base)
        yield "should_transfer_files", "YES"
        yield "transfer_input_files", ", ".join(self._inputs(task.stage_in, base))
        if len(task.stage_out) == 1 and task.stage_out[0].path == NEW_FILES:
            yield from self._new_files(base.resolve(task.stage_out[0].url))
            return
        names, remaps = self._outputs(task.stage_out, base)
        yield "transfer_output_files", ", ".join(names) or '""'
        yield "transfer_output_remaps", f'"{"; ".join(remaps)}"' if remaps else ""

    def _new_files(self, url: str) -> Iterator[tuple[str, str]]:
        """Yield the commands with which HTCondor takes new files away: to the initial directory, or a URL."""
        yield "transfer_output_files", ""
        yield "transfer_output_remaps", ""
        if directory := local_path(url.rstrip("/")):
            yield "initialdir", self._text(directory, "stage_out")
        else:
            yield "output_destination", self._text(url, "stage_out")

    def _inputs(self, files: Sequence[StagedFile], base: StorageBase) -> Iterator[str]:
        for one in files:
            url = base.resolve(one.url)
            source = local_path(url.rstrip("/")) if url.startswith("file:") else url
            if url.endswith("/") and not source.endswith("/"):
                source += "/"
            place = "./" if source.endswith("/") else posixpath.basename(source.partition("?")[0])
            if one.path.removeprefix("./") != place.removeprefix("./") or re.search("[,;]", source):
                what = f"stage_in: {one.path!r} cannot have another name than {source!r}"
                self._add(Fidelity.NOT_SUPPORTED, what)
                continue
            yield self._text(source, "stage_in")

    def _outputs(self, files: Sequence[StagedFile], base: StorageBase) -> tuple[list[str], list[str]]:
        names: list[str] = []
        remaps: list[str] = []
        for one in files:
            url = base.resolve(one.url)
            target = local_path(url) or url
            if re.search("[,;=]", one.path + target) or one.path.endswith("/") or one.path in names:
                self._add(Fidelity.NOT_SUPPORTED, f"stage_out: {one.path!r} to {url!r} cannot be said")
                continue
            names.append(one.path)
            remaps.append(f"{self._text(one.path, 'stage_out')} = {self._text(target, 'stage_out')}")
        return [self._text(name, "stage_out") for name in names], remaps


Written = tuple[bytes, FidelityReport]
_JOB, _TASK = JobSpec(), TaskSpec()
_OF_PROCESSES: Final = frozenset((
    *("name", "command", "kind", "start", "end", "increment", "standard_input", "standard_output"),
    *("standard_error", "work_directory", "environment", "run_time", "stage_in", "stage_out", "script"),
    "properties",
))  # fmt: skip
"""What may differ between the tasks of one submit file: each has its own queue command."""


def write_submit(spec: JobSpec) -> Written:
    """Return a submit file.

    Raises:  BadRequest ``one-task`` when the tasks of the job wait for each other or ask for different
             things.
    """
    losses = LossReport()
    _refuse_different(spec)
    for field in lost_fields(spec, _JOB, WRITTEN_OF_JOB, WRITTEN_PARTS):
        losses.add(Fidelity.NOT_SUPPORTED, "job", f"{field}: a submit file has no such command")
    for task in spec.tasks:
        for field in lost_fields(task, _TASK, WRITTEN_OF_TASK, WRITTEN_PARTS):
            losses.add(Fidelity.NOT_SUPPORTED, "task", f"{field}: a submit file has no such command")
    written: dict[str, str] = {}
    lines = _lines(commands_of_job(spec, losses), written)
    for task in spec.tasks:
        lines += _lines(commands_of_task(spec, task, losses), written)
        lines.append(queue_of(spec, task))
    return "".join(f"{line}\n" for line in lines).encode(), losses.report()


def _lines(commands: dict[str, str], written: dict[str, str]) -> list[str]:
    """Return the lines for commands that are not written so already."""
    found = [f"{name} = {text}".rstrip() for name, text in commands.items() if written.get(name, "") != text]
    written.update(commands)
    return found


def _refuse_different(spec: JobSpec) -> None:
    if not spec.tasks:
        raise BadRequest(code="no-tasks", what="the job has no task", fix="add one")
    if not all(task.command.strip() for task in spec.tasks):
        raise BadRequest(code="no-command", what="a task has no command line", fix="give it one")
    kinds = {task.kind for task in spec.tasks}
    first = spec.tasks[0]
    same = all(_alike(first, task) for task in spec.tasks[1:])
    waits = any(task.depends_on for task in spec.tasks) or spec.group_edges
    if waits or not same or not kinds <= {TaskType.BASIC, TaskType.SWEEP}:
        raise BadRequest(
            code="one-task",
            what="the processes of a submit file do not wait for each other, and all request the same; these "
            "tasks do not",
            fix="write the job as native or hpcpack, or each task into a job of its own",
        )


def _alike(one: TaskSpec, other: TaskSpec) -> bool:
    return replace(one, **{field: getattr(other, field) for field in _OF_PROCESSES}) == other
