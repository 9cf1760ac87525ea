"""The page that tells why a job waits and when it will start."""

from typing import Any

import pytest
from cli_scripted_head import job

from headnode.apps.cli.screens.explain import explanation_page
from headnode.core.scheduling.plan import Why

NOW = 1_700_000_600.0


def reason(kind: str, text: str, subject: str = "") -> dict[str, str]:
    return {"kind": kind, "text": text, "subject": subject}


def explain_answer(*reasons: dict[str, str], state: str = "Queued", **fields: Any) -> dict[str, Any]:
    plain = {
        "job": 42, "name": "", "state": state, "policy": "easy", "refused": None, "ahead": 0,
        "jobs_ahead": [], "planned_start": None, "would_start": [], "reservation": None, "blocked_by": None,
        "changes": [], "searched": False, "incomplete": False, "expected": None, "tasks": [],
    }  # fmt: skip
    return {**plain, "reasons": list(reasons), **fields}


def other(number: int, **fields: Any) -> dict[str, Any]:
    plain = {
        "job": number, "owner": "bob", "name": "", "priority": 2000, "priority_name": "Normal", "minimum": 64,
        "maximum": 64, "unit": "processor", "run_time": 36000.0,
    }  # fmt: skip
    return {**plain, **fields}


def change(text: str, **fields: Any) -> dict[str, Any]:
    return {"text": text, "now": True, "at": NOW, "nodes": [], "options": {}, "command": "", **fields}


def on(*places: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"node": node, "processors": processors} for node, processors in places]


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
    explanation = explain_answer(
        reason("priority", "job 40 is ahead in the queue", "40"),
        reason("processors", "needs 8 processors; at most 3 processors on 2 nodes would fit now"),
        reason("node", "node 'node01' accepts no new jobs: paused", "node01"),
        reason("node", "node 'node7' has all 4 processors in use", "node7"),
        reason("node", "node 'node02' accepts no new jobs: paused", "node02"),
        ahead=7,
        jobs_ahead=[other(40), other(41, run_time=None, priority_name="Highest")],
        blocked_by={
            **other(40, name="climate"),
            "at": NOW + 3600,
            "nodes": on(*((f"n{i}", 16) for i in range(4))),
        },
        planned_start=NOW + 7200,
        reservation={"at": NOW + 7200, "nodes": on(("node7", 4), ("node8", 4))},
        expected={"promise": NOW + 7200, "p50": NOW + 760, "p90": NOW + 4000, "reason": ""},
        searched=True,
        changes=[
            change("with a run time limit of at most 1h", command="hn job modify 42 /runtime:1h"),
            change("with 3 processors instead of 8, submitted again", options={"numprocessors": "3"}),
        ],
    )
    assert explanation_page(explanation, WAITING, now=NOW) == (
        'Job 42 "lattice" of alice is queued and should start in 12 min 40 s.\n'
        "\n"
        "  requests   8-16 processors, run time 1 h 30 min, priority Normal\n"
        "  submitted  2023-11-14T22:13:20+00:00, 10 min ago\n"
        "  turn       7 jobs ahead of it in the queue: 40 of bob (64 processors, 10 h), 41 of bob (64\n"
        "             processors, no limit, Highest) and 5 more\n"
        "  expected   2023-11-14T22:36:00+00:00 (in 12 min 40 s), from past run times; in 9 of 10 cases by\n"
        "             2023-11-14T23:30:00+00:00\n"
        "  promised   2023-11-15T00:23:20+00:00 or sooner, if running jobs end by their limits; then on node7\n"  # noqa: E501
        "             (4), node8 (4)\n"
        "  tasks      300 total: 300 queued\n"
        "\n"
        "Why it waits\n"
        '  - job 40 "climate" of bob is ahead in the queue; it starts in 1 h at the latest\n'
        "    (2023-11-14T23:23:20+00:00), on n0 (16), n1 (16), n2 (16) and 1 more node (16)\n"
        "  - needs 8 processors; at most 3 processors on 2 nodes would fit now\n"
        "\n"
        "It would start now\n"
        "  - with a run time limit of at most 1h: hn job modify 42 /runtime:1h\n"
        "  - with 3 processors instead of 8, submitted again:\n"
        "      submit it with /numprocessors:3, and cancel this one: hn job cancel 42\n"
        "\n"
        "Node by node\n"
        "  node01, node02  accepts no new jobs: paused\n"
        "  node7           has all 4 processors in use\n"
    )


