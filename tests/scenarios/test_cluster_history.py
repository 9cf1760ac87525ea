"""``hn cluster history`` and ``hn simulate --history``: a cluster's own past as a log."""

import csv
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_scripted_head import ScriptedHead, hn

BEGIN = 1_700_000_000.0


def past(number: int, submitted: float, started: float | None, run: float, **fields: Any) -> dict[str, Any]:
    begun = None if started is None else BEGIN + started
    return {
        "id": number, "owner": "ada", "name": "", "project": "", "state": "Finished",
        "submitted": BEGIN + submitted, "started": begun, "ended": (begun or BEGIN + submitted) + run,
        "processors": 0 if started is None else 2, "minimum": 2, "maximum": 2, "unit": "processor",
        "run_time": 60.0, "priority": 2000, "exclusive": False, "memory": None, "parents": [], "requeues": 0,
        **fields,
    }  # fmt: skip


JOBS = (
    past(3, 0, 0, 10),
    past(4, 1, 10, 20, processors=4, minimum=4, maximum=4),
    past(5, 2, None, 0, state="Canceled"),
    past(7, 0.25, 30, 5.5, processors=3, minimum=1, maximum=4),
    past(8, 4, 40, 5, run_time=None, owner="bob"),
    past(9, 5, 50, 90, owner="bob", name="secret"),
)
ABOUT = {
    "cluster": "lab", "version": "0.2.0", "processors": 4, "nodes": 1, "ended": 6, "queued": 2, "running": 1,
}  # fmt: skip


