"""The policy lab can be tried without a log, and tells how far it is also where no terminal is."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_scripted_head import hn

from headnode.apps.cli import output
from headnode.apps.simulate.history import PROCESSORS, example_history


def test_the_example_is_a_busy_week_that_is_always_the_same() -> None:
    first, again = example_history(), example_history()
    assert first == again
    jobs = first.jobs
    assert 1000 < len(jobs) < 3000
    assert jobs[-1].submitted - jobs[0].submitted < 7 * 86400
    work = sum((job.run_time or 0.0) * job.held for job in jobs)
    assert 0.6 < work / (7 * 86400 * PROCESSORS) < 1.0
    assert all(0 < (job.run_time or 0) <= (job.limit or 0) for job in jobs)


def test_policies_differ_on_the_example_and_its_log_can_be_kept(tmp_path: Path) -> None:
    result = hn("simulate", "--example", "--compare", "fcfs,easy", "--json", state=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    fcfs, easy = json.loads(result.stdout)
    assert easy["mean_wait"] < 0.5 * fcfs["mean_wait"]
    log = tmp_path / "week.swf"
    kept = hn("simulate", f"--example={log}", "--json", state=tmp_path)
    again = hn("simulate", str(log), "--json", state=tmp_path)
    assert kept.returncode == 0, kept.stderr
    assert json.loads(kept.stdout)["mean_wait"] == json.loads(again.stdout)["mean_wait"] == easy["mean_wait"]


@pytest.mark.parametrize("words", [["LOG"], ["--history"]])
def test_the_example_and_another_log_are_refused(tmp_path: Path, words: list[str]) -> None:
    result = hn("simulate", "--example", *words, state=tmp_path)
    assert (result.returncode, "a log of its own" in result.stderr) == (2, True)


def test_a_pipe_is_told_in_plain_lines_at_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    written, clock = io.StringIO(), iter([0.0, 1.0, 6.0, 7.0, 12.0])
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with output.ProgressLine() as line:
        for percent in (10, 20, 30, 40):
            line.report(f"easy: {percent} %")
    assert written.getvalue() == "hn: easy: 20 %\nhn: easy: 40 %\n"


def test_a_terminal_has_one_line_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    written.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", written)
    with output.ProgressLine() as line:
        line.report("easy: 10 %")
    assert written.getvalue() == "\r\033[Keasy: 10 %\r\033[K"
