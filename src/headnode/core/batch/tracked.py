"""One attempt in another scheduler: its phase, what follows from it, and its messages to the head.

Of those with staged files also which transfers are due.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import msgspec

from headnode.core.batch.dialect import (
    AttemptPlace,
    ForeignAction,
    ForeignEnding,
    ForeignJob,
    ForeignState,
    printable,
)
from headnode.core.batch.job_script import TAKEN, ExitReport
from headnode.core.batch.staged_files import StagedFiles, TransferProgress, TransferResult
from headnode.core.model.errors import Broken
from headnode.core.model.outcome import NOT_MEASURED, AttemptOutcome, Ending
from headnode.core.model.quantities import Instant, Seconds


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


HandOffReportKind = Literal["handed", "waits", "staging", "started", "ended"]


class HandOffReport(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What has become known of one attempt: its files move, it was handed over, waits, started or ended."""

    job: int
    task: int
    instance: int
    attempt: int
    kind: HandOffReportKind
    id: str = ""
    reason: str = ""
    at: Instant | None = None
    outcome: AttemptOutcome | None = None
    progress: TransferProgress | None = None


class HandOffTimeouts(NamedTuple):
    """How long is waited, in seconds."""

    poll: Seconds = Seconds(30.0)  # between two polls, at least
    settle: Seconds = Seconds(90.0)  # for a submission that gave no answer
    lost: Seconds = Seconds(600.0)  # for what is gone
    exit_file: Seconds = Seconds(60.0)  # for the exit file of what is over
    accounting: Seconds = Seconds(15.0)  # for the used time and memory of what is over


class Files(NamedTuple):
    """What is in the directory of an attempt."""

    has_started: bool
    exit_text: str = ""


