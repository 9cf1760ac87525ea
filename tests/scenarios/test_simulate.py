"""``hn simulate``: what an administrator gets to see."""

import csv
import gzip
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_scripted_head import hn, hn_alone, no_room_for_files

HEADER = "; Version: 2.2\n; MaxProcs: 4\n"
# number, submit, -, run time, allocated, -, -, requested, estimate
LOG = (
    (1, 0, 10, 3, 3, 10),
    (2, 0, 10, 4, 4, 10),
    (3, 1, 9, 1, 1, 9),
    (4, 1, 20, 1, 1, 20),
)


def line(number: int, submit: float, run_time: float, allocated: int, requested: int, estimate: float) -> str:
    return f"{number} {submit} -1 {run_time} {allocated} -1 -1 {requested} {estimate}" + " -1" * 9 + "\n"


def log_text(rows: tuple[tuple[float, ...], ...] = LOG) -> str:
    return HEADER + "".join(line(*row) for row in rows)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "small.swf"
    path.write_text(log_text())
    return path


def run(*words: object) -> "subprocess.CompletedProcess[str]":
    return hn("simulate", *map(str, words), state=Path("/nowhere"))


def test_the_example_of_the_page_prints_what_the_page_shows() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy-lab.md").read_text()
    command, _, shown = page.partition("```console\n$ hn ")[2].partition("\n```")[0].partition("\n")
    words = command.split()
    assert words[:2] == ["simulate", "--example"]
    assert run(*words[1:]).stdout.split() == shown.split()


def test_a_log_is_replayed_and_its_figures_are_printed(log: Path) -> None:
    result = run(log, "--json")
    found = json.loads(result.stdout)
    seconds, rate = found.pop("seconds"), found.pop("jobs_per_second")
    assert seconds > 0
    assert rate == pytest.approx(4 / seconds)
    assert found == {
        "policy": "easy",
        "ties": "ends-first",
        "processors": 4,
        "jobs": 4,
        "mean_wait": (0 + 10 + 0 + 19) / 4,
        "mean_bounded_slowdown": (1 + 2 + 1 + 39 / 20) / 4,
        "utilisation": (30 + 40 + 9 + 20) / (4 * 40),
        "makespan": 40,
        "remarks": [],
    }
    assert (result.stderr, result.returncode) == ("", 0)


def test_packed_logs_are_read_whatever_their_names(log: Path, tmp_path: Path) -> None:
    plain = run(log, "--json").stdout.splitlines()[:8]
    for pack in (gzip.compress, lzma.compress):
        packed = tmp_path / "log"
        packed.write_bytes(pack(log.read_bytes()))
        assert run(packed, "--json").stdout.splitlines()[:8] == plain


def test_the_starts_of_all_jobs_are_written(log: Path, tmp_path: Path) -> None:
    starts = tmp_path / "starts.csv"
    assert run(log, "/policy:FCFS", "--starts", starts).returncode == 0
    assert starts.read_text().splitlines() == [
        "job,submit,start,end,processors",
        "1,0,0,10,3",
        "2,0,10,20,4",
        "3,1,20,29,1",
        "4,1,20,40,1",
    ]


def test_policies_are_shown_side_by_side(log: Path) -> None:
    result = run(
        log, "--policy", "fcfs", "--compare", "easy,conservative", "--compare", "conservative-replan"
    )
    heading, _, *rows = result.stdout.splitlines()
    assert heading.split()[0] == "Policy"
    assert [row.split()[0] for row in rows] == ["fcfs", "easy", "conservative", "conservative-replan"]
    assert rows[1].split()[-2:] == ["1", "0"]  # under easy, job 3 starts earlier than under fcfs
    data = json.loads(run(log, "--compare", "easy,fcfs", "--json").stdout)
    assert [document["policy"] for document in data] == ["easy", "fcfs"]


ODD = (
    (9, 100, 5, 1, 1, 5),
    (8, 50, 5, 2, -1, 5),  # came before the one above; size only allocated
    (7, 60, 99, 1, 1, 5),  # ran longer than it said
    (6, 70, -1, 1, 1, 5),  # no run time
    (5, 70, 0, 1, 1, 5),
    (4, 70, 5, 5, 5, 5),  # larger than the machine
    (3, 70, 5, 0, 0, 5),  # no size
    (2, 70, 5, 1, 1, -1),  # no estimate
    (1, -1, 5, 1, 1, 5),  # no submit time
)


