"""``hn job cancel``, ``finish``, ``requeue``, ``clone``, ``suspend``, ``resume``, ``hold``, ``release``."""

from headnode.apps.cli.arguments import (
    GROUP_OPTIONS,
    group_fields,
    group_named,
    job_ids,
    note_empty_group,
    selected_jobs,
)
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption
from headnode.apps.cli.output import Output, for_each, note_losses
from headnode.apps.client.client import Client

MOST_NAMED = 8  # jobs that are in the queue again with another

_ENDING = (
    CliOption("message", "TEXT", "Reason, stored with the job"),
    CliOption("force", "", "Kill the tasks at once, without TaskCancelGracePeriod"),
    CliOption("graceful", "", "Start no more tasks; running tasks end by themselves"),
)


def cancel(asked: Arguments, client: Client, out: Output) -> int:
    """Cancel each job."""
    if group_named(asked) is not None:
        return _stop_group("cancel_group", "canceled", asked, client, out)

    def deed(job: int) -> None:
        answer = client.ask("cancel_job", job=job, **_end_fields(asked))
        out.said(f"Job {job} has been canceled." + _still_ending(answer), answer, job)

    return for_each(job_ids(asked.words), deed, out)


def finish(asked: Arguments, client: Client, out: Output) -> int:
    """End each job as finished, whatever its tasks still do."""
    if group_named(asked) is not None:
        return _stop_group("finish_group", "finished", asked, client, out)

    def deed(job: int) -> None:
        answer = client.ask("finish_job", job=job, **_end_fields(asked))
        out.said(f"Job {job} has been finished." + _still_ending(answer), answer, job)

    return for_each(job_ids(asked.words), deed, out)


def requeue(asked: Arguments, client: Client, out: Output) -> int:
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


def _stop_group(verb: str, word: str, asked: Arguments, client: Client, out: Output) -> int:
    """Stop all jobs of a group in one step; tell each; return 1 when some could not be."""
    answer = client.ask(verb, **group_fields(asked), **_end_fields(asked))
    if not answer["jobs"] and not answer["refused"]:
        note_empty_group(answer["group"], out)
    for one in answer["jobs"]:
        out.said(f"Job {one['job']} has been {word}.{_still_ending(one)}", one, one["job"])
    for no in answer["refused"]:
        from headnode.apps.client.failures import refusal_in

        out.problem(refusal_in(no))
    return 1 if answer["refused"] else 0


def clone(asked: Arguments, client: Client, out: Output) -> int:
    """Make a new job like each of these."""
    from headnode.apps.cli.shell import remember

    def deed(job: int) -> None:
        answer = client.ask("clone_job", job=job)
        remember(int(answer["job"]))
        note_losses(answer["report"], f"job {answer['job']}", out)
        out.said(f"Job {job} has been cloned. ID: {answer['job']}.", answer, answer["job"])

    return for_each(job_ids(asked.words), deed, out)


def _end_fields(asked: Arguments) -> "dict[str, str | bool | None]":
    return {
        "message": asked.text("message"),
        "force": asked.flag("force") or None,
        "graceful": asked.flag("graceful") or None,
    }


def _still_ending(answer: "dict[str, object]") -> str:
    return " Its tasks are being stopped." if str(answer["state"]).lower() in ("running", "ending") else ""


_HOLD_NAME = CliOption("name", "NAME", "Name of the hold (default: user)")


def suspend(asked: Arguments, client: Client, out: Output) -> int:
    """Stop the processes of each job, and let others have what it holds."""

    def deed(job: int) -> None:
        answer = client.ask("suspend_job", job=job)
        still = " Its processes are being stopped." if answer["state"] == "suspending" else ""
        out.said(f"Job {job} has been suspended.{still}", answer, job)

    return for_each(selected_jobs(asked, client, out), deed, out)


def resume(asked: Arguments, client: Client, out: Output) -> int:
    """Let each suspended job go on."""

    def deed(job: int) -> None:
        answer = client.ask("resume_job", job=job)
        waits = " It goes on when what it held is free again." if answer["state"] == "resuming" else ""
        out.said(f"Job {job} has been resumed.{waits}", answer, job)

    return for_each(selected_jobs(asked, client, out), deed, out)


def hold(asked: Arguments, client: Client, out: Output) -> int:
    """Keep each job from starting."""

    def deed(job: int) -> None:
        answer = client.ask("hold_job", job=job, name=asked.text("name"), message=asked.text("message"))
        out.said(f"Job {job} has been held.", answer, job)

    return for_each(selected_jobs(asked, client, out), deed, out)


def release(asked: Arguments, client: Client, out: Output) -> int:
    """Release a hold of each job, or all of them."""

    def deed(job: int) -> None:
        answer = client.ask("release_job", job=job, name=asked.text("name"), all=asked.flag("all") or None)
        left = ", ".join(hold["name"] for hold in answer["holds"])
        out.said(f"Job {job} has been released." + (f" It still has: {left}." if left else ""), answer, job)

    return for_each(selected_jobs(asked, client, out), deed, out)


COMMANDS = (
    CliCommand(
        "cancel",
        "ID... | --group NAME",
        "Cancel jobs",
        cancel,
        options=(*_ENDING, *GROUP_OPTIONS),
        example='hn job cancel 12 14-17 /message:"wrong input"',
    ),
    CliCommand(
        "finish",
        "ID... | --group NAME",
        "Stop jobs and count them as finished",
        finish,
        options=(*_ENDING, *GROUP_OPTIONS),
        example="hn job finish 12",
    ),
    CliCommand(
        "requeue",
        "ID...",
        "Run failed or canceled jobs again, or running ones",
        requeue,
        example="hn job requeue 12",
    ),
    CliCommand("clone", "ID...", "Make a new job like an old one", clone, example="hn job clone 12"),
    CliCommand(
        "suspend",
        "ID... | --group NAME",
        "Suspend running jobs; their processors are free for other jobs",
        suspend,
        options=GROUP_OPTIONS,
        example="hn job suspend 12",
        notes=("Only jobs with --suspendable can be suspended.",),
    ),
    CliCommand(
        "resume",
        "ID... | --group NAME",
        "Resume suspended jobs",
        resume,
        options=GROUP_OPTIONS,
        example="hn job resume 12",
    ),
    CliCommand(
        "hold",
        "ID... | --group NAME",
        "Hold queued jobs until they are released",
        hold,
        options=(_HOLD_NAME, CliOption("message", "TEXT", "Reason, shown with the hold"), *GROUP_OPTIONS),
        example='hn job hold 12 --name data --message "the input is not there yet"',
        notes=("A job may have several holds; it starts when all are released.",),
    ),
    CliCommand(
        "release",
        "ID... | --group NAME",
        "Release held jobs",
        release,
        options=(_HOLD_NAME, CliOption("all", "", "Every hold"), *GROUP_OPTIONS),
        example="hn job release 12 --name data",
    ),
)
