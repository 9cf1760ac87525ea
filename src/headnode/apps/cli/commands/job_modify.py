"""``hn job modify``: change what a job asks for."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.described import job_terms
from headnode.apps.cli.ids import job_id
from headnode.apps.cli.options import usage
from headnode.apps.cli.terms import JOB_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Change the job; tell what is different now."""
    job, terms = job_id(asked.words), job_terms(asked)
    if not terms:
        raise usage(
            "nothing is to be changed", "give the options that are to be different, such as /priority:Highest"
        )
    answer = client.ask("modify_job", job=job, terms=terms)
    changed = ", ".join(answer["changed"]) if answer["changed"] else "it was so already"
    out.said(f"Job {job} has been modified: {changed}.", answer, job)
    return 0


COMMANDS = (
    Command(
        "modify",
        "ID [job options]",
        "Change a job",
        run,
        options=JOB_OPTIONS,
        example="hn job modify 12 /priority:AboveNormal /runtime:2:00",
        notes=("What may change depends on whether the job is queued, running or over; a refusal says so.",),
    ),
)