def test_what_lets_a_job_start_sooner_is_reported_with_when() -> None:
    explanation = explain_answer(
        searched=True,
        changes=[
            change("with 8 processors instead of 16", now=False, at=NOW + 3600, command="hn job modify")
        ],
    )
    text = explanation_page(explanation, WAITING, now=NOW)
    assert "It would start sooner, though not now\n  - in 1 h, with 8 processors instead of 16: hn" in text


def test_it_is_said_when_nothing_helps_and_when_that_is_not_known() -> None:
    nothing = explanation_page(explain_answer(searched=True), WAITING, now=NOW)
    assert "\n\nNo change to one or two of its requirements would start it now.\n" in nothing
    unknown = explanation_page(explain_answer(searched=True, incomplete=True), WAITING, now=NOW)
    assert "\n\nIt is not known whether a change would start it now: the search reached its limit" in unknown
    some = explanation_page(
        explain_answer(searched=True, incomplete=True, changes=[change("so")]), WAITING, now=NOW
    )
    assert "It would start now\n  - so\n  - the search reached its limit" in some


def test_a_dry_run_shows_where_the_job_would_start() -> None:
    text = explanation_page(
        explain_answer(would_start=on(("a", 4), ("b", 2)), job=None), WAITING, now=NOW, dry_run=True
    )
    assert text.startswith('Nothing was submitted. The job "lattice" would start at once, on a (4), b (2).\n')
    assert "promised" not in text
    assert "turn" not in text


def test_a_dry_run_shows_what_to_type_for_another_outcome() -> None:
    explanation = explain_answer(
        reason("processors", "needs 8 processors"),
        job=None,
        searched=True,
        planned_start=NOW + 60,
        changes=[change("sharing its nodes with other jobs", options={"exclusive": "false"})],
    )
    text = explanation_page(explanation, {**WAITING, "submitted": None}, now=NOW, dry_run=True)
    assert text.startswith('Nothing was submitted. The job "lattice" would wait and should start in 1 min.\n')
    assert "Why it would wait\n  - needs 8 processors\n" in text
    assert "  - sharing its nodes with other jobs: /exclusive:false\n" in text
    assert "submitted  " not in text


def test_what_holds_a_job_outside_the_line_is_distinguished_from_what_is_in_its_way_there() -> None:
    explanation = explain_answer(
        reason("hold", "it is held until tomorrow"), reason("processors", "needs 8 processors; none are free")
    )
    text = explanation_page(explanation, WAITING, now=NOW)
    assert "Why it waits\n  - it is held until tomorrow\n\nOnce released, it would wait because\n  - " in text
    assert "hn job modify 42 /holduntil:" in text


@pytest.mark.parametrize(
    ("name", "who"),
    [("data", "- release it: "), ("Operator", "- only operators and administrators release it: ")],
)
def test_who_may_release_a_hold_is_told_with_how(name: str, who: str) -> None:
    text = explanation_page(explain_answer(reason("hold", "it has a hold", name)), WAITING, now=NOW)
    assert f"{who}hn job release 42 --name {name}" in text


def test_a_parent_that_is_waited_for_is_to_be_looked_at() -> None:
    explanation = explain_answer(reason("dependency", "it waits for job 8 to finish, which is running", "8"))
    text = explanation_page(explanation, WAITING, now=NOW)
    assert "see what job 8 waits for: hn job explain 8" in text


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("Failed", "- run job 7 again: hn job requeue 7; then this job is requeued too"),
        ("Finished", "- change what it waits for and submit it again: hn help job modify"),
    ],
)
def test_how_a_job_comes_back_that_was_canceled_for_the_end_of_another_is_reported(
    state: str, advice: str
) -> None:
    parent = {"job": 7, "condition": "OnSuccess", "name": "", "state": state, "status": "never"}
    explanation = {**explain_answer(), "dependencies": [parent]}
    text = explanation_page(explanation, {**WAITING, "state": "Canceled", "skipped": True}, now=NOW)
    assert advice in text
    assert "run it again" not in text


def test_a_job_behind_one_without_any_limit_before_it_is_told_so() -> None:
    explanation = explain_answer(blocked_by={**other(40), "at": None, "nodes": on(("n1", 4))}, job=42)
    explanation["reasons"] = [reason("priority", "job 40 is ahead in the queue", "40")]
    text = explanation_page(explanation, WAITING, now=NOW)
    assert "job 40 of bob is ahead in the queue; it starts on n1 (4) when jobs without a run" in text
    assert "no start can be promised yet" in text


def test_many_nodes_out_for_one_reason_share_a_line() -> None:
    nodes = [reason("node", f"node 'n{i}' has 0 processors free", f"n{i}") for i in range(50)]
    text = explanation_page(explain_answer(*nodes), job(42), now=NOW)
    assert "  n0, n1, n2 and 47 more  has 0 processors free\n" in text
    assert len(text.splitlines()) < 16


