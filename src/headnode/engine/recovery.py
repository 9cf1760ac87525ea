"""From the journal to the cluster, and back into a snapshot."""

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

import msgspec

from headnode import __version__
from headnode.core.model.errors import Broken, Unavailable, UnknownDescription
from headnode.core.model.quantities import Instant
from headnode.core.model.template import decode_template
from headnode.core.state.apply_events import apply_event
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, RequestCarriedOut, TemplateSet
from headnode.core.state.job_events import JobCreated, JobModified, JobSubmitted, JobUnarchived, JobValidated
from headnode.core.state.job_record import JobRecord, decode_record, decode_spec, encode_record
from headnode.core.state.job_request import job_names
from headnode.core.state.snapshot import Snapshot
from headnode.engine.ports import Clock, EndedJob, Journal

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


def recover(journal: Journal) -> tuple[ClusterState, int, int]:
    """Return the cluster as the journal has it, the number of its last event, and that of its snapshot.

    Raises:  Unavailable ``journal-damaged`` when an event is missing; ``journal-unknown`` when the snapshot
             or an event is none that this version knows.
    """
    newest = journal.newest_snapshot()
    kept = 0
    cluster = ClusterState()
    if newest is not None:
        kept, state = newest
        cluster = ClusterState(_read(kept, state, journal.written_by()))
    number = _replay(cluster, journal, kept)
    return cluster, number, kept


def _replay(cluster: ClusterState, journal: Journal, kept: int) -> int:
    """Apply the events after the snapshot; return the number of the last one."""
    number, what = kept, ""
    try:
        for number, event in journal.replay(kept):  # noqa: B007  (the last number is needed)
            what = type(event).__name__
            _check_inside(event)
            apply_event(cluster, event)
            cluster.agenda.for_archive.clear()  # the archive has them already: they were appended together
    except (msgspec.ValidationError, UnknownDescription) as error:
        raise unknown(f"event {number} ({what})", error, journal.written_by()) from None
    return number


def _check_inside(event: Event) -> None:
    """Decode what an event has in encoded form, so that nothing unknown is met after the start.

    Raises:  UnknownDescription, msgspec.ValidationError.
    """
    match event:
        case JobCreated(spec=spec) | JobModified(spec=spec) | JobValidated(spec=spec):
            if spec:
                decode_spec(spec)
        case JobUnarchived(record=record):
            decode_spec(decode_record(record).spec)
        case TemplateSet(template=template):
            decode_template(template)


def _read(number: int, state: bytes, written_by: str) -> Snapshot:
    try:
        snapshot = _decoder.decode(state)
        for spec in {record.spec for record in snapshot.jobs}:
            decode_spec(spec)
    except (msgspec.ValidationError, UnknownDescription) as error:
        raise unknown(f"the snapshot after event {number}", error, written_by) from None
    except msgspec.DecodeError as error:
        raise Unavailable(
            code="journal-damaged",
            what=f"the snapshot after event {number} cannot be read: {error}",
            fix="restore a backup with: hn restore FILE",
        ) from None
    return snapshot


def unknown(what: str, error: Exception, written_by: str) -> Unavailable:
    """Return the error for an intact part of a journal that this version of Headnode does not know."""
    why = error.why if isinstance(error, UnknownDescription) else error
    return Unavailable(
        code="journal-unknown",
        what=f"{what} has something that Headnode {__version__} does not know: {why}",
        fix=f"start Headnode {written_by}, the newest version that wrote here; nothing was changed",
    )


def save(cluster: ClusterState) -> bytes:
    """Return the cluster as a snapshot keeps it."""
    return _encoder.encode(cluster.snapshot())


def ended_job(record: JobRecord) -> EndedJob:
    """Return a job that is over as the archive keeps it."""
    names = job_names(record.spec)
    ended = record.run.ended if record.run and record.run.ended is not None else record.created
    return EndedJob(
        id=record.id,
        owner=record.owner,
        name=names.name,
        project=names.project,
        state=record.state.value,
        submitted=record.submitted if record.submitted is not None else record.created,
        ended=Instant(ended),
        record=encode_record(record),
        job_group=record.group,
    )


_ADDITIONS = (JobCreated, JobSubmitted, RequestCarriedOut)


class JournalWrite:
    """The write of one batch to the journal: any thread may call it, once."""

    def __init__(self, journal: Journal, clock: Clock, cluster: ClusterState, facts: Sequence[Event]) -> None:
        self.facts = facts
        self.number = 0  # of the last event
        self.seconds = 0.0
        self._journal, self._clock = journal, clock
        alive = cluster.jobs
        self._over = [record for job, record in cluster.agenda.for_archive.items() if job not in alive]
        self._revived = [event.job for event in facts if type(event) is JobUnarchived and event.job in alive]

    @property
    def only_adds(self) -> bool:
        """Whether the batch puts jobs into the queue and does nothing else."""
        added = all(type(event) in _ADDITIONS for event in self.facts)
        return added and not any(type(event) is JobSubmitted and event.validating for event in self.facts)

    def __call__(self) -> None:
        """Write.

        Raises:  Unavailable; then nothing was written.
        """
        began = self._clock.now()
        self.number = self._journal.append(self.facts, map(ended_job, self._over), self._revived)
        self.seconds = self._clock.now() - began


Answers = TypeVar("Answers")
BatchSteps = Generator[JournalWrite, None, Answers]
"""Yields the write of a batch, has thrown in what that raises, and returns the answers."""


def begun(steps: BatchSteps[Answers]) -> JournalWrite | Answers:
    """Begin a batch; return its write, or the answers if there is nothing to write."""
    try:
        return next(steps)
    except StopIteration as done:
        answers: Answers = done.value
        return answers


def written_at_once(steps: BatchSteps[Answers]) -> Answers:
    """Return the answers to a batch, after its write if it has one."""
    first = begun(steps)
    return written(steps, first) if isinstance(first, JournalWrite) else first


def written(steps: BatchSteps[Answers], write: Callable[[], None]) -> Answers:
    """Write a batch that has begun, and return the answers; `write` raises why it was not written."""
    try:
        try:
            write()
        except Unavailable as error:
            steps.throw(error)
        next(steps)
    except StopIteration as done:
        answers: Answers = done.value
        return answers
    raise Broken(code="written-twice", what="one batch has two writes to the journal")
