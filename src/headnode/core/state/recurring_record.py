"""The data of recurring jobs: definitions, records, events and commands, and which time is due.

What the commands decide is in `recurring` and `recurring_table`, which are imported with their first use.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from headnode.core.model.errors import NotFound
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.user import User
from headnode.core.state.command import Command
from headnode.core.state.job_events import StateEvent

if TYPE_CHECKING:
    from headnode.core.model.schedule import Schedule

Overlap = Literal["skip", "wait", "allow"]
"""What happens at a time while an earlier job has not ended: none, one after it, or one at once."""
Missed = Literal["one", "none"]
"""What becomes of times while the head was away or it was suspended: one job at once, or none."""
SkipCause = Literal["overlap", "missed", "refused", "waiting"]
"""Why a time made no job: an earlier one has not ended, the head was away, the job was refused; it waits."""


MOST_OF_USER: Final = "MaxRecurringJobsPerUser"
MOST: Final = 100  # unless the parameter says otherwise
SHORTEST: Final = "RecurringShortestInterval"
SHORTEST_INTERVAL: Final = 60  # seconds, unless the parameter says otherwise


class RecurringJob(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A recurring job as its owner set it."""

    number: int
    name: str  # unique among those of its owner, capitals and small letters being the same
    owner: str
    uid: int
    gid: int
    spec: bytes  # an encoded JobSpec
    schedule: str
    zone: str  # name of IANA
    created: Instant
    anchor: Instant  # when the schedule was set: earlier times are not those of this schedule
    overlap: Overlap = "skip"
    missed: Missed = "one"
    keep: int = 10  # how many of the last times are listed
    end: Instant | None = None  # no time after this makes a job
    most_runs: int = 0  # 0: no limit
    suspended: bool = False
    table: bool = False  # it is an entry of the table of its owner

    @property
    def key(self) -> tuple[str, str]:
        """What is unique of it: its owner and its name."""
        return self.owner, self.name.lower()

    def times(self) -> "Schedule":
        """Return its schedule.

        Raises:  BadRequest ``time-zone`` if the head does not know the time zone any more.
        """
        from headnode.core.model.schedule import read_schedule  # a head without recurring jobs does without

        return read_schedule(self.schedule, self.zone, self.anchor)


class RecurringJobSet(StateEvent, frozen=True, gc=False, tag="RecurringJobSet"):
    """A recurring job is created, or changed if `changed` names what is different."""

    recurring: RecurringJob
    by: str = ""
    changed: str = ""


class RecurringEvent(StateEvent, frozen=True, gc=False):
    """The base of all other events of one recurring job."""

    number: int


class RecurringJobRemoved(RecurringEvent, frozen=True, gc=False, tag="RecurringJobRemoved"):
    """The recurring job is removed; the jobs that it made stay."""

    by: str = ""


class RecurringJobRan(RecurringEvent, frozen=True, gc=False, tag="RecurringJobRan"):
    """The recurring job makes a job for `time`; no other is ever made for it.

    `by` asked for a job beside the schedule: then `time` is the moment of that.
    """

    time: Instant
    job: JobId
    by: str = ""


class RecurringTimeSkipped(RecurringEvent, frozen=True, gc=False, tag="RecurringTimeSkipped"):
    """`time` makes no job, nor do those before it; with `waiting` it makes one when the others have ended."""

    time: Instant
    cause: SkipCause
    reason: str


class RecurringTableSet(StateEvent, frozen=True, gc=False, tag="RecurringTableSet"):
    """A user writes the table of recurring jobs: its text.  Events beside this one say what it changes."""

    owner: str
    text: str
    by: str = ""


class CreateRecurring(Command, frozen=True):
    """Create a recurring job of `owner`; its number, and the times in it, are set here."""

    by: User
    owner: User
    recurring: RecurringJob


class ChangeRecurring(Command, frozen=True):
    """Change fields of a recurring job.  `owner` is its owner as known now, for a changed description.

    `former` is the description that was changed; empty: the new one is made of nothing else.
    """

    by: User
    number: int
    changes: Mapping[str, Any]
    owner: User | None = None
    former: bytes = b""


class RemoveRecurring(Command, frozen=True):
    """Remove a recurring job; jobs that it has made stay."""

    by: User
    number: int


