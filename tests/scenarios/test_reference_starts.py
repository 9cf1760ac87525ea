"""Real logs: every start is that of independent simulators, and the figures are the published ones."""

import lzma
from collections.abc import Sequence
from functools import lru_cache
from math import inf
from pathlib import Path

import pytest

from depth import share_of
from headnode.adapters.files.job_logs import read_log
from headnode.apps.simulate.engine_replay import EngineReplay
from headnode.apps.simulate.machine import pool
from headnode.core.formats.swf import SwfLog
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import Ties, replay, schedule_figures

TRACES = Path(__file__).parents[3] / "shared" / "traces"
LOGS = ("KTH-SP2", "SDSC-SP2", "CTC-SP2", "NASA-iPSC", "Lublin-256")

pytestmark = pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not beside the repository")


@lru_cache(maxsize=1)
def log_of(name: str) -> SwfLog:
    return read_log(str(TRACES / f"{name}.swf.xz"))


def beginning_of(name: str) -> tuple[SwfLog, float]:
    """Return the first jobs of a log, and when the next one is submitted: it changes no start before."""
    log = log_of(name)
    columns, first = log.workload._asdict(), share_of(len(log.workload.submits))
    some = log.workload._replace(**{field: column[:first] for field, column in columns.items()})
    return log._replace(workload=some), min(log.workload.submits[first:], default=inf)


def reference(name: str, policy: str, ties: Ties) -> list[float]:
    suffix = "-arrivals-first" if ties is Ties.ARRIVALS_FIRST and policy != "fcfs" else ""
    with lzma.open(TRACES / "reference" / f"{name}-{policy}{suffix}.csv.xz", "rt") as file:
        next(file)
        return [int(row.split(",")[2]) for row in file]


CASES = [
    (name, policy, ties)
    for name in LOGS
    for policy in POOL_POLICIES
    for ties in Ties
    if (policy, ties) != ("conservative-replan", Ties.ARRIVALS_FIRST)  # nobody else has it
]


@pytest.mark.parametrize(("name", "policy", "ties"), CASES)
def test_every_start_is_that_of_the_reference(name: str, policy: str, ties: Ties) -> None:
    log, until = beginning_of(name)
    starts = replay(log.workload, POOL_POLICIES[policy](log.workload, log.processors, ties), ties)
    others = different(log, starts, reference(name, policy, ties), until)
    assert not others, f"{len(others)} of {len(starts)} differ: {others[:3]}"


def different(log: SwfLog, starts: Sequence[float], expected: Sequence[float], until: float) -> list[str]:
    """Return the jobs that start before an instant, and not when they should."""
    return [
        f"job {number}: {start}, reference {other}"
        for number, start, other in zip(log.workload.numbers, starts, expected, strict=False)
        if start != other and min(start, other) < until
    ]


@pytest.mark.parametrize(
    ("name", "published"), [("KTH-SP2", 92.57653973), ("CTC-SP2", 49.57129022), ("SDSC-SP2", 87.87032419)]
)
def test_the_slowdowns_of_easy_are_the_published_ones(name: str, published: float) -> None:
    log, ties = log_of(name), Ties.ARRIVALS_FIRST
    starts = replay(log.workload, POOL_POLICIES["easy"](log.workload, log.processors, ties), ties)
    found = schedule_figures(log.workload, starts, log.processors).mean_bounded_slowdown
    assert found == pytest.approx(published, abs=5e-9)


def test_a_raw_log_is_read_as_its_normalised_one() -> None:
    raw, normalised = read_log(str(TRACES / "KTH-SP2-raw.swf.xz")), log_of("KTH-SP2")
    assert raw.workload == normalised.workload
    assert {remark.name: noticed.lines for remark, noticed in raw.remarks.items()} == {
        "NO_RUN_TIME": 8,
        "CUT": 475,
    }


@pytest.mark.parametrize(
    ("policy", "ties"),
    [
        *((policy, Ties.ENDS_FIRST) for policy in POOL_POLICIES),
        ("fcfs", Ties.ARRIVALS_FIRST),
        ("easy", Ties.ARRIVALS_FIRST),  # conservative has rounds there that are not production's
    ],
)
def test_the_whole_head_gives_the_reference_starts(policy: str, ties: Ties) -> None:
    log, until = beginning_of("NASA-iPSC")
    starts = EngineReplay(log.workload, pool(log.processors), policy).run(ties)
    assert not different(log, starts, reference("NASA-iPSC", policy, ties), until)


@pytest.mark.parametrize("policy", ["easy", "conservative", "conservative-replan"])
def test_the_whole_head_gives_the_reference_starts_where_queues_are_long(policy: str) -> None:
    log, first = log_of("SDSC-SP2"), 1_500
    some = log.workload._replace(**{name: column[:first] for name, column in log.workload._asdict().items()})
    counted = replay(some, POOL_POLICIES[policy](some, log.processors, Ties.ENDS_FIRST), Ties.ENDS_FIRST)
    assert EngineReplay(some, pool(log.processors), policy).run(Ties.ENDS_FIRST) == counted
