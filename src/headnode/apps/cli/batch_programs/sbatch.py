"""``sbatch``: a script into the queue.  Its options are those of the scripts' dialect.

Source:  Slurm 22.05, sbatch(1).
"""

import os
import sys
import time

from headnode.apps.cli.batch_programs.words import (
    NOT_REACHED,
    ProgramOption,
    ProgramRefusal,
    ProgramWords,
    acted_on,
    errors_of_ours,
    ignored,
    moment,
    read_words,
    utc_time,
)
from headnode.apps.client.client import Client
from headnode.apps.client.submitter import EVERYTHING, current_directory, variables_for_tasks
from headnode.core.formats.option_words import SBATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from headnode.core.formats.batch.lines import Word
    from headnode.core.model.errors import HeadnodeError

OF_THE_PROGRAM = (
    "parsable",
    "quiet",
    "test-only",
    "verbose",
    "wait",
    "wrap",
    "ignore-pbs",
    "version",
    "help",
    "usage",
)
OPTIONS = {
    **{name: ProgramOption(*how) for name, how in SBATCH.items()},
    **acted_on("wrap version/V! help/h! usage!"),
    **ignored("ignore-pbs!", "lines of PBS are read"),
}
UNREADABLE = 255  # exit status for options that cannot be read
_SUBMIT_LIMITS = {
    "user": "QOSMaxSubmitJobPerUserLimit",
    "project": "AssocGrpSubmitJobsLimit",
    "group": "QOSGrpSubmitJobsLimit",
}
_ABOVE_SUBMIT_LIMIT = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
_UNREADABLE_VALUES = ("--time", "--mem", "--mem-per-cpu", "--begin", "--deadline", "--time-min", "--tmp")
_WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n{}\n"


def run(argv: "Sequence[str]", client: Client) -> int:
    """Submit a script; return 0, or with ``--wait`` the exit code of the job."""
    args = read_words(argv, OPTIONS, stops=True, status=UNREADABLE)
    script, names = _script(args)
    named = {*args.options, *_program_options_in(script)}
    request = script_request(client, "slurm", script, names, job_options(args))
    if "test-only" in named:
        _print_expected_start(client, request)
        return 0
    job = submitted("sbatch", client, request, quiet="quiet" in named)
    if "parsable" in named:
        print(job)
    elif "quiet" not in named:
        print(f"Submitted batch job {job}")
    sys.stdout.flush()
    return exit_code_of(job, client) if "wait" in named else 0


def _script(args: ProgramWords) -> "tuple[str, list[str]]":
    """Return the script and its name and arguments.

    Raises:  ProgramRefusal.
    """
    wrapped = args.text("wrap")
    if wrapped is not None:
        if args.words:
            raise ProgramRefusal("Script arguments not permitted with --wrap option")
        return _WRAPPED.format(wrapped), ["wrap"]
    path = args.words[0] if args.words else "-"
    text = script_at(path)
    if not text.strip():
        raise ProgramRefusal("Batch script is empty!")
    if not text.startswith("#!"):
        raise ProgramRefusal(
            "This does not look like a batch script.  The first",
            "line must start with #! followed by the path to an interpreter.",
            "For instance: #!/bin/sh",
        )
    return text, [path, *args.words[1:]] if args.words else ["sbatch"]


def script_request(
    client: Client, dialect: str, script: str, names: "Sequence[str]", options: "Sequence[str]"
) -> "dict[str, Any]":
    """Return the request for the job of a script; `names`: its name and its arguments."""
    return {
        "jobfile": script,
        "dialect": dialect,
        "script": names,
        "options": options,
        "directory": current_directory() if client.shares_directories else "",
        "environment": variables_for_tasks(EVERYTHING),
    }


def script_at(path: str) -> str:
    """Return the text of a script; of standard input for ``-``.

    Raises:  ProgramRefusal.
    """
    from headnode.apps.cli.job_files import read_job_file

    if path != "-" and not os.path.exists(path):  # noqa: PTH110 (pathlib costs 6 ms)
        raise ProgramRefusal(f"Unable to open file {path}")
    try:
        return read_job_file(path)
    except errors_of_ours() as wrong:
        raise ProgramRefusal(wrong.what) from None


def _program_options_in(script: str) -> "set[str]":
    """Return the options of a script that are for the program; the head reports errors in it."""
    if "#SBATCH" not in script:
        return set()
    from headnode.core.formats.batch.lines import BatchSystem, directives
    from headnode.core.formats.batch.slurm_options import options_in
    from headnode.core.formats.text.source_text import SourceText

    def refuse(_word: "Word", _what: str, _fix: str) -> None:
        raise LookupError

    found = set[str]()
    try:
        for line in directives(SourceText(script), BatchSystem.SLURM):
            if line.system is BatchSystem.SLURM:
                found.update(name for name, _, _ in options_in(line.words, refuse))
    except (LookupError, errors_of_ours()):
        return set()
    return found & {"parsable", "quiet", "wait"}


