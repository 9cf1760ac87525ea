"""What each policy promises, in every small world: a few nodes, a few running jobs, three queued ones."""

from math import inf

import pytest

from depth import every
from headnode.core.scheduling.policies import POLICIES
from headnode.testing import OURS, SMALL_WORLDS, Promise, check_small_worlds, check_streams

CASES = [(name, inf) for name in POLICIES]
DEPTHS = [(name, depth) for name in POLICIES if name.startswith("conservative") for depth in (1, 2)]


@pytest.mark.parametrize(("policy", "depth"), CASES)
@pytest.mark.parametrize("worlds", SMALL_WORLDS)
def test_promises_hold_in_every_small_world(worlds: str, policy: str, depth: float) -> None:
    tried = check_small_worlds(POLICIES[policy], OURS[policy], names=[worlds], depth=depth, every=every())
    assert tried > 500 / every()


@pytest.mark.parametrize("worlds", ["shared and exclusive", "growing", "licensed"])
def test_easy_finds_every_way_to_overtake(worlds: str) -> None:
    check_small_worlds(POLICIES["easy"], [Promise.WHO_CAN_OVERTAKES], names=[worlds], every=every())


@pytest.mark.parametrize(("policy", "depth"), DEPTHS)
def test_promises_hold_whatever_the_depth_of_reservations(policy: str, depth: float) -> None:
    tried = check_small_worlds(POLICIES[policy], OURS[policy], depth=depth, every=every(6))
    assert tried > 6000 / every(6)


@pytest.mark.parametrize(("policy", "depth"), [*CASES, *DEPTHS])
def test_a_stream_of_small_jobs_starves_nobody(policy: str, depth: float) -> None:
    check_streams(POLICIES[policy], depth=depth)
