"""bsub, bjobs and bkill of `hn compat install` do with real jobs what scripts for LSF expect."""

import json
import re
import sys
from pathlib import Path

import pytest
from batch_programs import Programs, emptied_fixture, programs_fixture

from heads import shared_head_fixture

SCRIPT = """#!/bin/sh
#BSUB -J lines[1-3]
#BSUB -o out.%J.%I
echo "part $LSB_JOBINDEX of $LSB_JOBNAME, $1"
"""


head = shared_head_fixture(nodes=1, processors=2)
lsf = programs_fixture("--only", "lsf")
nothing_is_left = emptied_fixture("lsf", "bkill 0", "bjobs")


def submitted(lsf: Programs, command: str, where: Path) -> int:
    """Submit by a command line; return the number that it prints as LSF does."""
    found = re.fullmatch(r"Job <(\d+)> is submitted to default queue <Default>\.", lsf.output(command, where))
    assert found is not None
    return int(found[1])


def states(lsf: Programs, job: int, where: Path) -> list[str]:
    return lsf.output(f"bjobs -noheader -o stat {job}", where).split()


def until(lsf: Programs, job: int, wanted: list[str], where: Path) -> None:
    lsf.head.until(lambda: states(lsf, job, where) == wanted)


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("bsub -o out echo 'a  b'", "a  b\n"),
        ("bsub -o out 'echo a; echo b'", "a\nb\n"),
        ("bsub -o out echo a \\; echo b", "a\nb\n"),
        ("printf 'echo stdin\\n' | bsub -o out", "stdin\n"),
    ],
    ids=["words", "one word", "operators", "standard input"],
)
def test_a_command_line_runs_as_the_shell_reads_it(
    lsf: Programs, tmp_path: Path, command: str, printed: str
) -> None:
    job = submitted(lsf, command, tmp_path)
    until(lsf, job, ["DONE"], tmp_path)
    assert (tmp_path / "out").read_text() == printed


@pytest.mark.parametrize("command", ["bsub lines.lsf x", "bsub ./lines.lsf x", "bsub < lines.lsf"])
def test_the_options_in_a_script_count_by_name_and_by_standard_input(
    lsf: Programs, tmp_path: Path, command: str
) -> None:
    (tmp_path / "lines.lsf").write_text(SCRIPT)
    job = submitted(lsf, command, tmp_path)
    until(lsf, job, ["DONE"] * 3, tmp_path)
    argument = "x" if command.endswith("x") else ""
    assert (tmp_path / f"out.{job}.2").read_text() == f"part 2 of lines, {argument}\n"
    output = lsf.output(f"bjobs -noheader -o 'jobid jobindex job_name exit_code' '{job}[2-3]'", tmp_path)
    assert [line.split() for line in output.splitlines()] == [
        [str(job), "2", "lines[2]", "-"],
        [str(job), "3", "lines[3]", "-"],
    ]


def test_bsub_returns_the_exit_code_of_the_job_where_it_waits_for_its_end(
    lsf: Programs, tmp_path: Path
) -> None:
    assert lsf.run("bsub -K exit 3", tmp_path).returncode == 3
    (tmp_path / "wait.lsf").write_text("#!/bin/sh\n#BSUB -K\nexit 4\n")
    assert lsf.run("bsub < wait.lsf", tmp_path).returncode == 4
    shown = lsf.run("echo typed | bsub -I 'cat; exit 5'", tmp_path)
    assert (shown.returncode, shown.stdout.splitlines()[1:]) == (5, ["typed"])
    assert "<<Starting on " in shown.stderr


