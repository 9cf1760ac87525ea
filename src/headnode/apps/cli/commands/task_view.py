"""``hn task view``: all that is known of a task."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.ids import task_address
from headnode.apps.cli.options import Option
from headnode.apps.cli.screens.task import view
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

PEEK = 4096  # bytes


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Show the task, and the end of its output if told to."""
    job, number, instance = task_address(asked.words)
    task = client.ask("task", job=job, task=number, instance=instance)["task"]
    told = view(task)
    if asked.flag("peekoutput"):
        told["Output"] = task["output"] = _end_of_output(client, job, number, instance)
    out.sheet(Sheet("Task Id", [told], task))
    return 0


def _end_of_output(client: "Client", job: int, task: int, instance: int | None) -> str:
    from headnode.apps.cli.task_files import copy_output, source_of

    question = {"job": job, "task": task, "instance": instance}
    files = client.ask("output", **question)
    path = files["standard_output"]
    pieces: list[bytes] = []
    if path:
        source = source_of(client, question, files, path)
        copy_output(source, pieces.append, last=PEEK, captured=path == files["kept"])
    return b"".join(pieces).decode(errors="replace").rstrip("\n")


COMMANDS = (
    Command(
        "view",
        "JOB.TASK[.INSTANCE]",
        "Show a task",
        run,
        options=(
            Option("detailed", "", "Accepted from older commands; everything is shown anyway"),
            Option("peekoutput", "", f"Show the last {PEEK} bytes of what it printed"),
            FORMAT,
        ),
        example="hn task view 12.3",
    ),
)