def pages(jobs: tuple[dict[str, Any], ...] = JOBS, size: int = 4) -> Callable[[dict[str, Any]], Any]:
    """Answer as a head does that looks at so many jobs for each answer."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        rest = [job for job in jobs if job["id"] > request["after"]]
        more = rest[size - 1]["id"] if len(rest) >= size else None
        since, until = request.get("since", 0), request.get("until", 1e99)
        page = [job for job in rest[:size] if since <= job["submitted"] < until]
        return {"jobs": page, "more": more} | (ABOUT if request["after"] == 0 else {})

    return answer


@pytest.fixture
def head(tmp_path: Path) -> Any:
    with ScriptedHead(tmp_path, {"ended_jobs": pages()}) as head:
        yield head


def run_hn(head: ScriptedHead, *words: object) -> Any:
    return hn(*map(str, words), state=head.directory)


def test_the_past_is_replayed_and_what_is_left_out_is_counted(head: ScriptedHead) -> None:
    result = run_hn(head, "simulate", "--history", "--json", "--starts", head.directory / "starts.csv")
    found = json.loads(result.stdout)
    assert (found["jobs"], found["processors"], found["policy"]) == (4, 4, "easy")
    assert result.stderr.splitlines() == [
        "hn: jobs that have not ended are left out: 1 running, 2 queued",
        "hn: job 5: left out: no run time, or none above zero",
        "hn: job 8: left out: no estimate, or none above zero",
        "hn: job 9: run times cut at the estimate, where the job would have been stopped",
        "hn: job 7: processors taken from what was allocated: none were requested",
    ]
    with (head.directory / "starts.csv").open() as file:
        rows = [(row["job"], row["submit"], row["start"]) for row in csv.DictReader(file)]
    assert rows == [("3", "0", "0"), ("7", "0.25", "10"), ("4", "1", "15.5"), ("9", "5", "35.5")]


@pytest.mark.parametrize("name", ["past.swf", "past.swf.xz", "past.swf.gz"])
def test_the_written_log_is_simulated_exactly_as_the_history(head: ScriptedHead, name: str) -> None:
    log = head.directory / name
    assert run_hn(head, "cluster", "history", "--swf", log).stdout == f"6 jobs written to {log}.\n"
    words = ("--compare", "fcfs,easy,conservative", "--json")
    direct = json.loads(run_hn(head, "simulate", "--history", *words).stdout)
    by_file = json.loads(run_hn(head, "simulate", log, *words).stdout)
    for document in (*direct, *by_file):
        del document["seconds"], document["jobs_per_second"]
    assert direct == by_file
    first, second = head.directory / "1.csv", head.directory / "2.csv"
    run_hn(head, "simulate", "--history", "--starts", first)
    run_hn(head, "simulate", log, "--starts", second)
    assert first.read_bytes() == second.read_bytes()


def test_the_past_keeps_the_priorities_that_jobs_had(tmp_path: Path) -> None:
    jobs = past(1, 0, 0, 10, priority=1500), past(2, 0, 10, 10), past(3, 0, 10, 10, priority=1500)
    with ScriptedHead(tmp_path, {"ended_jobs": pages(jobs)}) as head:
        result = run_hn(head, "simulate", "--history", "--engine", "--priority", "queue", "--json")
    classes = json.loads(result.stdout)["by_priority"]
    assert [(each["priority"], each["jobs"]) for each in classes] == [("Normal", 1), ("BelowNormal+500", 2)]


def test_a_job_that_held_more_than_it_asked_for_counts_by_what_it_held(tmp_path: Path) -> None:
    exclusive = past(1, 0, 0, 10, processors=4, minimum=1, maximum=1, exclusive=True)
    nodes = past(2, 0, 0, 10, processors=4, minimum=4, maximum=4, unit="node")
    with ScriptedHead(tmp_path, {"ended_jobs": pages((exclusive, nodes))}) as head:
        run_hn(head, "cluster", "history", "--swf", tmp_path / "log")
        lines = (tmp_path / "log").read_text().splitlines()[-2:]
    assert [(line.split()[4], line.split()[7]) for line in lines] == [("4", "-1"), ("4", "-1")]


def test_nobody_is_named_in_the_written_log(head: ScriptedHead) -> None:
    log = head.directory / "past.swf.xz"
    run_hn(head, "cluster", "history", "--swf", log)
    text = lzma.decompress(log.read_bytes()).decode()
    assert "; MaxProcs: 4\n" in text
    assert [name for name in ("ada", "bob", "secret") if name in text] == []


def test_a_period_is_asked_for(head: ScriptedHead) -> None:
    result = run_hn(head, "simulate", "--history", "--since", "2023-11-14T22:13:21Z", "--json")
    assert json.loads(result.stdout)["jobs"] == 2
    assert {request["since"] for request in head.asked} == {BEGIN + 1}
    assert [request["after"] for request in head.asked] == [0, 7]
    run_hn(head, "cluster", "history", "--until", "2d")
    assert head.asked[-1]["until"] > BEGIN


def test_a_summary_of_the_past_is_printed(head: ScriptedHead) -> None:
    shown = run_hn(head, "cluster", "history").stdout
    assert "Jobs                    : 5 finished, 1 canceled\n" in shown
    assert "Users                   : 2\n" in shown
    assert "Wait                    : 29 s median, 23 s mean\n" in shown
    found = json.loads(run_hn(head, "cluster", "history", "--json").stdout)
    assert (found["never_started"], found["without_limit"], found["processor_seconds"]) == (1, 1, 306.5)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("simulate", "x.swf", "--history"), "with --history no log is read; leave out 'x.swf'"),
        (("simulate", "x.swf", "--since", "2d"), "a log is replayed whole; leave out --since and --until"),
        (("simulate", "--history", "--since", "soon"), "'soon' is not a date and time"),
        (("simulate", "--history", "--since", "1d", "--until", "9d"), "the period ends before it begins"),
        (
            ("simulate", "--history", "--since", "1d"),
            "none of the 6 ended jobs of cluster 'lab' was submitted",
        ),
        (
            ("cluster", "history", "--swf", "/nowhere/x"),
            "history file '/nowhere/x' cannot be written: No such",
        ),
        (("cluster", "history", "--whole-seconds"), "option --whole-seconds needs --swf"),
    ],
)
def test_what_is_wrong_is_said_with_the_way_out(
    head: ScriptedHead, words: tuple[str, ...], complaint: str
) -> None:
    result = run_hn(head, *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert complaint in result.stderr


def test_a_cluster_without_a_past_says_so(tmp_path: Path) -> None:
    with ScriptedHead(tmp_path, {"ended_jobs": pages(())}) as head:
        result = run_hn(head, "simulate", "--history")
    assert (result.returncode, "no job of cluster 'lab' has ended yet" in result.stderr) == (2, True)


def test_without_a_head_it_is_said_how_to_start_one(tmp_path: Path) -> None:
    result = hn("simulate", "--history", state=tmp_path)
    assert (result.returncode, "start one with: hn up" in result.stderr) == (1, True)
