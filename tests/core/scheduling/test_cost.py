"""A pass costs as much as it starts, whatever waits behind."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from headnode.core.scheduling import placement
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import View, WaitingClass

from .scenes import NOW, asks, node, runs, scene, turn_of

QUEUED = 100_000
DEPTH = 20  # reservations


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_pass_over_a_long_queue_of_few_requests_asks_for_few_placements(policy: str) -> None:
    kinds = [asks(2, minutes=60), asks(1, 3, 30), asks(4), asks(2, minutes=5, exclusive=True)]
    turns = [[turn_of(job) for job in range(first, QUEUED, len(kinds))] for first in range(len(kinds))]
    nodes = [node(f"n{i:02}", 2) for i in range(20)]
    base = scene(nodes, [runs(QUEUED + 1, asks(1), ("n00", 1), minutes_left=9)])
    queue = [WaitingClass(kind, each) for kind, each in zip(kinds, turns, strict=True)]
    view = View(NOW, base.nodes, queue, base.running, depth=DEPTH)
    plan = POLICIES[policy](view)
    calls = placements(lambda: POLICIES[policy](view))
    assert len(plan.starts) > 5
    assert len(plan.reservations) <= DEPTH
    assert calls <= 5 * (len(plan.starts) + len(plan.reservations) + len(kinds)) + 20, calls


def placements(act: Callable[[], object]) -> int:
    """Count how often the placement code is asked."""
    calls = 0

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code is placement.find_placement.__code__

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        act()
    finally:
        sys.setprofile(before)
    return calls
