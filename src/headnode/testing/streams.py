"""Streams of small jobs that would never let a large one start, if nobody kept a place for it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from headnode.core.model.job import JobRequest, Licence, UnitType
from headnode.testing.histories import Arrival, History
from headnode.testing.scenes import INF, asks, node

PATIENT = 3
"""The job that must not starve: the third to come."""

MOST_MINUTES = 20.0
"""How long it may wait: those before it are over after two minutes, and each of the stream lasts two."""

_STREAM = 60  # jobs, one each minute


class Stream(NamedTuple):
    """A history and what is special about the job that must not starve."""

    name: str
    history: History


def streams() -> Iterator[Stream]:
    """Yield a stream for everything that a job may wait for."""
    wants: dict[str, JobRequest] = {
        "all processors": asks(4, minutes=4),
        "all nodes": asks(2, minutes=4, unit=UnitType.NODE),
        "one idle node": asks(2, minutes=4, exclusive=True),
        "one node": asks(2, minutes=4, single_node=True),
        "a named node": asks(2, minutes=4, exclusive=True, required_nodes=("a",)),
        "memory": asks(2, minutes=4, memory=8),
    }
    for name, request in wants.items():
        yield Stream(name, _history(request, minutes=2, memory=4 if name == "memory" else 0))
    yield Stream("all licences", _history(asks(1, minutes=4, licences=(Licence("x", 2),)), 2, licence=1))
    yield Stream("all, behind jobs without a limit", _history(asks(4, minutes=4), minutes=INF))
    yield Stream("all, all without a limit", _history(asks(4), minutes=INF))


def _history(patient: JobRequest, minutes: float, *, memory: int = 0, licence: int = 0) -> History:
    more: dict[str, Any] = {"licences": (Licence("x", 1),)} if licence else {}
    small = asks(1, minutes=minutes, memory=memory, **more)
    nodes = [node("a", 2, memory=8), node("b", 2, memory=8)]
    jobs = [Arrival(1, small, 0, 2), Arrival(2, small, 0.5, 2), Arrival(PATIENT, patient, 0.5, 2)]
    jobs += [Arrival(PATIENT + nth, small, nth / 2, 2) for nth in range(1, 2 * _STREAM)]
    return History(nodes, sorted(jobs, key=lambda each: (each.at, each.job)), {"x": 2} if licence else {})
