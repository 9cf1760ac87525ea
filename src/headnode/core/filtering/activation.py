"""What the answer of an activation filter means, for queued, backfilled and running jobs.

Source: HPC filters, "Job activation filters and their return values" and its note on backfilling; where it
calls an answer undefined, the choice here is the one that does the least.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from headnode.core.filtering.answer import Answer, How, said
from headnode.core.filtering.registration import Filter, Rules


class Verdict(StrEnum):
    """What becomes of an offer of resources."""

    START = "start"  # the job starts on them, or grows by them
    BLOCK_QUEUE = "block-queue"  # it stays queued; nobody of its priority or a lower one starts before it
    KEEP_RESOURCES = "keep-resources"  # it stays queued and they are kept for it; others go on elsewhere
    HOLD = "hold"  # it is held for a while; others may have them
    FAIL = "fail"  # the job fails
    WAIT = "wait"  # it does not start, or grow, on these; others may have them, and it is asked again


class Phase(StrEnum):
    """What a filter is asked for."""

    QUEUED = "queued"
    BACKFILLED = "backfilled"  # it would start before a job that goes first
    RUNNING = "running"  # it would grow


_QUEUED = MappingProxyType(
    {
        0: Verdict.START,
        1: Verdict.BLOCK_QUEUE,
        2: Verdict.KEEP_RESOURCES,
        3: Verdict.HOLD,
        4: Verdict.FAIL,
    }
)
_BACKFILLED = MappingProxyType({0: Verdict.START, 3: Verdict.HOLD, 4: Verdict.FAIL})
_RUNNING = MappingProxyType({0: Verdict.START})

TABLES: Mapping[Phase, tuple[Mapping[int, Verdict], Verdict]] = MappingProxyType(
    {
        Phase.QUEUED: (_QUEUED, Verdict.KEEP_RESOURCES),
        Phase.BACKFILLED: (_BACKFILLED, Verdict.WAIT),
        Phase.RUNNING: (_RUNNING, Verdict.WAIT),
    }
)
"""For each phase what the exit codes mean, and what everything else does: no answer, too.

In the backfill window only 0 lets a job run: it is not its turn, so it neither blocks the queue nor keeps
resources that the job before it is promised.  A running job that may not grow goes on as it is.
"""


def verdict(answer: Answer, phase: Phase, rules: Rules = "hpcpack") -> Verdict:
    """Return what an answer means.

    `rules` ``ccs`` are those of Compute Cluster Server 2003: any exit code but 0 keeps the job waiting in its
    turn, and a filter that does not answer in time lets it start.
    """
    codes, other = TABLES[phase]
    if rules == "ccs":
        if answer.how is How.TIMED_OUT or answer.exit_code == 0:
            return Verdict.START
        return Verdict.BLOCK_QUEUE if phase is Phase.QUEUED else Verdict.WAIT
    if answer.how is not How.ANSWERED or answer.exit_code is None:
        return other
    return codes.get(answer.exit_code, other)


_OUTCOMES = {
    Verdict.START: "accepted it",
    Verdict.BLOCK_QUEUE: "blocks it and the jobs of its priority or lower behind it",
    Verdict.KEEP_RESOURCES: "delays it and keeps the offered processors for it",
    Verdict.HOLD: "put it on hold",
    Verdict.FAIL: "failed it",
    Verdict.WAIT: "declined the processors offered to it",
}


def outcome(of: Filter, found: Verdict, answer: Answer, seconds: float) -> str:
    """Return what a filter did to a job, in words that name it and end with its own."""
    return f"activation filter {of.name!r} {_OUTCOMES[found]} ({said(answer, seconds)})"
