"""Which jobs wait for which: links within a job group, and ids of jobs that are here already.

Source: SSS 3.1.0, "Dependency".
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headnode.core.formats.sss.conditions import Condition, Dependency
from headnode.core.formats.sss.job_object import Job

_MOST_ID = 2**31 - 1


class Link(msgspec.Struct, frozen=True):
    """Job `child` waits for job `parent`, both by their place among the jobs of a document, from 0."""

    child: int
    parent: int
    condition: Condition


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
    parents: tuple[int, ...]
    unsaid: tuple[Dependency, ...]


def waits_of(job: Job, number: int, among: Siblings) -> Waits:
    """Return what job `number` of its document waits for."""
    links: dict[Link, None] = {}
    parents: dict[int, None] = {}
    unsaid = []
    for one in _dependencies(job):
        called = (among.by_name if one.by_name else among.by_id).get(str(one.value), [])
        found = [other for other in called if other != number]
        if one.wanted is not Condition.ON_SUCCESS:
            unsaid.append(one)
        elif found:
            links |= {Link(number, parent, one.wanted): None for parent in found}
        elif not one.by_name and _is_id(str(one.value)):
            parents[int(str(one.value))] = None
        else:
            unsaid.append(one)
    return Waits(tuple(links), tuple(parents), tuple(unsaid))


def _dependencies(job: Job) -> Iterator[Dependency]:
    return (one for one in job.properties if isinstance(one, Dependency))


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11 and 1 <= int(text) <= _MOST_ID
