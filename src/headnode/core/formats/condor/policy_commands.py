"""Commands of submit files that say when a job runs, how long, and what happens when a program fails.

Of policy expressions only clear cases are read: when a job is tried again, held, or removed.  Any other is
refused, since it decides whether the job runs.
Source:  HTCondor 24, condor_submit(1), "POLICY COMMANDS"; "Job ClassAd Attributes".
"""

from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.command_reading import SubmitCommand, number, sets, truth
from headnode.core.formats.condor.draft import SubmitDraft
from headnode.core.formats.condor.expressions import Expression, NoExpression, parse, whole_number
from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.bounds import TIME
from headnode.core.model.quantities import Instant

_STATUS_TIME = frozenset({"enteredcurrentstatus", "jobcurrentstartdate", "jobstartdate"})
_RUN_TIME = ("remotewallclocktime", "cumulativesuspensiontime")
"""The time that a job has run, less that for which it was suspended: what a run time limit is about."""
_NOW = frozenset({"currenttime"})


def parsed(text: str) -> Expression | None:
    """Return a policy expression; None if it is not understood."""
    try:
        return parse(text)
    except NoExpression:
        return None


def is_failure(expression: Expression) -> bool:
    """Return whether an expression is true when, and only when, the program failed or a signal ended it.

    >>> is_failure(parse("(ExitBySignal == True) || (ExitCode != 0)")), is_failure(parse("ExitCode == 3"))
    (True, False)
    """
    parts = expression.parts if expression.operator == "||" else (expression,)
    kinds = {_kind(part) for part in parts}
    return "failed" in kinds and kinds <= {"failed", "signal"}


def is_success(expression: Expression) -> bool:
    """Return whether an expression is true when, and only when, the program succeeded."""
    parts = expression.parts if expression.operator == "&&" else (expression,)
    kinds = {_kind(part) for part in parts}
    return "succeeded" in kinds and kinds <= {"succeeded", "no signal"}


def starts_below(expression: Expression) -> int | None:
    """Return how often a job may start if it is tried again while an expression is true.

    >>> starts_below(parse("NumJobStarts < 5 && (CurrentTime - EnteredCurrentStatus) > 600"))
    5
    """
    limits = [limit for part in _each(expression, "&&") if (limit := _starts(part, ("<", "<="))) is not None]
    others = [part for part in _each(expression, "&&") if _starts(part, ("<", "<=")) is None]
    fine = all(_is_time(part) is not None or _kind(part) == "held" for part in others)
    return limits[0] if len(limits) == 1 and fine else None


def starts_until(expression: Expression) -> int | None:
    """Return how often a job may start if it leaves the queue when it succeeds or has started so often.

    >>> starts_until(parse("(ExitCode == 0) || (NumJobStarts >= 3)"))
    3
    """
    if expression.operator != "||":
        return None
    limits = [limit for part in expression.parts if (limit := _starts(part, (">", ">="))) is not None]
    others = [part for part in expression.parts if _starts(part, (">", ">=")) is None]
    return limits[0] if len(limits) == 1 and len(others) == 1 and is_success(others[0]) else None


def run_time_limit(expression: Expression) -> float | None:
    """Return the seconds after which a job that runs is ended while an expression is true.

    >>> run_time_limit(parse("JobStatus == 2 && (time() - EnteredCurrentStatus) > 2 * 3600"))
    7200.0
    """
    times = [limit for part in _each(expression, "&&") if (limit := _is_time(part)) is not None]
    others = [part for part in _each(expression, "&&") if _is_time(part) is None]
    running = any(_kind(part) == "running" for part in others)
    if len(times) != 1 or any(_kind(part) != "running" for part in others):
        return None
    seconds, since = times[0]
    return seconds if running or since != "enteredcurrentstatus" else None


def exit_code(expression: Expression) -> int | None:
    """Return the code of ``ExitCode == N``, or of N alone."""
    if expression.number is not None:
        return int(expression.number)
    if expression.operator in ("==", "=?=") and expression.parts[0].name == "exitcode":
        number = expression.parts[1].number
        return None if number is None else int(number)
    return None


def _each(expression: Expression, operator: str) -> Iterator[Expression]:
    if expression.operator == operator:
        for part in expression.parts:
            yield from _each(part, operator)
    else:
        yield expression


def _kind(expression: Expression) -> str:
    """Return what a simple condition is about; "" if it is none that is known."""
    if expression.operator == "name" and expression.name == "exitbysignal":
        return "signal"
    if expression.operator == "!" and expression.parts[0].name == "exitbysignal":
        return "no signal"
    if len(expression.parts) != 2 or not expression.parts[0].name:
        return ""
    name, right = expression.parts[0].name, expression.parts[1]
    equal, unequal = expression.operator in ("==", "=?="), expression.operator in ("!=", "=!=")
    if not equal and not unequal:
        return ""
    if name == "exitbysignal" and right.operator == "truth":
        return "signal" if bool(right.value) is equal else "no signal"
    if name == "exitcode" and right.number == 0:
        return "succeeded" if equal else "failed"
    if name == "jobstatus" and equal:
        return {2.0: "running", 5.0: "held"}.get(right.number or 0.0, "")
    return ""


