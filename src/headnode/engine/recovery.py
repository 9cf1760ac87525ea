"""From the journal to the cluster, and back into a snapshot."""

import msgspec

from headnode import __version__
from headnode.core.lifecycle.cluster import Cluster, Snapshot
from headnode.core.lifecycle.fold import apply
from headnode.core.lifecycle.records import JobRecord, encode_record
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import Instant
from headnode.engine.ports import EndedJob, Journal

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Snapshot)


def recover(journal: Journal) -> tuple[Cluster, int, int]:
    """Return the cluster as the journal has it, the number of its last event, and that of its snapshot.

    Raises:  Unavailable ``journal-damaged`` when an event is missing; ``journal-unknown`` when the snapshot
             or an event is none that this version knows.
    """
    newest = journal.newest_snapshot()
    kept = 0
    cluster = Cluster()
    if newest is not None:
        kept, state = newest
        cluster = Cluster(_read(kept, state, journal.written_by()))
    number = kept
    for at, event in journal.replay(kept):
        apply(cluster, event)
        number = at
    cluster.over.clear()  # the archive has them already: they were appended together
    return cluster, number, kept


def _read(number: int, state: bytes, written_by: str) -> Snapshot:
    try:
        return _decoder.decode(state)
    except msgspec.ValidationError as error:
        raise unknown(f"the snapshot after event {number}", error, written_by) from None
    except msgspec.DecodeError as error:
        raise Unavailable(
            code="journal-damaged",
            what=f"the snapshot after event {number} does not read: {error}",
            fix="restore a backup with: hn restore FILE",
        ) from None


def unknown(what: str, error: msgspec.DecodeError, written_by: str) -> Unavailable:
    """Return the error for an intact part of a journal that this version of Headnode does not know."""
    return Unavailable(
        code="journal-unknown",
        what=f"{what} is none that Headnode {__version__} knows: {error}",
        fix=f"start Headnode {written_by}, which wrote here last; nothing was changed",
    )


def save(cluster: Cluster) -> bytes:
    """Return the cluster as a snapshot keeps it."""
    return _encoder.encode(cluster.snapshot())


def ended_job(cluster: Cluster, record: JobRecord) -> EndedJob:
    """Return a job that is over as the archive keeps it."""
    spec = cluster.spec(record)
    ended = record.run.ended if record.run and record.run.ended is not None else record.created
    return EndedJob(
        id=record.id,
        owner=record.owner,
        name=spec.name,
        project=spec.project,
        state=record.state.value,
        submitted=record.submitted if record.submitted is not None else record.created,
        ended=Instant(ended),
        record=encode_record(record),
        job_group=record.group,
    )
