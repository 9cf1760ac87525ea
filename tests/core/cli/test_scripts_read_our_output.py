"""The ways in which scripts in the wild read the output of the older commands, run against ours."""

import io
import re

import pytest
from cli_scripted_head import job, node, task

from headnode.apps.cli.output import KeyValueOutput, TableOutput
from headnode.apps.cli.screens import job as job_screen
from headnode.apps.cli.screens import node as node_screen
from headnode.apps.cli.screens import task as task_screen
from headnode.apps.cli.screens.job import option_in_words
from headnode.apps.cli.screens.job_table import COLUMNS, cells
from headnode.apps.cli.table import RecordTable, as_list, as_table
from headnode.core.formats.job_views import write_job_json
from headnode.core.model.fields import OPTIONS_OF_JOBS
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Seconds
from headnode.core.model.task import TaskSpec, TaskType

NOW = 1_700_000_100.0
SUBMITTED = "Job has been submitted. ID: 123.\n"
JOB_STATES = ("Configuring", "Submitted", "Queued", "Running", "Finished", "Failed", "Canceled")


def keys_and_values(output: str) -> dict[str, str]:
    """Read one record the way a JavaScript wrapper does: split every line with a colon at its colons."""
    split = (line.split(":") for line in output.split("\n") if ":" in line)
    return {parts[0].strip(): parts[1].strip() for parts in split}


def jobs_as_list(*jobs: dict[str, object], trailer: str = "2 matching jobs") -> str:
    return as_list(RecordTable("Id", [job_screen.row(one) for one in jobs], list(jobs), trailer=trailer))


def test_the_sentence_of_a_submission_is_found_by_every_known_pattern() -> None:
    assert re.match(r".+?\:\s*([0-9]+)", SUBMITTED)[1] == "123"
    assert re.search(r"ID: (\d+)", SUBMITTED)[1] == "123"
    assert re.match(r"^Job has been submitted. ID: +([0-9]+)\.$", SUBMITTED.strip())[1] == "123"
    words = [word for word in re.split(r"[ .\t\n\r]", SUBMITTED) if word]
    assert words[[word.lower() for word in words].index("id:") + 1] == "123"


def test_the_fourth_word_of_a_new_job_is_its_id() -> None:
    assert ["Job", "queued,", "ID:", "123"][3] == "123"


def test_a_list_of_jobs_is_read_record_by_record_and_its_last_block_is_no_job() -> None:
    output = jobs_as_list(job(7, name="first"), job(12, "Running"))
    records = [keys_and_values(block) for block in output.split("\n\n")[:-1]]
    assert [(one["Id"], one["Name"], one["State"], one["Owner"], one["Priority"]) for one in records] == [
        ("7", "first", "Queued", "alice", "Normal"),
        ("12", "", "Running", "alice", "Normal"),
    ]


def test_the_last_block_says_no_key() -> None:
    assert ":" not in jobs_as_list(job(7)).split("\n\n")[-1]


@pytest.mark.parametrize("state", ["Configuring", "Queued", "Running", "Finished", "Failed", "Canceled"])
def test_the_first_line_that_starts_with_state_names_a_job_state(state: str) -> None:
    shown = job(12, state, spec={}, allocation=[], requeues=0, backfilled=False)
    output = as_list(RecordTable("Id", [job_screen.view(shown)], shown))
    line = next(line for line in output.splitlines() if line.lower().startswith("state"))
    assert line.partition(":")[2].strip() in JOB_STATES


def test_the_state_follows_a_line_break_and_its_word_is_found_by_a_pattern() -> None:
    output = as_list(RecordTable("Id", [job_screen.view(job(12, "Finished"))], {}))
    assert "\nState" in output
    assert re.search(r"State\W*(?=Finished)", output)


def test_a_task_without_an_exit_code_has_the_key_with_nothing_behind_it() -> None:
    rows = [task_screen.row(task(1)), task_screen.row(task(2, "Failed", exit_code=3))]
    output = as_list(RecordTable("Task Id", rows, rows))
    records = [keys_and_values(block) for block in output.split("\n\n")]
    assert [(one["Task Id"], one["Exit Code"], one["State"]) for one in records] == [
        ("12.1", "", "Queued"),
        ("12.2", "3", "Failed"),
    ]