def _starts(expression: Expression, operators: tuple[str, str]) -> int | None:
    """Return N of ``NumJobStarts < N`` or ``NumJobStarts >= N``: how often the job may start in all."""
    if expression.operator not in operators or expression.parts[0].name != "numjobstarts":
        return None
    number = expression.parts[1].number
    if number is None or number != int(number) or not 0 <= number < 1e9:
        return None
    return int(number) + (expression.operator in ("<=", ">"))


def _is_time(expression: Expression) -> tuple[float, str] | None:
    """Return the seconds of ``(time() - EnteredCurrentStatus) > N``, and since when they count."""
    if expression.operator not in (">", ">="):
        return None
    spent, number = expression.parts[0], expression.parts[1].number
    if number is None or number < 0:
        return None
    if spent.name == "remotewallclocktime":
        return number, spent.name
    if spent.operator == "-" and tuple(part.name for part in spent.parts) == _RUN_TIME:
        return number, _RUN_TIME[0]
    if spent.operator != "-" or spent.parts[1].name not in _STATUS_TIME:
        return None
    now = spent.parts[0]
    is_now = now.name in _NOW or (now.operator == "call" and now.value == "time" and not now.parts)
    return (number, spent.parts[1].name) if is_now else None


_KEPT, _TRANSLATED, _APPROXIMATED = Fidelity.KEPT, Fidelity.TRANSLATED, Fidelity.APPROXIMATED


def _hold(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    draft.job["holds"] = ("user",) if truth(place, text) else ()
    place.report(_TRANSLATED, "whether the job is held until: hn job release ID")


def _retry_until(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = parsed(text)
    code = None if found is None else exit_code(found)
    if code is None:
        fix = "write an exit code: retry_until = 3"
        place.refuse(f"{text[:80]!r} decides whether the job runs again", fix, "not-supported")
    draft.until = code
    place.report(_APPROXIMATED, "a task that ends with this code has finished, as with success_exit_code")


def _on_exit_hold(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = _policy(place, text)
    if found.truth is False:
        place.report(_KEPT, "a job is not held when its program ends")
    elif is_failure(found):
        draft.holds_on_failure = place
        place.report(
            _APPROXIMATED, "a task whose program fails has failed; start it again: hn job requeue ID"
        )
    else:
        _refuse_policy(place, text)


def _on_exit_remove(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = _policy(place, text)
    starts = starts_until(found)
    if found.truth is True:
        place.report(_KEPT, "the job ends when its programs have ended")
    elif starts is not None:
        draft.starts = starts
        place.report(_TRANSLATED, f"a task that fails is started {max(starts, 1)} times at most")
    else:
        _refuse_policy(place, text, "write max_retries = N instead")


def _periodic_release(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    found = _policy(place, text)
    if found.truth is False:
        place.report(_KEPT, "a held job is released by: hn job release ID")
        return
    starts = starts_below(found)
    if starts is None:
        _refuse_policy(place, text, "write max_retries = N instead of holding and releasing the job")
    draft.released_starts = starts
    place.report(_APPROXIMATED, "a task that fails is tried again so often, at once")


def _periodic_end(command: str, what: str, kind: Fidelity) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        found = _policy(place, text)
        if found.truth is False:
            place.report(_KEPT, "nothing ends the job")
            return
        limit = run_time_limit(found)
        if limit is None:
            _refuse_policy(place, text, "write allowed_execute_duration = SECONDS")
        draft.run_times[command] = limit
        place.report(kind, what)

    return SubmitCommand(read)


def _policy(place: OptionPlace, text: str) -> Expression:
    return parsed(text) or _refuse_policy(place, text)


def _refuse_policy(place: OptionPlace, text: str, fix: str = "leave it out") -> NoReturn:
    what = f"{text[:120]!r} decides whether the job goes on, and has no equivalent"
    place.refuse(what, fix, "not-supported")


def _duration(command: str, what: str, kind: Fidelity) -> SubmitCommand:
    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        draft.run_times[command] = float(number(place, text, 1))
        place.report(kind, what)

    return SubmitCommand(read)


def _deferral_time(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
    at = whole_number(text)
    if at is None or not 0 <= at <= TIME.most:
        place.refuse(f"{text[:60]!r} is not a point of time", "write seconds since 1970")
    draft.job["hold_until"] = Instant(float(at))
    place.report(_TRANSLATED, "the job waits until then, and for free processors after that")


POLICY_COMMANDS: Final[Mapping[str, SubmitCommand]] = {
    "hold": SubmitCommand(_hold),
    "max_retries": sets("retries", number, "so often a task is tried again"),
    "success_exit_code": sets("success", number, "it is the valid exit code"),
    "retry_until": SubmitCommand(_retry_until),
    "on_exit_hold": SubmitCommand(_on_exit_hold),
    "on_exit_remove": SubmitCommand(_on_exit_remove),
    "periodic_release": SubmitCommand(_periodic_release),
    "periodic_remove": _periodic_end("periodic_remove", "it is the run time limit", _TRANSLATED),
    "periodic_hold": _periodic_end(
        "periodic_hold", "it is the run time limit: the program is ended, and not held", _APPROXIMATED
    ),
    "allowed_execute_duration": _duration(
        "allowed_execute_duration",
        "it is the run time limit: the program is ended, and not held",
        _APPROXIMATED,
    ),
    "allowed_job_duration": _duration(
        "allowed_job_duration",
        "it is the run time limit, of each attempt: the program is ended",
        _APPROXIMATED,
    ),
    "deferral_time": SubmitCommand(_deferral_time),
}
