"""Many jobs for ``hn job submit``: several job files, or a job for each line of a file; and the requests."""

import os
import sys

from headnode.adapters.files.opening import open_named
from headnode.apps.cli.job_files import LINES, STANDARD_INPUT, described_by, refuse_how
from headnode.apps.cli.options import Arguments, usage
from headnode.apps.cli.shell import ENV_ALL, apply_shell
from headnode.apps.cli.terms import JOB_OPTIONS, TASK_OPTIONS, job_terms, only_task_terms
from headnode.apps.client.client import Client
from headnode.apps.client.submitter import quoted_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from headnode.core.model.errors import HeadnodeError

    Submission = tuple[str, dict[str, Any]]  # where it is described, and the fields for the head

PLACE = "{}"  # in a command: where the line goes
MAX_JOBS = 1000  # in one request
MAX_CHARACTERS = 4 * 1024 * 1024  # of one request, as far as the head need not divide its attention
MAX_LINE = 1024 * 1024  # bytes


def submissions(args: Arguments, client: Client) -> "Iterator[Submission]":
    """Yield what is to be submitted.

    Raises:  BadRequest ``usage``, ``job-file``.
    """
    terms = job_terms(args) or None
    for option in ("id", "jobfile", "group"):
        if option in args.options:
            raise usage(f"several jobs are named, and option {option!r} names another", "give one of them")
    lost = [option.name for option in (*TASK_OPTIONS, ENV_ALL) if option.name in args.options]
    lost = [name for name in lost if name not in {option.name for option in JOB_OPTIONS}]
    if LINES not in args.options:
        for file in args.words:
            _refuse_lost(lost, file)
            yield file, {**described_by(args, file, client), "terms": terms}
        return
    refuse_how(args)
    task = only_task_terms(args, args.words or [PLACE])
    apply_shell(task, args, client)
    for place, line in _lines(args.text(LINES) or STANDARD_INPUT):
        if line.startswith("{") and not args.words:
            _refuse_lost(lost, place)
            yield place, {"jobfile": line, "dialect": "native-json", "terms": terms}
        else:
            yield place, {"terms": terms, "tasks": [{**task, "command": _command(args.words, line)}]}


def _refuse_lost(options: "Sequence[str]", place: str) -> None:
    """Refuse options that would describe a task where a file or a JSON line describes it."""
    if options:
        raise usage(f"option {options[0]!r} describes a task, and {place} has its own", "put it in there")


def _command(words: "Sequence[str]", line: str) -> str:
    """Return the command line for a line: the line itself, or a program with the line as an argument.

    >>> _command([], "echo a"), _command(["cat"], "a b"), _command(["cp", "{}", "{}.old"], "x")
    ('echo a', "cat 'a b'", 'cp x x.old')
    """
    if not words:
        return line
    if not any(PLACE in word for word in words):
        words = [*words, PLACE] if len(words) > 1 else [f"{words[0]} {PLACE}"]
    if len(words) == 1:  # a whole command line
        return words[0].replace(PLACE, quoted_line([line]))
    return quoted_line([word.replace(PLACE, line) for word in words])


def _lines(path: str) -> "Iterator[tuple[str, str]]":
    """Yield the lines that are not empty, with the file and the number of each.

    Raises:  BadRequest ``job-file``.
    """
    try:
        own = path != STANDARD_INPUT
        with os.fdopen(open_named(path) if own else sys.stdin.fileno(), "rb", closefd=own) as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
                if text := _text_of(line, f"{path}:{number}"):
                    yield f"{path}:{number}", text
    except OSError as trouble:
        reason = trouble.strerror or str(trouble)
        raise _bad(
            f"file {path!r} cannot be read: {reason}", "name an existing file that you may read"
        ) from trouble


def _text_of(line: bytes, place: str) -> str:
    if len(line) > MAX_LINE:
        raise _bad(f"{place}: the line is longer than {MAX_LINE} bytes", "write a job file")
    try:
        return line.decode().strip()
    except UnicodeDecodeError:
        raise _bad(f"{place}: the line is not UTF-8", "write the file in UTF-8") from None


def _bad(what: str, fix: str) -> "HeadnodeError":
    from headnode.core.model.errors import BadRequest

    return BadRequest(code="job-file", what=what, fix=fix)


def in_requests(found: "Iterable[Submission]", *, all_or_none: bool) -> "Iterator[list[Submission]]":
    """Yield submissions in requests that the head takes.

    Raises:  BadRequest ``usage`` if all or none are requested, and they do not fit into one request.
    """
    request: list[Submission] = []
    size = 0
    for each in found:
        length = len(repr(each[1]))
        if request and (len(request) == MAX_JOBS or size + length > MAX_CHARACTERS):
            if all_or_none:
                raise usage(
                    f"--all-or-none is possible for {MAX_JOBS} jobs, {MAX_CHARACTERS} characters",
                    "leave it out, or divide the jobs",
                )
            yield request
            request, size = [], 0
        request.append(each)
        size += length
    if request:
        yield request
