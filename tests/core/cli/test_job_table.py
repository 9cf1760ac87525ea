"""A list of jobs shows what users of squeue look for, and fits a terminal of 80 columns."""

import sys

import pytest
from cli_scripted_head import job

from headnode.apps.cli.commands import job_list
from headnode.apps.cli.output import TableOutput
from headnode.apps.cli.screens import job_table
from headnode.apps.cli.table import RecordTable, as_list, as_table

NOW = 1_700_010_000.0
LONG = "needs 16 processors; at most 3 processors on 2 nodes would fit now"
COUNTS = {"total": 10, "queued": 4, "running": 1, "finished": 3, "failed": 2, "canceled": 0}
JOBS = [
    job(
        104_729, "Running", name="a-name-that-is-longer-than-a-column", owner="maximiliane-the-first",
        started=NOW - 3720, run_time=5400.0, nodes="node[001-064]", tasks=COUNTS,
    ),
    job(
        104_728, name="", command="mpiexec ./solve input.dat --with a lot of arguments", run_time=172800.0,
        pending_reason=LONG, expected={"p50": NOW + 540},
    ),
    job(104_727, "Failed", started=NOW - 50, ended=NOW - 8, message="task 1 failed", nodes="node001"),
    job(104_726, "Configuring", submitted=None),
    job(104_725, "Suspended", started=NOW - 90, pending_reason="it has been suspended since noon"),
]  # fmt: skip


def table(width: int | None, *, coloured: bool = False) -> str:
    wide = width is None or width >= job_table.WIDE_FROM
    rows = [job_table.cells(one, NOW) for one in JOBS]
    sheet = RecordTable(
        "Id", rows, rows, columns=job_table.WIDE if wide else job_table.COLUMNS, prose=True,
        most=job_table.MAX_WHEN_WIDE if wide else job_table.MAX_WIDTHS, right=job_table.RIGHT,
        colours=job_table.COLOURS,
    )  # fmt: skip
    return as_table(sheet, width, coloured=coloured)


@pytest.mark.parametrize("width", [80, 100, 130, 200])
def test_every_line_fits_the_terminal_and_tells_all_of_the_reason(width: int) -> None:
    shown = table(width)
    assert max(map(len, shown.splitlines())) <= width
    words = " ".join(shown.split())
    assert f"in 9m00s: {LONG}" in words
    for seen in ("1h02m", "1h30m", "2d", "node[001-064]", "3/10 2F", "task 1 failed", "mpiexec ./sol"):
        assert seen in words


def test_a_running_job_takes_one_line_of_eighty_columns() -> None:
    lines = table(80).splitlines()
    assert " ".join(lines[0].split()) == "Id Name Owner State Tasks Elapsed Limit Nodes or Reason"
    assert lines[2].startswith("104729 a-name-that-i… maximil… Running")
    assert lines[2].endswith("node[001-064]")
    assert lines[3].startswith("104728 mpiexec ./sol…")


def test_failed_tasks_are_not_done() -> None:
    assert job_table.cells(JOBS[0], NOW)["Tasks"] == "3/10 2F"


def test_a_job_without_a_name_is_shown_by_its_command() -> None:
    assert job_table.cells(JOBS[1], NOW)["Name"].startswith("mpiexec ./solve")


def test_states_are_coloured_where_it_is_wished_and_nothing_else_changes() -> None:
    plain, coloured = table(80), table(80, coloured=True)
    assert "\033[32mRunning\033[0m" in coloured
    assert "\033[31mFailed\033[0m" in coloured
    assert coloured.count("\033[0m") == len(JOBS)
    for code in {*job_table.COLOURS.values(), "0"}:
        coloured = coloured.replace(f"\033[{code}m", "")
    assert coloured == plain


def test_a_pipe_gets_all_columns_uncut() -> None:
    assert {"a-name-that-is-longer-than-a-column", "maximiliane-the-first"} <= {*table(None).split()}
    assert "Priority" in table(None)


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("id", [1, 2, 3]),
        ("-id", [3, 2, 1]),
        ("elapsed", [2, 3, 1]),
        ("start", [2, 3, 1]),
        ("name", [3, 1, 2]),
        ("priority", [3, 1, 2]),
    ],
)
def test_jobs_are_sorted_by_what_is_shown(order: str, ids: list[int]) -> None:
    jobs = [
        job(2, "Running", name="c", started=10.0, ended=NOW),
        job(1, name="b"),
        job(3, "Running", name="a", started=20.0, ended=NOW, priority=3000),
    ]
    answer = job_list._sorted({"jobs": jobs, "more": None}, order, 3)
    assert [one["id"] for one in answer["jobs"]] == ids


def test_the_orders_that_are_offered_are_those_that_there_are() -> None:
    assert set(job_list.ORDERS) == set(job_table.ORDERS)


def test_a_record_on_a_terminal_breaks_no_word_and_fits() -> None:
    rows = [{"Id": "7", "Pending Reason": f"{LONG}; {LONG}", "Environment": "A=1\n\nB=2"}]
    lines = as_list(RecordTable("Id", rows, rows), 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert f"{LONG}; {LONG}" in " ".join(" ".join(lines).split())
    assert all(line.startswith("    ") or ":" in line for line in lines)
    assert as_list(RecordTable("Id", rows, rows)).count("\n") == 5  # a pipe gets each value as it is


def test_a_sentence_on_a_terminal_breaks_no_word(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "Job 126 'mixed' failed: 2 tasks finished, 4 tasks failed, in 4.1 s; task 1 failed"
    write = sys.stdout.write
    TableOutput(write, write, lambda _: None, 80).outcome(sentence, {})
    assert capsys.readouterr().out == sentence.replace("1 failed", "1\nfailed") + "\n"
    TableOutput(write, write, lambda _: None).outcome(sentence, {})
    assert capsys.readouterr().out == sentence + "\n"


@pytest.mark.parametrize("width", [1, 5, 12, 20, 27, 40])
def test_a_terminal_of_few_columns_gets_a_table_in_colours_too(width: int) -> None:
    coloured = table(width, coloured=True)
    for code in ("0", *job_table.COLOURS.values()):
        coloured = coloured.replace(f"\033[{code}m", "")
    assert coloured == table(width)
