"""salloc: steps run in its allocation, and the job ends when the command does, however salloc ends."""

import os
import pty
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from batch_programs import Programs, slurm_fixtures

from headnode.core.model.errors import HeadnodeError
from heads import RealHead

TIMEOUT = 60.0  # seconds


head, slurm, nothing_is_left = slurm_fixtures()


def begun(slurm: Programs, where: Path, *words: str) -> "subprocess.Popen[str]":
    """Start salloc beside the test, with its output in pipes."""
    return subprocess.Popen(
        ["salloc", *words],
        executable=str(slurm.folder / "salloc"),
        cwd=where,
        env=slurm.environment(where),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def named(slurm: Programs, name: str, where: Path) -> str:
    """Return the states of the jobs of a name."""
    return slurm.output(f"squeue -h -n {name} -o %t", where)


def runs(slurm: Programs, name: str, where: Path) -> None:
    """Wait until a job of this name runs."""
    slurm.head.until(lambda: named(slurm, name, where) == "R")


def test_a_command_here_runs_steps_on_the_nodes_of_its_job(slurm: Programs, tmp_path: Path) -> None:
    step = 'srun sh -c "echo \\$SLURM_PROCID \\$SLURM_LOCALID \\$SLURM_NODEID \\$MINE \\$PWD"'
    done = slurm.run(f"salloc -n 3 -N 2 sh -c 'echo $$ >pid; MINE=5 {step}; exit 3'", tmp_path)
    assert done.returncode == 3
    assert sorted(done.stdout.splitlines()) == [
        f"0 0 0 5 {tmp_path}",
        f"1 1 0 5 {tmp_path}",
        f"2 0 1 5 {tmp_path}",
    ]
    job = done.stderr.split()[-1]
    assert done.stderr.splitlines() == [
        f"salloc: Granted job allocation {job}",
        f"salloc: Relinquishing job allocation {job}",
    ]
    assert slurm.output("squeue -h", tmp_path) == ""


@pytest.mark.parametrize(
    ("command", "state", "code"),
    [
        ("true", "COMPLETED", "0:0"),
        ("srun false; true", "COMPLETED", "0:0"),
        ("exit 3", "FAILED", "3:0"),
        ("kill -9 $$", "FAILED", "0:9"),
    ],
)
def test_the_job_ends_as_its_command_did(
    slurm: Programs, tmp_path: Path, command: str, state: str, code: str
) -> None:
    done = slurm.run(f"salloc sh -c '{command}'", tmp_path)
    job = done.stderr.split()[-1]
    output = slurm.output(f"sacct -X -n -P -j {job} -o State,ExitCode", tmp_path)
    assert output == f"{state}|{code}", done
    assert slurm.output(f"hn job view {job}", tmp_path).count("Failed\n") == (state == "FAILED")


@pytest.mark.parametrize(
    ("number", "state"), [(signal.SIGTERM, "CANCELLED by 0"), (signal.SIGHUP, "COMPLETED")]
)
def test_the_job_of_a_salloc_that_a_signal_ends_is_over_as_in_slurm(
    slurm: Programs, tmp_path: Path, number: signal.Signals, state: str
) -> None:
    with begun(slurm, tmp_path, "-J", "ends", "sh", "-c", ": > ready; exec sleep 60") as salloc:
        slurm.head.until((tmp_path / "ready").exists)
        salloc.send_signal(number)
        salloc.wait(TIMEOUT)
    assert slurm.output("sacct -X -n -P --name ends -o State", tmp_path).splitlines()[-1] == state


def test_only_an_allocation_ends_with_a_command(slurm: Programs, tmp_path: Path) -> None:
    job = slurm.output("sbatch --parsable -H --wrap true", tmp_path)
    with pytest.raises(HeadnodeError, match="does not end with a command"):
        slurm.head.ask("end_allocation", job=int(job), exit_code=0)


def test_a_command_has_the_variables_that_real_salloc_sets(slurm: Programs, tmp_path: Path) -> None:
    output = slurm.output("salloc -Q -n 2 -N 1 -J mine env", tmp_path)
    found = dict(line.partition("=")[::2] for line in output.splitlines() if line.startswith("SLURM_"))
    wanted = {
        "SLURM_JOBID", "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST",
        "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "SLURM_NODELIST", "SLURM_NPROCS", "SLURM_NTASKS",
        "SLURM_SUBMIT_DIR", "SLURM_SUBMIT_HOST", "SLURM_TASKS_PER_NODE", "SLURM_CLUSTER_NAME",
    }  # fmt: skip
    assert wanted <= found.keys()
    assert (found["SLURM_NTASKS"], found["SLURM_JOB_NUM_NODES"], found["SLURM_JOB_NAME"]) == (
        "2",
        "1",
        "mine",
    )
    assert {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"} & found.keys() == set()


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("salloc true", 0, "Relinquishing job allocation"),
        ("salloc sh -c 'kill -9 $$'", 137, "Relinquishing job allocation"),
        ("salloc nosuchprogram", 1, 'error: _fork_command: Unable to find command "nosuchprogram"'),
        ("salloc --nosuch", 255, "unrecognized option '--nosuch'"),
        ("salloc --test-only true", 255, "unrecognized option '--test-only'"),
        ("salloc -D /nonexistent true", 1, "error: chdir(/nonexistent): No such file or directory"),
        ("salloc -p nosuch true", 1, "error: Job submit/allocate failed: "),
        ("salloc -t 90s true", 255, "error: Job submit/allocate failed: "),
        ("salloc -F nodes true", 1, "error: --nodefile is not supported here"),
        ("salloc --kill-command=nosuch true", 255, "error: Invalid signal for --kill-command: nosuch"),
        ("srun --jobid=999999 true", 1, "Unable to confirm allocation for job 999999: Invalid job id"),
    ],
)
def test_it_ends_as_the_command_does_and_refuses_in_the_words_of_slurm(
    slurm: Programs, tmp_path: Path, command: str, status: int, text: str
) -> None:
    done = slurm.run(command, tmp_path)
    assert (done.returncode, text in done.stderr) == (status, True), done.stderr
    assert slurm.output("squeue -h", tmp_path) == ""


