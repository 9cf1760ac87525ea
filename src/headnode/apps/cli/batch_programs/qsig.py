"""``qsig`` of PBS: a signal for running jobs and elements of arrays; operators also suspend and resume jobs.

Source:  PBS Professional 22, qsig(1B); pbs_error.h.
"""

import sys

from headnode.apps.cli.batch_programs.qsub import UNKNOWN_JOB, elements_of, job_address
from headnode.apps.cli.batch_programs.rows import JobSource
from headnode.apps.cli.batch_programs.words import ProgramRefusal, acted_on, names_here, read_pbs_words
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OPTIONS = acted_on("s")
_USUAL = "SIGTERM"
_DENIED, _UNKNOWN_SIGNAL, _WRONG_STATE = 159, 165, 168  # last bytes of 15007, 15013, 15016
_NO_SIGNAL = ("0", "NULL", "SIGNULL")  # only whether the job runs
_VERBS = {"suspend": "suspend_job", "resume": "resume_job"}


def run(argv: "Sequence[str]", client: Client) -> int:
    """Send a signal to each job; the status of the last that did not get it counts."""
    wanted, targets = _read(argv)
    source, status = JobSource(client), 0
    if wanted in _VERBS and client.ask("whoami")["role"] == "user":
        what = f"Unauthorized Request  {targets[0]}"
        raise ProgramRefusal(what, "only operators suspend and resume jobs so", status=_DENIED, prefix="")
    for target in targets:
        status = _send(wanted, target, source) or status
    return status


def _read(argv: "Sequence[str]") -> "tuple[str, list[str]]":
    """Return what is sent, and the jobs.

    Raises:  ProgramRefusal with status 2, or 165 for a signal that is unknown.
    """
    args = read_pbs_words("qsig", argv, OPTIONS)
    wanted, targets = args.text("s") or _USUAL, args.words
    if not targets:
        raise ProgramRefusal("no job was named", names_here("qsig", OPTIONS), status=2, prefix="")
    if wanted not in _VERBS and wanted not in _NO_SIGNAL:
        wanted = _name_of(wanted, targets[0])
    return wanted, targets


def _name_of(signal: str, target: str) -> str:
    from headnode.core.model.errors import BadRequest
    from headnode.core.model.signals import signal_name, signal_number

    try:
        return signal_name(signal_number(signal))
    except BadRequest as wrong:
        what = f"Unknown/illegal signal name {target}"
        raise ProgramRefusal(what, wrong.what, status=_UNKNOWN_SIGNAL, prefix="") from None


def _send(signal: str, target: str, source: JobSource) -> int:
    """Send a signal to a job, or to elements of an array; return the exit status."""
    from headnode.core.model.errors import HeadnodeError, NotAllowed, NotFound, WrongState

    job, numbers = job_address(target, "pbs")
    try:
        listed = source.listed([job]) if job is not None else []
        if job is None or not listed:
            return _failed("Unknown Job Id", target, "", UNKNOWN_JOB)
        if signal in _VERBS and not numbers:
            source.client.ask(_VERBS[signal], job=job)
        elif signal not in _VERBS and (numbers or signal in _NO_SIGNAL):
            found = elements_of(source, job, numbers, ("Running",)) if numbers else listed
            _to_running(signal, target, source, [one for one in found if one["state"] == "Running"])
        elif not numbers:
            source.client.ask("signal_job", job=job, signal=signal)
        else:
            return _failed("Request invalid for state of job", target, "name the whole job", _WRONG_STATE)
    except NotFound:
        return _failed("Unknown Job Id", target, "", UNKNOWN_JOB)
    except NotAllowed as refused:
        return _failed("Unauthorized Request ", target, refused.what, _DENIED)
    except WrongState as refused:
        return _failed("Request invalid for state of job", target, refused.what, _WRONG_STATE)
    except HeadnodeError as refused:
        return _failed(refused.what, target, refused.fix, 1)
    return 0


def _to_running(signal: str, target: str, source: JobSource, running: "Sequence[dict[str, Any]]") -> None:
    """Send a signal to elements that run; signal 0 only asks whether there are some.

    Raises:  WrongState ``not-running``.
    """
    from headnode.core.model.errors import WrongState

    if not running:
        raise WrongState(code="not-running", what=f"nothing of {target} runs")
    if signal not in _NO_SIGNAL:
        for one in running:
            named = {"job": one["job"], "task": one["task"], "instance": one["instance"]}
            source.client.ask("signal_job", signal=signal, **named)


def _failed(what: str, target: str, more: str, status: int) -> int:
    sys.stderr.write(f"qsig: {what} {target}\n")
    if more:
        sys.stderr.write(f"qsig: {more}\n")
    return status
