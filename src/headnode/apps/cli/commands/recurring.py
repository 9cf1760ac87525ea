"""``hn recurring``: jobs that are made again and again, by a schedule."""

from headnode.apps.cli.catalogue import FORMAT, KEY, CliCommand
from headnode.apps.cli.commands.job_submit import job_request, refuse_task_options
from headnode.apps.cli.job_files import HOW_TO_READ, job_file_among
from headnode.apps.cli.options import Arguments, CliOption, grouped, the_name, usage
from headnode.apps.cli.output import Output, for_each, note_losses
from headnode.apps.cli.screens.recurring import RECURRING_COLUMNS, next_times, recurring_row, recurring_view
from headnode.apps.cli.shell import ENV_ALL
from headnode.apps.cli.table import RecordTable
from headnode.apps.cli.terms import FILES, JOB_OPTIONS, TASK_OPTIONS, job_terms
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_EXAMPLE = "give its name or its number: see hn recurring list"
_ALL = "all"


def new(args: Arguments, client: Client, out: Output) -> int:
    """Create a recurring job."""
    if args.text("schedule") is None:
        raise usage("there is no schedule", "write --schedule '0 4 * * *', for example, or --schedule @daily")
    request = _job_described(args, client)
    fields = _fields(args)
    if "zone" not in fields:
        from headnode.apps.cli.local_zone import local_zone

        fields["zone"] = local_zone()
    answer = client.ask("create_recurring_job", idempotency=args.text(KEY.name), **request, **fields)
    note_losses(answer.get("report", ()), args.text("jobfile") or "job", out)
    made = answer["recurring_job"]
    when = next_times(made, 1)
    out.outcome(
        f"Recurring job {made['name']!r} has been created. Number: {made['number']}. Next: {when}.",
        answer,
        made["number"],
    )
    return 0


def _job_described(args: Arguments, client: Client) -> "dict[str, Any]":
    """Return the job of a program or a job file, as the head gets it."""
    if "jobfile" not in args.options and (file := job_file_among(args.words)):
        args.options["jobfile"], args.words = [file], []
    return job_request(args, client)


def modify(args: Arguments, client: Client, out: Output) -> int:
    """Change a recurring job, options of its job, or the job itself."""
    words, args.words = args.words[1:], args.words[:1]
    name, args.words = the_name(args, "recurring job", _EXAMPLE), words
    fields, terms, job = _fields(args), None, None
    if words or "jobfile" in args.options:
        job = {name: value for name, value in _job_described(args, client).items() if value is not None}
    else:
        refuse_task_options(args)
        terms = job_terms(args)
    if not fields and not terms and job is None:
        raise usage("nothing to change was given", "see the options with --help")
    answer = client.ask("modify_recurring_job", recurring=name, terms=terms or None, job=job, **fields)
    note_losses(answer.get("report", ()), args.text("jobfile") or "job", out)
    changed = answer["recurring_job"]
    out.outcome(
        f"Recurring job {changed['name']!r} has been changed. Next: {next_times(changed, 1) or 'never'}.",
        answer,
        changed["number"],
    )
    return 0


def listing(args: Arguments, client: Client, out: Output) -> int:
    """List recurring jobs."""
    user = args.text("user")
    if user is None and not args.flag(_ALL):
        user = client.ask("whoami")["user"]
    found = client.ask("recurring_jobs", user=user)["recurring_jobs"]
    rows = [recurring_row(each) for each in found]
    out.show_table(RecordTable("Number", rows, found, columns=RECURRING_COLUMNS, prose=True))
    return 0


def show(args: Arguments, client: Client, out: Output) -> int:
    """Show one recurring job."""
    name = the_name(args, "recurring job", _EXAMPLE)
    found = client.ask("recurring_job", recurring=name)["recurring_job"]
    out.show_table(RecordTable("Name", [recurring_view(found)], found))
    return 0


def suspend(args: Arguments, client: Client, out: Output) -> int:
    """Suspend recurring jobs."""
    return _each(args, client, out, "suspend_recurring_job", "has been suspended")


def resume(args: Arguments, client: Client, out: Output) -> int:
    """Resume recurring jobs."""
    return _each(args, client, out, "resume_recurring_job", "has been resumed")


def remove(args: Arguments, client: Client, out: Output) -> int:
    """Remove recurring jobs."""
    return _each(args, client, out, "remove_recurring_job", "has been removed")


def _each(args: Arguments, client: Client, out: Output, verb: str, done: str) -> int:
    def deed(name: str) -> None:
        answer = client.ask(verb, recurring=name)
        out.outcome(f"Recurring job {name} {done}.", answer, name)
        if left := answer.get("unfinished"):
            out.note(f"jobs of it go on: {', '.join(map(str, left))}; hn job cancel ID ends them")

    return for_each(_named(args), deed, out)


def _named(args: Arguments) -> "list[str]":
    if not args.words:
        raise usage("no recurring job was given", _EXAMPLE)
    return args.words


def run(args: Arguments, client: Client, out: Output) -> int:
    """Make jobs of recurring jobs now."""

    def deed(name: str) -> None:
        answer = client.ask("run_recurring_job", recurring=name)
        out.outcome(f"Job has been submitted. ID: {answer['job']}.", answer, answer["job"])

    return for_each(_named(args), deed, out)


