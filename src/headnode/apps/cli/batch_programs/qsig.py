"""``qsig`` and ``qrerun`` of PBS: jobs and elements that run get a signal, or run again from the queue.

Operators also suspend and resume jobs by ``qsig``.

Source:  PBS Professional 22, qsig(1B), qrerun(1B); pbs_error.h.
"""

import sys

from headnode.apps.cli.batch_programs.qsub import UNKNOWN_JOB, elements_of, job_address
from headnode.apps.cli.batch_programs.rows import JobSource
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    names_here,
    read_pbs_words,
)
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OPTIONS = {"qsig": acted_on("s"), "qrerun": ignored("W", "a job that runs is always ended first")}
_USUAL = "SIGTERM"
_DENIED, _UNKNOWN_SIGNAL, _WRONG_STATE = 159, 165, 168  # last bytes of 15007, 15013, 15016
_NO_SIGNAL = ("0", "NULL", "SIGNULL")  # only whether the job runs
_RERUN = "rerun"
_VERBS = {"suspend": "suspend_job", "resume": "resume_job", _RERUN: "requeue_job"}
_OF_OPERATORS = ("suspend", "resume")


def run(program: str, argv: "Sequence[str]", client: Client, system: str) -> int:  # noqa: ARG001
    """Send a signal to each job, or let it run again; the status of the last that failed counts."""
    action, targets = _read(argv) if program == "qsig" else (_RERUN, _jobs("qrerun", argv).words)
    source, status = JobSource(client), 0
    if action in _OF_OPERATORS and client.ask("whoami")["role"] == "user":
        what = f"Unauthorized Request  {targets[0]}"
        raise ProgramRefusal(what, "only operators suspend and resume jobs so", status=_DENIED, prefix="")
    for target in targets:
        failed = _send(action, target, source)
        status = _report(program, target, failed) if failed else status
    return status


def _jobs(program: str, argv: "Sequence[str]") -> ProgramWords:
    """Return what was typed, with one job at least.

    Raises:  ProgramRefusal with status 2.
    """
    args = read_pbs_words(program, argv, OPTIONS[program])
    if not args.words:
        raise ProgramRefusal("no job was named", names_here(program, OPTIONS[program]), status=2, prefix="")
    return args


def _read(argv: "Sequence[str]") -> "tuple[str, list[str]]":
    """Return what is sent, and the jobs.

    Raises:  ProgramRefusal with status 2, or 165 for a signal that is unknown.
    """
    args = _jobs("qsig", argv)
    action, targets = args.text("s") or _USUAL, args.words
    if action not in _OF_OPERATORS and action not in _NO_SIGNAL:
        action = _name_of(action, targets[0])
    return action, targets


def _name_of(action: str, target: str) -> str:
    from headnode.core.model.errors import BadRequest
    from headnode.core.model.signals import signal_name, signal_number

    try:
        return signal_name(signal_number(action))
    except BadRequest as wrong:
        what = f"Unknown/illegal signal name {target}"
        raise ProgramRefusal(what, wrong.what, status=_UNKNOWN_SIGNAL, prefix="") from None


def _send(action: str, target: str, source: JobSource) -> "tuple[str, str, int] | None":
    """Send a signal to a job, or to elements of an array; return what failed, why, and the exit status."""
    from headnode.core.model.errors import HeadnodeError, NotAllowed, NotFound, WrongState

    job, numbers = job_address(target, "pbs")
    try:
        listed = source.listed([job]) if job is not None else []
        if job is None or not listed:
            return "Unknown Job Id", "", UNKNOWN_JOB
        if action == _RERUN and listed[0]["state"] != "Running":
            return "Request invalid for state of job", f"job {job} does not run", _WRONG_STATE
        if action in _VERBS and not numbers:
            source.client.ask(_VERBS[action], job=job)
        elif action not in _VERBS and (numbers or action in _NO_SIGNAL):
            found = elements_of(source, job, numbers, ("Running",)) if numbers else listed
            _to_running(action, target, source, [one for one in found if one["state"] == "Running"])
        elif not numbers:
            source.client.ask("signal_job", job=job, signal=action)
        elif action == _RERUN:
            running = elements_of(source, job, numbers, ("Running",))
            if not running:
                return "Request invalid for state of job", "nothing of it runs", _WRONG_STATE
            for one in running:
                source.client.ask("requeue_task", job=one["job"], task=one["task"], instance=one["instance"])
        else:
            return "Request invalid for state of job", "name the whole job", _WRONG_STATE
    except NotFound:
        return "Unknown Job Id", "", UNKNOWN_JOB
    except NotAllowed as refused:
        return "Unauthorized Request ", refused.what, _DENIED
    except WrongState as refused:
        return "Request invalid for state of job", refused.what, _WRONG_STATE
    except HeadnodeError as refused:
        return refused.what, refused.fix, 1
    return None


def _to_running(action: str, target: str, source: JobSource, running: "Sequence[dict[str, Any]]") -> None:
    """Send a signal to elements that run; signal 0 only asks whether there are some.

    Raises:  WrongState ``not-running``.
    """
    from headnode.core.model.errors import WrongState

    if not running:
        raise WrongState(code="not-running", what=f"nothing of {target} runs")
    if action not in _NO_SIGNAL:
        for one in running:
            named = {"job": one["job"], "task": one["task"], "instance": one["instance"]}
            source.client.ask("signal_job", signal=action, **named)


def _report(program: str, target: str, failed: "tuple[str, str, int]") -> int:
    what, more, status = failed
    sys.stderr.write(f"{program}: {what} {target}\n")
    if more:
        sys.stderr.write(f"{program}: {more}\n")
    return status
