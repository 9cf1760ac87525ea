"""``hn job submit``: a program, a job file, or a job made before, into the queue."""

import os

from headnode.apps.cli.catalogue import COMMON_OPTIONS, KEY, CliCommand
from headnode.apps.cli.job_files import (
    HOW_TO_READ,
    LINES,
    described_by,
    described_script,
    job_file_among,
    looks_like_job_file,
    refuse_how,
)
from headnode.apps.cli.options import Arguments, CliOption, grouped, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.shell import ENV_ALL, apply_shell, note_directory, note_missing_program, remember
from headnode.apps.cli.terms import FILES, JOB_OPTIONS, TASK_OPTIONS, job_terms, only_task_terms
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ALL_OR_NONE = "all-or-none"
_BEGINNING = 65_536  # bytes of a script, in which its first options for a scheduler are
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # how a text in it begins
_FIRST = "What to submit, and what to do with it"
_JOB_SPELLINGS = {spelling for option in JOB_OPTIONS for spelling in option.spellings}
OPTIONS = (
    *grouped(
        _FIRST,
        CliOption("id", "ID", "Submit the job that 'hn job new' made"),
        CliOption("group", "NAME", "Submit all jobs of this group that 'hn job new' made, in one step"),
        CliOption("jobfile", "FILE", "Submit the job of this file; options on the command line override it"),
        *HOW_TO_READ,
        CliOption(
            "awareness", "WORD", "For unsupported requests of the job file: reject, warn (default) or ignore"
        ),
        CliOption("dryrun", "", "Submit nothing; show where the job would start or why it would wait"),
        CliOption(
            "wait", "", "Wait for the end and print captured output; exit status 0 only if the job finished"
        ),
        CliOption(
            LINES,
            "FILE",
            "Submit a job for each line of FILE (- is standard input): a command line, a JSON job, or with a "
            "PROGRAM its argument, which replaces {}",
        ),
        CliOption(ALL_OR_NONE, "", "Of several jobs, submit none if one is refused (at most 1,000 jobs)"),
        KEY,
        CliOption("password", "TEXT", "Ignored: Headnode uses no passwords; leave it out"),
    ),
    *JOB_OPTIONS,
    *(option for option in TASK_OPTIONS if option.name not in _JOB_SPELLINGS),
    *grouped(FILES, ENV_ALL),
)


def run(args: Arguments, client: Client, out: Output) -> int:
    """Submit one job; remember its id for this shell; wait for its end if told to.  Or only say what if."""
    _refuse_queue_of_pbs(args, client)
    several = len(args.words) > 1 and all(map(looks_like_job_file, args.words))
    if LINES in args.options or (several and "jobfile" not in args.options):
        return _submit_many(args, client, out)
    if "jobfile" not in args.options and (file := job_file_among(args.words)):
        args.options["jobfile"], args.words = [file], []
    if "password" in args.options:
        out.note("the password was not needed and is ignored; others can read it on a command line")
    if "group" in args.options:
        return _submit_group(args, client, out)
    if args.flag("dryrun"):
        return _dry_run(args, client, out)
    request = job_request(args, client)
    if "script" in request and (more := [word for word in args.words[1:] if _is_for_a_scheduler(word)]):
        out.note(f"{more[0]!r} is an argument of {args.words[0]!r}, not a job: submit each script alone")
    answer = client.ask("submit_job", idempotency=args.text(KEY.name), **request)
    job = int(answer["job"])
    jobs = [int(one) for one in answer.get("jobs", [job])]
    remember(job)
    if answer.get("report"):
        from headnode.apps.cli.output import note_losses

        note_losses(answer["report"], _source(args, request), out)
    waits = args.flag("wait")
    if not (waits and args.flag("json")):  # then the document at the end holds the id
        _print_submitted(jobs, answer, out)
    for task in request.get("tasks", ()):
        note_directory(task, args, out)
        note_missing_program(args.words[0], task, args, out)
    return _wait(jobs, client, out) if waits else 0


def _refuse_queue_of_pbs(args: Arguments, client: Client) -> None:
    """Refuse ``-q QUEUE``, as qsub and bsub have it: here it would run QUEUE as a program, with few words."""
    if args.spelled.get("quiet") != "-q" or not args.words:
        return
    import shutil

    word = args.words[0]
    templates = {each["name"].casefold() for each in client.ask("templates")["templates"]}
    is_template = word.casefold() in templates
    found = os.path.exists(word) or " " in word or shutil.which(word) is not None  # noqa: PTH110 (pathlib costs 6 ms)
    if found and not is_template:
        return
    raise usage(
        f"-q is --quiet here, so {word!r} would be the program",
        f"a queue is a job template: --jobtemplate {word}; to run a program of this name: --quiet {word}",
    )