def _fields(args: Arguments) -> "dict[str, Any]":
    """Return the fields of the recurring job itself that were typed."""
    fields: dict[str, Any] = {}
    for option in ("schedule", "zone"):
        if (text := args.text(option)) is not None:
            fields[option] = text
    for option, choices in (("overlap", ("skip", "wait", "allow")), ("missed", ("one", "none"))):
        if (text := args.text(option)) is not None:
            if text.lower() not in choices:
                raise usage(f"{text!r} is no value of --{option}", f"write {' or '.join(choices)}")
            fields[option] = text.lower()
    for option in ("keep", "runs"):
        if args.number(option) is not None:
            fields[option] = args.number(option)
    if (text := args.text("until")) is not None:
        from headnode.apps.cli.typed_dates import typed_date

        fields["end"] = typed_date("until", text, ahead=True) if text.lower() != "never" else 0
    if args.text("jobname") is not None:
        fields["name"] = args.text("jobname")
    return fields


_WHEN = grouped(
    "When it makes jobs",
    CliOption("schedule", "TIMES", "Five fields of cron, '0 4 * * *'; @hourly, @daily, @weekly, @monthly, "
              "@yearly; or @every 15m"),
    CliOption("zone", "NAME", "Time zone of the fields, as Europe/Berlin (default: that of this shell)"),
    CliOption("overlap", "WHAT", "At a time while an earlier job has not ended: skip the time (default), "
              "wait for its end, or allow both"),
    CliOption("missed", "WHAT", "For times while the head was down or it was suspended: one job at once "
              "(default), or none"),
    CliOption("until", "TIME", "Create no job after this date; never: no end (default)"),
    CliOption("runs", "N", "Create at most N jobs; 0: no limit (default)"),
    CliOption("keep", "N", "How many of the last times are listed, 1 to 100 (default: 10)"),
)  # fmt: skip
_JOB_SPELLINGS = {spelling for option in JOB_OPTIONS for spelling in option.spellings}
_OF_JOB = (
    *grouped("The job", CliOption("jobfile", "FILE", "The job of this file")),
    *HOW_TO_READ,
    CliOption(
        "awareness", "WORD", "For unsupported requests of the job file: reject, warn (default) or ignore"
    ),
    KEY,
    *JOB_OPTIONS,
    *(option for option in TASK_OPTIONS if option.name not in _JOB_SPELLINGS),
    *grouped(FILES, ENV_ALL),
)
COMMANDS = (
    CliCommand(
        "new",
        "--schedule TIMES [options] PROGRAM [ARGUMENT...] | JOBFILE",
        "Create a recurring job: a schedule, and a job as for hn job submit",
        new,
        options=(*_WHEN, *_OF_JOB),
        example="hn recurring new --schedule '0 4 * * *' --name nightly -t 1h ./backup",
        notes=(
            "--name is the name of the recurring job and of the jobs that it makes. Without it, it is that "
            "of the program.",
            "Each time makes one job at most, also if the head is killed or its clock is set. Its tasks have "
            "the time in HEADNODE_RECURRING_TIME, and the name in HEADNODE_RECURRING_JOB.",
            "A time that the change to summer time leaves out comes right after the change; one that the "
            "change back repeats comes once. Fields that begin with * follow the clock.",
        ),
        positionals=0,
    ),
    CliCommand(
        "list",
        "",
        "List recurring jobs",
        listing,
        options=(
            FORMAT,
            CliOption("user", "NAME", "Those of this user"),
            CliOption(_ALL, "", "Those of all users"),
        ),
        example="hn recurring list",
        instead="one recurring job: hn recurring view NAME",
    ),
    CliCommand(
        "view",
        "NAME",
        "Show a recurring job, its next times and its last jobs",
        show,
        options=(FORMAT,),
        example="hn recurring view nightly",
    ),
    CliCommand(
        "modify",
        "NAME [options] [PROGRAM [ARGUMENT...] | JOBFILE]",
        "Change a recurring job, options of its job, or its job; jobs that were made stay as they are",
        modify,
        options=(*_WHEN, *_OF_JOB),
        example="hn recurring modify nightly --schedule '30 5 * * *'",
        notes=(
            "Without PROGRAM and JOBFILE, options of the job change, and all others stay. With one of them, "
            "the job is described anew: options that are not given have their defaults.",
        ),
        positionals=1,
    ),
    CliCommand(
        "suspend",
        "NAME...",
        "Suspend recurring jobs: they create no jobs until they are resumed",
        suspend,
        example="hn recurring suspend nightly",
    ),
    CliCommand("resume", "NAME...", "Resume recurring jobs", resume, example="hn recurring resume nightly"),
    CliCommand(
        "run",
        "NAME...",
        "Create a job of each now, in addition to the schedule",
        run,
        example="hn recurring run nightly",
    ),
    CliCommand(
        "remove",
        "NAME...",
        "Remove recurring jobs; the jobs that they have made stay",
        remove,
        example="hn recurring remove nightly",
    ),
)
