"""The programs of other schedulers: how words, times and format strings are read, where srun puts tasks."""

import time
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters.processes.attempt_limits import above_its_memory
from headnode.adapters.processes.limits import Bounds
from headnode.apps.cli.batch_programs import (
    qsub,
    sacct,
    sacctmgr,
    salloc,
    sbatch,
    scancel,
    scontrol,
    scrontab,
    seff,
    sinfo,
    sprio,
    squeue,
    sreport,
    srun,
    sshare,
    sstat,
)
from headnode.apps.cli.batch_programs.changes import terms_of
from headnode.apps.cli.batch_programs.columns import letters, lines, named
from headnode.apps.cli.batch_programs.programs import run_as, system_of_link, wants_help
from headnode.apps.cli.batch_programs.rows import (
    BatchRow,
    JobSource,
    folded,
    numbers_of,
    rows_of,
    typed_numbers,
)
from headnode.apps.cli.batch_programs.step_tasks import output_name
from headnode.apps.cli.batch_programs.steps import StepRequest, layout
from headnode.apps.cli.batch_programs.values import expected_start
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    acted_on,
    moment,
    read_dashed,
    read_pbs_words,
    read_words,
    refused,
    repeated,
    utc_time,
)
from headnode.apps.cli.catalogue import PBS, SLURM
from headnode.apps.client.client import Client
from headnode.core.formats.batch import read_script
from headnode.core.model.errors import Unavailable, WrongState
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.state.report import _words

RECORDED = Path(__file__).parents[4] / "shared/recorded"
TABLES = {
    "squeue": squeue.OPTIONS,
    "sacct": sacct.OPTIONS,
    "salloc": salloc.OPTIONS,
    "sacctmgr": sacctmgr.OPTIONS,
    "scancel": scancel.OPTIONS,
    "scontrol": scontrol.OPTIONS,
    "seff": seff.OPTIONS,
    "sinfo": sinfo.OPTIONS,
    "sprio": sprio.OPTIONS,
    "sreport": sreport.OPTIONS,
    "sshare": sshare.OPTIONS,
    "srun": srun.OPTIONS,
    "scrontab": scrontab.OPTIONS,
    "sstat": sstat.OPTIONS,
}


def test_words_are_read_as_getopt_long_reads_them() -> None:
    table = acted_on("all/a! name/n format/o noheader/h!")
    asked = read_words(["-ahnx", "--form=%i", "-o", "%j", "--", "-a"], table)
    assert asked.in_order == [
        ("all", ""),
        ("noheader", ""),
        ("name", "x"),
        ("format", "%i"),
        ("format", "%j"),
    ]
    assert asked.words == ["-a"]
    assert read_words(["-a", "script", "-n"], table, stops=True).words == ["script", "-n"]


@pytest.mark.parametrize("words", [["--nosuch"], ["-z"], ["--no"], ["-n"], ["--name"]])
def test_a_word_that_is_no_option_ends_with_the_status_of_the_program(words: list[str]) -> None:
    table = acted_on("name/n noheader! nofold!")
    with pytest.raises(ProgramRefusal) as refusal:
        read_words(words, table, status=255)
    assert refusal.value.status == 255


@pytest.mark.parametrize(
    ("program", "option"),
    [(program, name) for program, table in TABLES.items() for name, one in table.items() if one.refused],
)
def test_what_is_not_kept_is_refused_by_its_name_with_status_1(program: str, option: str) -> None:
    table = TABLES[program]
    word = f"--{option}" if table[option].takes == "never" else f"--{option}=x"
    with pytest.raises(ProgramRefusal) as refusal:
        read_words([word], table, status=255)
    assert refusal.value.status == 1
    assert f"--{option} " in refusal.value.lines[0]


def test_programs_of_pbs_read_letters_with_and_without_a_blank_before_their_value() -> None:
    asked = read_pbs_words("qsig", ["-ff", "-sTERM", "-", "-s", "INT", "12"], acted_on("f! s"))
    assert (asked.options, asked.words) == ({"f": ["", ""], "s": ["TERM", "INT"]}, ["-", "12"])
    with pytest.raises(ProgramRefusal) as refusal:
        read_pbs_words("qsig", ["-x"], acted_on("f! s") | refused("W", "it is not there"))
    assert refusal.value.lines == ("invalid option -- 'x'", "here qsig has -f -s")