def _submit_many(args: Arguments, client: Client, out: Output) -> int:
    """Submit several job files, or the lines of a file; tell what is refused and go on, or stop."""
    from headnode.apps.cli.many_jobs import in_requests, submissions

    if args.flag("dryrun"):
        raise usage("a dry run is for one job", "give one program or one job file")
    all_or_none, key = args.flag(ALL_OR_NONE), args.text(KEY.name)
    submitted: list[int] = []
    worst = 0
    awareness = _awareness(args)
    for number, request in enumerate(in_requests(submissions(args, client), all_or_none=all_or_none)):
        answer = client.ask(
            "submit_jobs",
            submissions=[{**_without_none(fields), "awareness": awareness} for _, fields in request],
            all_or_none=all_or_none,
            idempotency=f"{key}.{number}" if key and number else key,
        )
        if answer["jobs"]:
            submitted += map(int, answer["jobs"])
            remember(submitted[-1])
        if answer["jobs"] and not (args.flag("wait") and args.flag("json")):
            _print_submitted(submitted[-len(answer["jobs"]) :], answer, out)
        worst = max(worst, _print_results(request, answer["submissions"], out))
    if args.flag("wait") and submitted:
        worst = max(worst, _wait(submitted, client, out, together=True))
    return worst


def _without_none(fields: "dict[str, Any]") -> "dict[str, Any]":
    return {name: value for name, value in fields.items() if value is not None}


def _print_results(
    request: "list[tuple[str, dict[str, Any]]]", results: "list[dict[str, Any]]", out: Output
) -> int:
    """Tell what was refused, and what was lost; return the exit status: 1 if something was refused."""
    from headnode.apps.cli.output import note_losses
    from headnode.apps.client.failures import refusal_in

    refused = 0
    for (place, _), result in zip(request, results, strict=True):
        note_losses(result.get("report", ()), place, out)
        if "refused" in result:
            refused = 1
            no = refusal_in(result["refused"])
            no.what = f"{place}: {no.what}"
            out.problem(no)
    return refused


def _source(args: Arguments, request: "dict[str, Any]") -> str:
    """Return the file that describes the job, as a report names it."""
    return args.text("jobfile") or (args.words[0] if "script" in request else "job")


def _batch_script(args: Arguments, client: Client) -> "dict[str, Any] | None":
    """Return the script as the head gets it, if the program is a batch script of another scheduler."""
    program = args.words[0] if args.words else ""
    if not _is_for_a_scheduler(program):
        return None
    return described_script(program, args, client)


def _is_for_a_scheduler(program: str) -> bool:
    """Return whether a word is the path of a script with options for a scheduler."""
    if not os.path.isfile(program):  # noqa: PTH113 (pathlib costs 6 ms)
        return False
    try:
        with open(program, "rb") as file:  # noqa: PTH123
            start = file.read(_BEGINNING)
    except OSError:
        return False  # the node says what is wrong with it
    if start.startswith(_UTF_16):  # as editors of Windows write it; a last half of a character is left out
        start = start[: len(start) & ~1].decode("utf-16", "replace").encode()
    start = start.removeprefix(b"\xef\xbb\xbf")
    if not start.startswith(b"#"):
        return False
    from headnode.core.formats.option_words import SCRIPT_MARKS

    return any(b"\n" + mark.encode() in b"\n" + start for mark in SCRIPT_MARKS.values())


def _submit_group(args: Arguments, client: Client, out: Output) -> int:
    """Submit what 'hn job new' made of a file with several jobs."""
    anyway = ("group", "wait", *(option.name for option in COMMON_OPTIONS))
    others = [name for name in args.options if name not in anyway]
    if args.words or others:
        what = args.words[0] if args.words else f"option {others[0]!r}"
        raise usage(f"a group was named, and {what} too", "a group is submitted as it was made")
    answer = client.ask("submit_group", group=args.text("group"))
    jobs = [int(job) for job in answer["jobs"]]
    if not jobs:
        out.note(f"all jobs of group {answer['group']!r} were submitted before")
        return 0
    waits = args.flag("wait")
    if not (waits and args.flag("json")):
        _print_submitted(jobs, answer, out)
    return _wait(jobs, client, out, together=True) if waits else 0


