"""Signals that a job asks for before its run time limit is over, and that its owner sends.

Source:  Slurm, sbatch(1), --signal, and scancel(1), --signal, --batch and --full; Linux, signal(7).
"""

import re
from typing import Final, Literal, NamedTuple

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds

USUAL_TIME: Final = Seconds(60.0)
MAX_TIME: Final = 65_535  # seconds, as in Slurm
_FORM = re.compile(r"(?:(?P<target>[BbSs]):)?(?P<signal>[^:@]+)(?:@(?P<seconds>[0-9]{1,6}))?")


_NAMES: Final = """HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP
    TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS""".split()  # noqa: SIM905
"""Of the signals of Linux, from 1 on."""
UNHEARD_BESIDE_A_SHELL: Final = frozenset((2, 3))
"""INT and QUIT: a shell that goes on beside a program starts it so that it ignores them."""
SignalTarget = Literal["all", "program", "steps"]
"""Which processes of a task get a signal.

all:      every process
program:  the process that the node started, such as the shell of a batch script
steps:    those that `srun` started
"""
_LETTERS: Final[dict[str, SignalTarget]] = {"": "all", "B": "program", "S": "steps"}


class LimitSignal(NamedTuple):
    """A signal that a job gets so many seconds before its run time limit is over."""

    number: int
    before: Seconds = USUAL_TIME
    target: SignalTarget = "all"

    def __str__(self) -> str:
        """Write it as `read_limit_signal` reads it."""
        letter = next(letter for letter, target in _LETTERS.items() if target == self.target)
        return f"{letter}{':' if letter else ''}{signal_name(self.number)}@{self.before:g}"


def read_limit_signal(text: str) -> LimitSignal:
    """Read ``USR1@120``: the signal, and how many seconds before the run time limit; default: 60.

    ``B:`` before it means the program of the task alone, ``S:`` the steps of `srun`.
    Raises:  BadRequest ``signal``.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise BadRequest(
            code="signal",
            what=f"{text[:60]!r} is not a signal before the run time limit",
            fix="write the signal and seconds, such as USR1@120, or B:USR1@120 for the program alone",
        )
    seconds = int(match["seconds"] or USUAL_TIME)
    if not 1 <= seconds <= MAX_TIME:
        raise BadRequest(
            code="signal",
            what=f"{seconds} s before the run time limit are not possible",
            fix=f"write 1 to {MAX_TIME} seconds",
        )
    return LimitSignal(
        signal_number(match["signal"]), Seconds(float(seconds)), _LETTERS[(match["target"] or "").upper()]
    )


def signal_number(text: str) -> int:
    """Return the number of a signal: ``USR1``, ``SIGUSR1`` or ``10``.

    Raises:  BadRequest ``signal``.
    """
    word = text.strip().upper().removeprefix("SIG")
    if word in _NAMES:
        return _NAMES.index(word) + 1
    if word.isascii() and word.isdigit() and len(word) < 4 and 0 < int(word) <= len(_NAMES):
        return int(word)
    raise BadRequest(
        code="signal",
        what=f"{text[:60]!r} is not a signal",
        fix="write a name or a number, such as USR1 or 10",
    )


def signal_in_words(number: int) -> str:
    """Return the number of a signal that ended a program, with its name if it has one.

    >>> signal_in_words(11), signal_in_words(40)
    ('11 (SEGV)', '40')
    """
    return f"{number} ({_NAMES[number - 1]})" if 0 < number <= len(_NAMES) else str(number)


def signal_name(number: int) -> str:
    """Return the name of a signal, without SIG."""
    return _NAMES[number - 1]