def test_a_task_shows_the_keys_scripts_look_for() -> None:
    shown = task(1, "Finished", exit_code=0, work_directory="/home/alice", environment={"A": "1", "B": "2"})
    output = as_list(RecordTable("Task Id", [task_screen.view(shown)], shown))
    assert re.search(r"^Task Id +: 12\.1$", output, re.MULTILINE)
    assert re.search(r"^Work Directory +: /home/alice$", output, re.MULTILINE)


def test_a_task_shows_every_option_that_was_set_for_it() -> None:
    """Compute Cluster, "Enforcement of job and task properties": all options of a task but defaults."""
    options = TaskSpec(
        command="echo *",
        kind=TaskType.SWEEP,
        start=1,
        end=9,
        increment=2,
        run_time=Seconds(1800.0),
        rerunnable=True,
        exclusive=True,
        required_nodes=("n1", "n2"),
        depends_on=("first", "second"),
        standard_input="numbers",
    )
    spec = write_job_json(JobSpec(tasks=(options,)))["tasks"][0]
    shown = task(1, kind="sweep", spec=spec, standard_input="numbers")
    fields = task_screen.view(shown)
    wanted = {
        "Run Time": "30m",
        "Sweep": "1-9:2",
        "Rerunnable": "True",
        "Exclusive": "True",
        "Required Nodes": "n1, n2",
        "Depends On": "first, second",
        "Standard Input": "numbers",
    }
    assert {name: fields.get(name) for name in wanted} == wanted
    assert "Run Time" not in task_screen.view(task(1)), "it has no limit of its own"


def test_every_span_of_time_of_a_job_is_shown_as_it_is_typed() -> None:
    spans = {option.key: 5400.0 for option in OPTIONS_OF_JOBS if option.form == "span"}
    assert spans.keys() > {"run_time"}
    assert {option_in_words(key, value) for key, value in spans.items()} == {"1h30m"}


def test_further_lines_of_a_value_start_with_four_blanks_or_more() -> None:
    shown = task(1, command="first\n\nthird", environment={"A": "1", "B": "2"})
    lines = as_list(RecordTable("Task Id", [task_screen.view(shown)], shown)).splitlines()
    assert all(re.match(r"\S[^:]* *:( |$)| {4}", line) for line in lines)
    assert sum(line.startswith("    ") for line in lines) == 3


def test_a_list_of_nodes_has_a_record_each_and_nothing_else() -> None:
    rows = [node_screen.row(node("n1", used=1, free=1)), node_screen.row(node("n2"))]
    blocks = as_list(RecordTable("Node Name", rows, rows)).split("\n\n")
    records = [keys_and_values(block) for block in blocks if len(block) > 1]
    wanted = ("Node Name", "State", "Max", "Run", "Idle", "Availability")
    assert [tuple(one[key] for key in wanted) for one in records] == [
        ("n1", "Ready", "2", "1", "1", "AlwaysOn"),
        ("n2", "Ready", "2", "0", "2", "AlwaysOn"),
    ]


def test_a_table_of_nodes_has_two_header_lines() -> None:
    rows = [node_screen.row(node("n1"))]
    lines = as_table(RecordTable("Node Name", rows, rows, columns=node_screen.COLUMNS)).splitlines()
    assert lines[0].split() == ["Node", "Name", "State", "Max", "Run", "Idle"]
    assert set(lines[1]) == {"-", " "}
    assert lines[2].split() == ["n1", "Ready", "2", "0", "2"]


