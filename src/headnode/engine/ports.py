"""What the engine needs of the world.  Docstrings are promises; tests/contracts holds adapters to them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from headnode.core.filtering import FilterChain
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.events import Event, ParameterSet
from headnode.core.state.job_events import InstanceEnd


class EndedJob(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A job that is over, as the archive stores it.  `record` is an encoded JobRecord (with its spec).

    Fields that are added have defaults: rows of earlier versions lack them.
    """

    id: JobId
    owner: str
    name: str
    project: str
    state: str
    submitted: Instant
    ended: Instant
    record: bytes
    job_group: str = ""


class PurgeStep(NamedTuple):
    """What one step removed of purged jobs.

    removed:    rows
    waits_for:  the event that two snapshots must reach before the rest may go; 0: nothing waits
    more:       another step may remove more at once
    """

    removed: int
    waits_for: int = 0
    more: bool = False


class Journal(Protocol):
    """An append-only list of events, with snapshots so that a restart does not read all events.

    Promise: when `append` returns, the events survive a power cut; when it raises, none of them is kept.
             `replay(after)` yields exactly what was appended with a greater number, in order, but for events
             that `purge` has removed: then numbers are missing.
             `newest_snapshot` returns the last one whose `keep_snapshot` returned.
    """

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        """Record the events; `ended` jobs go into the archive, `revived` and purged ones out.

        Return the last number.

        Raises:  Unavailable ``journal-full`` or ``journal-error``; then nothing was recorded.
        """

    def replay(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield (number, event) for every event with a number greater than `after`.

        Raises:  Unavailable ``journal-damaged`` at the first event that is missing or does not read.
        """

    def keep_snapshot(self, number: int, state: bytes) -> None:
        """Keep the state as it was after event `number`; older snapshots may go."""

    def written_by(self) -> str:
        """Return the newest version of Headnode that wrote here."""

    def newest_snapshot(self) -> tuple[int, bytes] | None:
        """Return (number, state) of the newest snapshot, or None."""

    def close(self) -> None:
        """Let go of everything.  Nothing else may be called afterwards."""


class Archive(Protocol):
    """The ended jobs and the ended instances of all jobs: a projection of the journal.

    Promise: what `Journal.append` has returned for is found here at once.
             The record and the description of an ended job can be decoded.  A list leaves out a row that is
             damaged or needs a newer version, and `damage` names it; if only that row is asked for, it raises
             Unavailable ``journal-damaged`` or ``journal-unknown``.
             Long descriptions end a list of ended jobs before `limit`; an empty list is the end.
    """

    def damage(self) -> tuple[str, ...]:
        """Return which rows were found damaged so far, in sentences."""

    def purge(self, most: int) -> PurgeStep:
        """Remove up to `most` rows of jobs that the events have purged, but none that a recovery may need.

        Of a job: its instances, its prediction, and its events up to the older of the two snapshots.
        Raises:  Unavailable ``journal-full`` or ``journal-error``; then nothing was removed.
        """

    def ended_job(self, job: JobId) -> EndedJob | None:
        """Return one ended job."""

    def ended_jobs(
        self, *, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids below `before`, newest id first; no states means all."""

    def ended_of_group(
        self, group: str, *, owner: str | None, states: Sequence[str], before: int | None, limit: int
    ) -> list[EndedJob]:
        """Return up to `limit` ended jobs of a group with ids below `before`, newest id first.

        No states means all; nothing belongs to the group "".  Cost: proportional to the ended jobs of it.
        """

    def ended_after(self, after: int, limit: int) -> list[EndedJob]:
        """Return up to `limit` ended jobs with ids above `after`, in the order of their ids."""

    def allocation_events(self, first: JobId, last: JobId) -> list[Event]:
        """Return by what the jobs `first` to `last` got and gave back processors, each job's in order.

        These are JobStarted, AllocationGrown, AllocationShrunk, AllocationReleased, AllocationLost,
        JobSuspended and JobResumed.
        """

    def count_ended(self, *, owner: str | None) -> dict[str, int]:
        """Return how many jobs ended in each state; costs no walk over the jobs."""

    def instance(self, job: JobId, task: int, instance: int) -> InstanceEnd | None:
        """Return how the newest attempt of one instance ended."""

    def instances(self, job: JobId, task: int, after: int, limit: int) -> list[InstanceEnd]:
        """Return the ended instances of a task with numbers above `after`, in order."""

    def history(self, job: JobId, limit: int) -> list[Event]:
        """Return the newest events of a job, oldest first; those of its instances may be left out."""

    def node_history(self, node: str, limit: int) -> list[Event]:
        """Return the newest events of a node, oldest first."""

    def job_events(self, job: JobId, after: int, limit: int) -> list[tuple[int, Event]]:
        """Return the first events of a job and of its instances after a number, with their numbers.

        There may be fewer than `limit` before the last: an answer is bounded in bytes, and has at least one.
        """

    def event_span(self, job: JobId) -> tuple[int, int] | None:
        """Return the numbers of the first and the newest event in the history of a job; None: it has none."""

    def parameter_changes(self) -> Iterator[ParameterSet]:
        """Yield every change of a cluster parameter, in order; cost: proportional to how many there were."""


class Prediction(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The predicted start of a job, from the first time it could be computed, and the actual start.

    `promise` follows from the users' limits, `p50` and `p90` from run times predicted by the past; None where
    nothing could be said.  `middle` and `longest` are the median and the latest start over predicted run
    times, before they were corrected by how such predictions held: they teach later corrections.
    """

    job: JobId
    made: Instant
    policy: str
    promise: Instant | None = None
    p50: Instant | None = None
    p90: Instant | None = None
    middle: Instant | None = None
    longest: Instant | None = None
    started: Instant | None = None  # None: it has not


MAX_PREDICTIONS = 100_000
"""How many predictions are kept; the oldest make room for new ones."""


class PredictionStore(Protocol):
    """Predicted starts, stored beside the events: the newest `MAX_PREDICTIONS`.

    Promise: the first prediction of a job counts; later ones of the same job are not kept.
             It is on the disk, at the latest, when the start of its job is; until then a crash may lose it.
             The first start of its job that is appended after it is its `started`.
    """

    def keep_predictions(self, predictions: Sequence[Prediction]) -> None:
        """Keep the predictions with the next batch of events; no write of their own."""

    def prediction(self, job: JobId) -> Prediction | None:
        """Return what was predicted of one job, if it is known still."""

    def judged_predictions(
        self, since: Instant, limit: int, before: tuple[Instant, JobId] | None = None
    ) -> list[Prediction]:
        """Return the predictions of up to `limit` jobs that started since then, newest start first.

        `before` is the start and the id of the last one of the page before.
        """


class Past(Archive, PredictionStore, Protocol):
    """The archive and the prediction store, which are stored beside the events."""


class HeadStore(Journal, Past, Protocol):
    """All that a head keeps: a second store is a class with these promises.

    Opening it raises Unavailable ``already-running``, with the number of the process, if another head has it.
    """

    def look_over(self, seconds: float) -> None:
        """Look for damage for at most so long, newest rows first; what is found is in `damage`.

        Raises:  Unavailable ``journal-damaged`` when nothing may be written any more.
        """

    def size(self) -> int:
        """Return how many bytes it takes on the disk."""

    def copy_to(self, path: Path) -> None:
        """Copy everything that was acknowledged into a new file, for a backup, while appends go on.

        The copy is a file of `SqliteJournal`, whatever the store: `hn backup` and `hn restore` read that.
        Raises:  Unavailable ``journal-full`` or ``journal-error``, naming the copy.
        """


class EventSource(Protocol):
    """The events as a store has them on the disk, for standby heads.  Any thread may ask.

    Promise: the store of a standby that got these events has the same checksums.
    """

    cluster_id: str

    @property
    def last_number(self) -> int:
        """The number of the last event that is on the disk."""

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        """Return the first encoded events after a number, with their numbers: up to `limit` or a page.

        Raises:  Unavailable ``journal-damaged``.
        """

    def checksum_of(self, number: int) -> int | None:
        """Return the checksum of an event, begun with its number; None: there is none, or it was purged."""

    def purged_after(self, number: int) -> bool:
        """Return whether an event after a number was purged: then `rows` cannot go on from it."""

    def copy_to(self, path: Path) -> None:
        """Copy everything that was acknowledged into a new file; see `HeadStore`."""


def may_be_same(one: int | None, reported: int | None) -> bool:
    """Whether the checksums of two stores under one number may be of the same event; None: it was purged."""
    return one is None or reported is None or one == reported


class StandbyStore(HeadStore, EventSource, Protocol):
    """What a standby keeps: a head can begin with it."""


class FilterQuestion(msgspec.Struct, frozen=True):
    """A call of the activation filters of a job about an offer of resources.

    `scheduler_pass` counts passes that call filters, from 1 at the start of the head; `job_index` is
    the place in the queue, from 1; `resource_count` the units offered, more of them if it is `running`.
    """

    offer: int
    job: JobId
    filters: FilterChain
    running: bool
    scheduler_pass: int
    job_index: int
    backfill: bool
    resource_count: int


class FilterRunner(Protocol):
    """The port that runs activation filters, outside of the engine.

    Promise: to every question comes one `TakeVerdict` of its offer, later and never from inside `ask`.
             Questions about one job, and what undoes them, are worked off one after the other.
    """

    def ask(self, question: FilterQuestion) -> None:
        """Begin to ask."""

    def done(self, offer: int) -> None:
        """An offer that the filters let a job have, it has: nothing of it is to be undone any more."""

    def undo(self, offer: int) -> None:
        """Call the filters of an offer again that let the job have it: it did not come to that."""


class Clock(Protocol):
    """The time of day.  It may jump; nothing in the engine may rely on it never going back."""

    def now(self) -> Instant:
        """Return the present instant."""

    def set_by(self) -> Seconds:
        """Return by how many seconds it was set since this was asked before; below 0: back, 0: not at all."""