def test_variables_are_options_and_the_command_line_counts_more(slurm: Programs, tmp_path: Path) -> None:
    show = "squeue -h -j \\$SLURM_JOB_ID -o '%l %P'"
    assert slurm.output(f'SALLOC_TIMELIMIT=7 salloc -Q sh -c "{show}"', tmp_path) == "7:00 all"
    assert slurm.output(f'SALLOC_TIMELIMIT=7 salloc -Q -t 9 sh -c "{show}"', tmp_path) == "9:00 all"


def test_a_step_that_is_larger_than_the_allocation_is_refused(slurm: Programs, tmp_path: Path) -> None:
    done = slurm.run("salloc -n 1 srun -n 2 true", tmp_path)
    assert done.returncode == 1
    assert "More processors requested than permitted" in done.stderr


def test_no_shell_leaves_an_allocation_that_steps_join_by_its_number(slurm: Programs, tmp_path: Path) -> None:
    done = slurm.run("salloc --no-shell -J keep -n 2 -N 2", tmp_path)
    assert done.returncode == 0
    job = done.stderr.split()[-1]
    assert slurm.output(f"srun --jobid={job} sh -c 'echo $SLURM_NODEID' | sort", tmp_path) == "0\n1"
    assert slurm.output(f"SLURM_JOB_ID={job} srun -n 1 echo here", tmp_path) == "here"
    assert named(slurm, "keep", tmp_path) == "R"


