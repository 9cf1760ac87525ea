"""``hn job export``: a job as a job file."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.fidelity import tell
from headnode.apps.cli.ids import job_id
from headnode.apps.cli.options import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

TO = Option(
    "to",
    "LANGUAGE",
    "ccs, hpcpack-2008, hpcpack, sss, sss-3.0, grid, grid-task, native or native-json",
    ("dialect",),
)


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Print the job file; what the language cannot say is noted beside it."""
    return export(job_id(asked.words), asked.text("to"), client, out)


def export(job: int, dialect: str | None, client: "Client", out: "Output") -> int:
    """Print a job in a job language, or the one it came in.

    Raises:  BadRequest ``dialect`` when there is no such language, and what its writer refuses.
    """
    if dialect is not None:
        from headnode.core.formats.dialects import dialect_named

        dialect = dialect_named(dialect).name
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
        options=(TO,),
        example="hn job export 12 --to hpcpack > job.xml",
        notes=("Without --to it is the language in which the job came.",),
    ),
)
