"""What users of Slurm and PBS type out of habit is understood, or refused with what to write here."""

from pathlib import Path

import pytest

from headnode.apps.cli.catalogue import COMMON_OPTIONS
from headnode.apps.cli.commands import job_edit, job_list, job_submit, reservation
from headnode.apps.cli.options import Arguments, read_arguments, read_states
from headnode.apps.cli.output import TableOutput
from headnode.apps.cli.terms import job_terms, only_task_terms, task_terms
from headnode.apps.client.client import Client
from headnode.core.formats.slash_terms import read_terms
from headnode.core.formats.text.quantities import parse_date_time
from headnode.core.model.errors import BadRequest, Unavailable

NO_HEAD = Client("/nonexistent")


def submit(*typed: str) -> Arguments:
    return read_arguments(typed, (*job_submit.OPTIONS, *COMMON_OPTIONS), 0)


@pytest.mark.parametrize(
    ("text", "slurm", "hpc_pack", "fix"),
    [
        ("01:30:00", "1 hour 30 minutes", "2 days 6 hours", "write 1h30m or 2d6h"),
        ("1:30", "1 minute 30 seconds", "1 hour 30 minutes", "write 1m30s or 1h30m"),
        ("0:30", "30 seconds", "30 minutes", "write 30s or 30m"),
    ],
)
@pytest.mark.parametrize("spelling", ["--runtime {}", "--run-time={}", "/runtime:{}", "-t {}"])
def test_a_run_time_with_two_readings_is_refused_with_both(
    spelling: str, text: str, slurm: str, hpc_pack: str, fix: str
) -> None:
    asked = submit(*spelling.format(text).split(), "true")
    with pytest.raises(BadRequest) as refused:
        job_terms(asked)
    assert f"{slurm} (" in refused.value.what
    assert f"{hpc_pack} (" in refused.value.what
    assert refused.value.fix == fix


def test_the_run_time_of_an_added_task_is_held_to_the_same_rule() -> None:
    asked = read_arguments(["7", "--runtime", "1:30", "true"], job_edit.COMMANDS[0].options, 1)
    with pytest.raises(BadRequest, match="two readings"):
        task_terms(asked, asked.words[1:])


def test_a_program_of_hpc_pack_reads_a_run_time_as_it_does_there() -> None:
    asked = submit("/runtime:1:30", "true")
    asked.hpc_pack = True
    assert read_terms(job_terms(asked)).run_time == 5400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400), ("90m", 5400), ("1h30m", 5400), ("1h 30min", 5400), ("2D", 172800), ("45s", 45),
        ("1d12h", 129600), ("1-12", 129600), ("1-12:30", 131400), ("1-00:00:05", 86405), ("0:0", 0),
        ("unlimited", float("inf")), ("Infinite", float("inf")),
    ],
)  # fmt: skip
def test_a_run_time_with_one_reading_is_understood(text: str, seconds: float) -> None:
    assert read_terms(job_terms(submit("--runtime", text, "true"))).run_time == seconds


@pytest.mark.parametrize("text", ["1h30", "h", "1.5h", "30m1h", "1-", "1-2-3", "-5m", "one hour"])
def test_what_is_no_run_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read_terms({"runtime": text})
    assert "1h30m" in refused.value.fix


@pytest.mark.parametrize("option", ["--holduntil", "--endby"])
def test_a_date_with_two_readings_is_refused_with_both(option: str) -> None:
    with pytest.raises(BadRequest) as refused:
        job_terms(submit(option, "1/2/2030 18:00", "true"))
    assert refused.value.fix == "write 2030-01-02T18:00 or 2030-02-01T18:00"


@pytest.mark.parametrize("date", ["1/31/2030", "2/2/2030", "2030-01-02", "2030/1/2"])
def test_a_date_with_one_reading_is_taken(date: str) -> None:
    terms = job_terms(submit("--holduntil", date, "true"))
    assert parse_date_time(terms["holduntil"]) == parse_date_time(date, local=True)


def test_a_job_on_hold_keeps_its_program() -> None:
    asked = submit("--hold", "echo", "hi")
    assert only_task_terms(asked, asked.words)["command"] == "echo hi"
    assert read_terms(job_terms(asked)).holds == ("user",)


