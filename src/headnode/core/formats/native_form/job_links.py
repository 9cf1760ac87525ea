"""Jobs of one file that wait for one another, by name.

What is no name is the number of a job that the cluster has already.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headnode.core.formats.native_form.key_reading import KeyReader
from headnode.core.formats.native_form.keys import JOBS_TABLE
from headnode.core.formats.nearest import nearest
from headnode.core.model.circles import find_circle
from headnode.core.model.dependencies import FIELDS, Link
from headnode.core.model.job import JobSpec

_SHOWN = 12
Waits = dict[str, list[str]]
"""The names of jobs that a job waits for, by the key that says so."""


def waits(jobs: Sequence[JobSpec], reader: KeyReader) -> tuple[tuple[JobSpec, ...], tuple[Link, ...]]:
    """Return the jobs without the names that they wait for, and links in their place.

    Raises:  BadRequest with line and column: ``unknown-job``, ``name-twice``, ``dependency-circle``.
    """
    by_name: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        by_name.setdefault(job.name, []).append(number)
    links: dict[Link, None] = {}
    found = []
    for child, job in enumerate(jobs):
        ids: dict[str, tuple[int, ...]] = {}
        for condition, field in FIELDS.items():
            said: tuple[Any, ...] = getattr(job, field)
            names = [one for one in said if isinstance(one, str)]
            ids[field] = tuple(one for one in said if not isinstance(one, str))
            for name in names:
                parent = _parent(name, by_name, reader, child, field)
                links[Link(child, parent, condition)] = None
        found.append(replace(job, **ids))
    _check_circle(jobs, tuple(links), reader)
    return tuple(found), tuple(links)


def _parent(name: str, by_name: Mapping[str, list[int]], reader: KeyReader, child: int, field: str) -> int:
    numbers = by_name.get(name, []) if name else []
    path = (JOBS_TABLE, child, field)
    whose = f"job {child + 1}: {field} names {name[:60]!r}"
    if not numbers:
        meant = nearest(name, [one for one in by_name if one])
        fix = (
            f"did you mean {meant!r}?"
            if meant
            else "write the name of a job of the file, a number, or named_parents"
        )
        reader.refuse(path, "unknown-job", f"{whose}, which is not a job of the file", fix)
    if len(numbers) > 1:
        what = f"{whose}, but {len(numbers)} jobs of the file have that name"
        reader.refuse(path, "name-twice", what, "give each a name of its own")
    return numbers[0]


def _check_circle(jobs: Sequence[JobSpec], links: Sequence[Link], reader: KeyReader) -> None:
    parents: dict[int, list[int]] = {}
    for link in links:
        parents.setdefault(link.child, []).append(link.parent)
    circle = find_circle(parents)
    if circle:
        names = " -> ".join(jobs[number].name for number in circle[:_SHOWN])
        what = f"the jobs wait for each other in a circle: {names}"
        reader.refuse((JOBS_TABLE, circle[0]), "dependency-circle", what, "remove one of the names")


def named(jobs: Sequence[JobSpec], links: Sequence[Link]) -> tuple[list[JobSpec], list[Waits]]:
    """Return the jobs, those that others wait for with a name of their own, and the names each waits for."""
    times = Counter(job.name for job in jobs)
    taken = set(times)
    awaited = {link.parent for link in links}
    called = [
        _free(job.name or "job", taken)
        if number in awaited and (not job.name or times[job.name] > 1)
        else job.name
        for number, job in enumerate(jobs)
    ]
    found: list[Waits] = [{} for _ in jobs]
    for link in links:
        found[link.child].setdefault(FIELDS[link.condition], []).append(called[link.parent])
    return [replace(job, name=name) for job, name in zip(jobs, called, strict=True)], found


def _free(stem: str, taken: set[str]) -> str:
    """Return the stem with the first number that makes it free, and take it."""
    number = 1
    while f"{stem}-{number}" in taken:
        number += 1
    taken.add(f"{stem}-{number}")
    return f"{stem}-{number}"
