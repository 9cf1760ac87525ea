"""``hn task output``: what a task printed, also while it runs."""

import time

from headnode.apps.cli.command import Command
from headnode.apps.cli.ids import task_address
from headnode.apps.cli.options import Option
from headnode.apps.cli.task_files import PAUSE, copy_output, follow_output, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client
OVER = ("finished", "failed", "canceled")
WAITING = ("not submitted", "configuring", "queued")


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Print the file; with ``--follow`` until the task is over."""
    job, task, instance = task_address(asked.words)
    question = {"job": job, "task": task, "instance": instance}
    stream = "standard_error" if asked.flag("stderr") else "standard_output"
    files = client.ask("output", **question)
    if not out.for_people:
        out.said(str(files[stream]), files, files[stream])
    elif asked.flag("follow"):
        _follow(client, question, stream, out)
    else:
        path = _path(files, stream, question)
        source = source_of(client, question, files, path)
        copy_output(source, out.raw, captured=path == files["kept"])
    return 0


def _follow(client: "Client", question: "dict[str, Any]", stream: str, out: "Output") -> None:
    """Print what is there and what comes, until the task is over."""
    files = client.ask("output", **question)
    while files["state"].lower() in WAITING:  # it has no file before it runs
        time.sleep(PAUSE)
        files = client.ask("output", **question)

    def is_over() -> bool:
        return client.ask("output", **question)["state"].lower() in OVER

    source = source_of(client, question, files, _path(files, stream, question))
    follow_output(source, out.raw, is_over)


def _path(files: "dict[str, Any]", stream: str, question: "dict[str, Any]") -> str:
    path: str | None = files[stream]
    if path is not None and not (files.get("gone") and path == files["kept"]):
        return path
    from headnode.core.model.errors import NotFound, WrongState

    if path is not None:
        raise NotFound(code="no-output", what=files["gone"], fix=f"see: hn job view {question['job']}")
    task = ".".join(str(part) for part in question.values() if part is not None)
    state = files["state"].lower()
    raise WrongState(
        code="no-output",
        what=f"task {task} is {state} and has no {stream.replace('_', ' ')}",
        fix="wait for it with --follow" if state in WAITING else f"see: hn task view {task}",
    )


COMMANDS = (
    Command(
        "output",
        "JOB.TASK[.INSTANCE]",
        "Print what a task printed",
        run,
        options=(
            Option("follow", "", "Go on until the task is over"),
            Option("stderr", "", "Print its standard error instead of its standard output"),
        ),
        example="hn task output 12.1 --follow",
        notes=(
            "The file is read as you; on another machine, and by root, as the user of the job.",
            "With --json or --quiet its path is printed, not what is in it.",
        ),
    ),
)
