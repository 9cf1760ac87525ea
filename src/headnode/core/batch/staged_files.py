"""The staged files of an attempt in another scheduler: how far they are, and what follows for its outcome.

Its input is there before it is submitted; its results are taken away when it is over there, and only then
has it ended.  The machine where the commands of the scheduler run does both.
"""

from typing import Literal, NamedTuple

from headnode.core.model.outcome import AttemptOutcome, TransferUsage
from headnode.core.model.quantities import Instant

SCRATCH = "files"  # the directory of staged files, in that of the attempt
_WITH_RESULTS = ("exited", "timed-out")


class TransferProgress(NamedTuple):
    """How far the transfers of one attempt are in one direction; they began at `at`."""

    direction: Literal["in", "out"]
    at: Instant
    files: int = 0
    of_files: int = 0
    size: int = 0  # bytes
    of_size: int = 0  # bytes; 0 if not all are known
    waits_for: str = ""


class TransferResult(NamedTuple):
    """How the transfers of one attempt in one direction went; `place` is where its files are."""

    kind: Literal["done", "failed", "stopped"]
    message: str = ""
    usage: TransferUsage = TransferUsage()
    place: str = ""


class StagedFiles:
    """What is known of the staged files of one attempt."""

    __slots__ = ("are_there", "collects", "failure", "has_results", "under_way", "usage", "verdict")

    def __init__(self, *, has_results: bool) -> None:
        self.has_results = has_results
        self.are_there = False  # its input, in a directory that is made for it also without any
        self.under_way = False  # a process transfers or removes them
        self.failure = ""  # why its input cannot be brought
        self.usage = TransferUsage()
        self.verdict: AttemptOutcome | None = None  # how it ended there
        self.collects = False  # its results are to be taken away

    @property
    def are_to_come(self) -> bool:
        """Whether its input is to be brought, and no process does that."""
        return not (self.are_there or self.under_way or self.failure)

    def brought(self, result: TransferResult) -> None:
        """Bringing its input has ended."""
        self.under_way, self.usage = False, result.usage
        self.are_there = result.kind == "done"
        self.failure = result.message if result.kind == "failed" else ""

    def judged(self, outcome: AttemptOutcome) -> None:
        """It has ended there; results are taken away unless it was stopped or never ran."""
        self.verdict = outcome
        self.collects = self.has_results and outcome.kind in _WITH_RESULTS

    def stopped(self) -> None:
        """Nobody wants its results any more."""
        if self.collects and self.verdict is not None:
            ended = self.verdict._replace(kind="stopped", exit_code=None, signal=None, message="")
            self.verdict, self.collects = ended, False

    def cleared(self, result: TransferResult) -> AttemptOutcome | None:
        """Return the outcome after its results were taken away; None while its files are to be removed."""
        self.under_way = False
        if self.verdict is None or (self.collects and result.kind == "stopped"):
            self.stopped()
            return None
        usage = result.usage if result.kind == "done" else self.usage
        outcome = self.verdict._replace(transfers=usage)
        if not self.collects or result.kind == "done":
            return outcome  # files that could not be removed harm nobody
        left = f"its results are in {result.place}" if result.place else ""
        message = "; ".join(part for part in (outcome.message, result.message, left) if part)
        return outcome._replace(kind="not-staged", message=message)