def test_a_table_of_processors_has_the_columns_and_widths_scripts_cut_at() -> None:
    cores = [
        {"processor": 0, "job": 7, "task": 2, "command": "/bin/sim"},
        {"processor": 1, "job": 7, "task": None, "command": ""},
        {"processor": 2, "job": None, "task": None, "command": ""},
    ]
    rows = node_screen.core_rows(node("NODE", cores=cores))
    sheet = RecordTable("", rows, rows, columns=node_screen.CORE_COLUMNS, widths=node_screen.CORE_WIDTHS)
    assert as_table(sheet).splitlines() == [
        "Node Processor       State            Job ID   Task ID  CommandLine",
        "-------------------- ---------------- -------- -------- ----------------------",
        "NODE - 0             TaskRunning      7        2        /bin/sim",
        "NODE - 1             ReadyForTask     7",
        "NODE - 2             Idle",
    ]
    assert node_screen.core_rows(node("N", state="Paused", cores=cores))[2]["State"] == "Offline"


@pytest.mark.parametrize("kind", [TableOutput, KeyValueOutput])
def test_a_name_cannot_steer_the_terminal(kind: type[TableOutput]) -> None:
    written = io.StringIO()
    rows = [job_screen.row(job(7, name="evil\x1b[2J\r"))]
    out = kind(written.write, written.write, lambda _: None)
    out.show_table(RecordTable("Id", rows, rows, columns=("Id", "Name")))
    assert "\\x1b[2J\\r" in written.getvalue()
    assert "\x1b" not in written.getvalue()


def test_a_table_is_cut_at_the_width_of_a_terminal_only() -> None:
    rows = [{"A": "x" * 50}]
    assert as_table(RecordTable("A", rows, rows, columns=("A",)), 20).splitlines()[2] == "x" * 19 + "…"
    assert as_table(RecordTable("A", rows, rows, columns=("A",))).splitlines()[2] == "x" * 50


@pytest.mark.parametrize("width", [30, 60, 70, 90, 400, None])
def test_a_terminal_folds_sentences_and_loses_no_word_of_them(width: int | None) -> None:
    found = "what the parameter means, at some length; choose this, that"
    row = {"Name": "SomeParameter", "Value": "4", "Meaning": found}
    sheet = RecordTable("Name", [row], None, columns=[*row], prose=True)
    table = as_table(sheet, width)
    assert found in " ".join(table.split())
    assert "…" not in table
    assert width is None or max(map(len, table.splitlines())) <= width


def test_a_narrow_terminal_shows_why_each_job_waits() -> None:
    why = "needs 8 processors; at most 3 processors on 2 nodes would fit now"
    rows = [cells(job(7, name="wide", pending_reason=why), NOW), cells(job(12, "Running"), NOW)]
    sheet = RecordTable(
        "Id", rows, rows, columns=COLUMNS, widths=job_screen.WIDTHS, prose=True, trailer="2 jobs"
    )
    lines = as_table(sheet, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert why in " ".join(" ".join(lines).split())
    assert [line.split()[0] for line in lines if line[:1].isdigit()] == ["7", "12", "2"]


def test_the_blanks_between_columns_go_first_on_a_narrow_terminal() -> None:
    rows = [{"A": "x", "B": "y"}]
    sheet = RecordTable("A", rows, rows, columns=("A", "B"), widths={"A": 30})
    assert as_table(sheet, 20).splitlines() == ["A B", "- -", "x y"]
    assert as_table(sheet).splitlines()[2] == "x" + " " * 30 + "y"


def test_what_follows_a_table_is_folded_and_not_cut() -> None:
    sheet = RecordTable(
        "A", [{"A": "x"}], None, columns=("A",), trailer="four jobs are\nall that there are here"
    )
    assert as_table(sheet, 12).splitlines()[3:] == ["", "four jobs", "are", "all that", "there are", "here"]


def test_where_a_table_is_too_wide_the_longest_values_are_cut_and_every_column_is_seen() -> None:
    rows = [
        {
            "When": "2030-01-31T10:20:00",
            "Before": "/opt/" + "a" * 60,
            "After": "/opt/" + "b" * 60,
            "By": "ann",
        }
    ]
    lines = as_table(RecordTable("When", rows, rows, columns=[*rows[0]]), 60).splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[0].split() == ["When", "Before", "After", "By"]
    assert lines[2].endswith("ann")
    assert all(start in lines[2] for start in ("2030-01-31T10", "/opt/aaa", "/opt/bbb"))
