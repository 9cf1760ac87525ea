"""``hn job modify``: change what a job asks for."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.described import job_terms
from headnode.apps.cli.ids import job_id
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.terms import JOB_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Change the job; tell what is different now."""
    job, terms = job_id(asked.words), job_terms(asked)
    percent, message = asked.number("progress"), asked.text("progressmsg")
    if not terms and percent is None and message is None:
        raise usage(
            "nothing is to be changed", "give the options that are to be different, such as /priority:Highest"
        )
    changed: list[str] = []
    if terms:
        changed += client.ask("modify_job", job=job, terms=terms)["changed"]
    if percent is not None or message is not None:
        client.ask("set_progress", job=job, percent=percent, message=message)
        changed.append("progress")
    said = ", ".join(changed) if changed else "it was so already"
    out.said(f"Job {job} has been modified: {said}.", {"job": job, "changed": changed}, job)
    return 0


PROGRESS = (
    Option("progress", "0-100", "Progress of the job in percent"),
    Option("progressmsg", "TEXT", "Progress of the job as text"),
)
COMMANDS = (
    Command(
        "modify",
        "ID [job options]",
        "Change a job",
        run,
        options=(*JOB_OPTIONS, *PROGRESS),
        example="hn job modify 12 --priority AboveNormal --runtime 2h",
        notes=(
            "Which properties may change depends on the state of the job: queued, running or ended.",
            "A program of the job may report its progress: hn job modify $CCP_JOBID --progress 40",
        ),
    ),
)
