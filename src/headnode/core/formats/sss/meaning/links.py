"""Which jobs wait for which: links within a job group, and ids of jobs that are here already.

Source: SSS 3.1.0, "Dependency".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from headnode.core.formats.links import FIELDS, Condition, Link
from headnode.core.formats.sss.conditions import Dependency, Designator
from headnode.core.formats.sss.job_object import Job

_MOST_ID = 2**31 - 1


class Siblings(NamedTuple):
    """The jobs of a group by their ids and their names."""

    by_id: Mapping[str, list[int]]
    by_name: Mapping[str, list[int]]


def siblings(jobs: Sequence[Job], first: int) -> Siblings:
    """Return the jobs of one group, which are numbered from `first`."""
    by_id: dict[str, list[int]] = {}
    by_name: dict[str, list[int]] = {}
    for number, job in enumerate(jobs, first):
        by_id.setdefault(job.id, []).append(number)
        by_name.setdefault(job.name, []).append(number)
    return Siblings(by_id, by_name)


class Waits(NamedTuple):
    """What a job waits for: siblings, ids of other jobs, and the dependencies Headnode cannot act on."""

    links: tuple[Link, ...]
    others: Mapping[str, tuple[int, ...]]  # by the field of a job that holds them
    unsaid: tuple[Dependency, ...]


def waits_of(job: Job, number: int, among: Siblings) -> Waits:
    """Return what job `number` of its document waits for."""
    links: dict[Link, None] = {}
    others: dict[str, dict[int, None]] = {}
    unsaid = []
    for one in _dependencies(job):
        called = (among.by_name if one.by_name else among.by_id).get(str(one.value), [])
        found = [other for other in called if other != number]
        if found:
            links |= {Link(number, parent, one.wanted): None for parent in found}
        elif not one.by_name and _is_id(str(one.value)):
            others.setdefault(FIELDS[one.wanted], {})[int(str(one.value))] = None
        else:
            unsaid.append(one)
    return Waits(tuple(links), {field: tuple(ids) for field, ids in others.items()}, tuple(unsaid))


def _dependencies(job: Job) -> Iterator[Dependency]:
    return (one for one in job.properties if isinstance(one, Dependency))


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11 and 1 <= int(text) <= _MOST_ID


def dependency(other: str, condition: Condition) -> Dependency:
    """Return a dependency on the job with the id `other`."""
    return Dependency(name="Dependency", value=other, condition=condition, designator=Designator.JOB_ID)
