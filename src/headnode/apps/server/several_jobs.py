"""Jobs that come in one file: none is submitted unless all can be, parents first.

Source:  SSS 3.1.0, "JobGroup": its jobs depend on one another.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.apps.server.desk import Desk
from headnode.core.formats.fidelity import Item
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.decide import decide
from headnode.core.lifecycle.events import JobCreated
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User


class Described(NamedTuple):
    """What a client describes: its jobs, and for each the numbers (from 0) of those it waits for."""

    specs: Sequence[JobSpec]
    waits: Mapping[int, Sequence[int]]
    report: tuple[Item, ...]


def parents_first(described: Described) -> list[int]:
    """Return the numbers of the jobs, each behind those it waits for, else in their order.

    Waiting must not go round in a circle, which readers of job files see to.
    """
    found: dict[int, None] = {}
    while len(found) < len(described.specs):
        found |= {
            number: None
            for number in range(len(described.specs))
            if number not in found and all(parent in found for parent in described.waits.get(number, ()))
        }
    return list(found)


async def submit_all(desk: Desk, by: User, described: Described) -> list[int]:
    """Submit all jobs; return their ids in the order in which they are described.

    Raises:  what refuses one of them; then none of them stays.
    """
    if len(described.specs) > 1:
        _refuse_any(desk, by, described)
    ids: dict[int, int] = {}
    try:
        for number in parents_first(described):
            spec = described.specs[number]
            own = tuple(ids[parent] for parent in described.waits.get(number, ()))
            spec = replace(spec, parents=(*spec.parents, *own))
            parents = desk.lookups.ended_parents(spec.parents)
            made = await desk.ask(c.CreateJob(by=by, spec=spec, submit=True, parents=parents))
            ids[number] = next(event.job for event in made if isinstance(event, JobCreated))
    except HeadnodeError:
        await _cancel(desk, by, ids.values())
        raise
    return [ids[number] for number in range(len(described.specs))]


def _refuse_any(desk: Desk, by: User, described: Described) -> None:
    """Refuse all jobs for what refuses one, before the first is submitted."""
    for spec in described.specs:
        parents = desk.lookups.ended_parents(spec.parents)
        decide(desk.cluster, c.CreateJob(by=by, spec=spec, submit=True, parents=parents), desk.now())


async def _cancel(desk: Desk, by: User, jobs: Iterable[int]) -> None:
    """Cancel jobs whose file could not be submitted as a whole."""
    message = "another job of its file could not be submitted"
    for job in reversed([*jobs]):
        await desk.ask(c.StopJob(by=by, job=JobId(job), outcome="canceled", message=message))
