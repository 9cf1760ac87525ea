"""The alternatives of a job: the ways of the job and of its task groups taken together, and how they differ.

Source: SSS 3.1.0, "Requested", attribute preference.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headnode.core.model.job import Alternative, TaskAlternative
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.small_checks import MOST_CODE
from headnode.core.model.task import Distribution

MOST_OPTIONS = 16
"""Alternatives of one job, with what it asks for first."""

Fields = Mapping[str, Any]


class Combined(NamedTuple):
    """Which way is taken of each scope, for each alternative, best first; and how many are left out."""

    choices: tuple[tuple[int, ...], ...]
    cut: int


def combined(weights: Sequence[Sequence[int]]) -> Combined:
    """Return the alternatives of several scopes, each with the weights of its ways, by their sums.

    Of too many the best are taken, and the one that is content with least.

    >>> combined([[2, 1], [0, 0]]).choices
    ((0, 0), (0, 1), (1, 0), (1, 1))
    """
    if max(map(len, weights)) == 1:
        return Combined(((0,) * len(weights),), 0)
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for ways in weights:
        more = [((*one, n), sum_ + weight) for one, sum_ in found for n, weight in enumerate(ways)]
        found = sorted(more, key=lambda each: -each[1])[:MOST_OPTIONS]
    cut = math.prod(len(ways) for ways in weights) - len(found)
    choices = [one for one, _ in found]
    last = tuple(len(ways) - 1 for ways in weights)
    if cut and last not in choices:
        choices[-1] = last
    return Combined(tuple(choices), cut)


class Meaning(NamedTuple):
    """What one alternative makes of the job and of each task: the fields of both."""

    job: Fields
    tasks: tuple[Fields, ...]


_OF_JOB = [name for name in Alternative.__struct_fields__ if name != "tasks"]
_OF_TASK = TaskAlternative.__struct_fields__
NO_MEMORY = 1
"""MB that every node has: an alternative says so where it does not ask for memory, and the job does."""

_UNSAID = {
    "minimum_memory": NO_MEMORY,
    "maximum_memory": MOST_CODE,
    "needs": ANY_NODE,
    "distribution": Distribution(),
}
"""What stands in an alternative that does not ask for what the job does."""


def difference(base: Meaning, other: Meaning) -> Alternative | None:
    """Return an alternative in which a job that means `base` means `other`; None when they are the same."""
    job = _different(base.job, other.job, _OF_JOB)
    tasks = tuple(
        TaskAlternative(**_different(one, another, _OF_TASK))
        for one, another in zip(base.tasks, other.tasks, strict=True)
    )
    if all(task == TaskAlternative() for task in tasks):
        return Alternative(**job) if job else None
    return Alternative(**job, tasks=tasks)


def _different(base: Fields, other: Fields, names: Sequence[str]) -> dict[str, Any]:
    found = {name: other.get(name) for name in names if other.get(name) != base.get(name)}
    return {name: _UNSAID[name] if value is None else value for name, value in found.items()}
