"""``hn job cancel``, ``finish``, ``requeue`` and ``clone``: one deed for each of the jobs named."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.each import for_each
from headnode.apps.cli.fidelity import tell
from headnode.apps.cli.groups import OF_GROUPS, group_fields, group_named, nothing_left
from headnode.apps.cli.ids import job_ids
from headnode.apps.cli.last_job import remember
from headnode.apps.cli.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

MOST_NAMED = 8  # jobs that are in the queue again with another

_ENDING = (
    Option("message", "TEXT", "Reason, stored with the job"),
    Option("force", "", "Kill the tasks at once, without TaskCancelGracePeriod"),
    Option("graceful", "", "Start no more tasks; running tasks end by themselves"),
)


def cancel(asked: "Asked", client: "Client", out: "Output") -> int:
    """Cancel each job."""
    if group_named(asked) is not None:
        return _stop_group("cancel_group", "canceled", asked, client, out)

    def deed(job: int) -> None:
        answer = client.ask("cancel_job", job=job, **_wishes(asked))
        out.said(f"Job {job} has been canceled." + _still(answer), answer, job)

    return for_each(job_ids(asked.words), deed, out)


def finish(asked: "Asked", client: "Client", out: "Output") -> int:
    """End each job as finished, whatever its tasks still do."""
    if group_named(asked) is not None:
        return _stop_group("finish_group", "finished", asked, client, out)

    def deed(job: int) -> None:
        answer = client.ask("finish_job", job=job, **_wishes(asked))
        out.said(f"Job {job} has been finished." + _still(answer), answer, job)

    return for_each(job_ids(asked.words), deed, out)


def requeue(asked: "Asked", client: "Client", out: "Output") -> int:
    """Put each job back into the queue."""

    def deed(job: int) -> None:
        answer = client.ask("requeue_job", job=job)
        out.said(f"Job {job} has been requeued.{_with(answer['reopened'])}", answer, job)

    return for_each(job_ids(asked.words), deed, out)


def _with(jobs: "list[int]") -> str:
    """Return which jobs that were canceled for the end of a job are in the queue again with it."""
    if not jobs:
        return ""
    named = ", ".join(map(str, jobs[:MOST_NAMED])) + (" and others" if len(jobs) > MOST_NAMED else "")
    return f" Requeued with it, since they wait for it: {named}."


def _stop_group(verb: str, word: str, asked: "Asked", client: "Client", out: "Output") -> int:
    """Stop all jobs of a group in one step; tell each; return 1 when some could not be."""
    answer = client.ask(verb, **group_fields(asked), **_wishes(asked))
    if not answer["jobs"] and not answer["refused"]:
        nothing_left(answer["group"], out)
    for one in answer["jobs"]:
        out.said(f"Job {one['job']} has been {word}.{_still(one)}", one, one["job"])
    for no in answer["refused"]:
        from headnode.apps.client.failures import refusal_in

        out.problem(refusal_in(no))
    return 1 if answer["refused"] else 0


def clone(asked: "Asked", client: "Client", out: "Output") -> int:
    """Make a new job like each of these."""

    def deed(job: int) -> None:
        answer = client.ask("clone_job", job=job)
        remember(int(answer["job"]))
        tell(answer["report"], f"job {answer['job']}", out)
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
        "ID... | --group NAME",
        "Cancel jobs",
        cancel,
        options=(*_ENDING, *OF_GROUPS),
        example='hn job cancel 12 14-17 /message:"wrong input"',
    ),
    Command(
        "finish",
        "ID... | --group NAME",
        "Stop jobs and count them as finished",
        finish,
        options=(*_ENDING, *OF_GROUPS),
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