class TrackedAttempt:
    """One attempt, and what is known of it."""

    __slots__ = (
        "absent_for", "absent_since", "acted", "cancels", "failures", "good_answers", "held", "held_there",
        "id", "key", "limit", "limit_there", "marker", "not_before", "owner", "phase", "reason", "report",
        "reported", "retry_at", "row", "said_started", "since", "staged", "stop", "tries", "without_exit",
    )  # fmt: skip

    def __init__(
        self, key: AttemptPlace, marker: str, owner: str, phase: ForeignPhase, job: str, now: Instant
    ) -> None:
        self.key, self.marker, self.owner, self.phase, self.id = key, marker, owner, phase, job
        self.since = now  # when it came into this phase
        self.not_before = now if phase is ForeignPhase.INTENDED else None  # it had not started then
        self.absent_since: Instant | None = None  # the first good answer in a row that lacks it
        self.absent_for = Seconds(0.0)  # from that until the last that does
        self.good_answers = 0  # how many do
        self.stop = False
        self.cancels: Instant | None = None  # when it was canceled there last
        self.held = False  # whether it is to be held there
        self.held_there: bool | None = None  # whether it is; None: not known
        self.limit: int | None = None  # the time limit that it is to have there, in seconds
        self.limit_there: int | None = None  # that it has
        self.acted = now  # when one of these was changed last
        self.failures = 0  # of these changes, in a row
        self.tries = 0
        self.retry_at = now
        self.row: ForeignJob | None = None
        self.report: ExitReport | None = None  # what its exit file says, while its accounting is waited for
        self.reported = now  # since when
        self.said_started = False
        self.without_exit: Files | None = None  # seen when an exit file would have been there
        self.reason = ""
        self.staged: StagedFiles | None = None

    @property
    def is_to_change(self) -> bool:
        """Whether it is to be canceled, or is not known to be held and limited as it should."""
        if self.phase in (ForeignPhase.CLEARING, ForeignPhase.OVER):
            return False
        return self.stop or self.held is not self.held_there or self.limit != self.limit_there

    def actions(self, poll: Seconds, now: Instant) -> Iterator[ForeignAction]:
        """Yield what is to be done with it now; a cancellation again as long as it is there."""
        if self.phase is not ForeignPhase.HANDED:
            return
        if self.stop:
            if self.cancels is None or self.cancels + poll <= now:
                yield ForeignAction.CANCEL
            return
        waits = self.row is None or self.row.state is ForeignState.WAITING
        if self.failures and (self.failures > MAX_FAILURES or self.acted + poll > now):
            return
        if waits and self.held is not bool(self.held_there):
            yield ForeignAction.HOLD if self.held else ForeignAction.RELEASE
        if self.limit != self.limit_there:
            yield ForeignAction.LIMIT

    def acted_on(self, action: ForeignAction, now: Instant, *, done: bool) -> None:
        """Note whether an action succeeded."""
        if action is ForeignAction.CANCEL:
            self.cancels = now
            return
        self.acted = now
        self.failures += not done
        if action is ForeignAction.LIMIT and done:
            self.limit_there = self.limit
        elif action is not ForeignAction.LIMIT:
            self.held_there = action is ForeignAction.HOLD if done else None

    def listed_as(self, row: ForeignJob) -> None:
        """Note what is listed of it: what another process has changed there is known only from that."""
        self.id, self.row = row.id, row
        if self.held_there is not None:
            return
        self.held_there = row.is_held
        if row.limit is not None and self.limit is not None and row.limit != -(-self.limit // 60) * 60:
            self.limit_there = row.limit  # Slurm counts in minutes

    def in_our_time(
        self, started: Instant | None, ended: Instant | None, now: Instant
    ) -> tuple[Instant | None, Instant | None]:
        """Return times of another clock, which may be wrong by a day, or of a file that its user may write.

        The run is as long as there. It did not end in the future, nor start before it was seen to wait.
        """
        last = started if ended is None else ended
        if last is None:
            return None, None
        earliest = last if self.not_before is None else self.not_before - CLOCK_ERROR
        shift = now - last if last > now or last < earliest else 0.0
        instant = None if started is None else Instant(max(started + shift, self.not_before or 0.0))
        if ended is None:
            return instant, None
        return None if instant is None else min(instant, Instant(ended + shift)), Instant(ended + shift)

    def clock_set(self, by: Seconds) -> None:
        """Move what is known with a clock that was set, so that nothing lasts longer or shorter."""
        self.since, self.acted = Instant(self.since + by), Instant(self.acted + by)
        self.retry_at, self.reported = Instant(self.retry_at + by), Instant(self.reported + by)
        self.not_before = None if self.not_before is None else Instant(self.not_before + by)
        self.absent_since = None if self.absent_since is None else Instant(self.absent_since + by)
        self.cancels = None if self.cancels is None else Instant(self.cancels + by)

    def enter(self, fact: Fact, now: Instant) -> None:
        """Go to the phase that follows.

        Raises:  Broken ``no-phase``.
        """
        to = PHASES.get((self.phase, fact))
        if to is None:
            raise Broken(code="no-phase", what=f"attempt {self.marker} is {self.phase}, and now {fact}")
        if to is not self.phase:
            self.phase, self.since = to, now


MAX_FAILURES: Final = 5  # of a change before it is given up
CLOCK_ERROR: Final = 60.0  # seconds that a clock may be behind, also because it counts whole ones


def reported(one: TrackedAttempt, title: str, now: Instant) -> AttemptOutcome:
    """Return the outcome of an attempt that left an exit file; `title` is that of its scheduler.

    What accounting has of its use is more than what the file has.
    """
    report, row = one.report, one.row
    if report is None:
        raise Broken(code="no-report", what=f"attempt {one.marker} has left no exit file")
    usage = report.usage if row is None or row.usage == NOT_MEASURED else row.usage
    started, ended = one.in_our_time(report.started, report.ended, now)
    if not report.signal:
        return AttemptOutcome("exited", report.code, None, started, ended, usage=usage)
    is_over = row is not None and row.state is ForeignState.ENDED
    if row is None or not is_over or row.ending in (ForeignEnding.BY_ITSELF, ForeignEnding.UNKNOWN):
        return AttemptOutcome("exited", None, report.signal, started, ended, usage=usage)
    kind = _OUTCOMES.get(row.ending, "stopped")
    message = f"{title} job {one.id} ended there as {printable(row.word)}"
    return AttemptOutcome(kind, started=started, ended=ended, message=message, usage=usage)


def ended_as(one: TrackedAttempt, title: str, row: ForeignJob, *, ran: bool, now: Instant) -> AttemptOutcome:
    """Return the outcome of an attempt without an exit file, as its scheduler says; `ran`: its script did."""
    message = f"{title} job {row.id} ended there as {printable(row.word)}"
    started = one.in_our_time(row.started, now, now)[0]
    if one.stop and not ran:
        return AttemptOutcome("never-ran")
    if one.stop:
        return AttemptOutcome("stopped", started=started, ended=now, message=message)
    if row.ending in _OUTCOMES:
        return AttemptOutcome(_OUTCOMES[row.ending], started=started, ended=now, message=message)
    if not ran:
        return AttemptOutcome("not-started", message=f"{message} before it started")
    if row.signal or (row.exit_code and row.exit_code != TAKEN):
        return AttemptOutcome(
            "exited", None if row.signal else row.exit_code, row.signal, started, now, message
        )
    if row.ending is ForeignEnding.BY_ITSELF:
        return AttemptOutcome("lost", started=started, ended=now, message=f"{message}, without an exit file")
    return AttemptOutcome("stopped", started=started, ended=now, message=message)


_OUTCOMES: Final[Mapping[ForeignEnding, Ending]] = {
    ForeignEnding.LATE: "timed-out",
    ForeignEnding.LOST: "lost",
}


def hand_off_report(
    one: TrackedAttempt,
    kind: HandOffReportKind,
    *,
    id: str = "",  # noqa: A002  (the field's name)
    reason: str = "",
    at: Instant | None = None,
    outcome: AttemptOutcome | None = None,
    progress: TransferProgress | None = None,
) -> HandOffReport:
    return HandOffReport(*one.key, kind=kind, id=id, reason=reason, at=at, outcome=outcome, progress=progress)


def by_owner(attempts: Iterable[TrackedAttempt]) -> dict[str, Sequence[TrackedAttempt]]:
    """Return attempts by the user as whom their files are read."""
    by_owner: dict[str, list[TrackedAttempt]] = {}
    for each in attempts:
        by_owner.setdefault(each.owner, []).append(each)
    return dict(by_owner)


class StagedAttempts:
    """All attempts with staged files."""

    def __init__(self) -> None:
        self._known: dict[AttemptPlace, tuple[TrackedAttempt, StagedFiles]] = {}

    def add(self, one: TrackedAttempt, *, has_results: bool) -> None:
        """Files of this attempt are staged."""
        one.staged = StagedFiles(has_results=has_results)
        self._known[one.key] = (one, one.staged)

    def drop(self, key: AttemptPlace) -> None:
        """Forget an attempt."""
        self._known.pop(key, None)

    def to_bring(self) -> list[TrackedAttempt]:
        """Return the attempts whose input is to be brought now.

        Also of one that may be there: whoever brings it finds out whether all was there before.
        """
        before = (ForeignPhase.INTENDED, ForeignPhase.DOUBTFUL)
        wanted = [one for one, staged in self._known.values() if staged.are_to_come and one.phase in before]
        return [one for one in wanted if not one.stop and not one.held]

    def to_clear(self) -> list[tuple[TrackedAttempt, bool]]:
        """Return the attempts whose files are to be removed now, and whether results are taken away first."""
        keys = []
        for one, staged in self._known.values():
            if one.phase is ForeignPhase.CLEARING and not staged.under_way:
                if one.stop:
                    staged.stopped()
                keys.append((one, staged.collects))
        return keys

    def brought(self, key: AttemptPlace, result: TransferResult) -> None:
        """Bringing the input of an attempt has ended."""
        if key in self._known:
            self._known[key][1].brought(result)

    def cleared(
        self, key: AttemptPlace, result: TransferResult
    ) -> tuple[TrackedAttempt, AttemptOutcome] | None:
        """Return an attempt with its outcome, if taking away its results and its files has ended."""
        if key not in self._known:
            return None
        one, staged = self._known[key]
        outcome = staged.cleared(result)
        return None if outcome is None else (one, outcome)
