"""From the journal to the cluster, and back into a snapshot."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from headnode import __version__
from headnode.core.model.errors import BadRequest, Unavailable, UnknownDescription
from headnode.core.model.owner_limits import LIMIT_PARAMETERS, read_owner_limits
from headnode.core.model.quantities import Instant
from headnode.core.model.template import decode_template
from headnode.core.state.apply_events import apply_event
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, ParameterSet, TemplateSet
from headnode.core.state.job_events import JobCreated, JobModified, JobUnarchived, JobValidated
from headnode.core.state.job_record import JobRecord, decode_record, decode_spec
from headnode.core.state.recurring_record import RecurringJobSet
from headnode.core.state.snapshot import Snapshot
from headnode.engine.ports import Journal


class _StoredSnapshot(Snapshot):
    """A snapshot as it is read: its jobs are still encoded.

    Each record is decoded when it is adopted, which shares what it has in common with others.  If all were
    decoded first, the objects that are dropped then would leave 70 bytes of holes for each job.
    """

    jobs: list[msgspec.Raw] = msgspec.field(default_factory=list)  # type: ignore[assignment]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_StoredSnapshot)


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
        cluster = _read(kept, state, journal.written_by())
    number = _replay(cluster, journal, kept)
    return cluster, number, kept


def _replay(cluster: ClusterState, journal: Journal, snapshot: int) -> int:
    """Apply the events after the snapshot; return the number of the last one."""
    last = number = snapshot
    what = ""
    try:
        for number, event in journal.replay(snapshot):
            if number != last + 1:
                raise _purged(last + 1)
            last = number
            what = type(event).__name__
            check_inside(event)
            apply_event(cluster, event)
            cluster.agenda.for_archive.clear()  # the archive has them already: they were appended together
    except (msgspec.ValidationError, UnknownDescription) as error:
        raise unknown(f"event {number} ({what})", error, journal.written_by()) from None
    return last


def _purged(number: int) -> Unavailable:
    """Return the error for a journal without the snapshots that take the place of purged events."""
    return Unavailable(
        code="journal-damaged",
        what=f"event {number} was removed with its job, and no snapshot of the state after it can be read",
        fix="restore a backup with: hn restore FILE",
    )


def check_inside(event: Event) -> None:
    """Decode what an event has in encoded form, so that nothing unknown is met after the start.

    Raises:  UnknownDescription, msgspec.ValidationError.
    """
    match event:
        case JobCreated(spec=spec) | JobModified(spec=spec) | JobValidated(spec=spec):
            if spec:
                decode_spec(spec)
        case RecurringJobSet(recurring=recurring):
            decode_spec(recurring.spec)
        case JobUnarchived(record=record):
            decode_spec(decode_record(record).spec)
        case TemplateSet(template=template):
            decode_template(template)
        case ParameterSet(name=name, value=value):
            _check_limits({name: value or ""})


def _check_limits(parameters: Mapping[str, str]) -> None:
    """Read the limits of users, projects and groups, which may have words of a newer version.

    Raises:  UnknownDescription.
    """
    for name in LIMIT_PARAMETERS:
        try:
            read_owner_limits(parameters.get(name, ""))
        except BadRequest as no:
            raise UnknownDescription(f"{name}: {no.what}") from None


def _read(number: int, state: bytes, written_by: str) -> ClusterState:
    """Return the cluster that a snapshot holds.

    Raises:  Unavailable ``journal-unknown``, ``journal-damaged``.
    """
    try:
        snapshot = _decoder.decode(state)
        _check_limits(snapshot.parameters)
        cluster = ClusterState(snapshot, _records(snapshot.jobs))
    except (msgspec.ValidationError, UnknownDescription) as error:
        raise unknown(f"the snapshot after event {number}", error, written_by) from None
    except msgspec.DecodeError as error:
        raise Unavailable(
            code="journal-damaged",
            what=f"the snapshot after event {number} cannot be read: {error}",
            fix="restore a backup with: hn restore FILE",
        ) from None
    return cluster


def _records(encoded: Iterable[msgspec.Raw]) -> Iterator[JobRecord]:
    """Yield records one by one; each different description is decoded once, see `check_inside`.

    Jobs that were created together share one object for that time.
    """
    checked: set[bytes] = set()
    created = Instant(0.0)
    for each in encoded:
        record = decode_record(each)
        if record.created == created:
            record.created = created
        created = record.created
        if record.spec not in checked:
            decode_spec(record.spec)
            checked.add(record.spec)
        yield record


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
