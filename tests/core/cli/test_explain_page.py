"""The page that tells why a job waits and when it will start."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "scenarios"))

from cli_scripted_head import job

from headnode.apps.cli.screens.explain import page
from headnode.core.scheduling.decision import Why

NOW = 1_700_000_600.0


def reason(why: str, text: str, what: str = "") -> dict[str, str]:
    return {"why": why, "text": text, "what": what}


def told(*reasons: dict[str, str], state: str = "Queued", **fields: Any) -> dict[str, Any]:
    plain = {"job": 42, "state": state, "ahead": 0, "not_before": None, "tasks": []}
    return {**plain, "reasons": list(reasons), **fields}


def counts(**given: int) -> dict[str, int]:
    states = dict.fromkeys(("queued", "running", "finished", "failed", "canceled"), 0)
    return {"total": sum(given.values()), **states, **given}


WAITING = job(42, name="lattice", minimum=8, maximum=16, run_time=5400.0, tasks=counts(queued=300))


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_a_waiting_job_is_explained_in_full() -> None:
    explanation = told(
        reason("processors", "needs 8 processors; at most 3 processors on 2 nodes would fit now"),
        reason("reservation", "it would delay job 40", "40"),
        reason("node", "node 'node01' takes no new work: paused", "node01"),
        reason("node", "node 'node7' has none of its 4 processors free", "node7"),
        reason("node", "node 'node02' takes no new work: paused", "node02"),
        ahead=2,
        not_before=NOW + 760,
    )
    assert page(explanation, WAITING, now=NOW) == (
        'Job 42 "lattice" of alice is queued and should start in 12 min 40 s.\n'
        "\n"
        "  asks for   8-16 processors, run time 1:30 (1 h 30 min), priority Normal\n"
        "  submitted  2023-11-14T22:13:20+00:00, 10 min ago\n"
        "  turn       2 jobs ahead of it in the queue\n"
        "  expected   2023-11-14T22:36:00+00:00 or sooner, if running jobs end by their limits\n"
        "  tasks      300 total: 300 queued\n"
        "\n"
        "Why it waits\n"
        "  - needs 8 processors; at most 3 processors on 2 nodes would fit now\n"
        "  - it would delay job 40\n"
        "\n"
        "Node by node\n"
        "  node01, node02  takes no new work: paused\n"
        "  node7           has none of its 4 processors free\n"
        "\n"
        "What you can do\n"
        "  - let it start with fewer processors: hn job modify 42 /numprocessors:1-16\n"
        "  - a shorter run time limit may fit into a gap: hn job modify 42 /runtime:45\n"
        "  - see the nodes: hn node list\n"
    )


def test_a_job_without_a_limit_is_told_that_it_may_not_overtake() -> None:
    text = page(told(reason("reservation", "it would delay job 40")), job(42), now=NOW)
    assert "give it a run time limit" in text
    assert "no start can be promised yet" in text
    assert "first in the queue" in text


def test_many_nodes_out_for_one_reason_share_a_line() -> None:
    nodes = [reason("node", f"node 'n{i}' has 0 processors free", f"n{i}") for i in range(50)]
    text = page(told(*nodes), job(42), now=NOW)
    assert "  n0, n1, n2 and 47 more  has 0 processors free\n" in text
    assert len(text.splitlines()) < 16


def test_a_running_job_tells_what_its_tasks_wait_for() -> None:
    tasks = [
        {"task": 3, "name": "merge", "instance": 1, "waiting": 1, "reasons": [reason("dependency", "waits")]},
        {"task": 4, "name": "", "instance": 17, "waiting": 984, "reasons": []},
    ]
    text = page(told(state="Running", tasks=tasks), job(42, "Running", allocated=4), now=NOW)
    assert text.startswith("Job 42 of alice has been running for 9 min.\n")
    assert '  - task 3 "merge": waits\n' in text
    assert "  - task 4, 984 instances: waits for its turn\n" in text
    assert "holds      4 processors" in text


def test_a_job_that_is_over_tells_how_it_ended_and_how_to_run_it_again() -> None:
    ended = job(42, "Failed", ended=NOW, message="task 42.2 failed", tasks=counts(finished=2, failed=1))
    text = page(told(state="Failed"), ended, now=NOW)
    assert text.startswith("Job 42 failed: 2 tasks finished, 1 task failed, in 9 min; task 42.2 failed.\n")
    assert "hn job requeue 42" in text
    assert "requeue" not in page(told(state="Finished"), job(42, "Finished"), now=NOW)


def test_a_job_not_submitted_tells_how_to_submit_it() -> None:
    text = page(told(state="Not submitted"), job(42, "Not submitted", submitted=None), now=NOW)
    assert text.startswith("Job 42 of alice has not been submitted.\n")
    assert "hn job submit /id:42" in text


@pytest.mark.parametrize("why", list(Why))
def test_every_kind_of_reason_can_be_told(why: Why) -> None:
    assert "it is so" in page(told(reason(why, "it is so", "7")), WAITING, now=NOW)


def test_a_narrow_terminal_gets_no_longer_lines() -> None:
    text = page(told(reason("processors", "word " * 40)), WAITING, now=NOW, width=50)
    why = text.partition("Why it waits")[2].partition("What you")[0]
    assert max(len(line) for line in why.splitlines()) <= 50


def test_an_hour_long_gone_is_a_start_at_any_moment() -> None:
    assert "should start at any moment" in page(told(not_before=NOW - 5), WAITING, now=NOW)
