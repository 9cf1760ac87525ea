"""A node table at other times is that of the nodes then; what a need has is the least of what it takes."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise, product

from msgspec.structs import replace

from depth import seeds
from headnode.core.model.job import JobRequest
from headnode.core.scheduling.need_over_time import lowest_of
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import NodeView, ever_takes, takes
from headnode.core.scheduling.profile import AmountChanges
from headnode.core.scheduling.request import at_other_times, resolve
from headnode.testing.scenes import kept_for

from .scenes import INF, MINUTE, asks, node

SPANS = (0.5, 1, 2, 5, 7, 10, 10.5, INF)
REQUESTS = [
    *(asks(1, minutes=span) for span in SPANS),
    *(asks(1, minutes=span, open_reservations=("r",)) for span in SPANS),
    *(asks(1, minutes=span, open_reservations=("r",), reservation="r") for span in SPANS),
    *(asks(2, minutes=span, memory=4, requested_nodes=("n1", "n2", "n3")) for span in (1, 5)),
]


def nodes_at_some_time(dice: random.Random) -> dict[str, NodeView]:
    """Return nodes that close, or are reserved, at the same times as others or at their own."""
    found = []
    for number in range(6):
        times = [
            kept_for(name, begins, begins + dice.choice((1, 5)))
            for name, begins in (("r", -1), ("r", 2), ("s", 5))
            if dice.random() < 0.2
        ]
        closed = "paused" if number == 5 else ""
        left = dice.choice((INF, INF, 2, 7, 10))
        found.append(
            node(f"n{number}", 2 + number % 2, minutes_open=left, kept=tuple(times[:2]), closed=closed)
        )
    return {each.facts.name: each for each in found}


def candidates(table: NodeTable, request: JobRequest) -> tuple[object, ...]:
    """Return all nodes that a request may use: now, and at some time."""
    need = resolve(request, table)
    return need.alternatives, need.anywhere, need.access


def test_a_table_at_other_times_has_the_candidates_of_a_new_one() -> None:
    for seed in seeds(60):
        dice = random.Random(seed)
        table = NodeTable(nodes_at_some_time(dice))
        for _ in range(4):
            for request in dice.sample(REQUESTS, 5):
                resolve(request, table)
            before, nodes = table, nodes_at_some_time(dice)
            were = [candidates(before, request) for request in REQUESTS]
            table, fresh = at_other_times(before, nodes), NodeTable(nodes)
            assert (table.alike, table.alike_of) == (fresh.alike, fresh.alike_of), seed
            assert (table.changes, table.closing, table.reserving) == (
                fresh.changes,
                fresh.closing,
                fresh.reserving,
            )
            assert [candidates(table, each) for each in REQUESTS] == [
                candidates(fresh, each) for each in REQUESTS
            ], seed
            assert [candidates(before, each) for each in REQUESTS] == were, seed


def seconds_later(nodes: Mapping[str, NodeView], seconds: float) -> dict[str, NodeView]:
    """Return the nodes as they are so many seconds later, if nothing else changes."""
    return {
        name: replace(
            each,
            open_for=each.open_for - seconds,
            reserved=tuple(
                replace(time, begins=time.begins - seconds, ends=time.ends - seconds)
                for time in each.reserved
                if time.ends > seconds
            ),
        )
        for name, each in nodes.items()
    }


def test_a_need_is_worked_out_anew_only_if_the_job_meets_something_else_than_some_time_ago() -> None:
    kept = Counter[bool]()
    for seed in seeds(60):
        dice = random.Random(seed)
        nodes = nodes_at_some_time(dice)
        table = NodeTable(nodes)
        for _ in range(4):
            were = {request: resolve(request, table) for request in dice.sample(REQUESTS, 15)}
            nodes = seconds_later(nodes, dice.choice((0.1, 1, 20, MINUTE / 2)))
            table, fresh = at_other_times(table, nodes), NodeTable(nodes)
            assert (table.alike, table.alike_of) == (fresh.alike, fresh.alike_of), seed
            for request, need in were.items():
                assert candidates(table, request) == candidates(fresh, request), (seed, request)
                alike = {other for other in were if table.rules(other) == table.rules(request)}
                assert alike == {o for o in were if fresh.rules(o) == fresh.rules(request)}, (seed, request)
                kept[resolve(request, table) is need] += 1
    assert kept[True] > kept[False] > 0, kept


def test_a_job_has_the_nodes_that_stay_open_and_are_not_reserved_as_long_as_it_may_run() -> None:
    refused = 0
    for seed in seeds(60):
        nodes = nodes_at_some_time(random.Random(seed))
        table = NodeTable(nodes)
        for request in REQUESTS[: 3 * len(SPANS)]:
            access = table.access(request)
            good = {
                number
                for number, each in enumerate(nodes.values())
                if not each.closed
                and request.run_time <= each.open_for
                and (access is None or takes(each.reserved, access, 0.0))
            }
            (found,) = resolve(request, table).alternatives
            assert set(found) == good, (seed, request)
            refused += len(nodes) - len(good)
    assert refused > 100


def test_nodes_that_are_reserved_alike_are_looked_at_together() -> None:
    for seed, request, minutes in product(seeds(20), REQUESTS[: 3 * len(SPANS)], (0, 2, 3, 6)):
        nodes = nodes_at_some_time(random.Random(seed))
        table, order, begin = NodeTable(nodes), tuple(range(len(nodes))), minutes * MINUTE
        access = table.access(request)
        if access is None:
            continue
        views = list(nodes.values())
        found = table.taking(order, access, begin), table.ever_taking(order, access)
        assert found == (
            tuple(number for number in order if takes(views[number].reserved, access, begin)),
            tuple(number for number in order if ever_takes(views[number].reserved, access)),
        )


def at(course: AmountChanges, instant: tuple[float, bool]) -> int:
    """Return how much there is at an instant, or just after it."""
    return [amount for when, above, amount in course if (when, above) <= instant][-1]


def some_amount(dice: random.Random) -> Sequence[tuple[float, bool, int]]:
    """Return an amount that changes at some instants, or just after them."""
    places = sorted(dice.sample(list(product(range(1, 6), (False, True))), dice.randint(0, 5)))
    return [(0, False, dice.randint(0, 3)), *((when, above, dice.randint(0, 3)) for when, above in places)]


def test_the_lowest_of_several_amounts_is_the_lowest_at_each_instant() -> None:
    for seed in seeds(200):
        dice = random.Random(seed)
        courses = [some_amount(dice) for _ in range(dice.randint(1, 4))]
        lowest = list(lowest_of(courses))
        for instant in product(range(7), (False, True)):
            assert at(lowest, instant) == min(at(course, instant) for course in courses), seed
        assert all(one[2] != other[2] for one, other in pairwise(lowest)), seed