@pytest.mark.parametrize(
    ("words", "options", "others"),
    [
        (["-aJ", "x", "7"], {"a": [""], "J": ["x"]}, ["7"]),
        (["-noheader", "-w"], {"noheader": [""], "w": [""]}, []),
        (["-j", "-a"], {"j": [""], "a": [""]}, []),
        (["-j", "7", "-"], {"j": ["7"]}, ["-"]),
    ],
)
def test_words_with_one_dash_are_names_or_letters_together(
    words: list[str], options: dict[str, list[str]], others: list[str]
) -> None:
    asked = read_dashed(words, acted_on("a! J noheader! w! j?"), ProgramRefusal, together=True)
    assert (asked.options, asked.words) == (options, others)


@pytest.mark.parametrize("words", [["-Ja", "x"], ["-J"], ["-nohead"], ["-a1"]])
def test_a_word_with_one_dash_that_is_neither_is_refused(words: list[str]) -> None:
    with pytest.raises(ProgramRefusal, match=words[0]):
        read_dashed(words, acted_on("a! J noheader!"), ProgramRefusal, together=True)


def test_a_letter_of_a_refused_option_is_refused_too() -> None:
    with pytest.raises(ProgramRefusal):
        read_words(["-i", "5"], refused("iterate/i", "it is not there"))


def shown(text: str, row: dict[str, str]) -> str:
    """Return a line of a format string over a row of texts."""
    fields = {"i": ("id", "JOBID"), "j": ("name", "NAME")}
    columns = letters("squeue", text, fields, lambda field: lambda one: str(one[field]))
    return lines(columns, [row], heading=False)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%i|%j|", "12|solve|"),
        ("%.5i|%5i|", "   12|12   |"),
        ("%.3j|%3j|", "sol|sol|"),
        ("%-8j|", "%-8j|"),
        ("a%ib", "a12b"),
        ("%", "%"),
    ],
)
def test_a_format_string_is_read_as_squeue_reads_it(text: str, line: str) -> None:
    assert shown(text, {"id": "12", "name": "solve"}) == f"{line}\n"


def test_long_formats_have_twenty_characters_unless_they_say_otherwise() -> None:
    fields = {"i": ("id", "JOBID", "jobid")}
    columns = named("squeue", "jobid,JobID:4,jobid:.6,jobid:3x", fields, lambda _: lambda one: str(one))
    assert lines(columns, ["12"], heading=True).splitlines() == [
        f"{'JOBID':<20}JOBI JOBIDJOBx",
        f"{'12':<20}12      1212 x",
    ]


def test_a_width_has_a_bound() -> None:
    with pytest.raises(ProgramRefusal):
        shown("%99999999999i", {"id": "1", "name": ""})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("now-2days", -172800), ("now", 0), ("now+1hour", 3600), ("now-30", -30), ("now+5minutes", 300)],
)
def test_times_count_from_now(text: str, seconds: int) -> None:
    assert moment(text, 1_000_000.0) == 1_000_000.0 + seconds


def test_a_time_of_day_that_is_over_is_tomorrow_s_when_a_job_waits_for_it() -> None:
    noon = time.mktime((2026, 6, 1, 12, 0, 0, 0, 0, -1))
    assert moment("11:00", noon) == noon - 3600
    assert moment("11:00", noon, ahead=True) == noon + 23 * 3600
    assert moment("2026-06-01T12:00:00", 0.0) == noon
    for wrong in ("nosuch", "now+", "now*2", "25:00", "2026-99-01", "now-9999999999999days"):
        with pytest.raises(ProgramRefusal):
            moment(wrong, noon)


@pytest.mark.parametrize(
    ("tasks", "nodes", "per_node", "cyclic", "places"),
    [
        (3, None, None, False, "aab"),
        (3, 2, None, False, "aab"),
        (2, 2, None, False, "ab"),
        (1, None, None, False, "a"),
        (4, 2, 2, False, "aabb"),
        (4, 2, None, True, "abab"),
        (2, None, 1, False, "ab"),
        (5, None, None, False, ""),
        (2, 3, None, False, ""),
        (3, None, 1, False, ""),
    ],
)
def test_tasks_of_a_step_fill_nodes_and_never_more_than_there_is(
    tasks: int, nodes: int | None, per_node: int | None, cyclic: bool, places: str
) -> None:
    request = StepRequest(tasks, nodes, 1, per_node, cyclic)
    found = layout(request, [("a", 2), ("b", 2)])
    assert "".join(task.node for task in found) == places
    assert [task.rank for task in found] == list(range(len(places)))
    for node in "ab":
        own = [task.local for task in found if task.node == node]
        assert own == list(range(len(own)))