@pytest.mark.parametrize(
    ("typed", "holds"),
    [
        (["-H"], ("user",)),
        (["--hold=review,data"], ("review", "data")),
        (["/hold:review"], ("review",)),
        (["--hold=false"], ()),
        (["--hold", "--holds", "data"], ("user", "data")),
    ],
)
def test_a_hold_is_a_flag_that_may_have_names(typed: list[str], holds: tuple[str, ...]) -> None:
    assert read_terms(job_terms(submit(*typed, "true"))).holds == holds


def test_short_forms_stand_for_their_options() -> None:
    typed = "-n 4 -t 1h -J solve -o out -e err -i in -D /data -w n1 -x n2 -H prog -n 5"
    asked = submit(*typed.split())
    assert asked.words == ["prog", "-n", "5"]
    assert {name: values[-1] for name, values in asked.options.items()} == {
        "numprocessors": "4", "runtime": "1h", "jobname": "solve", "stdout": "out", "stderr": "err",
        "stdin": "in", "workdir": "/data", "requestednodes": "n1", "excludednodes": "n2", "hold": "true",
    }  # fmt: skip
    assert submit("-n4", "-t90", "x").options == {"numprocessors": ["4"], "runtime": ["90"]}


@pytest.mark.parametrize("typed", ["-wait", "-time", "-jobname:x", "-Hold"])
def test_a_long_name_behind_one_hyphen_is_no_short_form(typed: str) -> None:
    with pytest.raises(BadRequest, match="is unknown"):
        submit(typed, "true")


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("--partition", "--nodegroup NAME"), ("-p", "--jobtemplate NAME"), ("--ntasks", "-n N"),
        ("--mem", "--memorypernode MB"), ("--time", "--runtime 1h30m"), ("--array", "--parametric 1-10"),
        ("--cpus-per-task", "--numprocessors N"), ("--dependency", "--parentjobids ID"),
        ("-d", "--parentjobids ID"), ("--nodes", "--numnodes N"), ("--output", "--stdout FILE"),
        ("--mail-user", "--emailaddress"), ("--gres", "--license NAME:N"), ("-l", "walltime --runtime"),
        ("--chdir", "--workdir"), ("--wrap", "hn job submit 'sleep 60; date'"), ("--qos", "--jobtemplate"),
    ],
)  # fmt: skip
def test_an_option_of_another_scheduler_is_refused_with_ours(typed: str, advice: str) -> None:
    with pytest.raises(BadRequest) as refused:
        submit(f"{typed}=1" if typed.startswith("--") else typed, "true")
    assert advice in refused.value.fix


def test_states_are_known_by_the_short_forms_of_squeue() -> None:
    assert read_states("PD,R,S") == ["Queued", "Running", "Suspended"]
    assert read_states("cd,F,ca,PENDING") == ["Finished", "Failed", "Canceled", "Queued"]


def test_advice_names_only_options_that_the_command_has() -> None:
    with pytest.raises(BadRequest) as refused:
        read_arguments(["--partition=x"], job_list.COMMANDS[0].options)
    assert "--jobtemplate" not in refused.value.fix


@pytest.mark.parametrize(
    "text",
    [
        b"#!/bin/sh\n# SBATCH is not used\necho '#SBATCH -n 4'\n",
        b"\x7fELF\n#SBATCH -n 4",
        b"",
        b"#$HOME is a directory\n",
    ],
)
def test_other_programs_are_submitted_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("program").write_bytes(text)
    with pytest.raises(Unavailable):
        job_submit.run(submit("./program"), NO_HEAD, TableOutput(print, print, print))


@pytest.mark.parametrize(
    ("option", "advice"),
    [("-I", "hn job shell"), ("-V", "--env-all"), ("--cpus", "--numprocessors N")],
)
def test_options_of_qsub_lead_to_ours(option: str, advice: str) -> None:
    with pytest.raises(BadRequest) as refused:
        submit(option, "x")
    assert advice in refused.value.fix


@pytest.mark.parametrize(
    ("option", "advice"),
    [("--start", "write --from"), ("--duration", "write --for 2h"), ("--nodecnt", "--count")],
)
def test_the_words_of_scontrol_create_reservation_lead_to_ours(option: str, advice: str) -> None:
    new = next(command for command in reservation.COMMANDS if command.verb == "new")
    with pytest.raises(BadRequest) as refused:
        read_arguments(["course", option, "x"], new.options)
    assert advice in refused.value.fix
