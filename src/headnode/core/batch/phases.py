"""How far an attempt is in another scheduler: the phases, the facts, and what follows from what."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ForeignPhase(StrEnum):
    """How far an attempt is in another scheduler."""

    INTENDED = "intended"  # it was surely never submitted, or surely is not there
    SUBMITTING = "submitting"  # the command runs
    DOUBTFUL = "doubtful"  # it may be there: search first
    HANDED = "handed"  # it is there, under a known id
    MISSING = "missing"  # it was there, and is not listed any more
    ENDED = "ended"  # it is listed as over; its exit file may still come
    CLEARING = "clearing"  # its outcome is known; its results are taken away and its files removed
    OVER = "over"  # its outcome is known


class Fact(StrEnum):
    """What may become known of an attempt."""

    SENT = "sent"  # the command of its submission was started
    ACCEPTED = "accepted"  # the answer is an id
    REFUSED = "refused"
    NO_ANSWER = "no answer"
    LISTED = "listed"
    LISTED_AS_OVER = "listed as over"
    NOT_LISTED = "not listed"
    HAS_RUN = "has run"  # its script has left a file, and it is not listed
    LEAVES_FILES = "leaves files"  # its outcome is known, and files were staged for it
    NOTTHERE = "not there"  # good answers lack it for long enough, and its script has not started
    SETTLED = "settled"  # its outcome is known


_P, _F = ForeignPhase, Fact
THERE: Final = (_P.HANDED, _P.MISSING, _P.ENDED)
BEFORE: Final = (_P.INTENDED, _P.SUBMITTING, _P.DOUBTFUL)
PHASES: Final[Mapping[tuple[ForeignPhase, Fact], ForeignPhase]] = MappingProxyType(
    {
        (_P.INTENDED, _F.SENT): _P.SUBMITTING,
        (_P.INTENDED, _F.SETTLED): _P.OVER,  # canceled
        (_P.SUBMITTING, _F.ACCEPTED): _P.HANDED,
        (_P.SUBMITTING, _F.REFUSED): _P.OVER,
        (_P.SUBMITTING, _F.NO_ANSWER): _P.DOUBTFUL,
        (_P.DOUBTFUL, _F.LISTED): _P.HANDED,
        (_P.DOUBTFUL, _F.LISTED_AS_OVER): _P.ENDED,
        (_P.DOUBTFUL, _F.HAS_RUN): _P.MISSING,
        (_P.DOUBTFUL, _F.NOTTHERE): _P.INTENDED,
        (_P.DOUBTFUL, _F.SETTLED): _P.OVER,
        **{(phase, _F.LEAVES_FILES): _P.CLEARING for phase in (*BEFORE, *THERE)},
        (_P.CLEARING, _F.SETTLED): _P.OVER,
        **{(phase, _F.LISTED): _P.HANDED for phase in THERE},
        **{(phase, _F.LISTED_AS_OVER): _P.ENDED for phase in THERE},
        **{(phase, _F.SETTLED): _P.OVER for phase in THERE},
        (_P.HANDED, _F.NOT_LISTED): _P.MISSING,
        (_P.MISSING, _F.NOT_LISTED): _P.MISSING,
        (_P.ENDED, _F.NOT_LISTED): _P.MISSING,
    }
)
"""From a phase, by a fact, to a phase.  What is not here cannot happen."""
