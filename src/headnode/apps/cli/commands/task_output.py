"""``hn task output``: what a task printed, also while it runs."""

import time

from headnode.apps.cli.arguments import output_address
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.output_reading import PAUSE, copy_output, follow_output, last_lines, source_of
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.output_reading import OutputSource
OVER = ("finished", "failed", "canceled")
MAX_LINES = 1_000_000  # of --tail
WAITING = ("not submitted", "configuring", "queued")


def run(args: Arguments, client: Client, out: Output) -> int:
    """Print the file, or those of all instances; with ``--follow`` until the task or job is over."""
    job, task, instance = output_address(args.words)
    stream = "standard_error" if args.flag("stderr") else "standard_output"
    question = {"job": job, "task": task, "instance": instance}
    files = None if task is None else _files(client, question)
    if files is None:
        return _print_whole(args, client, out, job, task, stream)
    if not out.for_people:
        out.outcome(str(files[stream]), files, files[stream])
    elif args.flag("follow"):
        _follow(args, client, files, stream, out, **question)
    else:
        path = _path(files, stream, question)
        source = source_of(client, question, files, path)
        copy_output(source, out.raw, start=_start(args, source), captured=path == files["captured_path"])
    return 0


def _files(client: Client, question: "dict[str, Any]") -> "dict[str, Any] | None":
    """Return where the output lies; None of a task of several instances, when none of them is named."""
    from headnode.core.model.errors import BadRequest

    try:
        return client.ask("task_output", **question)
    except BadRequest as refused:
        if refused.code == "which-instance":
            return None
        raise


def _print_whole(
    args: Arguments, client: Client, out: Output, job: int, task: int | None, stream: str
) -> int:
    """Print what all instances of a sweep, or all tasks of a job, have printed."""
    from headnode.apps.cli.output_reading import WholeOutput

    headers = _wants_headers(args, client, out, job, task)
    whole = WholeOutput(client, out, job, task, stream, headers=headers, last=_lines(args))
    if not out.for_people:
        for _, files in whole.files():
            if files[stream] is not None:
                out.outcome(str(files[stream]), files, files[stream])
    elif args.flag("follow"):
        whole.follow()
    elif not whole.print_all():
        _print_why_empty(client, out, job, task)
    return 1 if whole.troubles else 0


def _print_why_empty(client: Client, out: Output, job: int, task: int | None) -> None:
    """Say why nothing was printed: nothing has begun yet, or everything was canceled before it began."""
    what, found = f"job {job}", client.ask("job", job=job)["job"]
    if task is not None:
        what, found = f"task {job}.{task}", client.ask("task", job=job, task=task)["task"]
    if found["state"].lower() not in OVER:
        out.note(f"nothing of {what} has begun; with --follow, this command waits for it")
    else:
        why = f": {found['message']}" if found["message"] else ""
        end = f"is {found['state'].lower()}" if found.get("started") else "never ran"
        out.note(f"{what} has no output: it {end}{why}")


def _wants_headers(args: Arguments, client: Client, out: Output, job: int, task: int | None) -> bool:
    """Return what was said of headers; else they are for terminals, and for what has several outputs."""
    if "headers" in args.options:
        return args.flag("headers")
    if out.width is None:
        return False
    return task is not None or client.ask("job", job=job)["job"]["tasks"]["total"] != 1


def _lines(args: Arguments) -> int | None:
    """Return how many lines of the end are wanted; None for all.

    Raises:  BadRequest ``usage``.
    """
    lines = args.number("tail")
    if lines is not None and lines > MAX_LINES:
        raise usage(f"--tail {lines} is too much", f"give at most {MAX_LINES}, or leave --tail out for all")
    return lines


def _start(args: Arguments, source: "OutputSource") -> int:
    lines = _lines(args)
    return 0 if lines is None else last_lines(source, lines)


def _follow(
    args: Arguments,
    client: Client,
    files: "dict[str, Any]",
    stream: str,
    out: Output,
    **question: "Any",
) -> None:
    """Print what is there and what comes, until the task is over."""
    waits = files["state"].lower() in WAITING  # then all that it prints is new
    while files["state"].lower() in WAITING:  # it has no file before it runs
        time.sleep(PAUSE)
        files = client.ask("task_output", **question)

    def is_over() -> bool:
        return client.ask("task_output", **question)["state"].lower() in OVER

    source = source_of(client, question, files, _path(files, stream, question))
    follow_output(source, out.raw, is_over, start=0 if waits else _start(args, source))


def _path(files: "dict[str, Any]", stream: str, question: "dict[str, Any]") -> str:
    path: str | None = files[stream]
    if path is not None and not (files.get("removed") and path == files["captured_path"]):
        return path
    from headnode.core.model.errors import NotFound, WrongState

    if path is not None:
        raise NotFound(code="no-output", what=files["removed"], fix=f"see: hn job view {question['job']}")
    task = ".".join(str(part) for part in question.values() if part is not None)
    state = files["state"].lower()
    ran = "" if files.get("node") or state in WAITING else ": it never ran"
    raise WrongState(
        code="no-output",
        what=f"task {task} is {state} and has no {stream.replace('_', ' ')}{ran}",
        fix="wait for it with --follow" if state in WAITING else f"see: hn task view {task}",
    )


COMMANDS = (
    CliCommand(
        "output",
        "JOB[.TASK[.INSTANCE]]",
        "Print the output of a task, of all instances of a sweep, or of all tasks of a job",
        run,
        options=(
            CliOption("follow", "", "Continue until the task or the job has ended", short="f"),
            CliOption("headers", "", "Print a header before each piece, as on a terminal; false: never"),
            CliOption(
                "tail", "N", "Print only the last N lines; with --follow, of what is there now", short="n"
            ),
            CliOption("stderr", "", "Print its standard error instead of its standard output"),
        ),
        example="hn task output 12.1 --follow",
        notes=(
            "The instances of a sweep come one after another; with --follow, pieces as they are printed.",
            "The file is read as you; on another machine, and by root, as the user of the job.",
            "With --json or --quiet its path is printed, not what is in it.",
        ),
    ),
)
