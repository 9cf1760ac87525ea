"""Say when a program ended because a resource limit was reached: the signal alone tells only who knows it.

Standard library only: this is loaded by the shepherd factory.
Source: setrlimit(2), signal(7).
"""

import os
import signal
from collections.abc import Callable, Iterable

from headnode.adapters.processes.attempts import Attempt
from headnode.adapters.processes.bounds import most_processes
from headnode.adapters.processes.limits import Asked

_SHELLS_ADD = 128  # a shell tells by this exit status and the number that a signal ended its program
_MOST_OF = 0.6  # of the limit: what the system counts by its ticks, and kills for, is more than what it tells
_SIGNALS = {signal.SIGXCPU: "cpu", signal.SIGXFSZ: "fsize"}
_COUNTS = {"cpu": "{} s of processor time", "fsize": "{} bytes in a file"}


def by_limit(attempt: Attempt) -> str:
    """Return the sentence for an attempt that a limit of its processes has ended; nothing for another."""
    if attempt.usage is None or attempt.verdict[0] != "exited":
        return ""
    status, user, system, _ = attempt.usage
    return ended_by_limit(status, user + system, attempt.program.limits)


def ended_by_limit(status: int, processor_time: float, limits: Iterable[Asked]) -> str:
    """Return the sentence for a program with these limits that one of them has ended; nothing for another.

    `status` is as `os.waitpid` says it, `processor_time` in seconds.
    """
    asked = {name: [side for side in sides if isinstance(side, int)] for name, *sides in limits}
    for what, name in _SIGNALS.items():
        told = _told(name, asked.get(name, ()), min)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == what:
            return f"the program was ended by {what.name}: it reached its limit {told}"
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _SHELLS_ADD + what and asked.get(name):
            return f"a process of the task was ended by {what.name}: it reached its limit {told}"
    hard = max((limit for limit in asked.get("cpu", ()) if limit >= 0), default=None)
    if hard is not None and processor_time >= _MOST_OF * hard and _killed(status):
        told = _told("cpu", asked["cpu"], max)
        return f"a process of the task was killed by the system: it reached its limit {told}"
    return ""


def for_want_of_processes(refused: int, limits: Iterable[Asked]) -> str:
    """Return the sentence for a program that could not start another process so many times."""
    most = most_processes(limits)
    if not refused or most is None:
        return ""
    return (
        f"the task could not start another process {refused} times: it reached its limit 'nproc', "
        f"{most} processes and threads"
    )


def _killed(status: int) -> bool:
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    return os.WEXITSTATUS(status) == _SHELLS_ADD + signal.SIGKILL


def _told(name: str, asked: Iterable[int], side: Callable[[list[int]], int]) -> str:
    amounts = [amount for amount in asked if amount >= 0]
    return repr(name) + (f", {_COUNTS[name].format(side(amounts))}" if amounts else "")
