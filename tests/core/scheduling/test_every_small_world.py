"""Both policies in every small world: a few nodes, a few running jobs, three queued ones."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from headnode.core.model.job import JobRequest, Licence
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import NodeView, RunningJob, View

from .promises import check_promises
from .scenes import INF, asks, node, runs, scene

GROUNDS: dict[str, Sequence[NodeView]] = {
    "one node of three": [node("a", 3)],
    "two and one": [node("a", 2), node("b", 1)],
    "two of two, one paused": [node("a", 2), node("b", 2), node("c", 2, closed="paused")],
}
POLICY = sorted(POLICIES)


def sizes(view_of: Sequence[JobRequest]) -> Iterator[tuple[tuple[int, JobRequest, int], ...]]:
    """Yield queues of three jobs; sometimes the last has the better turn."""
    for number, (first, second, third) in enumerate(product(view_of, repeat=3)):
        yield (11, first, 2000), (12, second, 2000), (13, third, 3000 if number % 5 == 0 else 2000)


def busy(ground: Sequence[NodeView]) -> Iterator[list[RunningJob]]:
    """Yield what may be running: nothing, a shared job, an owner, or two with different ends."""
    first, last = ground[0].facts, [each for each in ground if not each.closed][-1].facts
    yield []
    for minutes in (1, INF):
        yield [runs(1, asks(1), (first.name, 1), minutes_left=minutes)]
        yield [runs(1, asks(1, exclusive=True), (first.name, first.processors), minutes_left=minutes)]
    if last.name != first.name:
        for one, other in ((1, 2), (2, INF), (INF, INF)):
            yield [
                runs(1, asks(1), (first.name, 1), minutes_left=one),
                runs(2, asks(1), (last.name, 1), minutes_left=other),
            ]


@pytest.mark.parametrize("policy", POLICY)
@pytest.mark.parametrize("ground", GROUNDS)
def test_promises_hold_with_shared_and_exclusive_jobs_of_all_lengths(ground: str, policy: str) -> None:
    kinds = [
        *(asks(size, minutes=minutes) for size, minutes in product((1, 2), (1, 2, INF))),
        asks(3, minutes=1),
        asks(4, minutes=2),
        asks(2, minutes=2, exclusive=True),
        asks(3, minutes=INF, exclusive=True),
    ]
    nodes = GROUNDS[ground]
    for running, queue in product(list(busy(nodes)), sizes(kinds)):
        check(policy, scene(nodes, running, queue))


def check(policy: str, view: View) -> None:
    """The plan keeps its promises and does not depend on the order in which nodes are listed."""
    plan = POLICIES[policy](view)
    check_promises(view, plan, overtaking=policy == "easy")


@pytest.mark.parametrize("policy", POLICY)
def test_promises_hold_with_minimum_and_maximum_and_growth(policy: str) -> None:
    kinds = [asks(1, 3, 1), asks(1, 2), asks(2, 4, 2), asks(3, 3, 2), asks(2, 2, 1, exclusive=True)]
    nodes = [node("a", 2), node("b", 2)]
    growing = [
        [runs(job, request, ("a", request.minimum), minutes_left=minutes, wants=wants)]
        for job, minutes, wants in product((1, 20), (1, 2, INF), (0, 1, 3))
        for request in (asks(1, 3), asks(2, 4, exclusive=True))
    ]
    for running, queue in product(growing, sizes(kinds)):
        check(policy, scene(nodes, running, queue))


@pytest.mark.parametrize("policy", POLICY)
def test_promises_hold_with_licences(policy: str) -> None:
    kinds = [
        asks(1, minutes=minutes, licences=licences)
        for minutes, licences in product((1, 2, INF), ((), (Licence("x", 1),), (Licence("x", 2),)))
    ]
    kinds.append(asks(1, 3, 2, licences=(Licence("x", None),)))
    for minutes, total, queue in product((1, INF), (2, 3), list(sizes(kinds))):
        request = asks(1, licences=(Licence("x", 1),))
        running = [runs(1, request, ("a", 1), minutes_left=minutes)]
        check(policy, scene([node("a", 3)], running, queue, {"x": (total, total - 1)}))


@pytest.mark.parametrize("policy", POLICY)
def test_plans_do_not_depend_on_the_order_in_which_things_are_listed(policy: str) -> None:
    kinds = [asks(1, minutes=1), asks(2, minutes=2), asks(3), asks(2, exclusive=True)]
    nodes = [node("a", 2), node("b", 2, memory=8), node("c", 1, memory=8, speed=3)]
    for queue in sizes(kinds):
        running = [runs(1, asks(1), ("b", 1), minutes_left=1), runs(2, asks(1), ("a", 1), wants=1)]
        one = POLICIES[policy](scene(nodes, running, queue))
        other = POLICIES[policy](scene(nodes[::-1], running[::-1], queue[::-1]))
        assert (one.starts, one.grows, one.reservation) == (other.starts, other.grows, other.reservation)
        assert one.waits == other.waits