def test_what_is_odd_in_a_log_is_counted_and_reported(tmp_path: Path) -> None:
    log, starts = tmp_path / "odd.swf", tmp_path / "starts.csv"
    part = line(9, 100, 5, 1, 1, 5).split()
    part[10] = "3"
    short = " ".join(line(10, 200, 5, 1, 1, 5).split()[:12])
    long = line(11, 300, 5, 1, 1, 5).rstrip() + " 7"
    log.write_text(log_text(ODD) + " ".join(part) + f"\n\n{short}\n{long}\n")
    result = run(log, "--json", "--starts", starts)
    remarks = {
        item["remark"]: (item["lines"], item["first_line"]) for item in json.loads(result.stdout)["remarks"]
    }
    assert remarks == {
        "out-of-order": (1, 4),
        "allocated": (1, 4),
        "cut": (1, 5),
        "no-run-time": (2, 6),
        "too-large": (1, 8),
        "no-processors": (1, 9),
        "no-estimate": (1, 10),
        "no-submit": (1, 11),
        "part": (1, 12),
        "fewer-fields": (1, 14),
        "more-fields": (1, 15),
    }
    assert "hn: 2 lines from 6 on: left out: no run time, or none above zero\n" in result.stderr
    assert "hn: line 5: run times cut at the estimate" in result.stderr
    with starts.open() as file:
        rows = [(row["job"], row["start"], row["end"]) for row in csv.DictReader(file)]
    assert rows == [
        ("8", "50", "55"),
        ("7", "60", "65"),
        ("9", "100", "105"),
        ("10", "200", "205"),
        ("11", "300", "305"),
    ]


def test_a_log_without_any_estimates_takes_run_times_for_them(tmp_path: Path) -> None:
    log = tmp_path / "none.swf"
    log.write_text(log_text(tuple((*row[:5], -1) for row in LOG)))
    found = json.loads(run(log, "--json").stdout)
    assert found["jobs"] == 4
    assert [item["remark"] for item in found["remarks"]] == ["estimated"]


def test_fractions_of_seconds_are_kept(tmp_path: Path) -> None:
    log, starts = tmp_path / "fine.swf", tmp_path / "starts.csv"
    log.write_text(log_text(((1, 0.25, 1.5, 4, 4, 2), (2, 0.5, 1, 1, 1, 1))))
    run(log, "--starts", starts)
    assert starts.read_text().splitlines()[1:] == ["1,0.25,0.25,1.75,4", "2,0.5,1.75,2.75,1"]


@pytest.mark.parametrize(
    ("text", "words", "complaint"),
    [
        (
            "1 2 three\n",
            (),
            "line 1 is not a job in the Standard Workload Format: '1 2 three'; write 18 numbers",
        ),
        (HEADER + line(1, 0, "nan", 1, 1, 5), (), "line 3 is not a job"),
        (line(*LOG[0]), (), "does not say how many processors the machine has; give their number"),
        (HEADER, (), "none of 0 jobs of the log can be replayed on 4 processors"),
        (log_text(), ("--processors", "0"), "a machine of 0 processors runs nothing"),
        (log_text(), ("--policy", "esy"), "there is no policy 'esy' to simulate; choose fcfs, easy"),
        (log_text(), ("--ties", "random"), "order of ties 'random' is unknown; choose ends-first or"),
        (log_text(), ("--compare", "fcfs,easy", "--starts", "x"), "a starts file is for one policy"),
        (log_text(), ("--starts", "/nowhere/x"), "starts file '/nowhere/x' cannot be written: No such file"),
        (log_text(), ("other.swf",), "one job log must be named"),
    ],
)
def test_what_is_wrong_is_reported_with_the_way_out(
    tmp_path: Path, text: str, words: tuple[str, ...], complaint: str
) -> None:
    log = tmp_path / "wrong.swf"
    log.write_text(text)
    result = run(log, *words)
    assert complaint in result.stderr
    assert (result.stdout, result.returncode) == ("", 2)


def test_files_that_cannot_be_read_are_reported(log: Path, tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in run(tmp_path / "none").stderr
    assert "cannot be read: Is a directory" in run(tmp_path).stderr
    for pack in (gzip.compress, lzma.compress):
        packed = pack(log.read_bytes())
        for damaged in (packed[:-9], packed[:20] + b"\0" * 30 + packed[50:]):
            log_file = tmp_path / "damaged"
            log_file.write_bytes(damaged)
            result = run(log_file)
            assert "cannot be read: " in result.stderr
            assert result.returncode == 2


def test_a_small_packed_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    from headnode.adapters.files.job_logs import read_log
    from headnode.core.model.errors import BadRequest

    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(b"\n" * 2_000_000))
    with pytest.raises(BadRequest, match="larger than 1000000 bytes"):
        read_log(str(bomb), largest=1_000_000)