def test_a_running_job_shows_what_its_tasks_wait_for() -> None:
    tasks = [
        {"task": 3, "name": "merge", "instance": 1, "waiting": 1, "reasons": [reason("dependency", "waits")]},
        {"task": 4, "name": "", "instance": 17, "waiting": 984, "reasons": []},
    ]
    text = explanation_page(
        explain_answer(state="Running", tasks=tasks), job(42, "Running", allocated=4), now=NOW
    )
    assert text.startswith("Job 42 of alice has been running for 9 min.\n")
    assert '  - task 3 "merge": waits\n' in text
    assert "  - task 4, 984 instances: waits for its turn\n" in text
    assert "holds      4 processors" in text


def test_a_running_job_shows_where_it_is_and_when_it_must_end() -> None:
    places = [{"node": "n1", "processors": [0, 1]}, {"node": "n2", "processors": [0, 1]}]
    running = job(42, "Running", allocated=4, run_time=3600.0, allocation=places)
    text = explanation_page(explain_answer(state="Running"), running, now=NOW)
    assert "  holds      4 processors: n1 (2), n2 (2)\n" in text
    assert "  ends by    2023-11-14T23:14:20+00:00 at the latest, in 51 min\n" in text


def test_a_job_that_is_over_tells_how_it_ended_and_how_to_run_it_again() -> None:
    ended = job(42, "Failed", ended=NOW, message="task 42.2 failed", tasks=counts(finished=2, failed=1))
    text = explanation_page(explain_answer(state="Failed"), ended, now=NOW)
    assert text.startswith("Job 42 failed: 2 tasks finished, 1 task failed, in 9 min; task 42.2 failed.\n")
    assert "  - see how its tasks failed: hn job listtasks 42 /state:failed /expandparametric\n" in text
    assert "hn job requeue 42" in text
    assert "requeue" not in explanation_page(explain_answer(state="Finished"), job(42, "Finished"), now=NOW)


def test_a_job_not_submitted_tells_how_to_submit_it() -> None:
    text = explanation_page(
        explain_answer(state="Configuring"), job(42, "Configuring", submitted=None), now=NOW
    )
    assert text.startswith("Job 42 of alice has not been submitted. Submitted now, it would wait.\n")
    assert "hn job submit /id:42" in text
    refusal = {"code": "no-command", "what": "task 1 has no command", "fix": "write a command line"}
    refused = explanation_page(
        explain_answer(state="Configuring", refused=refusal), job(42, "Configuring", submitted=None), now=NOW
    )
    assert "Submitted now, it would be refused: task 1 has no command." in refused
    assert "  - write a command line" in refused


@pytest.mark.parametrize("why", list(Why))
def test_every_kind_of_reason_can_be_reported(why: Why) -> None:
    assert "it is so" in explanation_page(explain_answer(reason(why, "it is so", "7")), WAITING, now=NOW)


@pytest.mark.parametrize("width", [40, 57, 80])
def test_a_narrow_terminal_gets_no_longer_lines_but_for_what_is_typed(width: int) -> None:
    typed = "hn job modify 42 /requestednodes: /numprocessors:4-16"
    explanation = explain_answer(
        reason("processors", "word " * 40),
        reason("node", "node 'n1' " + "has nothing " * 9, "n1"),
        ahead=3,
        jobs_ahead=[other(number) for number in (1, 2, 3)],
        searched=True,
        changes=[change("on any node " * 9, command=typed)],
    )
    lines = explanation_page(explanation, WAITING, now=NOW, width=width).splitlines()
    assert [line for line in lines if len(line) > width and typed not in line] == []
    assert f"      {typed}" in lines


def test_a_job_that_waits_for_a_limit_says_for_which_and_that_no_start_can_be_predicted() -> None:
    above = reason("limit", "user 'alice' may have 1 running job at once and has 1", "user,jobs,alice")
    page = explanation_page(explain_answer(above), WAITING, now=NOW)
    what = "queued: user 'alice' may have 1 running job at once and has 1. No start can be predicted."
    assert " ".join(page.split()).startswith(f'Job 42 "lattice" of alice is {what} requests')
    known = explanation_page(explain_answer(above, planned_start=NOW + 60), WAITING, now=NOW)
    assert known.startswith('Job 42 "lattice" of alice is queued and should start in 1 min.\n')


def test_an_hour_long_gone_is_a_start_at_any_moment() -> None:
    assert "should start at any moment" in explanation_page(
        explain_answer(planned_start=NOW - 5), WAITING, now=NOW
    )
