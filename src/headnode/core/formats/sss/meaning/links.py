"""Which jobs wait for which: links within a document, and jobs that the cluster has already.

Source: SSS 3.1.0, "Dependency".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from headnode.core.formats.links import FIELDS, Condition, Link
from headnode.core.formats.sss.conditions import Dependency, Designator
from headnode.core.formats.sss.job_object import Job
from headnode.core.model.errors import BadRequest
from headnode.core.model.named_parents import NamedParent

_MOST_ID = 2**31 - 1
_OF_DEPENDENCY = ("condition", "designator")


class Siblings(NamedTuple):
    """Jobs by their ids and their names."""

    by_id: Mapping[str, list[int]]
    by_name: Mapping[str, list[int]]


def siblings(jobs: Sequence[Job], first: int) -> Siblings:
    """Return the jobs of one group or document, which are numbered from `first`."""
    by_id: dict[str, list[int]] = {}
    by_name: dict[str, list[int]] = {}
    for number, job in enumerate(jobs, first):
        by_id.setdefault(job.id, []).append(number)
        by_name.setdefault(job.name, []).append(number)
    return Siblings(by_id, by_name)


class Waits(NamedTuple):
    """What a job waits for: jobs of its document, ids of other jobs, and jobs that the head must look up."""

    links: tuple[Link, ...]
    others: Mapping[str, tuple[int, ...]]  # by the field of a job that holds them
    named: tuple[NamedParent, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of the job."""
        return {**self.others, "named_parents": self.named}


def waits_of(job: Job, number: int, among: Callable[[], Sequence[Siblings]], where: str) -> Waits:
    """Return what job `number` of its document waits for.

    `among` returns the jobs of its group, then those of the document: the first in which the job is found
    counts.  A job in none of them is one of the cluster: by its number, its name, or the Id that it was
    submitted with.
    Raises:  BadRequest ``dependency`` when it is not understood; no policy lets a job start too early.
    """
    waited = _dependencies(job, where)
    if not waited:
        return _NOTHING
    links: dict[Link, None] = {}
    ids: dict[str, dict[int, None]] = {}
    named: dict[NamedParent, None] = {}
    for one in waited:
        called = str(one.value)
        found = _found(one, number, among())
        if found:
            links |= {Link(number, parent, one.wanted): None for parent in found}
        elif not one.by_name and _is_id(called):
            ids.setdefault(FIELDS[one.wanted], {})[int(called)] = None
        else:
            named[NamedParent(called, by_id=not one.by_name, condition=one.wanted)] = None
    return Waits(tuple(links), {field: tuple(jobs) for field, jobs in ids.items()}, tuple(named))


_NOTHING = Waits((), {}, ())


def _found(one: Dependency, number: int, among: Sequence[Siblings]) -> list[int]:
    """Return the other jobs that a dependency means, in the nearest place that has one."""
    for known in among:
        called = (known.by_name if one.by_name else known.by_id).get(str(one.value), ())
        found = [other for other in called if other != number]
        if found:
            return found
    return []


def _dependencies(job: Job, where: str) -> list[Dependency]:
    """Return the dependencies of a job; an empty element is not set."""
    found = [one for one in job.properties if isinstance(one, Dependency)]
    for one in found:
        for name, text in one.kept:
            if name in _OF_DEPENDENCY:
                _refuse(where, f"its {name} {text!r} is not known")
    return [one for one in found if one.value]


def _refuse(where: str, what: str) -> NoReturn:
    raise BadRequest(
        code="dependency",
        what=f"{where}: Dependency: {what}, so it is not known when the job may start",
        fix="write condition OnSuccess, OnFailure, OnExit or OnStart, and designator JobId or JobName",
    )


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11 and 1 <= int(text) <= _MOST_ID


def dependency(other: str, condition: Condition, designator: Designator = Designator.JOB_ID) -> Dependency:
    """Return a dependency on the job that is called `other`."""
    return Dependency(name="Dependency", value=other, condition=condition, designator=designator)
