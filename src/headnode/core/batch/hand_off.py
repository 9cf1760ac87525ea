"""Submit each attempt to one other scheduler exactly once: what is known of it, and the next action.

The table is in `tracked`.  Nothing is submitted again unless three good answers lack the marker of the
attempt, asked when a submission cannot be under way any more, and its script has not started.  Nothing
counts as lost because it is not listed.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from headnode.core.batch.dialect import (
    AttemptPlace,
    CommandResult,
    ForeignAction,
    ForeignJob,
    ForeignState,
    Rows,
    SubmissionResult,
    printable,
)
from headnode.core.batch.job_script import read_exit
from headnode.core.batch.staged_files import TransferResult
from headnode.core.batch.tracked import (
    THERE,
    Fact,
    Files,
    ForeignPhase,
    HandOffReport,
    HandOffTimeouts,
    StagedAttempts,
    TrackedAttempt,
    ended_as,
    hand_off_report,
    reported,
)
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, Seconds

FIRST_REST, MAX_REST = 5.0, 300.0  # seconds before a submission is tried again
GOOD_ANSWERS: Final = 3  # that lack an attempt before it counts as lost, or as not queued
MANY: Final = 3  # attempts there: an answer with none of them is not believed at once
NOT_LISTED_NOW: Final = (
    *(ForeignPhase.INTENDED, ForeignPhase.SUBMITTING, ForeignPhase.CLEARING, ForeignPhase.OVER),
)
AT_A_TIME: Final = 200  # attempts whose files or history are asked for in one command


class HandOffTable:
    """The attempts in one other scheduler.  Whoever runs the commands tells it what they answered."""

    def __init__(self, title: str, timeout: HandOffTimeouts) -> None:
        self.title, self.timeout = title, timeout
        self.attempts: dict[AttemptPlace, TrackedAttempt] = {}
        self._by_marker: dict[str, TrackedAttempt] = {}
        self._intended: dict[AttemptPlace, TrackedAttempt] = {}  # all in that phase
        self._requests: dict[
            AttemptPlace, TrackedAttempt
        ] = {}  # all that are to be changed there, and some others
        self.staged = StagedAttempts()
        self._empty_since: Instant | None = None

    def add(
        self,
        key: AttemptPlace,
        marker: str,
        owner: str,
        *,
        job: str,
        may_be_there: bool,
        now: Instant,
        limit: int | None = None,
        has_results: bool | None = None,
    ) -> None:
        """Track an attempt; `job` is its id there, if that is known, `limit` its time limit in seconds.

        `has_results`: whether there are results to take away; None if it stages no files.
        """
        if key in self.attempts:
            return
        phase = (
            ForeignPhase.HANDED if job else ForeignPhase.DOUBTFUL if may_be_there else ForeignPhase.INTENDED
        )
        one = self.attempts[key] = self._by_marker[marker] = TrackedAttempt(
            key, marker, owner, phase, job, now
        )
        one.limit = one.limit_there = limit
        one.held_there = False if phase is ForeignPhase.INTENDED else None
        self._requests[key] = one
        if phase is ForeignPhase.INTENDED:
            self._intended[key] = one
        if has_results is not None:
            self.staged.add(one, has_results=has_results)

    def change(self, key: AttemptPlace, *, held: bool, limit: int | None) -> None:
        """The attempt is to be held there or not, and to have this time limit in seconds."""
        if key in self.attempts:
            one = self.attempts[key]
            one.held, one.limit, one.failures = held, limit, 0
            self._requests[key] = one

    def stop(self, key: AttemptPlace) -> None:
        """The attempt is to be canceled, wherever it is."""
        if key in self.attempts:
            self.attempts[key].stop = True
            self._requests[key] = self.attempts[key]

    def drop(self, key: AttemptPlace) -> None:
        """Forget an attempt whose outcome is recorded."""
        attempt = self.attempts.pop(key, None)
        self._intended.pop(key, None)
        self._requests.pop(key, None)
        self.staged.drop(key)
        if attempt is not None:
            self._by_marker.pop(attempt.marker, None)

    def clock_set(self, by: Seconds) -> None:
        """The clock was set forward by so much (back if negative): retries and absences are not."""
        for one in self.attempts.values():
            one.clock_set(by)
        if self._empty_since is not None:
            self._empty_since = Instant(self._empty_since + by)

    # What is to be done.

    def to_submit(self, now: Instant) -> list[TrackedAttempt]:
        """Return the attempts to submit now."""
        intended = (each for each in self._intended.values() if each.staged is None or each.staged.are_there)
        return [each for each in intended if not each.stop and not each.held and each.retry_at <= now]

    def to_act(self, now: Instant) -> dict[ForeignAction, list[TrackedAttempt]]:
        """Return the attempts to cancel, hold, release or limit there now."""
        by_action: dict[ForeignAction, list[TrackedAttempt]] = {}
        for one in list(self._requests.values()):
            if not one.is_to_change:
                del self._requests[one.key]
            for action in one.actions(self.timeout.poll, now):
                by_action.setdefault(action, []).append(one)
        return {action: each[:AT_A_TIME] for action, each in by_action.items()}

    def to_look_at(self) -> list[TrackedAttempt]:
        """Return attempts whose files say more than any answer."""
        wanted = (ForeignPhase.MISSING, ForeignPhase.ENDED, ForeignPhase.DOUBTFUL)
        attempts = (each for each in self.attempts.values() if each.phase in wanted and each.report is None)
        return list(islice(attempts, AT_A_TIME))

    def to_remember(self) -> list[TrackedAttempt]:
        """Return attempts of which only the history may know something, or what they used."""
        gone = [each for each in self.attempts.values() if each.phase is ForeignPhase.MISSING or each.report]
        return gone[:AT_A_TIME]

    def owners(self) -> list[str]:
        """Return the users whose jobs are listed."""
        away = (ForeignPhase.INTENDED, ForeignPhase.CLEARING, ForeignPhase.OVER)
        return sorted({each.owner for each in self.attempts.values() if each.phase not in away})

    # What has become known.

    def never_there(self, now: Instant) -> list[HandOffReport]:
        """End what was canceled before it was submitted, or has no input."""
        reports: list[HandOffReport] = []
        for one in list(self._intended.values()):
            failure = one.staged.failure if one.staged is not None else ""
            if one.stop:
                reports += self._over(one, AttemptOutcome("never-ran"), now)
            elif failure:
                reports += self._over(one, AttemptOutcome("not-staged", ended=now, message=failure), now)
        return reports

    def cleared(self, key: AttemptPlace, result: TransferResult, now: Instant) -> list[HandOffReport]:
        """Taking away the results of an attempt has ended, or only removing its files."""
        over = self.staged.cleared(key, result)
        if over is None:
            return []
        self._enter(over[0], Fact.SETTLED, now)
        return [hand_off_report(over[0], "ended", id=over[0].id, outcome=over[1])]

    def waits_for_files(self, key: AttemptPlace, why: str) -> list[HandOffReport]:
        """The files of an attempt cannot be transferred now, for this reason."""
        return self._waits(self.attempts[key], why) if key in self.attempts else []

    def sent(self, key: AttemptPlace, now: Instant) -> None:
        """Its submission begins."""
        self._enter(self.attempts[key], Fact.SENT, now)

    def submitted(self, key: AttemptPlace, answer: SubmissionResult, now: Instant) -> list[HandOffReport]:
        """Its submission has ended."""
        one = self.attempts.get(key)
        if one is None:
            return []
        if answer.kind == "queued":
            self._enter(one, Fact.ACCEPTED, now)
            one.id = answer.id
            return [hand_off_report(one, "handed", id=answer.id)]
        if answer.kind == "refused":
            message = f"{self.title} refused it: {printable(answer.message)}"
            return self._over(one, AttemptOutcome("not-started", message=message), now, Fact.REFUSED)
        self._enter(one, Fact.NO_ANSWER, now)
        self._forget_absence(one)
        one.retry_at = Instant(now + min(FIRST_REST * 2**one.tries, MAX_REST))
        one.tries += 1
        return self._waits(one, f"{self.title} gave no clear answer to its submission: {answer.message}")

    def begun(self, action: ForeignAction, attempts: Iterable[TrackedAttempt], now: Instant) -> None:
        """An action begins: until its answer it is not due again."""
        for one in attempts:
            one.acted_on(action, now, done=True)

    def acted(
        self, action: ForeignAction, keys: Iterable[AttemptPlace], result: CommandResult, now: Instant
    ) -> list[HandOffReport]:
        """An action has ended; one that failed is tried again some times."""
        reports: list[HandOffReport] = []
        for one in (self.attempts[key] for key in keys if key in self.attempts):
            if result.status == 0 or action is ForeignAction.CANCEL:
                one.failures = 0
                continue
            one.acted_on(action, now, done=False)
            self._requests[one.key] = one
            if action is ForeignAction.LIMIT:
                one.limit_there = None
            reports += self._waits(one, f"{self.title} did not {action} it: {result.complaint}")
        return reports

    def polled(self, rows: Rows | None, began: Instant, now: Instant) -> list[HandOffReport]:
        """One poll was answered that began then.  Without rows nothing is learnt."""
        if rows is None or not self._is_believed(rows, now):
            return []
        others = [each for each in self.attempts.values() if each.phase is ForeignPhase.HANDED]
        blind = bool(others) and not self._has_any(rows)
        reports: list[HandOffReport] = []
        for one in list(self.attempts.values()):
            if one.phase in NOT_LISTED_NOW:
                continue
            row = rows.get((one.marker, one.owner))
            if row is not None:
                reports += self._listed(one, row, began, now)
            elif one.since <= began and not (blind and one.phase is ForeignPhase.DOUBTFUL):
                self._not_listed(one, began, now)
        return reports

    def _enter(self, one: TrackedAttempt, fact: Fact, now: Instant) -> None:
        one.enter(fact, now)
        self._intended.pop(one.key, None)
        if one.phase is ForeignPhase.INTENDED:
            self._intended[one.key] = one

    def _has_any(self, rows: Rows) -> bool:
        known = ((self._by_marker.get(marker), owner) for marker, owner in rows)
        return any(one is not None and one.owner == owner for one, owner in known)

    def _is_believed(self, rows: Rows, now: Instant) -> bool:
        """Whether an answer with nothing of ours is good, where there should be many."""
        there = sum(1 for each in self.attempts.values() if each.phase is ForeignPhase.HANDED)
        if there < MANY or self._has_any(rows):
            self._empty_since = None
            return True
        self._empty_since = now if self._empty_since is None else self._empty_since
        return now - self._empty_since >= self.timeout.lost

    def _listed(
        self, one: TrackedAttempt, row: ForeignJob, began: Instant, now: Instant
    ) -> list[HandOffReport]:
        self._forget_absence(one)
        one.without_exit = None
        reports = [] if one.id else [hand_off_report(one, "handed", id=row.id)]
        one.listed_as(row)
        if one.is_to_change:
            self._requests[one.key] = one
        self._enter(one, Fact.LISTED_AS_OVER if row.state is ForeignState.ENDED else Fact.LISTED, now)
        if row.state is ForeignState.WAITING:
            one.not_before = began
            return reports + self._waits(one, printable(row.reason or row.word))
        if row.state is ForeignState.RUNNING:
            reports += self._started(one, one.in_our_time(row.started or now, None, now)[0] or now)
        return reports

    def _started(self, one: TrackedAttempt, at: Instant) -> list[HandOffReport]:
        if one.said_started:
            return []
        one.said_started = True
        return [hand_off_report(one, "started", id=one.id, at=at)]

    def _waits(self, one: TrackedAttempt, reason: str) -> list[HandOffReport]:
        if reason == one.reason:
            return []
        one.reason = reason
        return [hand_off_report(one, "waits", id=one.id, reason=reason)]

    def _forget_absence(self, one: TrackedAttempt) -> None:
        one.absent_since, one.absent_for, one.good_answers = None, Seconds(0.0), 0

    def _not_listed(self, one: TrackedAttempt, began: Instant, now: Instant) -> None:
        if one.phase is ForeignPhase.DOUBTFUL and began < one.since + self.timeout.settle:
            return  # its submission may still be under way
        if one.absent_since is None:
            one.absent_since = began
        one.absent_for = Seconds(began - one.absent_since)
        one.good_answers += 1
        if one.phase is not ForeignPhase.DOUBTFUL:
            self._enter(one, Fact.NOT_LISTED, now)

    def looked(self, found: Mapping[str, Files | None], began: Instant, now: Instant) -> list[HandOffReport]:
        """These were the files of attempts when a look at them began; None where that failed."""
        reports: list[HandOffReport] = []
        for marker, files in found.items():
            one = self._by_marker.get(marker)
            if one is not None and files is not None and one.phase in (*THERE, ForeignPhase.DOUBTFUL):
                reports += self._judged(one, files, began, now)
        return reports

    def _judged(self, one: TrackedAttempt, files: Files, began: Instant, now: Instant) -> list[HandOffReport]:
        outcome = read_exit(files.exit_text)
        if outcome is not None:
            if one.report is None:
                one.report, one.reported = outcome, now
            return self._started(one, one.in_our_time(outcome.started, outcome.ended, now)[0] or now)
        if one.phase is ForeignPhase.DOUBTFUL:
            late = began >= one.since + self.timeout.settle  # no submission was under way any more
            return self._searched(one, files, now) if late else []
        if began < one.since + self.timeout.exit_file and not one.stop:
            return []
        one.without_exit = files
        if one.row is not None and one.row.state is ForeignState.ENDED:
            return self._ended_as(one, one.row, files, now)
        return self._lost(one, files, now)

    def _searched(self, one: TrackedAttempt, files: Files, now: Instant) -> list[HandOffReport]:
        """Say where an attempt is that may never have been queued."""
        if one.good_answers < GOOD_ANSWERS:
            return []
        if files.has_started:
            self._enter(one, Fact.HAS_RUN, now)
            return []
        if one.stop:
            return self._over(one, AttemptOutcome("never-ran"), now)
        self._enter(one, Fact.NOTTHERE, now)
        self._forget_absence(one)
        return []

    def remembered(self, rows: Rows | None, now: Instant) -> list[HandOffReport]:
        """These are rows of the history, for attempts that have ended; None: it is away, or was not asked."""
        reports: list[HandOffReport] = []
        for (marker, owner), row in (rows or {}).items():
            one = self._by_marker.get(marker)
            if one is None or one.owner != owner or row.state is not ForeignState.ENDED:
                continue
            if one.report is not None:
                one.row = row
                reports += self._over(one, reported(one, self.title, now), now)
            elif one.phase is ForeignPhase.MISSING and one.without_exit is not None:
                reports += self._ended_as(one, row, one.without_exit, now)
        for one in self.attempts.values():
            if one.report is not None and (rows is None or now - one.reported >= self.timeout.accounting):
                reports += self._over(one, reported(one, self.title, now), now)
        return reports

    def _ended_as(
        self, one: TrackedAttempt, row: ForeignJob, files: Files, now: Instant
    ) -> list[HandOffReport]:
        """Say how an attempt ended whose script left no exit file."""
        ran = files.has_started or one.said_started
        reports = self._started(one, one.in_our_time(row.started, now, now)[0] or now) if ran else []
        outcome = ended_as(one, self.title, row, ran=ran, now=now)._replace(usage=row.usage)
        return reports + self._over(one, outcome, now)

    def _lost(self, one: TrackedAttempt, files: Files, now: Instant) -> list[HandOffReport]:
        timeout = self.timeout.lost if one.cancels is None else self.timeout.exit_file
        if one.good_answers < GOOD_ANSWERS or one.absent_for < timeout:
            return []
        if one.stop:
            ran = files.has_started or one.said_started
            return self._over(one, AttemptOutcome("stopped" if ran else "never-ran"), now)
        message = (
            f"{self.title} has not listed job {one.id or one.marker} for {one.absent_for:.0f} seconds, has "
            "no record of its end, and the job left no exit file"
        )
        return self._over(one, AttemptOutcome("lost", message=message), now)

    def _over(
        self, one: TrackedAttempt, outcome: AttemptOutcome, now: Instant, fact: Fact = Fact.SETTLED
    ) -> list[HandOffReport]:
        """Say how an attempt ended; of one with staged files only when these are away.

        One that is lost may run on: its files stay.
        """
        one.report = None
        if one.staged is not None and outcome.kind != "lost":
            self._enter(one, Fact.LEAVES_FILES, now)
            one.staged.judged(outcome)
            return []
        self._enter(one, fact, now)
        return [hand_off_report(one, "ended", id=one.id, outcome=outcome)]