def job_options(args: ProgramWords, left_out: "Sequence[str]" = OF_THE_PROGRAM) -> "list[str]":
    """Return the options that describe the job; times that count from now as dates.

    Raises:  ProgramRefusal.
    """
    found = []
    for name, value in args.in_order:
        if name in left_out:
            continue
        converted = value
        if name in ("begin", "deadline"):
            try:
                converted = utc_time(moment(value, time.time(), ahead=True))
            except ProgramRefusal as wrong:
                lines = (*wrong.lines, f"Invalid --{name} specification")
                raise ProgramRefusal(*lines, status=UNREADABLE) from None
        takes = OPTIONS[name].takes if name in OPTIONS else "always"
        found.append(f"--{name}={converted}" if takes == "always" or converted else f"--{name}")
    return found


def submitted(
    program: str,
    client: Client,
    request: "dict[str, Any]",
    *,
    quiet: bool = False,
    terms: "dict[str, str] | None" = None,
    in_words: "Callable[[HeadnodeError], ProgramRefusal] | None" = None,
) -> int:
    """Submit a job, and tell on standard error what has no effect; return its number.

    Raises:  what `in_words` makes of the refusal of the head: without it what sbatch does.
    """
    try:
        answer = client.ask("submit_job", terms=terms, **request)
    except errors_of_ours() as refused:
        raise (in_words or in_words_of_slurm)(refused) from None
    for finding in answer["report"]:
        if finding.get("kind") in ("not-supported", "approximated") and not quiet:
            sys.stderr.write(f"{program}: warning: {finding['where']}: {finding['what']}\n")
    return int(answer["job"])


def in_words_of_slurm(
    refused: "HeadnodeError", failed: str = "Batch job submission failed"
) -> ProgramRefusal:
    """Return the refusal of a job as sbatch says it: 255 for what it cannot read, 1 for what cannot be.

    `failed`: what the program says first.
    """
    from headnode.apps.client.failures import is_away

    if is_away(refused):
        return ProgramRefusal(f"{failed}: {NOT_REACHED}", refused.what, refused.fix)
    if refused.code == "limit":
        limit = _SUBMIT_LIMITS[limited_scope(refused)]
        return ProgramRefusal(limit, f"{failed}: {_ABOVE_SUBMIT_LIMIT}", refused.what, refused.fix)
    if refused.code == "no-such-template":
        return ProgramRefusal(f"{failed}: Invalid qos specification", refused.fix)
    option = refused.path[-1] if refused.path else ""
    unreadable = refused.code == "option" or (refused.code == "value" and option in _UNREADABLE_VALUES)
    return ProgramRefusal(f"{failed}: {refused.what}", refused.fix, status=UNREADABLE if unreadable else 1)


def limited_scope(refused: "HeadnodeError") -> str:
    """Return whose limit refused a job: ``user``, ``project`` or ``group``."""
    scope = str(refused.path[-1]) if refused.path else ""
    return scope if scope in _SUBMIT_LIMITS else "user"


def _print_expected_start(client: Client, request: "dict[str, Any]") -> None:
    """Tell when and where the job would start."""
    try:
        answer = client.ask("check_job", **request)
    except errors_of_ours() as refused:
        raise in_words_of_slurm(refused) from None
    explanation = answer["explanation"]
    if explanation["refused"] is not None:
        raise ProgramRefusal(f"allocation failure: {explanation['refused']['what']}")
    expected = explanation.get("expected") or {}
    at = None if explanation["would_start"] else expected.get("p50") or expected.get("promise")
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at or time.time()))
    nodes = ",".join(each["node"] for each in explanation["would_start"]) or "(unknown)"
    job, unit = answer["job"], "GPUs" if answer["job"]["unit"] == "gpu" else "processors"
    held = sum(each["processors"] for each in explanation["would_start"])
    amount = f"{held} processors" if held else f"{job['minimum']} {unit}"
    sys.stderr.write(
        f"sbatch: Job {job['id'] or 0} to start at {when} using {amount} "
        f"on nodes {nodes} in partition {_partition(request)}\n"
    )


def _partition(request: "dict[str, Any]") -> str:
    for option in reversed(request["options"]):
        if option.startswith("--partition="):
            return str(option.partition("=")[2])
    return "all"


def exit_code_of(job: int, client: Client) -> int:
    """Wait for the end of a job; return the highest exit code of its tasks, or 1 if it did not end well."""
    from headnode.apps.cli.commands.job_wait import states_of

    state = ""
    for (job_state,) in states_of([job], client):
        state = job_state["state"]
    if state == "Finished":
        return 0
    from headnode.apps.cli.batch_programs.rows import JobSource

    codes = [int(task["exit_code"] or 0) for task in JobSource(client).tasks(job)]
    return max([*codes, 1]) if not any(codes) else max(codes)
