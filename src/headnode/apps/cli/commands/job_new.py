"""``hn job new``: make a job that is not submitted yet."""

from headnode.apps.cli.command import KEY, Command
from headnode.apps.cli.described import job_terms
from headnode.apps.cli.job_files import HOW_TO_READ, described_by, job_file_among, refuse_how
from headnode.apps.cli.last_job import remember
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.terms import JOB_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Make the job and print its id, which is the fourth word for scripts that cut it out."""
    file = asked.text("jobfile") or job_file_among(asked.words)
    if asked.words and asked.words != [file]:
        raise usage(
            f"a new job takes no program, such as {asked.words[0]!r}", "add tasks with: hn job add ID"
        )
    if file is None:
        refuse_how(asked)
    described = described_by(asked, file) if file is not None else {}
    key = asked.text(KEY.name)
    answer = client.ask("create_job", terms=job_terms(asked) or None, idempotency=key, **described)
    remember(int(answer["job"]))
    if answer.get("report"):
        from headnode.apps.cli.fidelity import tell

        tell(answer["report"], file or "job", out)
    for job in answer.get("jobs", [answer["job"]]):
        out.said(f"{_sentence(asked, client)}, ID: {job}", answer | {"job": job}, job)
    return 0


def _sentence(asked: "Asked", client: "Client") -> str:
    """Return how to tell of a new job, before its id: scripts of HPC Pack look for its words."""
    if not asked.hpc_pack:
        return "Job queued"
    from headnode.apps.cli.hpc_pack.sentences import CREATED, sentences

    return CREATED[sentences(client)]


COMMANDS = (
    Command(
        "new",
        "[job options] [JOBFILE]",
        "Make a job without submitting it",
        run,
        options=(
            Option("jobfile", "FILE", "Read the job from this file; options on the command line override it"),
            *HOW_TO_READ,
            KEY,
            *JOB_OPTIONS,
        ),
        example="hn job new /jobname:flow /numprocessors:1-4",
        notes=(
            "Add tasks with 'hn job add', then submit it with 'hn job submit /id:ID'.",
            "All jobs of a file are made in one step; submit them with 'hn job submit --group NAME'.",
        ),
    ),
)
