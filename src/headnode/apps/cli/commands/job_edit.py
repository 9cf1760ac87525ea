"""``hn job new``, ``add``, ``modify`` and ``export``: jobs before submission, and changes of them."""

from headnode.apps.cli.arguments import job_id
from headnode.apps.cli.catalogue import KEY, CliCommand
from headnode.apps.cli.job_files import HOW_TO_READ, described_by, job_file_among, refuse_how
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output, note_losses
from headnode.apps.cli.shell import ENV_ALL, apply_shell, remember
from headnode.apps.cli.terms import JOB_OPTIONS, TASK_OPTIONS, job_terms, task_terms
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TASK_FILE = CliOption(
    "taskfile", "FILE", "Take the task from a job file with one Task, or all tasks of its job"
)


def add_task(args: Arguments, client: Client, out: Output) -> int:
    """Add the task and print its address."""
    job = job_id(args.words[:1])
    if (path := args.text("taskfile")) is not None:
        return _add_from_file(job, path, args, client, out)
    if len(args.words) < 2:
        raise usage("the task has no program", "write it after the options: hn job add ID [options] PROGRAM")
    task = task_terms(args, args.words[1:])
    apply_shell(task, args, client)
    answer = client.ask("add_tasks", job=job, tasks=[task], idempotency=args.text(KEY.name))
    return _show_added(job, answer, out)


def _add_from_file(job: int, path: str, args: Arguments, client: Client, out: Output) -> int:
    """Add the tasks of a file."""
    from headnode.apps.cli.catalogue import COMMON_OPTIONS
    from headnode.apps.cli.job_files import read_job_file

    anyway = {"taskfile", KEY.name, *(option.name for option in COMMON_OPTIONS)}
    others = [name for name in args.options if name not in anyway]
    if len(args.words) > 1 or others:
        what = args.words[1] if len(args.words) > 1 else f"option {others[0]!r}"
        raise usage(f"a task file was given, and {what} too", "give one of them")
    answer = client.ask("add_tasks", job=job, jobfile=read_job_file(path), idempotency=args.text(KEY.name))
    return _show_added(job, answer, out)


def _show_added(job: int, answer: "dict[str, Any]", out: Output) -> int:
    for number in answer["tasks"]:
        out.outcome(f"Task has been added. ID: {job}.{number}.", answer, f"{job}.{number}")
    if answer.get("report"):
        from headnode.apps.cli.output import note_losses

        note_losses(answer["report"], "task", out)
    return 0


def new_job(args: Arguments, client: Client, out: Output) -> int:
    """Make the job and print its id, which is the fourth word for scripts that cut it out."""
    file = args.text("jobfile") or job_file_among(args.words)
    if args.words and args.words != [file]:
        raise usage(f"a new job takes no program, such as {args.words[0]!r}", "add tasks with: hn job add ID")
    if file is None:
        refuse_how(args)
    described = described_by(args, file, client) if file is not None else {}
    key = args.text(KEY.name)
    answer = client.ask("create_job", terms=job_terms(args) or None, idempotency=key, **described)
    remember(int(answer["job"]))
    if answer.get("report"):
        from headnode.apps.cli.output import note_losses

        note_losses(answer["report"], file or "job", out)
    for job in answer.get("jobs", [answer["job"]]):
        out.outcome(f"{_created_sentence(args, client)}, ID: {job}", answer | {"job": job}, job)
    return 0


def _created_sentence(args: Arguments, client: Client) -> str:
    """Return how to tell of a new job, before its id: scripts of HPC Pack look for its words."""
    if not args.hpc_pack:
        return "Job queued"
    from headnode.apps.cli.hpc_pack_programs import CREATED, dialect_of_sentences

    return CREATED[dialect_of_sentences(client)]


def modify_job(args: Arguments, client: Client, out: Output) -> int:
    """Change the job; tell what is different now."""
    job, terms = job_id(args.words), job_terms(args)
    percent, message = args.number("progress"), args.text("progressmsg")
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
    sentence = (
        f"has been modified: {', '.join(changed)}" if changed else "is unchanged: it has these values already"
    )
    out.outcome(f"Job {job} {sentence}.", {"job": job, "changed": changed}, job)
    return 0


PROGRESS = (
    CliOption("progress", "0-100", "Progress of the job in percent"),
    CliOption("progressmsg", "TEXT", "Progress of the job as text"),
)


TO = CliOption(
    "to",
    "LANGUAGE",
    "ccs, hpcpack-2008, hpcpack, sss, sss-3.0, grid, grid-task, native, native-json, slurm, pbs, gridengine, "
    "lsf; or submitted, the file that the job was read from",
    ("dialect",),
)


def export_job(args: Arguments, client: Client, out: Output) -> int:
    """Print the job file; what the language cannot say is noted beside it."""
    return print_job_file(job_id(args.words), args.text("to"), client, out)


def print_job_file(job: int, dialect: str | None, client: Client, out: Output) -> int:
    """Print a job in a job language, or the one it came in; `submitted`: the file that it was read from.

    Raises:  BadRequest ``dialect`` when there is no such language, and what its writer refuses.
    """
    if dialect is not None:
        from headnode.core.formats.dialects import SUBMITTED, dialect_named

        dialect = SUBMITTED if dialect.lower() == SUBMITTED else dialect_named(dialect).name
    answer = client.ask("export_job", job=job, dialect=dialect)
    note_losses(answer["report"], f"job {job}", out)
    out.text(answer["text"], answer)
    return 0


COMMANDS = (
    CliCommand(
        "add",
        "ID [task options] PROGRAM [ARGUMENT...]",
        "Add a task to a job that has not ended",
        add_task,
        options=(*TASK_OPTIONS, ENV_ALL, TASK_FILE, KEY),
        example="hn job add 12 /name:merge /depend:left,right ./merge.sh",
        notes=(
            "Words from the program on belong to its command line; a single word is a whole command line.",
        ),
        positionals=1,
    ),
    CliCommand(
        "new",
        "[job options] [JOBFILE]",
        "Make a job without submitting it",
        new_job,
        options=(
            CliOption(
                "jobfile", "FILE", "Read the job from this file; options on the command line override it"
            ),
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
    CliCommand(
        "modify",
        "ID [job options]",
        "Change a job",
        modify_job,
        options=(*JOB_OPTIONS, *PROGRESS),
        example="hn job modify 12 --priority AboveNormal --runtime 2h",
        notes=(
            "Which properties may change depends on the state of the job: queued, running or ended.",
            "A program of the job may report its progress: hn job modify $CCP_JOBID --progress 40",
        ),
    ),
    CliCommand(
        "export",
        "ID",
        "Print a job as a job file",
        export_job,
        options=(TO,),
        example="hn job export 12 --to hpcpack > job.xml",
        notes=("Default of --to: the language in which the job was submitted.",),
    ),
)