def test_lists_choose_jobs_by_state_name_and_user(lsf: Programs, tmp_path: Path) -> None:
    running = submitted(lsf, "bsub -J sim_1 -n 2 sleep 1000", tmp_path)
    waiting = submitted(lsf, "bsub -J sim_2 -n 2 sleep 1000", tmp_path)
    held = submitted(lsf, "bsub -H -J other true", tmp_path)
    until(lsf, running, ["RUN"], tmp_path)

    def listed(options: str) -> list[int]:
        return [int(word) for word in lsf.output(f"bjobs -noheader -o jobid {options}", tmp_path).split()]

    assert listed("") == [running, waiting, held]
    assert listed("-r") == [running]
    assert listed("-p") == [waiting, held]
    assert listed("-s") == [held]
    assert listed("-aJ 'sim_*'") == [running, waiting]
    assert listed("-u all -q Default") == [running, waiting, held]
    assert listed("-u daemon") == []
    assert " needs 2 processors;" in lsf.output(f"bjobs -p {waiting}", tmp_path)
    table = lsf.output("bjobs", tmp_path).splitlines()
    columns = "JOBID USER STAT QUEUE FROM_HOST EXEC_HOST JOB_NAME SUBMIT_TIME"
    assert table[0].split() == columns.split()
    assert [line.split()[2] for line in table[1:]] == ["RUN", "PEND", "PSUSP"]
    assert "Status <RUN>" in lsf.output(f"bjobs -l {running}", tmp_path)


def test_fields_have_the_delimiter_and_the_json_that_programs_ask_for(lsf: Programs, tmp_path: Path) -> None:
    job = submitted(lsf, "bsub -J 'a b' -W 1:30 'exit 7'", tmp_path)
    until(lsf, job, ["EXIT"], tmp_path)
    fields = "jobid stat job_name command exit_code runtimelimit delimiter=';'"
    assert lsf.output(f'bjobs -o "{fields}" {job}', tmp_path).splitlines() == [
        "JOBID;STAT;JOB_NAME;COMMAND;EXIT_CODE;RUNTIMELIMIT",
        f"{job};EXIT;a b;exit 7;7;90.0",
    ]
    done = lsf.run(f"bjobs -json -o 'jobid stat' {job} 99999", tmp_path)
    assert done.returncode == 255
    assert json.loads(done.stdout) == {
        "COMMAND": "bjobs",
        "JOBS": 2,
        "RECORDS": [
            {"JOBID": str(job), "STAT": "EXIT"},
            {"JOBID": "99999", "ERROR": "Job <99999> is not found"},
        ],
    }
    assert "Job <99999> is not found" in lsf.run("bjobs 99999", tmp_path).stderr


def test_bkill_ends_jobs_elements_and_what_the_options_choose(lsf: Programs, tmp_path: Path) -> None:
    job = submitted(lsf, "bsub -J 'arr[1-3]' sleep 1000", tmp_path)
    other = submitted(lsf, "bsub -J keep sleep 1000", tmp_path)
    assert lsf.output(f"bkill '{job}[2]'", tmp_path) == f"Job <{job}[2]> is being terminated"
    lsf.head.until(lambda: states(lsf, job, tmp_path)[1] == "EXIT")
    assert lsf.output("bkill -J 'ar*'", tmp_path) == f"Job <{job}> is being terminated"
    until(lsf, job, ["EXIT"] * 3, tmp_path)
    until(lsf, other, ["RUN"], tmp_path)
    ended = lsf.run(f"bkill {job} 99999", tmp_path)
    assert ended.returncode == 255
    assert ended.stderr.splitlines() == [
        f"Job <{job}>: Job has already finished",
        "Job <99999>: No matching job found",
    ]


def test_bkill_sends_a_signal_that_the_program_can_catch(lsf: Programs, tmp_path: Path) -> None:
    program = "trap 'echo caught; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    job = submitted(lsf, f'bsub -o out "{program}"', tmp_path)
    lsf.head.until(lambda: (tmp_path / "out").exists() and "ready" in (tmp_path / "out").read_text())
    assert "ready" in lsf.output(f"bpeek {job}", tmp_path)
    assert lsf.output(f"bkill -s USR1 {job}", tmp_path) == f"Job <{job}> is being signaled"
    until(lsf, job, ["DONE"], tmp_path)
    assert (tmp_path / "out").read_text().splitlines()[-1] == "caught"


