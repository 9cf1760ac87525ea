"""``hn simulate --predictions``: how often predicted starts would have held."""

import json
from pathlib import Path

import pytest
from cli_scripted_head import hn

from headnode.adapters.files.job_logs import read_log
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import Ties, replay
from headnode.core.scheduling.prediction.calibration import score
from headnode.core.scheduling.prediction.replays import POLICY_TRAITS, PredictingPolicy

DAY = 86_400
SDSC = Path(__file__).parents[3] / "shared" / "traces" / "SDSC-SP2.swf.xz"


def line(number: int, submit: int, run_time: int, estimate: int, user: int) -> str:
    return f"{number} {submit} -1 {run_time} 2 -1 -1 2 {estimate} -1 1 {user} -1 -1 -1 -1 -1 -1\n"


def log_text(days: int) -> str:
    """Return a log with a pair of jobs each hour that need the whole machine for a tenth of their limit."""
    hours = range(days * 24)
    pairs = (
        line(2 * hour + 1, 3600 * hour, 60, 600, 1) + line(2 * hour + 2, 3600 * hour + 10, 60, 600, 1)
        for hour in hours
    )
    return "; MaxProcs: 2\n" + "".join(pairs)


def run(log: Path, *words: str) -> "tuple[int, str, str]":
    result = hn("simulate", str(log), "--predictions", *words, state=Path("/nowhere"))
    return result.returncode, result.stdout, result.stderr


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.swf"
    path.write_text(log_text(days=90))
    return path


def test_what_was_told_is_scored_after_a_month(log: Path) -> None:
    status, out, err = run(log, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["policy"], found["ties"], found["processors"]) == ("easy", "ends-first", 2)
    assert (found["jobs"], found["warm_up"]) == (90 * 48, 30 * DAY)
    assert found["all"]["jobs"] == 60 * 48
    # The second of a pair waits 50 s; by the limits 590.  All is as it was before, so all is known.
    assert found["waited"] == {
        "jobs": 60 * 24,
        "promise_held": 1.0,
        "p50_held": 1.0,
        "p90_held": 1.0,
        "promise_error": 540,
        "p50_error": pytest.approx(0.0, abs=1e-6),
        "spread": pytest.approx(0.0, abs=1e-6),
    }
    assert [each["jobs"] for each in found["by_predicted_wait"]] == [60 * 24, 0, 0, 0]


def test_the_table_has_rows_for_each_policy(log: Path) -> None:
    status, out, _ = run(log, "--compare", "fcfs,easy,conservative,conservative-replan")
    lines = [row.split() for row in out.splitlines()]
    assert status == 0
    assert out.splitlines()[0].startswith("Policy")
    for policy in POOL_POLICIES:
        mine = [row for row in lines if row and row[0] == policy]
        assert [row[1:4] for row in mine] == [
            ["any", "or", "none"],
            ["any", "time", "1440"],
            ["under", "1", "h"],
        ]
    assert "came after 30 days" in out


def test_of_a_log_of_less_than_two_months_the_first_half_teaches(tmp_path: Path) -> None:
    log = tmp_path / "short.swf"
    log.write_text(log_text(days=10))
    found = json.loads(run(log, "--json")[1])
    assert found["warm_up"] == pytest.approx(5 * DAY, rel=0.01)
    assert found["waited"]["jobs"] == 5 * 24


def test_a_log_of_one_job_has_nothing_to_score(tmp_path: Path) -> None:
    log = tmp_path / "one.swf"
    log.write_text("; MaxProcs: 2\n" + line(1, 0, 60, 600, 1))
    found = json.loads(run(log, "--json")[1])
    assert found["waited"]["jobs"] == 0
    assert found["waited"]["p90_held"] is None
    assert run(log)[0] == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--engine",), "not for the engine"),
        (("--nodes", "2x1"), "not for the engine"),
        (("--policy", "best"), "there is no policy 'best'"),
        (("--starts", "starts.csv"), "no --starts"),
        (("--html", "report.html"), "no --html"),
    ],
)
def test_what_does_not_go_together_is_refused(log: Path, words: tuple[str, ...], why: str) -> None:
    status, out, err = run(log, *words)
    assert (status, out) == (2, "")
    assert why in err


@pytest.mark.skipif(not SDSC.exists(), reason="the logs of ../shared/traces are not there")
def test_on_a_real_log_p90_holds_for_nine_of_ten_and_p50_is_off_by_less_than_half_of_the_promise() -> None:
    log = read_log(str(SDSC), whose=True)
    workload = type(log.workload)(*(column[:8000] for column in log.workload))
    policy = POOL_POLICIES["easy"](workload, log.processors, Ties.ENDS_FIRST)
    foretelling = PredictingPolicy(workload, policy, POLICY_TRAITS["easy"])
    replay(workload, foretelling, Ties.ENDS_FIRST)
    month = workload.submits[0] + 30 * DAY
    found = score([one for one in foretelling.judged if one.made >= month and one.waited])
    assert found.jobs > 1500
    assert found.p50_held == pytest.approx(0.5, abs=0.05)
    assert found.p90_held == pytest.approx(0.9, abs=0.05)
    assert found.p50_error is not None
    assert found.promise_error is not None
    assert found.p50_error <= found.promise_error / 2
