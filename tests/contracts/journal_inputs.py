"""Random events and ended jobs for the contract of the journal."""

import types
import typing
from enum import Enum
from typing import Any

import msgspec
from hypothesis import strategies as st

from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage, TransferUsage
from headnode.core.model.quantities import Instant, JobId, Priority
from headnode.core.model.task import TaskSpec
from headnode.core.state import events
from headnode.core.state.events import Event
from headnode.core.state.job_events import (
    InstanceEnd,
    InstancesEnded,
    InstancesRequeued,
    JobConfiguring,
    JobRequeued,
)
from headnode.core.state.job_record import JobRecord, encode_record, encode_spec
from headnode.core.state.transitions import JobState
from headnode.engine.ports import EndedJob

NOW = Instant(1_700_000_000.5)
OWNERS = ("ada", "grace")
FINAL = ("finished", "failed", "canceled")

jobs = st.integers(1, 4).map(JobId)
small = st.integers(1, 4)


def encoded_record(name: str = "", *tasks: TaskSpec) -> bytes:
    """Return the record of an ended job, as the archive keeps it."""
    spec = encode_spec(JobSpec(name=name, tasks=tasks or (TaskSpec(command="true"),)))
    state, at = JobState.FINISHED, Instant(1_700_000_000.0)
    return encode_record(JobRecord(JobId(1), "ada", 1, 1, spec, state, Priority(2000), at))


def of_type(wanted: Any) -> st.SearchStrategy[Any]:
    """Return values of a type that events are made of."""
    origin, inner = typing.get_origin(wanted), typing.get_args(wanted)
    if isinstance(wanted, type) and (issubclass(wanted, msgspec.Struct) or hasattr(wanted, "_fields")):
        hints = typing.get_type_hints(wanted)
        return st.builds(wanted, **{name: of_type(hint) for name, hint in hints.items() if name[0] != "_"})
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return st.sampled_from(list(wanted))
    if origin in (typing.Union, types.UnionType):
        return st.one_of([of_type(one) for one in inner])
    if origin is typing.Literal:
        return st.sampled_from(inner)
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(of_type(inner[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[of_type(one) for one in inner])
    if origin is dict:
        return st.dictionaries(of_type(inner[0]), of_type(inner[1]), max_size=2)
    return _PLAIN[getattr(wanted, "__supertype__", wanted)]


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 2**40),
    float: st.floats(allow_nan=False),
    str: st.text(st.characters(codec="utf-8"), max_size=8),
    bytes: st.binary(max_size=8),
    bool: st.booleans(),
    type(None): st.none(),
}

any_event: st.SearchStrategy[Event] = st.one_of([of_type(one) for one in events.EVENTS])

one_ended = st.builds(
    InstanceEnd,
    task=st.integers(1, 2),
    instance=small,
    attempt=small,
    state=st.sampled_from((*FINAL, "queued")),
    outcome=st.builds(
        AttemptOutcome,
        kind=st.just("exited"),
        exit_code=st.none() | st.integers(0, 255),
        signal=st.none() | st.integers(1, 64),
        started=st.just(NOW),
        ended=st.just(NOW),
        message=st.just(""),
        fault=st.just(""),
        usage=st.just(ResourceUsage(1.5, 0.25, 4096, 1024, 5, 6)),
        transfers=st.none() | of_type(TransferUsage),
    ),
    node=st.sampled_from(("n1", "n2")),
    cause=st.sampled_from(("program", "system")),
)
spans = st.lists(st.tuples(small, small), min_size=1, max_size=2).map(tuple)
instance_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(InstancesEnded, at=st.just(NOW), job=jobs, ended=st.lists(one_ended, max_size=6).map(tuple)),
    st.builds(InstancesRequeued, at=st.just(NOW), job=jobs, task=st.integers(1, 2), spans=spans),
    st.builds(JobRequeued, at=st.just(NOW), job=jobs),
    st.builds(JobConfiguring, at=st.just(NOW), job=jobs),
)
ended_job = st.builds(
    EndedJob,
    id=jobs,
    owner=st.sampled_from(OWNERS),
    name=st.just("wide"),
    job_group=st.sampled_from(("", "render", "night")),
    project=st.just(""),
    state=st.sampled_from(FINAL),
    submitted=st.just(NOW),
    ended=st.just(NOW),
    record=st.sampled_from(("", "a", "bc")).map(encoded_record),
)
batch = st.tuples(
    st.lists(st.one_of(instance_event, any_event), max_size=5),
    st.lists(ended_job, max_size=3),
    st.lists(jobs, max_size=2),
)
"""The arguments of one append."""
