"""``hn job suspend``, ``resume``, ``hold`` and ``release``: let jobs wait, and go on."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.each import for_each
from headnode.apps.cli.groups import OF_GROUPS, jobs_meant
from headnode.apps.cli.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

_NAME = Option("name", "NAME", "Name of the hold (default: user)")


def suspend(asked: "Asked", client: "Client", out: "Output") -> int:
    """Stop the processes of each job, and let others have what it holds."""

    def deed(job: int) -> None:
        answer = client.ask("suspend_job", job=job)
        still = " Its processes are being stopped." if answer["state"] == "suspending" else ""
        out.said(f"Job {job} has been suspended.{still}", answer, job)

    return for_each(jobs_meant(asked, client, out), deed, out)


def resume(asked: "Asked", client: "Client", out: "Output") -> int:
    """Let each suspended job go on."""

    def deed(job: int) -> None:
        answer = client.ask("resume_job", job=job)
        waits = " It goes on when what it held is free again." if answer["state"] == "resuming" else ""
        out.said(f"Job {job} has been resumed.{waits}", answer, job)

    return for_each(jobs_meant(asked, client, out), deed, out)


def hold(asked: "Asked", client: "Client", out: "Output") -> int:
    """Keep each job from starting."""

    def deed(job: int) -> None:
        answer = client.ask("hold_job", job=job, name=asked.text("name"), message=asked.text("message"))
        out.said(f"Job {job} has been held.", answer, job)

    return for_each(jobs_meant(asked, client, out), deed, out)


def release(asked: "Asked", client: "Client", out: "Output") -> int:
    """Release a hold of each job, or all of them."""

    def deed(job: int) -> None:
        answer = client.ask("release_job", job=job, name=asked.text("name"), all=asked.flag("all") or None)
        left = ", ".join(hold["name"] for hold in answer["holds"])
        out.said(f"Job {job} has been released." + (f" It still has: {left}." if left else ""), answer, job)

    return for_each(jobs_meant(asked, client, out), deed, out)


COMMANDS = (
    Command(
        "suspend",
        "ID... | --group NAME",
        "Suspend running jobs; their processors are free for other jobs",
        suspend,
        options=OF_GROUPS,
        example="hn job suspend 12",
        notes=("Only jobs with --suspendable can be suspended.",),
    ),
    Command(
        "resume",
        "ID... | --group NAME",
        "Resume suspended jobs",
        resume,
        options=OF_GROUPS,
        example="hn job resume 12",
    ),
    Command(
        "hold",
        "ID... | --group NAME",
        "Hold queued jobs until they are released",
        hold,
        options=(_NAME, Option("message", "TEXT", "Reason, shown with the hold"), *OF_GROUPS),
        example='hn job hold 12 --name data --message "the input is not there yet"',
        notes=("A job may have several holds; it starts when all are released.",),
    ),
    Command(
        "release",
        "ID... | --group NAME",
        "Release held jobs",
        release,
        options=(_NAME, Option("all", "", "Every hold"), *OF_GROUPS),
        example="hn job release 12 --name data",
    ),
)