@pytest.mark.parametrize(
    ("most", "places"), [({"a": 2, "b": 2}, "aabb"), ({"a": 1, "b": 3}, "abbb"), ({"a": 1, "b": 1}, "aaab")]
)
def test_a_step_of_the_whole_job_has_as_many_tasks_on_a_node_as_the_job(
    most: dict[str, int], places: str
) -> None:
    found = layout(StepRequest(4, 2, 1, None, cyclic=False, most=most), [("a", 4), ("b", 4)])
    assert "".join(task.node for task in found) == places


def test_names_of_files_of_tasks_have_their_numbers() -> None:
    values = {"j": "7", "t": "2", "N": "n1"}
    assert output_name("%j_%t_%3t_%N_%%_%q", values) == "7_2_002_n1_%_%q"
    assert output_name("none", values) == "/dev/null"


@pytest.mark.parametrize("numbers", ["1", "1-3", "1,3-7:2,9", "0-8:4%2"])
def test_numbers_of_an_array_come_back_from_their_ranges(numbers: str) -> None:
    assert numbers_of(folded(numbers_of(numbers))) == numbers_of(numbers)


def test_elements_that_are_typed_have_bounds() -> None:
    assert typed_numbers("[1,3-7:2]") == {1, 3, 5, 7}
    for wrong in ("x", "1-", "-1", "1-99999999999", "1-999999", "", "1:0x"):
        with pytest.raises(ProgramRefusal):
            typed_numbers(wrong)


def listed(**more: Any) -> dict[str, Any]:
    """Return a job as the head lists it."""
    return {
        "id": 7, "state": "Queued", "array": "", "pending_kind": "", "pending_reason": "", "message": "",
        "tasks": {"total": 1, "queued": 1}, "started": None, "ended": None, **more,
    }  # fmt: skip


def source() -> JobSource:
    """Return a source that has no head to ask: what is asked here fails."""

    def no_head() -> str:
        raise AssertionError("the head was asked")

    return JobSource(Client(no_head))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["-p", "all", "-A", "ml"], True),
        (["-p", "all", "-A", "physics,ml"], True),
        (["-p", "all", "-A", "physics"], False),
        (["-p", "gpu"], False),
        (["-A", ""], False),
        ([], True),
    ],
)
def test_every_option_that_is_given_chooses_jobs_and_an_empty_one_none(words: list[str], meant: bool) -> None:
    row = BatchRow(source(), listed(project="ml", node_groups=[]))
    assert squeue.is_chosen(row, read_words(words, squeue.OPTIONS), ("partition", "account")) is meant


@pytest.mark.parametrize(
    ("more", "state", "reason"),
    [
        ({}, "PENDING", "None"),
        ({"pending_kind": "processors", "pending_reason": "needs 2"}, "PENDING", "Resources"),
        ({"pending_kind": "hold", "pending_reason": "it has the hold 'user'"}, "PENDING", "JobHeldUser"),
        ({"pending_kind": "hold", "held_until": 5.0}, "PENDING", "BeginTime"),
        ({"pending_kind": "dependency", "pending_reason": "waits"}, "PENDING", "Dependency"),
        (
            {"pending_kind": "policy", "pending_reason": "waits for the next scheduling pass"},
            "PENDING",
            "None",
        ),
        ({"state": "Running"}, "RUNNING", "None"),
        ({"state": "Suspended"}, "SUSPENDED", "None"),
        ({"state": "Finished"}, "COMPLETED", "None"),
        ({"state": "Canceled", "message": "canceled by ada"}, "CANCELLED", "None"),
        ({"state": "Canceled", "message": "run time expired"}, "TIMEOUT", "TimeLimit"),
        ({"state": "Canceled", "message": "its deadline has passed"}, "DEADLINE", "DeadLine"),
    ],
)
def test_states_and_reasons_have_slurm_s_words(more: dict[str, Any], state: str, reason: str) -> None:
    row = BatchRow(source(), listed(**more))
    assert (row.state, row.reason) == (state, reason)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (("user",), "QOSMaxSubmitJobPerUserLimit"),
        (("project",), "AssocGrpSubmitJobsLimit"),
        (("group",), "QOSGrpSubmitJobsLimit"),
        (("submissions", 1, "project"), "AssocGrpSubmitJobsLimit"),
        ((), "QOSMaxSubmitJobPerUserLimit"),
    ],
)
def test_a_submit_limit_that_refuses_has_slurm_s_name(path: tuple[str | int, ...], name: str) -> None:
    result = sbatch.in_words_of_slurm(WrongState(code="limit", what="it has 2", fix="wait", path=path))
    assert (result.lines[0], result.lines[2:], result.status) == (name, ("it has 2", "wait"), 1)


