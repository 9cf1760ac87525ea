"""The alternatives of a job, and how its tasks lie on nodes, read and written."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from headnode.core.formats.sss.constraints import Bounds
from headnode.core.formats.sss.conversion.extensions import ConversionFindings
from headnode.core.formats.sss.properties import DistributionKind, SssDistribution, SssProperty
from headnode.core.model.job import Alternative, TaskAlternative
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.task import Distribution as Placed
from headnode.core.model.value_checks import MOST_CODE

ROUND_ROBIN = "RoundRobin"
_MOST = 1_000_000


def is_understood(one: SssDistribution) -> bool:
    """Whether Headnode can lay tasks so: any distribution but a rule that it does not know."""
    return one.kind is not DistributionKind.RULE or str(one.value).lower() == ROUND_ROBIN.lower()


def _found(properties: Iterable[SssProperty]) -> SssDistribution | None:
    return next((one for one in properties if isinstance(one, SssDistribution)), None)


def each_of(properties: Iterable[SssProperty]) -> Bounds | None:
    """Return the processors of each task, when a TaskDistribution says so."""
    one = _found(properties)
    return (one.number, one.number) if one and one.kind is DistributionKind.PROCESSORS_PER_TASK else None


def numbered(properties: Iterable[SssProperty]) -> int:
    """Return how many tasks a geometry numbers; 0 without one."""
    one = _found(properties)
    return sum(map(len, one.geometry)) if one else 0


def distribution_of(properties: Iterable[SssProperty]) -> Placed | None:
    """Return how tasks are laid on nodes; None: anyhow."""
    one = _found(properties)
    if one is None or not is_understood(one) or one.kind is DistributionKind.PROCESSORS_PER_TASK:
        return None
    if one.kind is DistributionKind.RULE:
        return Placed(round_robin=True)
    return Placed(per_node=min(one.number, _MOST), geometry=one.geometry)


def distribution_back(placed: Placed | None, findings: ConversionFindings) -> Iterator[SssProperty]:
    """Yield the TaskDistribution that says the same; a number of nodes is said by NodeCount."""
    if placed is None:
        return
    if placed.round_robin and (placed.per_node or placed.geometry):
        findings.lost("distribution: one TaskDistribution is written, so its round robin is left out")
    if placed.per_node:
        yield _written(DistributionKind.TASKS_PER_NODE, str(placed.per_node))
    elif placed.geometry:
        blocks = ("{" + ",".join(map(str, group)) + "}" for group in placed.geometry)
        yield _written(DistributionKind.GEOMETRY, "".join(blocks))
    elif placed.round_robin:
        yield _written(DistributionKind.RULE, ROUND_ROBIN)


def _written(kind: DistributionKind, value: str) -> SssDistribution:
    return SssDistribution(name="TaskDistribution", kind=kind, value=value)


MOST_OPTIONS = 16
"""Alternatives of one job, with what it asks for first."""

Fields = Mapping[str, Any]


class AlternativeChoices(NamedTuple):
    """Which way is taken of each scope, for each alternative, best first; and how many are left out."""

    choices: tuple[tuple[int, ...], ...]
    cut: int


def combined_alternatives(weights: Sequence[Sequence[int]]) -> AlternativeChoices:
    """Return the alternatives of several scopes, each with the weights of its ways, by their sums.

    Of too many the best are taken, and the one that is content with least.

    >>> combined_alternatives([[2, 1], [0, 0]]).choices
    ((0, 0), (0, 1), (1, 0), (1, 1))
    """
    if max(map(len, weights)) == 1:
        return AlternativeChoices(((0,) * len(weights),), 0)
    found: list[tuple[tuple[int, ...], int]] = [((), 0)]
    for ways in weights:
        more = [((*one, n), sum_ + weight) for one, sum_ in found for n, weight in enumerate(ways)]
        found = sorted(more, key=lambda each: -each[1])[:MOST_OPTIONS]
    cut = math.prod(len(ways) for ways in weights) - len(found)
    choices = [one for one, _ in found]
    last = tuple(len(ways) - 1 for ways in weights)
    if cut and last not in choices:
        choices[-1] = last
    return AlternativeChoices(tuple(choices), cut)


class AlternativeFields(NamedTuple):
    """What one alternative makes of the job and of each task: the fields of both."""

    job: Fields
    tasks: tuple[Fields, ...]


_OF_JOB = [name for name in Alternative.__struct_fields__ if name != "tasks"]
_OF_TASK = TaskAlternative.__struct_fields__
NO_MEMORY = 1
"""MB that every node has: an alternative says so where it does not ask for memory, and the job does."""

_NEUTRAL_VALUES = {
    "minimum_memory": NO_MEMORY,
    "maximum_memory": MOST_CODE,
    "needs": ANY_NODE,
    "distribution": Placed(),
}
"""What stands in an alternative that does not ask for what the job does."""


def difference(base: AlternativeFields, other: AlternativeFields) -> Alternative | None:
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
    return {name: _NEUTRAL_VALUES[name] if value is None else value for name, value in found.items()}
