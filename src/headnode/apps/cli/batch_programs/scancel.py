"""``scancel``: end jobs, and elements of arrays, or send them signals.

Source:  Slurm 22.05, scancel(1).
"""

import sys

from headnode.apps.cli.batch_programs.job_commands import in_words
from headnode.apps.cli.batch_programs.rows import (
    LIVING,
    BatchRow,
    JobSource,
    numbers_of,
    refuse_other_clusters,
    rows_of,
    typed_numbers,
)
from headnode.apps.cli.batch_programs.squeue import is_chosen, job_numbers, own_user, states_asked
from headnode.apps.cli.batch_programs.values import FIELDS
from headnode.apps.cli.batch_programs.words import (
    NOT_REACHED,
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    read_words,
    refused,
)
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OPTIONS = {
    **acted_on(
        "account/A batch/b! full/f! hurry/H! jobname/n me! name nodelist/w partition/p qos/q quiet/Q! "
        "signal/s state/t user/u verbose/v! version/V! help! usage!"
    ),
    **ignored("clusters/M ctld! sibling!", "this head has the job"),
    **ignored("cron!", "scancel ends jobs; scrontab -e removes the entry that makes them"),
    **refused("interactive/i! reservation/R wckey", "choose by -n, -u, -t, -p, -A or ids"),
}
UNREACHABLE = 8  # exit status of scancel where no head answers


def run(argv: "Sequence[str]", client: Client) -> int:
    """End jobs, or elements of arrays, or send them a signal."""
    args = read_words(argv, OPTIONS)
    refuse_other_clusters(args, client)
    signal = _signal(args)
    chooses = args.has_any(_CHOICES)
    if not args.words and not chooses:
        raise ProgramRefusal("No job identification provided")
    for word in args.words:
        if not all(part.isdigit() for part in word.partition("_")[0].split(".")):
            raise ProgramRefusal(f"Invalid job id {word}")
    targets = _chosen(args, JobSource(client)) if chooses else [*args.words]
    return max([_end(target, client, args, signal) for target in targets], default=0)


def _signal(args: ProgramWords) -> "dict[str, str]":
    """Return the signal and the processes that get it; nothing: the jobs end.

    SIGKILL for a whole job ends it, as in Slurm.
    """
    from headnode.core.model.errors import BadRequest
    from headnode.core.model.signals import signal_name, signal_number

    try:
        name = signal_name(signal_number(args.text("signal") or "KILL"))
    except BadRequest:
        raise ProgramRefusal(f"Unknown job signal: {args.text('signal')}") from None
    if args.has("batch"):
        return {"signal": name, "target": "program"}
    if not args.has("signal") or (name == "KILL" and not args.has("full")):
        return {}
    return {"signal": name, "target": "all" if args.has("full") else "steps"}


_CHOICES = ("account", "jobname", "name", "nodelist", "partition", "qos", "state", "user", "me")


def _chosen(args: ProgramWords, source: JobSource) -> "list[str]":
    """Return the ids of living jobs, and elements of arrays, that all options mean."""
    users = {*args.parts("user")} | ({own_user()} if args.has("me") else set())
    _refuse_unknown(users)
    states = states_asked(args.parts("state")) or {"PENDING", "RUNNING", "SUSPENDED"}
    found = []
    for job in source.pages(LIVING, owner=None):
        if args.words and str(job["id"]) not in {word.partition("_")[0] for word in args.words}:
            continue
        whole = not args.has("state")
        rows = [BatchRow(source, job)] if whole else rows_of(source, job, expand=True)
        found += [
            str(row.id) if row.number is None else f"{row.id}_{row.number}"
            for row in rows
            if _is_meant(row, args, users, states)
        ]
    return found


def _refuse_unknown(users: "set[str]") -> None:
    import pwd

    for user in users:
        try:
            _ = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
        except KeyError:
            raise ProgramRefusal(f"Invalid user name: {user}") from None


def _is_meant(row: BatchRow, args: ProgramWords, users: "set[str]", states: "set[str]") -> bool:
    names = {*args.options.get("name", ()), *args.options.get("jobname", ())}  # of one: it may have commas
    whose = not args.has_any(("user", "me")) or users & {row.job["owner"], FIELDS["userid"](row)}
    if not whose or row.state not in states:
        return False
    named = not names or FIELDS["name"](row) in names
    return named and is_chosen(row, args, ("partition", "account", "qos", "nodelist"))


def _end(target: str, client: Client, args: ProgramWords, signal: "dict[str, str]") -> int:
    """End a job, or elements of an array, or send a signal; return the exit status."""
    from headnode.apps.client.failures import is_away
    from headnode.core.model.errors import HeadnodeError, NotFound, WrongState

    if args.has("verbose"):
        sys.stderr.write(f"scancel: {_deed(signal)}job {target}\n")
    try:
        _end_parts(target, client, signal)
    except (NotFound, WrongState) as refusal:  # Slurm counts what has ended, or never was, as ended
        if args.has("verbose"):
            sys.stderr.write(f"scancel: error: Kill job error on job id {target}: {in_words(refusal)}\n")
    except HeadnodeError as refusal:
        if is_away(refusal):
            raise ProgramRefusal(NOT_REACHED, refusal.what, status=UNREACHABLE) from None
        if not args.has("quiet"):
            sys.stderr.write(f"scancel: error: Kill job error on job id {target}: {refusal.what}\n")
        return 1
    return 0


def _deed(signal: "dict[str, str]") -> str:
    """Return what is done, in the words of Slurm."""
    from headnode.core.model.signals import signal_number

    if not signal:
        return "Terminating "
    whom = {"program": "batch ", "all": "full "}.get(signal["target"], "")
    return f"Signal {signal_number(signal['signal'])} to {whom}"


def _end_parts(target: str, client: Client, signal: "dict[str, str]") -> None:
    verbs = ("signal_job", "signal_job") if signal else ("cancel_job", "cancel_task")
    job, _, number = target.partition("_")
    (wanted,) = job_numbers([job])
    if not number:
        client.ask(verbs[0], job=wanted, **signal)
        return
    if "." in job:
        raise ProgramRefusal(f"{target}: parts that srun starts are not ended alone; end the job")
    source = JobSource(client)
    listed = source.listed([wanted])
    numbers = typed_numbers(number)
    for row in rows_of(source, listed[0], expand=True) if listed else ():
        if row.number in numbers and row.state in ("PENDING", "RUNNING", "SUSPENDED"):
            task = row.task or source.tasks(wanted)[numbers_of(listed[0]["array"]).index(row.number)]
            client.ask(verbs[1], job=wanted, task=task["task"], instance=task["instance"], **signal)