@pytest.mark.parametrize("scope", ["user", "project", "group"])
def test_a_submit_limit_that_refuses_has_the_sentence_of_pbs(scope: str) -> None:
    result = qsub.in_words_of("pbs", WrongState(code="limit", what="it has 2", fix="wait", path=(scope,)))
    assert result.lines == (f"would exceed complex's per-{scope} limit", "it has 2", "wait")
    assert (result.status, result.prefix) == (38, "")


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("user,jobs,ada", "QOSMaxJobsPerUserLimit"),
        ("user,processors,ada", "QOSMaxCpuPerUserLimit"),
        ("user,gpus,ada", "QOSMaxGRESPerUser"),
        ("project,jobs,a,b", "AssocGrpJobsLimit"),
        ("project,processors,chem", "AssocGrpCpuLimit"),
        ("project,gpus,chem", "AssocGrpGRES"),
        ("group,jobs,staff", "QOSGrpJobsLimit"),
        ("group,processors,staff", "QOSGrpCpuLimit"),
        ("group,gpus,staff", "QOSGrpGRES"),
        ("user,processor-minutes,ada", "AssocGrpCPUMinutesLimit"),
        ("user,processor-minutes-per-job,ada", "AssocMaxCpuMinutesPerJobLimit"),
        ("project,processor-minutes,chem", "AssocGrpCPUMinutesLimit"),
        ("project,processor-minutes-per-job,chem", "AssocMaxCpuMinutesPerJobLimit"),
        ("group,processor-minutes,staff", "QOSGrpCPUMinutesLimit"),
        ("group,processor-minutes-per-job,staff", "QOSMaxCpuMinutesPerJobLimit"),
    ],
)
@pytest.mark.parametrize("kind", ["limit", "never-fits"])
def test_the_limit_for_which_a_job_waits_has_slurm_s_word(limit: str, reason: str, kind: str) -> None:
    row = BatchRow(source(), listed(pending_kind=kind, pending_reason="may have 2", pending_limit=limit))
    assert row.reason == reason


@pytest.mark.parametrize(
    ("message", "cause", "state"),
    [
        (_words(AttemptOutcome("timed-out")), "program", "TIMEOUT"),
        (_words(AttemptOutcome("exited", exit_code=3)), "program", "FAILED"),
        (above_its_memory(Bounds((), 100, 2)), "program", "OUT_OF_MEMORY"),
        ("node n1 was lost", "system", "NODE_FAIL"),
        ("canceled by ada", "request", "CANCELLED"),
    ],
)
def test_how_a_task_ended_is_read_from_what_the_cluster_says_of_it(
    message: str, cause: str, state: str
) -> None:
    task = {"state": "Failed", "message": message, "cause": cause}
    assert BatchRow(source(), listed(state="Running", array="1-2"), 1, task).state == state


def test_no_element_of_an_array_runs_before_its_task_does() -> None:
    job = listed(state="Running", array="1-3%2", tasks={"total": 3, "queued": 3}, started=5.0)
    known = source()
    known._tasks[7] = [{"state": "Queued", "started": None, "node": ""}] * 3
    for expand, rows in ((False, ["1-3%2"]), (True, ["", "", ""])):
        found = rows_of(known, job, expand=expand)
        assert [row.numbers for row in found] == rows
        assert {(row.state, row.started) for row in found} == {("PENDING", None)}