def test_bkill_r_ends_a_job_without_the_grace_period(lsf: Programs, tmp_path: Path) -> None:
    job = submitted(
        lsf, "bsub -o out \"trap 'echo term' TERM; echo ready; while :; do sleep 0.05; done\"", tmp_path
    )
    lsf.head.until(lambda: (tmp_path / "out").exists() and "ready" in (tmp_path / "out").read_text())
    lsf.output(f"bkill -r {job}", tmp_path)
    until(lsf, job, ["EXIT"], tmp_path)
    lsf.head.until(lambda: lsf.head.ask("tasks", job=job)["tasks"][0]["signal"] == 9)
    assert "term" not in (tmp_path / "out").read_text()


def test_a_stopped_job_waits_until_it_is_resumed(lsf: Programs, tmp_path: Path) -> None:
    blocking = submitted(lsf, "bsub -n 2 sleep 1000", tmp_path)
    until(lsf, blocking, ["RUN"], tmp_path)
    job = submitted(lsf, "bsub -n 2 true", tmp_path)
    assert lsf.output(f"bstop {job}", tmp_path) == f"Job <{job}> is being stopped"
    assert states(lsf, job, tmp_path) == ["PSUSP"]
    refused = lsf.run(f"bstop {blocking}", tmp_path)
    assert (refused.returncode, "is not suspendable" in refused.stderr) == (255, True)
    lsf.output(f"bkill {blocking}", tmp_path)
    until(lsf, blocking, ["EXIT"], tmp_path)
    assert states(lsf, job, tmp_path) == ["PSUSP"]
    assert lsf.output(f"bresume {job}", tmp_path) == f"Job <{job}> is being resumed"
    until(lsf, job, ["DONE"], tmp_path)


def test_hosts_queues_and_the_cluster_are_listed(lsf: Programs, tmp_path: Path) -> None:
    job = submitted(lsf, "bsub -n 2 sleep 1000", tmp_path)
    until(lsf, job, ["RUN"], tmp_path)
    (node,) = lsf.head.ask("nodes")["nodes"]
    assert lsf.output("bhosts", tmp_path).splitlines()[1].split()[:6] == [
        *(node["name"], "closed_Full", "-", "2", "2", "2"),
    ]
    assert lsf.output("bqueues Default", tmp_path).splitlines()[1].split()[-4:] == ["2", "0", "2", "0"]
    assert "My cluster name is " in lsf.output("lsid", tmp_path)
    absent = lsf.run("bqueues nosuch", tmp_path)
    assert (absent.returncode, absent.stderr) == (255, "nosuch: No such queue\n")


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("bsub -Zz true", "Zz: Illegal option\nJob not submitted.\n"),
        ("bsub -n", "-n has no value\nJob not submitted.\n"),
        ("bsub -n 0 true", "Job not submitted.\n"),
        ("bsub < /dev/null", "No command is specified. Job not submitted.\n"),
        ("bkill", "Job ID is missing.\n"),
        ("bkill 12x", "12x: Illegal job ID.\n"),
        ("bjobs -o nosuchfield", "The field name nosuchfield is not recognized"),
        ("bjobs -Z", "illegal option"),
        ("bjobs -W", "illegal option"),
        ("bqueues -u ann", "illegal option"),
        ("bstop -s USR1 1", "illegal option"),
    ],
)
def test_what_is_wrong_is_refused_with_the_status_of_lsf(
    lsf: Programs, tmp_path: Path, command: str, text: str
) -> None:
    done = lsf.run(command, tmp_path)
    assert done.returncode == 255
    assert text in done.stderr
    assert lsf.output("bjobs", tmp_path) == ""


def test_all_links_are_made_when_nobody_reads_to_the_end(lsf: Programs, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    lsf.run(f"{Path(sys.executable).with_name('hn')} compat install --only lsf {folder} | head -0", tmp_path)
    assert {path.name for path in folder.iterdir()} == {path.name for path in lsf.folder.iterdir()}
