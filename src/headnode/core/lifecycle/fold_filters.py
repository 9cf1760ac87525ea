"""Apply what filters have answered."""

from msgspec.structs import replace

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.arrows import job_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deadlines import last_start
from headnode.core.lifecycle.records import JobRecord, decode_spec, encode_spec, word_of
from headnode.core.lifecycle.states import JobState
from headnode.core.model.dependencies import parents


def validated(cluster: Cluster, event: e.JobValidated) -> None:
    """A job comes into the queue, with the place that it got when it was submitted."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    if event.spec:
        spec = decode_spec(event.spec)
        record.spec, record.priority, record.group = event.spec, spec.priority, spec.job_group
    spec = cluster.written(record)
    record.unvalidated = False
    record.waits_for = event.waits_for
    record.met = tuple(parent for parent in parents(spec) if parent not in event.waits_for)
    record.hold_until, record.last_start = spec.hold_until, last_start(spec)
    cluster.move(record, state)
    cluster.enqueue(record)


def clear_hold(record: JobRecord) -> None:
    """Forget until when a job was to be held: it starts.  Source: HPC filters, "Important"."""
    if record.hold_until is None:
        return
    spec = decode_spec(record.spec)
    if spec.hold_until is not None:
        record.spec = encode_spec(replace(spec, hold_until=None))


def forget_kept(record: JobRecord) -> None:
    """The job is not as it was when it was offered something: what was kept for it is free again."""
    if record.filtered is not None and record.filtered.kept:
        record.filtered = replace(record.filtered, kept=(), option=0, parts=())


def answered(cluster: Cluster, event: e.FilterAnswered) -> None:
    """Remember what keeps a job from what it was offered; a hold takes it out of the line."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    word = word_of(event)
    if record.state is not JobState.QUEUED:
        record.filtered = word
        return
    cluster.dequeue(record)
    record.filtered = word
    if event.until is not None:
        record.hold_until = event.until
    cluster.enqueue(record)