def test_a_job_that_waits_for_a_date_is_expected_then() -> None:
    known = source()
    dated = listed(pending_kind="hold", held_until=9e8)
    assert expected_start(BatchRow(known, dated)) == 9e8
    held = listed(pending_kind="hold", pending_reason="it has the hold 'user'", expected=None)
    assert expected_start(BatchRow(known, held)) is None


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_the_time_of_day_of_a_user_is_shown_with_its_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        asked = read_words(["--begin=2030-01-31T18:00", "--deadline", "2030-02-01"], sbatch.OPTIONS)
        at = time.mktime((2030, 1, 31, 18, 0, 0, 0, 0, -1))
        midnight = at + 6 * 3600
        assert sbatch.job_options(asked) == [f"--begin={utc_time(at)}", f"--deadline={utc_time(midnight)}"]
        script = "\n".join(["#!/bin/sh", *(f"#SBATCH {each}" for each in sbatch.job_options(asked)), "true"])
        zoned = read_script(script)[0]
        text = "#!/bin/sh\n#SBATCH -b 2030-01-31T18:00\n#SBATCH --deadline=2030-02-01\ntrue\n"
        local = read_script(text)[0]
        assert (zoned.hold_until, zoned.end_by) == (local.hold_until, local.end_by) == (at, midnight)
        named = read_script("#!/bin/sh\n#SBATCH -b 2030-01-31T18:00UTC\ntrue\n")[0]
        assert named.hold_until == 1896112800
        assert terms_of({"starttime": "2030-01-31T18:00"}) == {"holduntil": utc_time(at)}
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("program", [*SLURM, *PBS])
def test_every_program_has_a_help_that_asks_no_head(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_as(program, ["--help"], source().client) == 0
    result = capsys.readouterr()
    assert result.out.startswith(f"Usage: {program} [OPTIONS]")
    assert result.err == ""
    for word in TABLES.get(program, {}):
        assert f"--{word}" in result.out


@pytest.mark.parametrize(
    ("program", "words", "asked"),
    [
        ("sbatch", ["-h"], True),
        ("squeue", ["-h"], False),
        ("squeue", ["-u", "ada", "--help"], True),
        ("srun", ["prog", "--help"], False),
        ("qsub", ["-h"], False),
        ("pbsnodes", ["--usage"], True),
        ("bjobs", ["--usage"], True),
    ],
)
def test_only_options_of_the_program_ask_for_its_help(program: str, words: list[str], asked: bool) -> None:
    assert wants_help(program, words) is asked


def test_an_array_that_waits_is_one_line_and_is_not_asked_for() -> None:
    job = listed(array="1-3%2", tasks={"total": 3, "queued": 3})
    assert [row.numbers for row in rows_of(source(), job, expand=False)] == ["1-3%2"]
    assert [row.number for row in rows_of(source(), job, expand=True)] == [1, 2, 3]


def test_a_link_says_whose_qsub_it_is(tmp_path: Path) -> None:
    for system in ("pbs", "gridengine"):
        folder = tmp_path / system
        folder.mkdir()
        (folder / f"qsub.{system}").symlink_to("/nowhere/hn")
        (folder / "qsub").symlink_to(f"qsub.{system}")
        (folder / "elsewhere").symlink_to(folder / "qsub")
        assert system_of_link(str(folder / "elsewhere")) == system
    (tmp_path / "circle").symlink_to("circle")
    assert system_of_link(str(tmp_path / "circle")) == "pbs"


@pytest.mark.skipif(not RECORDED.is_dir(), reason="the recorded answers of real schedulers are not here")
def test_headings_are_those_that_slurm_prints() -> None:
    output = (RECORDED / "slurmdb/sacct_P.txt").read_text().splitlines()
    named_there, headings = output[0].partition("-o ")[2].split(","), output[1].split("|")
    titles = {field.name: field.heading for field in sacct.FIELDS_OF_SACCT}
    ours = [titles[name.lower()] for name in named_there]
    assert ours == headings
    start = (RECORDED / "slurm/squeue_start.txt").read_text().splitlines()[1]
    columns = letters("squeue", squeue._START, squeue.FORMATS, squeue.show)
    assert lines(columns, [], heading=True).rstrip() == start.rstrip()


@pytest.mark.parametrize(
    ("code", "reached"), [("no-head", False), ("head-gone", False), ("journal-full", True)]
)
def test_a_head_that_refuses_a_job_for_want_of_something_was_contacted(code: str, *, reached: bool) -> None:
    refusal = Unavailable(code=code, what="no room is left", fix="free some")
    message = sbatch.in_words_of_slurm(refusal).lines
    assert ("Unable to contact slurm controller" not in message[0]) is reached
    assert any("no room is left" in line for line in message)


def test_iterate_shows_the_same_again_after_each_pause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pauses: list[int] = []

    def pause(seconds: int) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", pause)
    with pytest.raises(KeyboardInterrupt):
        repeated(read_words(["-i", "5"], squeue.OPTIONS), lambda: print("table"))
    assert (pauses, capsys.readouterr().out) == ([5, 5, 5], "table\n\n" * 3)
    assert repeated(read_words([], squeue.OPTIONS), lambda: print("table")) == 0
    assert capsys.readouterr().out == "table\n"
    for wrong in ("0", "x", "-1", "1e9"):
        with pytest.raises(ProgramRefusal, match=f"invalid entry for --iterate={wrong}"):
            repeated(read_words([f"--iterate={wrong}"], sinfo.OPTIONS), lambda: None)


@pytest.mark.parametrize(
    ("keyword", "instead"), [("reconfigure", "hn cluster params"), ("ShutDown", "hn down")]
)
def test_a_keyword_of_administrators_names_the_command_that_does_it_here(keyword: str, instead: str) -> None:
    with pytest.raises(ProgramRefusal, match=instead):
        scontrol.run([keyword], Client("/nowhere"))
