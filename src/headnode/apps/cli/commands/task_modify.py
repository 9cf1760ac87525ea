"""``hn task modify``: change a task of a job that was not submitted."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.described import changed_terms
from headnode.apps.cli.ids import task_address
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.terms import TASK_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Change the task; tell what is different now."""
    job, task, instance = task_address(asked.words)
    if instance is not None:
        raise usage("a sub-task has no options of its own", f"change the task: {job}.{task}")
    terms = changed_terms(asked)
    if (command := asked.text("commandline")) is not None:
        terms["command"] = command
    if not terms:
        raise usage("nothing is to be changed", "give options that are to be different, such as /stdout:FILE")
    changed = client.ask("modify_task", job=job, task=task, terms=terms)["changed"]
    said = ", ".join(changed) if changed else "it was so already"
    out.said(
        f"Task {job}.{task} has been modified: {said}.", {"job": job, "changed": changed}, f"{job}.{task}"
    )
    return 0


COMMANDS = (
    Command(
        "modify",
        "JOB.TASK [task options]",
        "Change a task of a job that was not submitted",
        run,
        options=(*TASK_OPTIONS, Option("commandline", "TEXT", "The program and its arguments")),
        example="hn task modify 12.1 /stdout:result.txt",
        notes=("The tasks of a job that was submitted do not change: clone the job, and change the copy.",),
    ),
)