class AdvanceRecurring(Command, frozen=True):
    """Head: decide the time of a recurring job that is due, if one is.

    `by` is its owner as known now; None: he may submit no jobs any more, and `refused` says why.
    """

    number: int
    by: User | None
    refused: str = ""


class RunRecurring(Command, frozen=True):
    """Make a job of a recurring job now, whatever its schedule, overlap and suspension say."""

    by: User
    number: int
    owner: User


class SetRecurringTable(Command, frozen=True):
    """Replace the table of `owner`: its text, and its entries in their order.  Without text it is removed."""

    by: User
    owner: User
    text: str
    entries: tuple[RecurringJob, ...]


NEXT: Final = 5  # times that are shown
LATE: Final = Seconds(60.0)
"""A time that is later than this was missed: the head was away, or the recurring job was suspended."""


class RecurringRun(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What became of one time: a job, or why there is none."""

    time: Instant
    at: Instant  # when that was decided
    job: int = 0  # 0: none
    cause: SkipCause | None = None
    reason: str = ""
    by: str = ""  # who asked for a job beside the schedule


class RecurringTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table of a user, as it was written."""

    owner: str
    text: str


class RecurringRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A recurring job, and what became of its times."""

    recurring: RecurringJob
    last: Instant  # every time up to here is decided
    waiting: Instant | None = None  # a decided time whose job comes when the others have ended
    runs: int = 0  # jobs of the schedule
    unfinished: tuple[JobId, ...] = ()  # some of them may have ended meanwhile
    recent: tuple[RecurringRun, ...] = ()  # the last times, the oldest first

    def note(self, run: RecurringRun) -> None:
        """Remember what became of a time; the oldest is forgotten."""
        self.recent = (*self.recent, run)[-self.recurring.keep :]

    @property
    def is_spent(self) -> bool:
        """Whether it has made as many jobs as it may."""
        return 0 < self.recurring.most_runs <= self.runs

    def next_time(self, now: Instant) -> Instant | None:
        """Return the first time that is not decided yet; None if none will come.

        While it is suspended, the first one from now on.
        Raises:  BadRequest ``time-zone``.
        """
        if self.is_spent:
            return None
        after = max(self.last, now) if self.recurring.suspended else self.last
        at, end = self.recurring.times().next_after(after), self.recurring.end
        return None if at is None or (end is not None and at > end) else at

    def next_times(self, now: Instant) -> tuple[Instant, ...]:
        """Return that time and those after it, at most `NEXT`, and no more than it may make jobs.

        Raises:  BadRequest ``time-zone``.
        """
        first, recurring = self.next_time(now), self.recurring
        if first is None:
            return ()
        left = min(NEXT, recurring.most_runs - self.runs) if recurring.most_runs else NEXT
        times = (first, *islice(recurring.times().times_after(first), left - 1))
        return tuple(at for at in times if recurring.end is None or at <= recurring.end)


class _KnownTimes(NamedTuple):
    """The next times of a recurring job, and of which state of it they are."""

    recurring: RecurringJob
    last: Instant
    runs: int
    times: tuple[Instant, ...]

    def holds(self, record: RecurringRecord, now: Instant) -> bool:
        """Return whether they are still the next; of a suspended job, times pass without a decision."""
        same = record.recurring is self.recurring and (record.last, record.runs) == (self.last, self.runs)
        return same and (not record.recurring.suspended or (bool(self.times) and self.times[0] > now))


class DueTime(NamedTuple):
    """A time that is due, and why it makes no job; `cause` is None if it makes one."""

    time: Instant
    cause: SkipCause | None = None
    reason: str = ""


def due_time(record: RecurringRecord, busy: str, now: Instant) -> DueTime | None:
    """Return what is to be decided now, or None.

    Of several times that have passed, the last stands for all: one job is made for them.
    busy:    why an earlier job is in the way of another; empty: all have ended
    Raises:  BadRequest ``time-zone``.
    """
    recurring = record.recurring
    if recurring.suspended or record.is_spent:
        return None
    if record.waiting is not None and not busy:
        return DueTime(record.waiting)
    until = now if recurring.end is None else min(now, recurring.end)
    time = recurring.times().last_until(until, record.last)
    if time is None:
        return None
    if recurring.missed == "none" and now - time > LATE:
        return DueTime(time, "missed", "the head was away, or the recurring job was suspended")
    if not busy:
        return DueTime(time)
    if recurring.overlap == "wait" and record.waiting is None:
        return DueTime(time, "waiting", busy)
    return DueTime(time, "overlap", busy)


class RecurringIndex:
    """All recurring jobs, by number and by name, and the tables of users."""

    def __init__(
        self, records: Iterable[RecurringRecord], tables: Iterable[RecurringTable], next_number: int
    ) -> None:
        self.numbered = {record.recurring.number: record for record in records}
        self.tables = {table.owner: table for table in tables}
        self.next_number = next_number
        self._named = {each.recurring.key: number for number, each in self.numbered.items()}
        self._known: dict[int, _KnownTimes] = {}  # the next times by number: to find them takes up to 1 ms

    def kept(self) -> dict[str, Any]:
        """Return what a snapshot keeps of them, by the names of its fields."""
        records, tables = list(self.numbered.values()), list(self.tables.values())
        return {"recurring": records, "recurring_tables": tables, "next_recurring": self.next_number}

    def record(self, number: int) -> RecurringRecord:
        """Return a recurring job.

        Raises:  NotFound ``no-such-recurring-job``.
        """
        record = self.numbered.get(number)
        if record is None:
            raise _unknown(str(number))
        return record

    def named(self, owner: str, name: str) -> RecurringRecord:
        """Return the recurring job that a user means by its name, or by the number of any one.

        Raises:  NotFound ``no-such-recurring-job``.
        """
        if name.isascii() and name.isdigit() and len(name) < 16:
            return self.record(int(name))
        number = self._named.get((owner, name.lower()))
        if number is None:
            raise _unknown(name)
        return self.numbered[number]

    def has(self, owner: str, name: str) -> int:
        """Return the number of the recurring job of this name; 0 if there is none."""
        return self._named.get((owner, name.lower()), 0)

    def of(self, owner: str) -> list[RecurringRecord]:
        """Return the recurring jobs of a user, in the order of their numbers."""
        return [each for each in self.numbered.values() if each.recurring.owner == owner]

    def next_times(self, record: RecurringRecord, now: Instant) -> tuple[Instant, ...]:
        """Return the next times at which a recurring job makes jobs, at most `NEXT`.

        They are found once for each change of it, and for each time that is decided.
        Raises:  BadRequest ``time-zone``.
        """
        recurring, number = record.recurring, record.recurring.number
        known = self._known.get(number)
        if known is None or not known.holds(record, now):
            known = _KnownTimes(recurring, record.last, record.runs, record.next_times(now))
            self._known[number] = known
        return known.times

    def refused(self) -> int:
        """Return how many make no jobs now, because the last one was refused."""
        newest = (each.recent[-1] for each in self.numbered.values() if each.recent)
        return sum(run.cause == "refused" for run in newest)

    def keep(self, recurring: RecurringJob, at: Instant) -> None:
        """Add or change a recurring job.  A new schedule begins with the times after it was set."""
        known = self.numbered.get(recurring.number)
        if known is None:
            self.numbered[recurring.number] = RecurringRecord(recurring=recurring, last=at)
        else:
            del self._named[known.recurring.key]
            if known.recurring.anchor != recurring.anchor:
                known.last, known.waiting = recurring.anchor, None
            known.recurring = recurring
            known.recent = known.recent[-recurring.keep :]
        self._named[recurring.key] = recurring.number
        self.next_number = max(self.next_number, recurring.number + 1)

    def drop(self, number: int) -> None:
        """Remove a recurring job."""
        record = self.numbered.pop(number)
        self._known.pop(number, None)
        del self._named[record.recurring.key]


def _unknown(name: str) -> NotFound:
    return NotFound(
        code="no-such-recurring-job",
        what=f"there is no recurring job {name[:64]!r}",
        fix="see `hn recurring list`; name those of other users by number",
    )


RECURRING_EVENTS = (
    RecurringJobSet, RecurringJobRemoved, RecurringJobRan, RecurringTimeSkipped, RecurringTableSet,
)  # fmt: skip
RECURRING_COMMANDS = (
    CreateRecurring, ChangeRecurring, RemoveRecurring, AdvanceRecurring, RunRecurring, SetRecurringTable,
)  # fmt: skip
