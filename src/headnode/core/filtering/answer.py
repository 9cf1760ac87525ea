"""What one call of a filter came to, before anybody says what it means.

Source: HPC filters, the tables of exit codes: an exit code, a time-out, or a filter that is not there.
"""

from enum import StrEnum

import msgspec

BY_SIGNAL = 255
"""The exit code of a filter that a signal ended."""

MOST_WORDS = 320  # characters of its last words that are kept; Compute Cluster's width of a message


class How(StrEnum):
    """How a call ended."""

    ANSWERED = "answered"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed-out"
    MISSING = "missing"  # there is no such program or plug-in, or it cannot be started
    BROKEN = "broken"  # a plug-in that raised, died or gave no answer


class Answer(msgspec.Struct, frozen=True):
    """One call: its exit code, None when it gave none, and the last line or so of what it said."""

    how: How = How.ANSWERED
    exit_code: int | None = None
    words: str = ""

    @property
    def ran(self) -> bool:
        """Whether the filter was called at all, so that there may be something to undo."""
        return self.how is not How.MISSING


def last_words(output: str) -> str:
    """Return the last line that says something, cut to a width that people read.

    >>> last_words("looking for licences\\nnone of solver is free\\n\\n")
    'none of solver is free'
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = "".join(letter if letter.isprintable() else " " for letter in lines[-1]) if lines else ""
    return last if len(last) <= MOST_WORDS else last[: MOST_WORDS - 3] + "..."


def said(answer: Answer, seconds: float) -> str:
    """Return what happened in a call, for people; `seconds` is its time-out.

    >>> said(Answer(exit_code=1, words="no licence"), 15)
    'exit code 1: no licence'
    """
    what = {
        How.ANSWERED: f"exit code {answer.exit_code}",
        How.SIGNALLED: "a signal ended it",
        How.TIMED_OUT: f"no answer within {seconds:g} s",
        How.MISSING: "it could not be run",
        How.BROKEN: "it broke",
    }[answer.how]
    return f"{what}: {answer.words}" if answer.words else what
