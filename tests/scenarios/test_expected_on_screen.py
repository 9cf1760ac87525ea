"""What people see of expected starts, and of how often they held."""

import json
from pathlib import Path
from typing import Any

from cli_scripted_head import ScriptedHead, hn, job

BEGIN = 1_700_000_000.0
EXPECTED = {
    "promise": BEGIN + 7200,
    "p50": BEGIN + 600,
    "p90": BEGIN + 3600,
    "predicted_at": BEGIN,
    "policy": "easy",
    "reason": "",
}


def score(jobs: int, **fields: Any) -> dict[str, Any]:
    known = {
        "jobs": jobs, "p50_held": 0.495, "p50_error": 5400.0, "p90_held": 0.9, "spread": 7200.0,
        "promised": jobs, "promise_held": 1.0, "promise_error": 90000.0,
    }  # fmt: skip
    return {name: value if jobs else None for name, value in known.items()} | {"jobs": jobs} | fields


def scores(**fields: Any) -> dict[str, Any]:
    waits = {"under 1 h": score(30), "1-6 h": score(10, p90_held=None, spread=None), "6-24 h": score(0)}
    return {
        "since": None, "policy": "easy", "all": score(40), "by_predicted_wait": waits,
        "by_policy": {"easy": score(40)}, **fields,
    }  # fmt: skip


def test_a_list_of_queued_jobs_shows_when_each_should_start(tmp_path: Path) -> None:
    jobs = [job(2, expected=EXPECTED), job(1, "Running", expected=None)]
    with ScriptedHead(tmp_path, {"jobs": {"jobs": jobs, "more": None, "total": 2}}):
        shown = hn("job", "list", "/format:list", state=tmp_path).stdout
        assert shown.count("Expected Start") == 1
        assert "Expected Start          : 2023-11-14T22:23:20+00:00\n" in shown
        heading, _, waiting, *_ = hn("job", "list", state=tmp_path).stdout.splitlines()
        assert waiting[heading.index("Start") :].startswith("soon")  # its start is overdue
        assert json.loads(hn("job", "list", "--json", state=tmp_path).stdout)[0]["expected"] == EXPECTED


def test_a_view_of_a_queued_job_shows_what_is_likely_and_what_is_promised(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {"job": {"job": job(2, expected=EXPECTED)}}):
        shown = hn("job", "view", "2", state=tmp_path).stdout
    assert "Expected Start          : 2023-11-14T22:23:20+00:00\n" in shown
    assert "Expected By             : 2023-11-14T23:13:20+00:00, in 9 of 10 cases\n" in shown
    assert "Promised Start          : 2023-11-15T00:13:20+00:00, by run time limits" in shown


def test_what_nobody_can_say_is_left_out(tmp_path: Path) -> None:
    unknown = EXPECTED | {"promise": None, "p90": None}
    with ScriptedHead(tmp_path, {"job": {"job": job(2, expected=unknown)}}):
        shown = hn("job", "view", "2", state=tmp_path).stdout
    assert ("Expected Start" in shown, "Expected By" in shown, "Promised" in shown) == (True, False, False)


def test_how_often_predictions_held_is_reported_by_predicted_wait(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {"predictions": scores()}) as head:
        result = hn("cluster", "view", "--predictions", "--days", "7", state=tmp_path)
    assert result.stdout.splitlines()[:5] == [
        "Predicted Wait Jobs P50 Held Off By     P90 Held P50 To P90 Promise Held Promise Off By",
        "-------------- ---- -------- ---------- -------- ---------- ------------ --------------",
        "any time       40   49.5 %   1 h 30 min 90.0 %   2 h        100.0 %      1 d 1 h",
        "under 1 h      30   49.5 %   1 h 30 min 90.0 %   2 h        100.0 %      1 d 1 h",
        "1-6 h          10   49.5 %   1 h 30 min                     100.0 %      1 d 1 h",
    ]
    assert "started in the last 7 days." in result.stdout
    assert head.asked[0]["since"] > BEGIN


def test_each_policy_has_a_line_when_there_were_several(tmp_path: Path) -> None:
    both = {"easy": score(30), "fcfs": score(10)}
    with ScriptedHead(tmp_path, {"predictions": scores(by_policy=both)}):
        shown = hn("cluster", "view", "--predictions", state=tmp_path).stdout
        found = json.loads(hn("cluster", "view", "--predictions", "--json", state=tmp_path).stdout)
    assert "\nunder fcfs" in shown
    assert found == scores(by_policy=both)


def test_a_cluster_that_has_not_predicted_anything_says_so(tmp_path: Path) -> None:
    empty = scores(all=score(0), by_predicted_wait={}, by_policy={})
    with ScriptedHead(tmp_path, {"predictions": empty}):
        result = hn("cluster", "view", "--predictions", state=tmp_path)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr.startswith("hn: no job that had to wait has started in the last 30 days; ")


def test_days_without_predictions_are_refused(tmp_path: Path) -> None:
    result = hn("cluster", "view", "--days", "3", state=tmp_path)
    assert (result.returncode, "give --predictions too" in result.stderr) == (2, True)
