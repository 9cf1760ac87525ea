"""Say when a program ended because a resource limit was reached: the signal alone tells only who knows it.

Standard library only: this is loaded by the shepherd factory.
Source: setrlimit(2), signal(7).
"""

import os
import signal
from collections.abc import Callable

from headnode.adapters.processes.attempts import Attempt

_SHELLS_ADD = 128  # a shell tells by this exit status and the number that a signal ended its program
_MOST_OF = 0.6  # of the limit: what the system counts by its ticks, and kills for, is more than what it tells
_SIGNALS = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "fsize"}
_COUNTS = {"cpu": "{} s of processor time", "fsize": "{} bytes in a file"}


def by_limit(attempt: Attempt) -> str:
    """Return the sentence for an attempt that a limit of its processes has ended; nothing for another."""
    if attempt.usage is None or attempt.verdict[0] != "exited":
        return ""
    status, user, system, _ = attempt.usage
    for what, name in _SIGNALS.items():
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == what:
            return f"the program was ended by {what.name}: it reached its limit {_told(attempt, name)}"
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _SHELLS_ADD + what and _of(attempt, name):
            return (
                f"a process of the task was ended by {what.name}: it reached its limit {_told(attempt, name)}"
            )
    hard = max((limit for limit in _of(attempt, "cpu") if limit >= 0), default=None)
    if hard is not None and user + system >= _MOST_OF * hard and _killed(status):
        told = _told(attempt, "cpu", max)
        return f"a process of the task was killed by the system: it reached its limit {told}"
    return ""


def _killed(status: int) -> bool:
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    return os.WEXITSTATUS(status) == _SHELLS_ADD + signal.SIGKILL


def _of(attempt: Attempt, name: str) -> list[int]:
    """Return the amounts of a limit that the attempt asked for."""
    for limit, *sides in attempt.program.limits:
        if limit == name:
            return [side for side in sides if isinstance(side, int)]
    return []


def _told(attempt: Attempt, name: str, side: Callable[[list[int]], int] = min) -> str:
    amounts = [amount for amount in _of(attempt, name) if amount >= 0]
    return repr(name) + (f", {_COUNTS[name].format(side(amounts))}" if amounts else "")
