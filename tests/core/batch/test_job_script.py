"""The script of an attempt, run by real shells: it starts once, and says how its program ended."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from headnode.core.batch.job_script import (
    EXIT,
    OUTPUT,
    TAKEN,
    TO_GROUP,
    TO_PROGRAM,
    ExitReport,
    Program,
    attempt_script,
    read_exit,
)
from headnode.core.model.resource_system import ResourceSystem

TIMEOUT = 20.0  # seconds


def script_in(folder: Path, *argv: str, **fields: object) -> Path:
    program = Program(argv, fields.pop("environment", {}), str(folder), **fields)
    path = folder / "job.sh"
    path.write_text(attempt_script("hn-00000000-1.1.1-1", ResourceSystem.SLURM, program))
    return path


def run(path: Path) -> int:
    environment = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "42"}
    done = subprocess.run(
        ["/bin/sh", path.name], cwd=path.parent, env=environment, timeout=TIMEOUT, check=False
    )
    return done.returncode


def report(folder: Path) -> ExitReport:
    found = read_exit((folder / EXIT).read_text())
    assert found is not None
    return found


@pytest.mark.parametrize("code", [0, 1, 7, 127])
def test_the_exit_file_has_the_exit_code(tmp_path: Path, code: int) -> None:
    assert run(script_in(tmp_path, "/bin/sh", "-c", f"echo said; echo wrong >&2; exit {code}")) == code
    found = report(tmp_path)
    assert (found.code, found.signal) == (code, None)
    assert found.started is not None
    assert found.ended is not None
    assert found.started <= found.ended
    assert (tmp_path / OUTPUT).read_text() == "said\nwrong\n"


def test_a_program_that_a_signal_ends_is_reported_as_such(tmp_path: Path) -> None:
    run(script_in(tmp_path, "/bin/sh", "-c", "kill -9 $$"))
    assert report(tmp_path).signal == signal.SIGKILL


def test_of_two_scripts_of_one_attempt_one_runs(tmp_path: Path) -> None:
    path = script_in(tmp_path, "/bin/sh", "-c", "echo ran >> counted; sleep 0.2")
    codes: list[int] = []
    threads = [threading.Thread(target=lambda: codes.append(run(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert sorted(codes) == [0] + [TAKEN] * 7
    assert (tmp_path / "counted").read_text() == "ran\n"
    assert report(tmp_path).code == 0


def test_a_script_that_was_cut_runs_nothing(tmp_path: Path) -> None:
    path = script_in(tmp_path, "touch", "ran")
    path.write_text(path.read_text()[:-3])
    assert run(path) != 0
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "started").exists()


def test_the_exit_file_has_the_processor_time_of_all_that_ran(tmp_path: Path) -> None:
    spin = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"
    run(script_in(tmp_path, "/bin/sh", "-c", f"({spin}); exit 0"))
    assert report(tmp_path).usage.user_time > 0.02


def test_no_word_of_a_job_becomes_shell(tmp_path: Path) -> None:
    nasty = "a'; touch stolen; echo '$(touch stolen)`touch stolen`\n#"
    environment = {"NASTY": nasty, "not a name; touch stolen": "x"}
    run(script_in(tmp_path, "printf", "%s", nasty, environment=environment, stdout=str(tmp_path / "o'$(x)")))
    assert (tmp_path / "o'$(x)").read_text() == nasty
    assert not (tmp_path / "stolen").exists()


def test_streams_and_scripts_of_the_job_are_used(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("read")
    (tmp_path / "out").write_text("before ")
    script = '#!/bin/sh\ncat; echo " $1 $TOLD"; echo e >&2\n'
    path = script_in(
        tmp_path,
        "/bin/sh", "/1.1.run.sh", "word",
        environment={"TOLD": "told"},
        script=script,
        script_path="/1.1.run.sh",
        stdin=str(tmp_path / "in"),
        stdout=str(tmp_path / "out"),
        stderr=str(tmp_path / "err"),
        append_stdout=True,
    )  # fmt: skip
    assert run(path) == 0
    assert (tmp_path / "out").read_text() == "before read word told\n"
    assert (tmp_path / "err").read_text() == "e\n"


def test_a_directory_that_is_not_there_is_a_failure_that_is_reported(tmp_path: Path) -> None:
    path = script_in(tmp_path, "true")
    path.write_text(path.read_text().replace(f"cd {tmp_path} ", "cd /nowhere/at/all "))
    assert run(path) == report(tmp_path).code == 98


@pytest.mark.parametrize(
    "text", ["", "code=1", "code=1 signal=0 start=1 end=2 id=x\nhost=y z w", "code=9999"]
)
def test_what_is_no_exit_file_is_none(text: str) -> None:
    assert read_exit(text) is None


GIVEN = """for n in HUP USR1 TERM; do trap "echo $n >> got" $n; done; : > ready
until [ -e end ]; do sleep 0.02; done; exit 5"""


def signaled(folder: Path, *, sent: int, to_all: bool = False, to_group: int | None = None) -> list[str]:
    """Return which signals the program got when the script, or all of its group, got one."""
    text = attempt_script(
        "hn-0-1", ResourceSystem.SLURM, Program(("sh", "-c", GIVEN), {}, str(folder)), to_group
    )
    (folder / "job.sh").write_text(text)
    running = subprocess.Popen(["/bin/sh", "job.sh"], cwd=folder, start_new_session=True)
    try:
        wait_for(folder / "ready")
        (os.killpg if to_all else os.kill)(running.pid, sent)
        wait_for(folder / "got")
        (folder / "end").touch()
        assert running.wait(TIMEOUT) == 5
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert (report(folder).code, report(folder).signal) == (5, None)
    return (folder / "got").read_text().split()


def wait_for(path: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.01)


def test_a_signal_for_all_reaches_the_program_once_and_the_script_goes_on(tmp_path: Path) -> None:
    assert signaled(tmp_path, sent=signal.SIGUSR1, to_all=True) == ["USR1"]


@pytest.mark.parametrize(("number", "name"), [(1, "HUP"), (10, "USR1"), (15, "TERM")])
def test_a_signal_for_the_program_is_passed_on(tmp_path: Path, number: int, name: str) -> None:
    assert signaled(tmp_path, sent=TO_PROGRAM + number) == [name]


def test_the_signal_of_the_limit_is_passed_on_to_all_that_runs(tmp_path: Path) -> None:
    assert signaled(tmp_path, sent=TO_GROUP, to_group=signal.SIGUSR1) == ["USR1"]


def test_an_exit_code_is_right_also_if_a_signal_comes_as_the_program_ends(tmp_path: Path) -> None:
    program = Program(
        ("sh", "-c", "trap 'exit 3' USR1; : > ready; while :; do sleep 0.01; done"), {}, str(tmp_path)
    )
    (tmp_path / "job.sh").write_text(attempt_script("hn-0-1", ResourceSystem.SLURM, program))
    for _ in range(20):
        running = subprocess.Popen(["/bin/sh", "job.sh"], cwd=tmp_path, start_new_session=True)
        wait_for(tmp_path / "ready")
        os.killpg(running.pid, signal.SIGUSR1)
        assert running.wait(TIMEOUT) == report(tmp_path).code == 3
        for name in ("ready", "started", EXIT):
            (tmp_path / name).unlink()
