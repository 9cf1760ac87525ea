"""``hn job export``: a job as a job file."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.fidelity import tell
from headnode.apps.cli.ids import job_id
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

DIALECTS = ("ccs", "hpcpack-2008", "hpcpack")


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Print the job file; what the language cannot say is noted beside it."""
    dialect = asked.text("to")
    if dialect is not None and dialect not in DIALECTS:
        raise usage(f"job file language {dialect!r} is unknown", f"choose from: {', '.join(DIALECTS)}")
    job = job_id(asked.words)
    answer = client.ask("export_job", job=job, dialect=dialect)
    tell(answer["report"], f"job {job}", out)
    out.text(answer["text"], answer)
    return 0


COMMANDS = (
    Command(
        "export",
        "ID",
        "Print a job as a job file",
        run,
        options=(
            Option("to", "LANGUAGE", f"{', '.join(DIALECTS)}; the one it came in if not given", ("dialect",)),
        ),
        example="hn job export 12 --to hpcpack > job.xml",
    ),
)
