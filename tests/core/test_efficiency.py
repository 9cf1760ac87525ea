"""Efficiency of jobs: shares are never below zero, and no suggested request is below what was used."""

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headnode.core.model.efficiency import (
    MIN_MEMORY,
    ResourceUse,
    SmallerRequest,
    shares_of,
    smaller_request,
    why_no_suggestion,
)
from headnode.core.model.quantities import FOREVER, Seconds

HOUR = Seconds(3600.0)
TYPICAL = ResourceUse(
    processors=4, processor_time=Seconds(600.0), wall_time=Seconds(600.0), run_time=Seconds(600.0),
    held_time=2400.0, limit=HOUR, peak=200 * 1024, memory=512, task_processors=4,
    fewest=1, next_processors=4, one_task=True,
)  # fmt: skip

times = st.floats(0.0, 1e7).map(Seconds)
counts = st.integers(0, 5000)


@st.composite
def uses(draw: st.DrawFn) -> ResourceUse:
    """Return what a job may have used: measured or not, with or without requests, also above them."""
    processors, run_time = draw(counts), draw(times)
    wall_time = Seconds(run_time + draw(st.just(0.0) | times))
    return ResourceUse(
        processors=processors,
        processor_time=draw(st.none() | times),
        wall_time=wall_time,
        run_time=run_time,
        held_time=draw(st.floats(0.0, 1.0)) * processors * wall_time,
        limit=draw(st.just(FOREVER) | st.floats(60.0, 1e7).map(Seconds)),
        peak=draw(st.integers(0, 10**10)),
        memory=draw(st.just(0) | st.integers(1, 10**7)),
        node_memory=draw(st.just(0) | st.integers(1, 10**7)),
        task_processors=draw(st.sampled_from([0, 1, processors])),
        on_one_node=draw(st.booleans()),
        fewest=draw(st.sampled_from([0, 1, 2])),
        next_processors=draw(st.integers(1, max(1, processors))),
        one_task=draw(st.booleans()),
        obstacle=draw(st.sampled_from(["", "it failed"])),
    )


@given(uses())
def test_shares_are_zero_or_more_and_finite(job: ResourceUse) -> None:
    for share in shares_of(job):
        assert share is None or 0 <= share < inf


@pytest.mark.parametrize(
    ("changed", "share"),
    [
        ({"memory": 0}, 0.2),
        ({"memory": 250}, 0.1),
        ({"memory": 0, "on_one_node": False}, None),
        ({"task_processors": 0}, None),
    ],
)
def test_the_memory_of_a_node_is_beside_that_of_the_processors(
    changed: dict[str, Any], share: float | None
) -> None:
    assert shares_of(TYPICAL._replace(node_memory=1000, **changed)).memory == share


@given(uses())
def test_what_was_not_measured_has_no_share(job: ResourceUse) -> None:
    shares = shares_of(job._replace(processor_time=None, peak=0))
    assert (shares.processors, shares.memory, shares.unused) == (None, None, None)


@given(uses())
def test_no_suggestion_is_below_what_was_used_or_above_the_request(job: ResourceUse) -> None:
    smaller = smaller_request(job)
    if smaller is None:
        return
    assert job.processor_time is not None
    processors = smaller.processors or job.processors
    if smaller.processors is not None:
        assert max(job.fewest, 1) <= smaller.processors < job.processors
        assert smaller.processors * job.wall_time >= job.processor_time
    if smaller.run_time is not None:
        assert max(job.run_time, job.wall_time) <= smaller.run_time < job.limit
        assert smaller.run_time % 60 == 0
    if smaller.process_memory is not None:
        held = processors if smaller.processors is not None else job.task_processors
        assert 1024 * smaller.process_memory * held >= job.peak
        assert smaller.processors is not None or smaller.process_memory < job.memory


@given(uses())
def test_a_job_with_an_obstacle_or_without_measured_values_gets_no_suggestion(job: ResourceUse) -> None:
    for other in (job._replace(obstacle="it failed"), job._replace(processor_time=None)):
        assert smaller_request(other) is None
        assert why_no_suggestion(other)


def test_a_typical_job_may_request_less_of_everything() -> None:
    assert shares_of(TYPICAL) == (0.25, 200 / 2048, 1 / 6, 1800.0)
    # 600 s of work on 2 processors take at most 600 + 300 s, of which 1.5 times are 22.5 minutes.
    assert smaller_request(TYPICAL) == SmallerRequest(2, Seconds(23 * 60.0), 150)


@pytest.mark.parametrize(
    ("change", "suggestion"),
    [
        ({"fewest": 0}, SmallerRequest(None, Seconds(900.0), 75)),
        ({"fewest": 3}, SmallerRequest(3, Seconds(1200.0), 100)),
        ({"processor_time": 2400.0}, SmallerRequest(None, Seconds(900.0), 75)),
        ({"limit": 1000.0, "memory": 0, "fewest": 0}, None),
        ({"peak": 0}, SmallerRequest(2, Seconds(23 * 60.0), 1024)),
        ({"peak": 1900 * 1024}, SmallerRequest(2, Seconds(23 * 60.0), 1024)),
        ({"peak": 10}, SmallerRequest(2, Seconds(23 * 60.0), MIN_MEMORY // 2)),
        ({"on_one_node": False, "fewest": 0}, SmallerRequest(None, Seconds(900.0), None)),
        ({"next_processors": 1, "fewest": 0}, SmallerRequest(None, Seconds(1800.0), 75)),
        ({"next_processors": 1, "fewest": 0, "one_task": False}, SmallerRequest(None, None, 75)),
        ({"wall_time": 9.0, "run_time": 9.0}, None),
    ],
)
def test_a_request_gets_smaller_only_where_that_is_safe(
    change: dict[str, float], suggestion: SmallerRequest | None
) -> None:
    assert smaller_request(TYPICAL._replace(**change)) == suggestion
