"""``hn job cancel``, ``finish``, ``requeue``, ``clone``, ``suspend``, ``resume``, ``signal``, ``hold``,
``release``, ``refund``."""

from headnode.apps.cli.arguments import job_ids
from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.job_selection import (
    ENDED_SELECTION,
    IDS,
    SELECTION,
    group_fields,
    group_named,
    note_empty_group,
    selected_jobs,
)
from headnode.apps.cli.options import Arguments, CliOption
from headnode.apps.cli.output import Output, for_each, note_losses
from headnode.apps.client.client import Client
from headnode.core.model.errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headnode.apps.cli.catalogue import Run

    Fields = dict[str, str | bool | None]

MAX_NAMED = 8  # jobs that are in the queue again with another

_ENDING = (
    CliOption("message", "TEXT", "Reason, stored with the job"),
    CliOption("force", "", "Kill the tasks at once, without TaskCancelGracePeriod"),
    CliOption("graceful", "", "Start no more tasks; running tasks end by themselves"),
)


def _no_fields(_asked: Arguments) -> "Fields":
    return {}


def _change_jobs(
    verb: str,
    sentence: "Callable[[dict[str, Any]], str]",
    fields: "Callable[[Arguments], Fields]" = _no_fields,
    *,
    one_by_one: bool = False,
    states: "list[str] | None" = None,
) -> "Run":
    """Return a command that asks `verb` for each job and says what was done.

    one_by_one:  of ids only
    states:      in which jobs are selected; None: all that have not ended
    """

    def run(args: Arguments, client: Client, out: Output) -> int:
        def deed(job: int) -> None:
            answer = client.ask(verb, job=job, **fields(args))
            out.outcome(f"Job {job} has been {sentence(answer)}", answer, job)

        if one_by_one:
            return for_each(job_ids(args.words), deed, out)
        return for_each(selected_jobs(args, client, out, states=states), deed, out)

    return run


def _end_jobs(verb: str, word: str) -> "Run":
    """Return a command that ends jobs, or all jobs of a group in one step."""
    end = _change_jobs(f"{verb}_job", lambda answer: f"{word}.{_still_ending(answer)}", _end_fields)

    def run(args: Arguments, client: Client, out: Output) -> int:
        if group_named(args) is not None:
            return _stop_group(f"{verb}_group", word, args, client, out)
        return end(args, client, out)

    return run


def _with(jobs: "list[int]") -> str:
    """Return which jobs that were canceled for the end of a job are in the queue again with it."""
    if not jobs:
        return ""
    named = ", ".join(map(str, jobs[:MAX_NAMED])) + (" and others" if len(jobs) > MAX_NAMED else "")
    return f" Requeued with it, since they wait for it: {named}."


def _stop_group(verb: str, word: str, args: Arguments, client: Client, out: Output) -> int:
    """Stop all jobs of a group in one step; tell each; return 1 when some could not be."""
    answer = client.ask(verb, **group_fields(args), **_end_fields(args))
    if not answer["jobs"] and not answer["refused"]:
        note_empty_group(answer["group"], out)
    for one in answer["jobs"]:
        out.outcome(f"Job {one['job']} has been {word}.{_still_ending(one)}", one, one["job"])
    for no in answer["refused"]:
        from headnode.apps.client.failures import refusal_in

        out.problem(refusal_in(no))
    return 1 if answer["refused"] else 0


def clone(args: Arguments, client: Client, out: Output) -> int:
    """Make a new job like each of these."""
    from headnode.apps.cli.shell import remember

    def deed(job: int) -> None:
        answer = client.ask("clone_job", job=job)
        remember(int(answer["job"]))
        note_losses(answer["report"], f"job {answer['job']}", out)
        out.outcome(f"Job {job} has been cloned. ID: {answer['job']}.", answer, answer["job"])

    return for_each(job_ids(args.words), deed, out)


def _end_fields(args: Arguments) -> "Fields":
    return {
        "message": args.text("message"),
        "force": args.flag("force") or None,
        "graceful": args.flag("graceful") or None,
    }


def _still_ending(answer: "dict[str, object]") -> str:
    return " Its tasks are being stopped." if str(answer["state"]).lower() in ("running", "ending") else ""


_HOLD_NAME = CliOption("name", "NAME", "Name of the hold (default: user)")


def _hold_fields(args: Arguments) -> "Fields":
    return {
        "name": args.text("name"),
        "message": args.text("message"),
        "requeue": args.flag("requeue") or None,
    }


def _release_fields(args: Arguments) -> "Fields":
    return {"name": args.text("name"), "all": args.flag("all") or None}


def _suspended(answer: "dict[str, Any]") -> str:
    return "suspended." + (" Its processes are being stopped." if answer["state"] == "suspending" else "")


