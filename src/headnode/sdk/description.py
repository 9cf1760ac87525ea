"""A job as the caller of the SDK describes it, as a job file in the native form."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any

import msgspec

from headnode.apps.client.submitter import quoted_line
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.protocol.requests import CreateJobRequest
from headnode.sdk.options import SingleTaskOptions, TaskOptions

MOMENTS = ("hold_until", "end_by")  # options that are points of time
DIALECT = "native-json"
COMMAND, TASKS, WORK_DIRECTORY, SWEEP = "command", "tasks", "work_directory", "sweep"

MAX_JOBS = 1000  # in one request
MAX_CHARACTERS = 4 * 1024 * 1024  # of one request, so that others need not wait long

Command = str | Sequence[str | PurePath | int | float]
"""A command line for the shell; or a program and its arguments, which no shell changes."""


def job_description(
    command: Command | None, tasks: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a job of one command, or of several tasks, in the native form.

    Raises:  BadRequest ``usage`` unless there is either a command or tasks; ``value``.

    >>> job_description(["echo", "a b"], [], {"sweep": range(1, 11), "run_time": timedelta(minutes=90)})
    {'command': "echo 'a b'", 'sweep': '1-10', 'run_time': '5400s'}
    """
    if (command is None) == (not tasks):
        raise BadRequest(
            code="usage", what="a job has either a command or tasks", fix="give one of them: submit('./run')"
        )
    if command is not None:
        return task_description(command, options)
    described = [task_description(None, task) for task in tasks]
    return {**_plain_options(options), TASKS: described}


_POSITION = re.compile(r"\A(submission \d+ of \d+: )?line \d+, column \d+: ")


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Let refusals name the argument that is wrong, without its position in the text that the SDK wrote."""
    try:
        yield
    except HeadnodeError as error:
        raise without_position(error)  # noqa: B904  (it is the same error)


def without_position(error: HeadnodeError) -> HeadnodeError:
    """Return the same error; it names the argument alone.

    >>> without_position(BadRequest(code="size", what="line 1, column 9: job: processors: 'x' is none")).what
    "job: processors: 'x' is none"
    """
    before, error.what = error.what, _POSITION.sub(lambda match: match[1] or "", error.what)
    error.args = tuple(
        each.replace(before, error.what, 1) if isinstance(each, str) else each for each in error.args
    )
    return error


class JobSubmission(SingleTaskOptions, total=False):
    """One of many jobs: its options, and its command or its tasks."""

    command: Command
    tasks: Sequence[TaskOptions]


def in_requests(texts: Iterable[str], *, all_or_none: bool) -> Iterator[list[CreateJobRequest]]:
    """Yield job files in requests that the head takes.

    Raises:  BadRequest ``too-many-jobs`` if all or none are requested, and they do not fit into one request.
    """
    request: list[CreateJobRequest] = []
    size = 0
    for text in texts:
        if request and (len(request) == MAX_JOBS or size + len(text) > MAX_CHARACTERS):
            if all_or_none:
                raise BadRequest(
                    code="too-many-jobs",
                    what=f"all or none is possible for {MAX_JOBS} jobs, {MAX_CHARACTERS} characters",
                    fix="leave out all_or_none, or divide the jobs",
                )
            yield request
            request, size = [], 0
        request.append(CreateJobRequest(jobfile=text, dialect=DIALECT))
        size += len(text)
    if request:
        yield request


def task_description(command: Command | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task in the native form; its command is among the options if there is none beside them.

    Raises:  BadRequest ``usage``, ``value``.
    """
    words = options.get(COMMAND) if command is None else command
    if not words:
        raise BadRequest(code="usage", what="the task has no command", fix="write one: command='./run'")
    rest = {name: value for name, value in options.items() if name != COMMAND}
    line = words if isinstance(words, str) else quoted_line([_argument(word) for word in words])
    return {COMMAND: line, **_plain_options(rest)}


def _argument(word: Any) -> str:
    """Return an argument of a command as text: a number is written as Python prints it."""
    if isinstance(word, int | float):
        return str(word)
    if isinstance(word, str | PurePath):
        return os.fspath(word)
    what = f"the command has {word!r:.60}, which is no text, path or number"
    raise BadRequest(code="value", what=what, fix="write it as text, for example with str()")


def job_text(description: Mapping[str, Any]) -> str:
    """Return a description as the text of a job file.

    Raises:  BadRequest ``value`` for a value that JSON cannot have.
    """
    try:
        return msgspec.json.encode(description).decode()
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(
            code="value", what=f"the job cannot be written: {error}", fix="use texts, numbers and lists"
        ) from None


def _plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _plain(_from_now(value) if name in MOMENTS else value, name)
        for name, value in options.items()
        if value is not None
    }


def _from_now(value: Any) -> Any:
    """Return the instant that a span means for an option that is a point of time: so long from now."""
    return time.time() + value.total_seconds() if isinstance(value, timedelta) else value


def _plain(value: Any, name: str) -> Any:
    """Return a value of an option as a job file has it."""
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.0f}s"
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).astimezone(UTC).timestamp()
    if isinstance(value, range):
        return _sweep(value, name)
    if isinstance(value, Mapping):
        return {str(key): _plain(each, name) for key, each in value.items()}
    if hasattr(value, "id") and isinstance(value.id, int):
        return value.id
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [_plain(each, name) for each in value]
    raise BadRequest(
        code="value",
        what=f"option {name!r} has a value of type {type(value).__name__}",
        fix="use text, a number, a list, a time or a job",
        path=(name,),
    )


def _sweep(values: range, name: str) -> str:
    if not values:
        raise BadRequest(
            code="value", what=f"{name!r} is an empty range", fix="a sweep has a value", path=(name,)
        )
    low, high, step = min(values), max(values), abs(values.step)
    return f"{low}-{high}" if step == 1 else f"{low}-{high}:{step}"
