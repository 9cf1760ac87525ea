"""What the policy expressions of a submit file say: when a job is tried again, held, or removed.

Only clear cases are read; any other expression is refused, since it decides whether the job runs.
Source:  HTCondor 24, condor_submit(1), "POLICY COMMANDS"; "Job ClassAd Attributes".
"""

from collections.abc import Iterator

from headnode.core.formats.condor.expressions import Expression, NoExpression, parse

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