def test_immediate_gives_up_and_leaves_no_job(slurm: Programs, tmp_path: Path) -> None:
    slurm.output("sbatch -J all --exclusive -N 2 --wrap 'sleep 300'", tmp_path)
    runs(slurm, "all", tmp_path)
    done = slurm.run("salloc -I -J late true", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Job submit/allocate failed: Requested partition configuration not available now" in done.stderr
    slurm.head.until(lambda: named(slurm, "late", tmp_path) == "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_it_waits_takes_the_job_out_of_the_queue(
    slurm: Programs, tmp_path: Path, number: signal.Signals
) -> None:
    waiting = begun(slurm, tmp_path, "-J", "late", "-b", "now+1hour", "true")
    assert waiting.stderr is not None
    first = [waiting.stderr.readline() for _ in range(2)]
    assert first[0].startswith("salloc: Pending job allocation ")
    assert first[1].endswith(" queued and waiting for resources\n")
    waiting.send_signal(number)
    _, rest = waiting.communicate(timeout=TIMEOUT)
    if number != signal.SIGKILL:
        assert waiting.returncode == 1
        assert rest.splitlines()[-1] == "salloc: Job aborted due to signal"
    until = time.monotonic() + TIMEOUT
    while named(slurm, "late", tmp_path):
        assert time.monotonic() < until
        time.sleep(0.5)


def test_the_job_of_a_salloc_that_was_killed_ends(slurm: Programs, tmp_path: Path) -> None:
    killed = begun(slurm, tmp_path, "-J", "gone", "sleep", "30")
    runs(slurm, "gone", tmp_path)
    killed.kill()
    until = time.monotonic() + TIMEOUT
    while named(slurm, "gone", tmp_path):
        assert time.monotonic() < until
        time.sleep(0.5)
    killed.communicate(timeout=TIMEOUT)
    assert "its client has been away for 30 s" in str(slurm.head.ask("jobs", states=["Canceled"], limit=1))


@pytest.mark.parametrize(("kill", "text"), [((), ""), (("-K",), "TERM"), (("--kill-command=USR1",), "USR1")])
def test_a_job_that_is_canceled_is_revoked_and_the_command_goes_on_unless_it_is_to_be_killed(
    slurm: Programs, tmp_path: Path, kill: tuple[str, ...], text: str
) -> None:
    traps = 'trap "echo TERM" TERM; trap "echo USR1" USR1; touch ready; while [ ! -e go ]; do sleep 0.1; done'
    revoked = begun(slurm, tmp_path, "-J", "shot", *kill, "bash", "-c", f"{traps}; exit 4")
    slurm.head.until((tmp_path / "ready").exists)
    slurm.output("scancel -n shot", tmp_path)
    slurm.head.until(lambda: named(slurm, "shot", tmp_path) == "")
    assert revoked.stderr is not None
    lines = [revoked.stderr.readline() for _ in range(2)]
    assert lines[1].endswith(" has been revoked.\n")
    (tmp_path / "go").touch()
    out, rest = revoked.communicate(timeout=TIMEOUT)
    assert (revoked.returncode, out.strip()) == (4, text)
    assert "Relinquishing" not in rest


def test_an_allocation_outlives_its_head_while_salloc_does(slurm: Programs, tmp_path: Path) -> None:
    wait = "touch ready; while [ ! -e go ]; do sleep 0.1; done; srun -n 2 echo step; exit 5"
    held = begun(slurm, tmp_path, "-J", "held", "-n", "2", "bash", "-c", wait)
    slurm.head.until((tmp_path / "ready").exists)
    slurm.head.kill()
    slurm.head.start_again()
    slurm.head.until(lambda: named(slurm, "held", tmp_path) == "R")
    (tmp_path / "go").touch()
    out, err = held.communicate(timeout=TIMEOUT)
    assert (held.returncode, out) == (5, "step\nstep\n"), err
    assert "Relinquishing" in err
    assert named(slurm, "held", tmp_path) == ""


def test_a_salloc_that_is_killed_while_the_head_is_away_leaves_no_job(
    slurm: Programs, tmp_path: Path
) -> None:
    lost = begun(slurm, tmp_path, "-J", "lost", "sleep", "1")
    runs(slurm, "lost", tmp_path)
    slurm.head.kill()
    lost.kill()
    slurm.head.start_again()
    until = time.monotonic() + TIMEOUT
    while named(slurm, "lost", tmp_path):
        assert time.monotonic() < until
        time.sleep(0.5)
    lost.communicate(timeout=TIMEOUT)


def test_a_terminal_that_is_closed_ends_the_shell_and_the_job(slurm: Programs, tmp_path: Path) -> None:
    process, terminal = pty.fork()
    if not process:
        os.chdir(tmp_path)
        os.execve(str(slurm.folder / "salloc"), ["salloc", "-J", "seat"], slurm.environment(tmp_path))
    runs(slurm, "seat", tmp_path)
    os.write(terminal, b"srun echo st''ep\n")
    seen = b""
    while b"step" not in seen:
        seen += os.read(terminal, 4096)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) in (1, 129)
    slurm.head.until(lambda: named(slurm, "seat", tmp_path) == "")


def test_steps_of_a_salloc_inside_of_a_job_are_those_of_its_own_allocation(
    slurm: Programs, tmp_path: Path
) -> None:
    inner = "salloc -Q -n 1 sh -c 'echo $SLURM_JOB_ID >inner; srun printenv HEADNODE_JOB >step'"
    slurm.output(f"sbatch --wait -n 1 -o out.txt --wrap {shlex.quote(inner)}", tmp_path)
    assert (tmp_path / "inner").read_text() == (tmp_path / "step").read_text() != ""


def test_the_end_of_the_time_is_reported_and_the_allocation_revoked(slurm: Programs, tmp_path: Path) -> None:
    held = begun(slurm, tmp_path, "-J", "short", "-t", "1", "-K", "sleep", "300")
    _, err = held.communicate(timeout=3 * TIMEOUT)
    job = err.split()[4]
    assert f"salloc: the time limit of job {job} ends in" in err
    assert f"salloc: Job allocation {job} has been revoked." in err.splitlines()
    assert held.returncode == 143


def test_only_an_allocation_is_held_and_only_a_running_job_takes_steps(head: RealHead) -> None:
    job = head.submit("sleep 60", terms={"hold": "true"})
    for fields, code in (({"holds": True}, "no-allocation"), ({"in_task": True}, "not-running")):
        conversation = head.client.begin("shell", job=job, command="true", **fields)
        try:
            with pytest.raises(HeadnodeError) as refused:
                conversation.receive()
        finally:
            conversation.close()
        assert refused.value.code == code
