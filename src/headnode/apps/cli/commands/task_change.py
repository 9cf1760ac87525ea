"""``hn task cancel``, ``finish`` and ``requeue``: one deed for each of the tasks named."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.each import for_each
from headnode.apps.cli.ids import task_address
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

_STOPPING = (
    Option("message", "TEXT", "Reason, stored with the task"),
    Option("force", "", "Kill it at once, without TaskCancelGracePeriod"),
)


def cancel(asked: "Asked", client: "Client", out: "Output") -> int:
    """Cancel each task, or the whole of a sweep."""
    message, force = asked.text("message"), asked.flag("force") or None

    def deed(word: str) -> None:
        job, task, instance = task_address([word])
        answer = client.ask(
            "cancel_task", job=job, task=task, instance=instance, message=message, force=force
        )
        out.said(f"Task {word} has been canceled.", answer, word)

    return for_each(_some(asked), deed, out)


def finish(asked: "Asked", client: "Client", out: "Output") -> int:
    """Stop each task, or the whole of a sweep, and count what ran as finished."""
    message, force = asked.text("message"), asked.flag("force") or None

    def deed(word: str) -> None:
        job, task, instance = task_address([word])
        answer = client.ask(
            "finish_task", job=job, task=task, instance=instance, message=message, force=force
        )
        never = answer["state"] == "Canceled"
        said = "had not started, and has been canceled" if never else "has been finished"
        out.said(f"Task {word} {said}.", answer, word)

    return for_each(_some(asked), deed, out)


def requeue(asked: "Asked", client: "Client", out: "Output") -> int:
    """Put each task back into its job's queue."""

    def deed(word: str) -> None:
        job, task, instance = task_address([word])
        answer = client.ask("requeue_task", job=job, task=task, instance=instance)
        out.said(f"Task {word} has been requeued.", answer, word)

    return for_each(_some(asked), deed, out)


def _some(asked: "Asked") -> list[str]:
    if not asked.words:
        raise usage("no task was given", "write job.task or job.task.instance, for example 12.1")
    return asked.words


COMMANDS = (
    Command(
        "cancel",
        "JOB.TASK[.INSTANCE]...",
        "Cancel tasks",
        cancel,
        options=_STOPPING,
        example="hn task cancel 12.3",
    ),
    Command(
        "finish",
        "JOB.TASK[.INSTANCE]...",
        "Stop tasks and count them as finished",
        finish,
        options=_STOPPING,
        example="hn task finish 12.3",
        notes=("Instances that have not started are canceled.",),
    ),
    Command(
        "requeue", "JOB.TASK[.INSTANCE]...", "Run tasks again", requeue, example="hn task requeue 12.3.17"
    ),
)
