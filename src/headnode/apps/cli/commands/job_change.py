"""``hn job cancel``, ``finish``, ``requeue`` and ``clone``: one deed for each of the jobs named."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.each import for_each
from headnode.apps.cli.ids import job_ids
from headnode.apps.cli.last_job import remember
from headnode.apps.cli.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

_ENDING = (
    Option("message", "TEXT", "Why; it is kept with the job"),
    Option("force", "", "Kill the tasks at once, without the time they have to end by themselves"),
    Option("graceful", "", "Start no more tasks and let those that run come to their end"),
)


def cancel(asked: "Asked", client: "Client", out: "Output") -> int:
    """Cancel each job."""

    def deed(job: int) -> None:
        answer = client.ask("cancel_job", job=job, **_wishes(asked))
        out.said(f"Job {job} has been canceled." + _still(answer), answer, job)

    return for_each(job_ids(asked.words), deed, out)


def finish(asked: "Asked", client: "Client", out: "Output") -> int:
    """End each job as finished, whatever its tasks still do."""

    def deed(job: int) -> None:
        answer = client.ask("finish_job", job=job, **_wishes(asked))
        out.said(f"Job {job} has been finished." + _still(answer), answer, job)

    return for_each(job_ids(asked.words), deed, out)


def requeue(asked: "Asked", client: "Client", out: "Output") -> int:
    """Put each job back into the queue."""

    def deed(job: int) -> None:
        out.said(f"Job {job} has been requeued.", client.ask("requeue_job", job=job), job)

    return for_each(job_ids(asked.words), deed, out)


def clone(asked: "Asked", client: "Client", out: "Output") -> int:
    """Make a new job like each of these."""

    def deed(job: int) -> None:
        answer = client.ask("clone_job", job=job)
        remember(int(answer["job"]))
        out.said(f"Job {job} has been cloned. ID: {answer['job']}.", answer, answer["job"])

    return for_each(job_ids(asked.words), deed, out)


def _wishes(asked: "Asked") -> "dict[str, str | bool | None]":
    return {
        "message": asked.text("message"),
        "force": asked.flag("force") or None,
        "graceful": asked.flag("graceful") or None,
    }


def _still(answer: "dict[str, object]") -> str:
    return " Its tasks are being stopped." if str(answer["state"]).lower() in ("running", "ending") else ""


COMMANDS = (
    Command(
        "cancel",
        "ID...",
        "Cancel jobs",
        cancel,
        options=_ENDING,
        example='hn job cancel 12 14-17 /message:"wrong input"',
    ),
    Command(
        "finish",
        "ID...",
        "End jobs as finished; what still runs is stopped",
        finish,
        options=_ENDING,
        example="hn job finish 12",
    ),
    Command(
        "requeue",
        "ID...",
        "Run failed or canceled jobs again, or running ones",
        requeue,
        example="hn job requeue 12",
    ),
    Command("clone", "ID...", "Make a new job like an old one", clone, example="hn job clone 12"),
)
