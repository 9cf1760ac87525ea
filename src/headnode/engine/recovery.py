"""From the journal to the cluster, and back into a snapshot."""

import msgspec

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

    Raises:  Unavailable ``journal-damaged`` when the snapshot does not read or an event is missing.
    """
    newest = journal.newest_snapshot()
    kept = 0
    cluster = Cluster()
    if newest is not None:
        kept, state = newest
        cluster = Cluster(_read(state))
    number = kept
    for at, event in journal.replay(kept):
        apply(cluster, event)
        number = at
    cluster.over.clear()  # the archive has them already: they were appended together
    return cluster, number, kept


def _read(state: bytes) -> Snapshot:
    try:
        return _decoder.decode(state)
    except msgspec.DecodeError as error:
        raise Unavailable(
            code="journal-damaged",
            what=f"the newest snapshot does not read: {error}",
            fix="restore the state directory from a backup",
        ) from error


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
