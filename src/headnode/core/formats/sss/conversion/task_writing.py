"""A task of a job as a task group."""

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from headnode.core.formats.sss.conversion.extensions import ConversionFindings, TextLosses, kept_group
from headnode.core.formats.sss.conversion.programs import as_program, limits_back
from headnode.core.formats.sss.conversion.requested_resources import distribution_back
from headnode.core.formats.sss.conversion.resource_table import Request
from headnode.core.formats.sss.conversion.resource_writing import written_layout
from headnode.core.formats.sss.conversion.simple_fields import environment, ordered, own_words
from headnode.core.formats.sss.conversion.write_request import written_request
from headnode.core.formats.sss.job_object import Task, TaskGroup
from headnode.core.formats.sss.properties import Redirect, SssProperty, SssStream
from headnode.core.formats.sss.property_rows import ElementPlace
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, TaskType, substitute

MOST_WRITTEN_OUT = 1_000  # instances of a sweep whose texts differ
SWEPT = ("command", "standard_input", "standard_output", "standard_error", "work_directory")
"""The fields of a task in which an asterisk is the swept value."""

_ESCAPED = re.compile(r"[*^]")


def task_group(
    spec: JobSpec, task: TaskSpec, options: Sequence[Request], findings: ConversionFindings
) -> TaskGroup:
    """Return the task group of a task, which asks for one of options.

    A sweep whose texts differ has a Task for each instance.
    """
    kept = kept_group(task.extensions, findings)
    asked = written_request(options, kept, ElementPlace.TASK_GROUP, findings)
    written_out = _is_written_out(task, findings)
    found = written_layout(spec, task, findings)
    counted = task.kind is TaskType.SWEEP or (found and found.geometry)
    TextLosses(findings).tell("name", [task.name])
    own = [
        *([SssProperty(name="Name", value=task.name)] if task.name else []),
        *([SssProperty(name="TaskCount", value=task.instances)] if counted else []),
        *([] if written_out else run_of(_first(task, findings), findings)),
        *environment(task.environment),
        *limits_back(task.resource_limits, findings),
        *distribution_back(found, findings),
        *_restartable(spec, task),
        *own_words(task.properties, findings),
    ]
    names = {one.name for one in own if one.name in ("ResourceLimit", "TaskDistribution")}
    rest = [one for one in asked.properties if one.name not in names]
    group = TaskGroup(properties=ordered([*own, *rest]), requested=asked.requested, kept=kept.kept)
    return replace(group, tasks=tuple(_each(task, findings))) if written_out else group


def _restartable(spec: JobSpec, task: TaskSpec) -> list[SssProperty]:
    """Say of a task what the job does not say of all of them."""
    if len({each.rerunnable for each in spec.tasks}) == 1:
        return []
    return [SssProperty(name="Restartable", value=task.rerunnable)]


def run_of(task: TaskSpec, findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield what a task runs, where, and with which files."""
    said = as_program(task.command)
    if said.lost:
        findings.approximated(said.lost)
    if said.changed:
        findings.translated(said.changed)
    texts = TextLosses(findings)
    for field in SWEPT[1:]:
        texts.path(field, getattr(task, field))
    simple = (
        ("Executable", said.executable),
        ("Arguments", said.arguments),
        ("InitialWorkingDirectory", task.work_directory),
    )
    yield from (SssProperty(name=name, value=text) for name, text in simple if text)
    yield from _streams(task, findings)


def _streams(task: TaskSpec, findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield the files of a task.  Errors in the file of the output go to the same opened file."""
    if task.standard_input:
        yield SssStream(name="InputFile", value=task.standard_input)
    if task.standard_output:
        append = (Redirect.APPEND,) if task.append_output else ()
        yield SssStream(name="OutputFile", value=task.standard_output, redirects=append)
    if task.standard_output and task.standard_error == task.standard_output:
        yield SssStream(name="ErrorFile", redirects=(Redirect.MERGE,))
        if task.append_error != task.append_output:
            findings.translated("append_error: errors go to the file of the output as it is opened")
    elif task.standard_error:
        append = (Redirect.APPEND,) if task.append_error else ()
        yield SssStream(name="ErrorFile", value=task.standard_error, redirects=append)
    for field, path in (("append_output", task.standard_output), ("append_error", task.standard_error)):
        if getattr(task, field) and not path:
            findings.translated(f"{field}: there is no file to write behind")


def _texts(task: TaskSpec, value: int) -> TaskSpec:
    """Return a task with the swept value in its texts."""
    return replace(task, **{field: substitute(getattr(task, field), value) for field in SWEPT})


def _is_written_out(task: TaskSpec, findings: ConversionFindings) -> bool:
    """Whether each instance of a sweep has texts of its own, which are written."""
    if task.kind is not TaskType.SWEEP:
        return False
    same = _texts(task, 1) == _texts(task, 2)
    if (task.start, task.increment) != (1, 1) or task.instances == 1:
        what = "start, increment: instances are numbered from 1; only the number is passed to each"
        for field in ("start", "end", "increment", "kind"):
            findings.approximated(f"{field}: {what}")
    if same:
        return False
    if task.instances > MOST_WRITTEN_OUT:
        what = f"kind: more than {MOST_WRITTEN_OUT} instances with different texts are not written"
        findings.lost(what)
        return False
    what = f"kind: the sweep is written out, with a Task for each of its {task.instances} instances"
    findings.translated(what)
    return True


def _first(task: TaskSpec, findings: ConversionFindings) -> TaskSpec:
    """Return the texts that all instances share, without carets that take the meaning of signs away."""
    if task.kind is not TaskType.SWEEP or _texts(task, 1) != _texts(task, 2):
        return task
    found = _texts(task, 1)
    for field in SWEPT:
        if _ESCAPED.sub(r"^\g<0>", getattr(found, field)) != getattr(task, field):
            findings.translated(f"{field}: each caret stands for itself")
    return found


def _each(task: TaskSpec, findings: ConversionFindings) -> Iterator[Task]:
    for instance in range(1, task.instances + 1):
        found = _texts(task, task.value(instance))
        number = SssProperty(name="Id", value=str(instance))
        yield Task(properties=ordered([number, *run_of(found, findings)]))