def test_a_starts_file_that_was_there_is_left_alone_when_writing_fails(log: Path, tmp_path: Path) -> None:
    starts = tmp_path / "starts.csv"
    starts.write_text("kept")
    with no_room_for_files():
        result = hn_alone("simulate", str(log), "--starts", str(starts), state=Path("/nowhere"))
    assert "cannot be written: File too large" in result.stderr
    assert starts.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.swf", "starts.csv"]


def test_starts_may_go_into_a_pipe(log: Path) -> None:
    result = hn_alone("simulate", str(log), "--starts", "/dev/stdout", "--quiet", state=Path("/nowhere"))
    assert result.stdout.startswith("job,submit,start,end,processors\n1,0,0,10,3\n")
    assert result.stdout.endswith("\neasy\n")


def test_progress_is_shown_on_a_terminal_and_taken_away(log: Path) -> None:
    import pty

    log.write_text(HEADER + "".join(line(number, number, 1, 1, 1, 1) for number in range(5000)))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "headnode.apps.cli", "simulate", str(log), "--policy", "fcfs"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096)
    assert b"fcfs: 81 % of 5000 jobs" in shown
    assert shown.endswith(b"\r\x1b[K")
    os.close(ours)


def test_a_log_goes_through_the_whole_head_with_the_same_outcome(log: Path) -> None:
    ours, counted = (run(log, "--compare", "fcfs,easy", *more) for more in (("--engine",), ()))
    assert ours.returncode == 0
    assert ours.stdout == counted.stdout
    refused = run(log, "--policy", "gang", "--engine")
    assert "no policy 'gang' to simulate through the engine; choose easy, fcfs" in refused.stderr


def test_nodes_can_be_described(log: Path, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.toml"
    nodes.write_text('[[nodes]]\nnames = "big[1-2]"\nprocessors = 2\n')
    of_word, of_file, whole = (
        run(log, "--json", "--nodes", *words) for words in (("2x2",), (nodes,), (nodes, "--whole-nodes"))
    )
    assert json.loads(of_word.stdout)["processors"] == 4
    assert json.loads(of_word.stdout)["nodes"] == 2
    assert json.loads(whole.stdout)["whole_nodes"] is True
    assert json.loads(of_word.stdout)["mean_wait"] == json.loads(of_file.stdout)["mean_wait"] == 29 / 4
    assert json.loads(whole.stdout)["mean_wait"] > 29 / 4
    refused = run(log, "--nodes", "2x2", "--processors", 4)
    assert "leave out --processors, or --nodes" in refused.stderr
    refused = run(log, "--whole-nodes")
    assert "describe them, such as --nodes 100x16" in refused.stderr


def test_jobs_that_never_fit_the_nodes_described_are_left_out_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "memory.swf"
    rows = [line(number, 0, 1, 2, 2, 1).split() for number in range(1, 5)]
    rows[0][9] = str(1024 * 1024)  # 1024 MB for each of two processors: two nodes
    rows[1][9] = str(1024 * 1024 + 1)
    rows[2][6] = str(9 * 1024 * 1024)  # used, which counts because nothing was requested
    rows[3][6], rows[3][9] = rows[2][6], "1024"  # what was requested counts, not what was used
    log.write_text("\n".join(map(" ".join, rows)) + "\n")
    result = run(log, "--json", "--nodes", "2x4:1024")
    assert json.loads(result.stdout)["jobs"] == 2
    assert "2 lines from 2 on: left out: the nodes described could not run them" in result.stderr
    assert json.loads(run(log, "--json", "--nodes", "2x4").stdout)["jobs"] == 4


def test_progress_is_shown_while_jobs_go_through_the_head(log: Path) -> None:
    import pty

    log.write_text(HEADER + "".join(line(number, number, 1, 1, 1, 1) for number in range(600)))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "headnode.apps.cli", "simulate", str(log), "--nodes", "2x2"]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 4096)
    assert b"easy: 42 % of 600 jobs" in shown
    assert shown.endswith(b"\r\x1b[K")
    os.close(ours)