def _print_submitted(jobs: "list[int]", answer: "dict[str, Any]", out: Output) -> None:
    if not out.for_people and len(jobs) > 1:
        names = "\n".join(map(str, jobs))
        out.outcome("", answer, names)
        return
    for job in jobs:
        out.outcome(f"Job has been submitted. ID: {job}.", answer, job)


def _dry_run(args: Arguments, client: Client, out: Output) -> int:
    from headnode.apps.cli.commands.job_explain import explain_dry_run

    if args.flag("wait"):
        raise usage("a dry run submits nothing to wait for", "leave out --wait or --dry-run")
    return explain_dry_run(lambda: job_request(args, client), args.text("jobfile"), client, out)


def job_request(args: Arguments, client: Client) -> "dict[str, Any]":
    """Return the job that the words and options of a command line describe, as the head gets it.

    Raises:  BadRequest ``usage``.
    """
    if (script := _batch_script(args, client)) is not None:
        refuse_task_options(args)
        return {**script, "awareness": _awareness(args), "terms": job_terms(args) or None}
    made, file, words = args.text("id"), args.text("jobfile"), args.words
    if made is None and file is None and not words and args.text("rununtilcanceled"):
        refuse_task_options(args)
        return {"terms": job_terms(args), "tasks": []}
    given = [made is not None, file is not None, bool(words)].count(True)
    if given != 1:
        raise usage(
            "a program, a job file and /id exclude each other" if given else "there is nothing to submit",
            "give one of: a program with its arguments, a job file, or /id:ID",
        )
    if file is None:
        refuse_how(args)
    terms = job_terms(args) or None
    if not words:
        refuse_task_options(args)
    if made is not None:
        from headnode.apps.cli.arguments import job_id

        return {"job": job_id([made]), "terms": terms}
    if file is not None:
        return {**_file_fields(args, file, client), "terms": terms}
    task = only_task_terms(args, words)
    apply_shell(task, args, client)
    return {"terms": terms, "tasks": [task]}


def refuse_task_options(args: Arguments) -> None:
    """Refuse what would describe a task where there is none to describe, instead of losing it."""
    lost = [option.name for option in (*TASK_OPTIONS, ENV_ALL) if option.name in args.options]
    lost = [name for name in lost if name not in _JOB_SPELLINGS]
    if lost:
        raise usage(f"option {lost[0]!r} describes a task", "put it into the job file, or give a program")


def _file_fields(args: Arguments, file: str, client: Client) -> "dict[str, Any]":
    return {**described_by(args, file, client), "awareness": _awareness(args)}


def _awareness(args: Arguments) -> str:
    awareness = (args.text("awareness") or "warn").lower()
    if awareness not in ("reject", "warn", "ignore"):
        raise usage(f"awareness {awareness!r} is unknown", "choose reject, warn or ignore")
    return awareness


def _wait(jobs: "list[int]", client: Client, out: Output, *, together: bool = False) -> int:
    from headnode.apps.cli.commands.job_wait import wait_for_jobs

    return wait_for_jobs(jobs, client, out, show_output=True, together=together or len(jobs) > 1)


COMMANDS = (
    CliCommand(
        "submit",
        "[options] PROGRAM [ARGUMENT...] | JOBFILE... | --each-line FILE | --group NAME",
        "Submit a job: a program or a job file",
        run,
        options=OPTIONS,
        example="hn job submit -n 4 -t 1h30m mpiexec ./solve input.dat",
        notes=(
            "Words from the program on belong to its command line; a single word is a whole command line.",
            "A word that ends in .xml, .toml, .json, .js, .sub or .dag and is not executable is a job file; "
            "- is standard input. The job language is detected from the content.",
            "/numprocessors, /numnodes, /numsockets and /numgpus are the size of the job and of its task. "
            "With /parametric each instance of the sweep takes one.",
            "With --dry-run the head checks the job as at submission, and submits nothing. Exit status 0: "
            "the job would be accepted; 1: it would be refused; 2: it is wrong, or could never run on this "
            "cluster.",
            "With --wait, Ctrl-C stops waiting; the job continues.",
            "All jobs of a file are submitted in one step; if one is refused, none is submitted. Their "
            "dependencies on each other are those of the file. --wait then works as "
            "'hn job wait --group'.",
            "Several job files, and the lines of a file, are submitted in requests of 1,000. If a job is "
            "refused, its file and line are printed, the others are submitted, and the exit status is 1. "
            "With --idempotency-key the whole command can be repeated: no job is submitted twice.",
        ),
        positionals=0,
    ),
)