def _signal_jobs(args: Arguments, client: Client, out: Output) -> int:
    if not (signal := args.text("signal")):
        raise BadRequest(code="usage", what="no signal is named", fix="write, for example, --signal USR1")
    fields = {"signal": signal, "target": args.text("to") or "all", "task": args.number("task")}

    def deed(job: int) -> None:
        answer = client.ask("signal_job", job=job, **fields)
        out.outcome(_sent(answer), answer, job)
        if answer["silent"]:
            out.note(f"no answer from {', '.join(answer['silent'])}: it may have arrived there")

    return for_each(selected_jobs(args, client, out), deed, out)


def _sent(answer: "dict[str, Any]") -> str:
    number, there = answer["processes"], [node for node in answer["nodes"] if node.startswith("@")]
    if there:  # a resource, which does not count processes
        return f"SIG{answer['signal']} was sent to job {answer['job']} at {there[0][1:]}."
    whom = "1 process" if number == 1 else f"{number} processes"
    where = f" on {', '.join(answer['nodes'])}" if answer["nodes"] else ""
    return f"SIG{answer['signal']} was sent to {whom} of job {answer['job']}{where}."


def _refunded(answer: "dict[str, Any]") -> str:
    return f"put down for a refund of {answer['amount']:.15g}."


def _resumed(answer: "dict[str, Any]") -> str:
    waits = " It continues when its processors are free." if answer["state"] == "resuming" else ""
    return f"resumed.{waits}"


def _released(answer: "dict[str, Any]") -> str:
    left = ", ".join(hold["name"] for hold in answer["holds"])
    return "released." + (f" It still has: {left}." if left else "")


COMMANDS = (
    CliCommand(
        "cancel",
        IDS,
        "Cancel jobs",
        _end_jobs("cancel", "canceled"),
        options=(*_ENDING, *SELECTION),
        example="hn job cancel --me --state queued",
    ),
    CliCommand(
        "finish",
        IDS,
        "Stop jobs and count them as finished",
        _end_jobs("finish", "finished"),
        options=(*_ENDING, *SELECTION),
        example="hn job finish 12",
    ),
    CliCommand(
        "requeue",
        "ID... | --me",
        "Run failed or canceled jobs again, or running ones",
        _change_jobs(
            "requeue_job", lambda answer: f"requeued.{_with(answer['reopened'])}", states=["Failed"]
        ),
        options=ENDED_SELECTION,
        example="hn job requeue --me --since 1d",
    ),
    CliCommand(
        "refund",
        "ID...",
        "Ask the bank to refund what jobs were charged (administrators)",
        _change_jobs("refund_job", _refunded, one_by_one=True),
        example="hn job refund 12",
    ),
    CliCommand(
        "clone",
        "ID...",
        "Make a new job with the description of an old one",
        clone,
        example="hn job clone 12",
    ),
    CliCommand(
        "suspend",
        IDS,
        "Suspend running jobs; their processors are free for other jobs",
        _change_jobs("suspend_job", _suspended),
        options=SELECTION,
        example="hn job suspend 12",
        notes=("Only jobs with --suspendable can be suspended.",),
    ),
    CliCommand(
        "resume",
        IDS,
        "Resume suspended jobs",
        _change_jobs("resume_job", _resumed),
        options=SELECTION,
        example="hn job resume 12",
    ),
    CliCommand(
        "signal",
        IDS,
        "Send a signal to the processes of running jobs",
        _signal_jobs,
        options=(
            CliOption("signal", "NAME", "Signal, by name or number"),
            CliOption(
                "to",
                "WHICH",
                "all processes (all), the first of each task (program), or those of srun (steps)",
            ),
            CliOption("task", "N", "Only the running instances of this task"),
            *SELECTION,
        ),
        example="hn job signal 12 --signal USR1",
        notes=("To have a signal before the run time limit: hn job submit --signal USR1@120.",),
    ),
    CliCommand(
        "hold",
        IDS,
        "Hold queued jobs until they are released",
        _change_jobs("hold_job", lambda _: "held.", _hold_fields),
        options=(
            _HOLD_NAME,
            CliOption("message", "TEXT", "Reason, shown with the hold"),
            CliOption("requeue", "", "Stop a running job, and let it wait in the queue"),
            *SELECTION,
        ),
        example='hn job hold 12 --name data --message "the input is not there yet"',
        notes=("A job may have several holds; it starts when all are released.",),
    ),
    CliCommand(
        "release",
        IDS,
        "Release held jobs",
        _change_jobs("release_job", _released, _release_fields),
        options=(_HOLD_NAME, CliOption("all", "", "Every hold"), *SELECTION),
        example="hn job release 12 --name data",
    ),
)
