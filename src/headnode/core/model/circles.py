"""Finding a circle among things that wait for each other."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

Step = TypeVar("Step", bound=Hashable)


def find_circle(graph: Mapping[Step, Iterable[Step]]) -> list[Step]:
    """Return the steps of a circle, its first step again at its end; empty when there is none.

    Cost:  O(steps + edges), without recursion.

    >>> find_circle({"a": ["b"], "b": ["c"], "c": ["a"]})
    ['a', 'b', 'c', 'a']
    """
    done: set[Step] = set()
    for start in graph:
        circle = [] if start in done else _circle_from(start, graph, done)
        if circle:
            return circle
    return []


def _circle_from(start: Step, graph: Mapping[Step, Iterable[Step]], done: set[Step]) -> list[Step]:
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
