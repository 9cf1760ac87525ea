"""Which jobs and tasks wait for which, and circles among them.

Source: SSS 3.1.0, "Dependency" (attribute condition); HPC Pack, ParentJobIds."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from headnode.core.model.job import Condition, JobSpec


class DependencyLink(msgspec.Struct, frozen=True):
    """Job `child` depends on job `parent`; both are positions among the jobs of a file, from 0."""

    child: int
    parent: int
    condition: Condition = Condition.ON_SUCCESS


DEPENDENCY_FIELDS = {
    Condition.ON_SUCCESS: "parents",
    Condition.ON_FAILURE: "after_failure",
    Condition.ON_EXIT: "after_exit",
    Condition.ON_START: "after_start",
}
"""The field of a job that holds the ids of jobs which it waits for in that way."""


def dependencies(spec: JobSpec) -> Iterator[tuple[int, Condition]]:
    """Yield the id of every job that a job waits for, with what must have become of it."""
    for condition, field in DEPENDENCY_FIELDS.items():
        for parent in getattr(spec, field):
            yield parent, condition


def parents(spec: JobSpec) -> tuple[int, ...]:
    """Return the ids of the jobs that a job waits for, each once."""
    return tuple(dict.fromkeys(parent for parent, _ in dependencies(spec)))


Step = TypeVar("Step", bound=Hashable)


def find_cycle(graph: Mapping[Step, Iterable[Step]]) -> list[Step]:
    """Return the steps of a circle, its first step again at its end; empty when there is none.

    Cost:  O(steps + edges), without recursion.

    >>> find_cycle({"a": ["b"], "b": ["c"], "c": ["a"]})
    ['a', 'b', 'c', 'a']
    """
    done: set[Step] = set()
    for start in graph:
        circle = [] if start in done else _cycle_from(start, graph, done)
        if circle:
            return circle
    return []


def _cycle_from(start: Step, graph: Mapping[Step, Iterable[Step]], done: set[Step]) -> list[Step]:
    """Walk depth first from `start`; what is found to lead into no circle goes into `done`."""
    way: dict[Step, Iterator[Step]] = {start: iter(graph.get(start, ()))}  # in the order of the walk
    while way:
        here = next(reversed(way))
        step = next(way[here], None)
        if step is None:
            del way[here]
            done.add(here)
        elif step in way:
            steps = list(way)
            return [*steps[steps.index(step) :], step]
        elif step not in done:
            way[step] = iter(graph.get(step, ()))
    return []
