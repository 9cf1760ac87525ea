"""The options that describe a job or a task, and what was typed as the terms the head reads.

Source:  docs/contracts/01-local-protocol.md, ``Terms``."""

import os

from headnode.apps.cli.options import Arguments, CliOption
from headnode.apps.client.submitter import command_line
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from headnode.core.model.field_rows import JobOption

FILES = "Files and environment"
HEADINGS = {
    "what": "The job",
    "size": "Processors and nodes",
    "nodes": "Which nodes",
    "time": "Time and priority",
    "waits": "Dependencies and holds",
    "files": FILES,
    "staging": "Staging of files",
    "failure": "Failures",
    "notices": "Notifications",
    "otherwise": "Special jobs",
}
"""Headings of the help page."""


def _options(catalogue: "Iterable[JobOption]") -> "Iterator[CliOption]":
    """Yield the options of the catalogue that are typed, in its order."""
    for one in catalogue:
        slash = one.slash
        if slash is None or not slash.heading:
            continue
        summary = slash.summary or one.help[:1].upper() + one.help[1:]
        option = CliOption(
            slash.name, slash.value, summary, slash.aliases, repeats=slash.repeats, short=slash.short
        )
        option.group = HEADINGS[slash.heading]
        yield option


JOB_OPTIONS = tuple(_options(OPTIONS_OF_JOBS))
TASK_OPTIONS = tuple(_options(OPTIONS_OF_TASKS))

MOMENTS = tuple(
    option.slash.name for option in OPTIONS_OF_JOBS if option.slash is not None and option.form == "moment"
)

SIZES = ("numprocessors", "numnodes", "numsockets", "numgpus")


def job_terms(args: Arguments) -> "dict[str, str]":
    """Return the terms of the job; dates have their time zone.

    Raises:  BadRequest ``usage`` for a time with two readings, ``date-time``.
    """
    _check_run_time(args)
    terms = {option.name: ";".join(args.options[option.name]) for option in _given(args, JOB_OPTIONS)}
    for name in MOMENTS:
        if name in terms:
            from headnode.apps.cli.typed_dates import with_time_zone

            terms[name] = with_time_zone(name, terms[name], month_first=args.hpc_pack)
    return terms


def _check_run_time(args: Arguments) -> None:
    if args.hpc_pack or ":" not in (args.text("runtime") or ""):
        return
    from headnode.apps.cli.slurm_and_pbs import refuse_ambiguous_time

    refuse_ambiguous_time(args.options["runtime"][-1])


def task_terms(args: Arguments, words: "Sequence[str]") -> "dict[str, Any]":
    """Return the terms of a task that runs the program `words`.

    Raises:  BadRequest ``usage`` for a run time with two readings.
    """
    _check_run_time(args)
    terms: dict[str, Any] = {
        option.name: "\n".join(args.options[option.name]) if option.repeats else args.options[option.name][-1]
        for option in _given(args, TASK_OPTIONS)
        if option.name != "env"
    }
    terms["command"] = command_line(words)
    if "env" in args.options:
        terms["env"] = environment(args.options["env"], os.environ)
    return terms


def changed_terms(args: Arguments) -> "dict[str, Any]":
    """Return the terms of a task that are to change.

    Raises:  BadRequest ``usage`` for a run time with two readings.
    """
    terms = task_terms(args, [""])
    del terms["command"]
    return terms


def only_task_terms(args: Arguments, words: "Sequence[str]") -> "dict[str, Any]":
    """Return the terms of the only task of a job, where one option may speak of both.

    Sizes count for the job and its task, so that ``/numprocessors:4`` gives the program four; the instances
    of a sweep take one each, and so do those of a service.  All else that both could have is the job's.
    """
    several = "parametric" in args.options or (args.text("type") or "").casefold() not in ("", "basic")
    for_both = () if several else SIZES
    jobs = {option.name for option in JOB_OPTIONS}
    terms = task_terms(args, words)
    return {
        name: value
        for name, value in terms.items()
        if name not in jobs or (name in for_both and "*" not in value)
    }


def environment(texts: "Sequence[str]", mine: "Mapping[str, str]") -> "dict[str, str]":
    """Read ``n=v;n=v``, given once or several times; a piece without ``=`` belongs to the value before it.

    A text that begins with a name alone takes its value from `mine`, the variables of the submitter.
    Raises:  BadRequest ``usage`` when a name is missing, or a variable that is to be taken.

    >>> environment(["A=1;B=x;y", "C=", "D"], {"D": "4"})
    {'A': '1', 'B': 'x;y', 'C': '', 'D': '4'}
    """
    values: dict[str, str] = {}
    for text in texts:
        name = ""
        for piece in text.split(";"):
            before, equals, after = piece.partition("=")
            if equals and before:
                name = before
                values[name] = after
            elif name and not equals:
                values[name] += f";{piece}"
            elif piece and not equals:
                values[piece] = _imported_variable(piece, mine)
            else:
                raise _no_variable(text)
    return values


def _given(args: Arguments, options: "Sequence[CliOption]") -> "list[CliOption]":
    return [option for option in options if option.name in args.options]


def _imported_variable(name: str, mine: "Mapping[str, str]") -> str:
    if name not in mine:
        from headnode.apps.cli.options import usage

        raise usage(f"variable {name!r} is not set in your shell", f"export it, or write {name}=VALUE")
    return mine[name]


def _no_variable(text: str) -> "Exception":
    from headnode.apps.cli.options import usage

    return usage(f"environment {text!r} is not understood", "write NAME=VALUE, or NAME=VALUE;NAME=VALUE")
