"""Jobs from submission to result, with real processes on this machine."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agent_scene import alive

from headnode.adapters.files.local_daemons import nodes_as_before
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, real_head, shared_head_fixture

IS_ROOT = os.geteuid() == 0

head = shared_head_fixture()


def until_said(log: Path, words: str) -> str:
    """Return a command that waits until a line is in a file."""
    return f"until grep -qx '{words}' {log}; do sleep 0.01; done"


def until_there(path: Path) -> str:
    """Return a command that waits until somebody has made a file."""
    return f"until [ -e {path} ]; do sleep 0.01; done"


def test_a_job_prints_and_its_output_is_kept(head: RealHead) -> None:
    job = head.submit("echo out; echo err >&2; exit 3")
    assert head.wait(job)["state"] == "Failed"
    task = head.task(job)
    assert (task["exit_code"], task["state"], task["node"]) == (
        3,
        "Failed",
        os.uname().nodename.split(".")[0],
    )
    assert head.output(job) == "out\nerr\n"


def test_a_task_flow_runs_in_order_and_two_of_its_four_tasks_side_by_side(
    head: RealHead, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    send = f"echo begin %NAME% >> {log}; sleep 0.1; echo end %NAME% >> {log}"
    beside = f"echo begin %NAME% >> {log}; {until_said(log, 'begin two')}; {until_said(log, 'begin three')}"
    beside = f"{beside}; echo end %NAME% >> {log}"
    job = head.ask(
        "submit_job",
        terms={"numprocessors": "1-2", "runtime": "0:01"},
        tasks=[
            {"name": "one", "command": send, "env": {"NAME": "one"}},
            {"name": "two", "command": beside, "env": {"NAME": "two"}, "depend": "one"},
            {"name": "three", "command": beside, "env": {"NAME": "three"}, "depend": "one"},
            {"name": "four", "command": send, "env": {"NAME": "four"}, "depend": "two,three"},
        ],
    )["job"]
    assert head.wait(job)["state"] == "Finished"
    lines = log.read_text().splitlines()
    assert lines[:2] == ["begin one", "end one"]
    assert set(lines[2:4]) == {"begin two", "begin three"}
    assert lines[-2:] == ["begin four", "end four"]


def test_a_sweep_puts_its_values_where_the_asterisks_are(head: RealHead, tmp_path: Path) -> None:
    job = head.submit("echo * '^*' ****", parametric="2-8:3", stdout=f"{tmp_path}/out.***")
    assert head.wait(job)["state"] == "Finished"
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "out.002": "2 * 0002\n",
        "out.005": "5 * 0005\n",
        "out.008": "8 * 0008\n",
    }


def test_a_task_finds_the_variables_of_compute_cluster(head: RealHead) -> None:
    job = head.submit("env", terms={"numprocessors": "2", "jobname": "look"}, numprocessors="2")
    head.wait(job)
    found = dict(line.split("=", 1) for line in head.output(job).splitlines() if "=" in line)
    node = os.uname().nodename.split(".")[0]
    assert found["CCP_JOBID"] == str(job)
    assert found["CCP_JOBNAME"] == "look"
    assert found["CCP_NUMCPUS"] == "2"
    assert found["CCP_NODES"] == f"1 {node} 2"
    assert found["CCP_COREIDS"] == "0 1"
    assert "HEADNODE_TESTS" not in found, "the agent's own environment leaked into a task"


def test_a_task_over_its_run_time_fails_and_leaves_nothing_behind(head: RealHead, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    command = f"setsid sleep 600 &amp; echo $! &gt; {pid}; sleep 600"
    task = f'<Task CommandLine="{command}" RuntimeSeconds="2"/>'
    job = head.ask("submit_job", jobfile=f"<Job><Tasks>{task}</Tasks></Job>")["job"]
    assert head.wait(job)["state"] == "Failed"
    assert "run time" in head.task(job)["message"]
    assert not alive(int(pid.read_text()))


def test_canceling_a_job_ends_its_processes_and_says_so(head: RealHead) -> None:
    job = head.submit("sleep 600", "sleep 600", terms={"numprocessors": "1"})
    head.wait_for(job, "Running")
    head.ask("cancel_job", job=job, force=True, message="enough")
    assert head.wait(job)["state"] == "Canceled"
    assert [head.task(job, task)["state"] for task in (1, 2)] == ["Failed", "Canceled"]
    assert head.ask("job", job=job)["job"]["message"] == "enough"


def test_finishing_a_job_fails_nothing(head: RealHead) -> None:
    job = head.submit("sleep 600")
    head.wait_for(job, "Running")
    head.ask("finish_job", job=job, force=True)
    assert head.wait(job)["state"] == "Finished"
    assert head.task(job)["state"] == "Finished"


def test_a_requeued_job_runs_again(head: RealHead, tmp_path: Path) -> None:
    count = tmp_path / "count"
    job = head.submit(f"echo x >> {count}; exec sleep 600")
    head.wait_for(job, "Running")
    head.until(lambda: count.exists() and count.read_text() == "x\n")
    head.ask("requeue_job", job=job)
    head.until(lambda: count.read_text() == "x\nx\n")
    head.ask("cancel_job", job=job, force=True)
    head.wait(job)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"command": "nonsuch-command"}, "nonsuch-command"),
        ({"command": "/etc/passwd"}, "/etc/passwd"),
        ({"command": "true", "workdir": "/nonsuch/directory"}, "/nonsuch/directory"),
        ({"command": "true", "stdout": "/nonsuch/out"}, "/nonsuch/out"),
        ({"command": "cat", "stdin": "/nonsuch/in"}, "/nonsuch/in"),
    ],
    ids=["no such command", "not executable", "no work directory", "output", "input"],
)
def test_what_cannot_be_started_fails_with_words_that_help(
    head: RealHead, task: dict[str, str], words: str
) -> None:
    job = head.ask("submit_job", tasks=[task])["job"]
    assert head.wait(job)["state"] == "Failed"
    assert words in head.task(job)["message"]


def test_tasks_outlive_head_and_agent(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        go = tmp_path / "go"
        job = head.submit(f"{until_there(go)}; echo survived; exit 5")
        head.wait_for(job, "Running")
        head.kill()
        subprocess.run(["pkill", "-KILL", "-f", f"apps.agent.*{head.state}"], check=True)
        head.start_again()
        go.touch()
        assert head.wait(job)["state"] == "Failed"
        task = head.task(job)
        assert (task["exit_code"], task["attempt"]) == (5, 1)
        assert head.output(job) == "survived\n"


def test_a_clean_stop_leaves_tasks_alone_and_the_next_head_learns_how_they_ended(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        go, over = tmp_path / "go", tmp_path / "over"
        job = head.submit(f"{until_there(go)}; touch {over}; exit 4")
        head.wait_for(job, "Running")
        assert head.ask("stop_head")["running_tasks"] == 1
        head.process.wait(TIMEOUT)
        assert "Traceback" not in head.log()
        head.client.close()
        go.touch()
        head.until(over.exists)
        head.start_again()
        head.wait(job)
        assert head.task(job)["exit_code"] == 4


def test_a_second_head_on_the_same_directory_is_refused_and_changes_nothing(head: RealHead) -> None:
    found = nodes_as_before(head.state)
    command = [sys.executable, "-m", "headnode.apps.server", "--state", str(head.state), "--nodes", "0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode == 1
    assert "already uses the state directory" in second.stderr
    assert nodes_as_before(head.state) == found
    assert head.ask("ping")["pid"] == head.process.pid


@pytest.mark.skipif(not IS_ROOT, reason="needs root to become another user")
def test_another_users_tasks_run_as_that_user_and_others_cannot_touch_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("shared")
    for folder in (directory, *directory.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o711)
    with real_head(directory) as head:
        mine = head.submit("sleep 600")
        command = {"command": "id -un; id -u; id -Gn; pwd; umask", "workdir": "/tmp"}
        job = as_nobody(head, verb="submit_job", tasks=[command])["job"]
        assert head.wait(job)["state"] == "Finished", head.task(job)["message"]
        assert head.output(job).split() == ["nobody", "65534", "nogroup", "/tmp", "0022"]
        kept = Path(head.ask("task_output", job=job, task=1)["standard_output"])
        assert (kept.stat().st_uid, kept.stat().st_mode & 0o077) == (65534, 0)
        assert as_nobody(head, verb="cancel_job", job=mine)["code"] == "not-owner"
        assert as_nobody(head, verb="stop_head")["code"] == "not-administrator"
        assert as_nobody(head, verb="job", job=mine)["ok"]


def as_nobody(head: RealHead, **request: object) -> dict[str, Any]:
    """Ask the head as the user nobody: in a child that becomes nobody for good."""
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        with socket.socket(socket.AF_UNIX) as connection, os.fdopen(written, "wb") as answer:
            connection.connect(str(head.state / "head.sock"))
            body = json.dumps(request).encode()
            connection.sendall(len(body).to_bytes(4, "big") + body)
            stream = connection.makefile("rb")
            answer.write(stream.read(int.from_bytes(stream.read(4), "big")))
        os._exit(0)
    os.close(written)
    with os.fdopen(read, "rb") as answer:
        found: dict[str, Any] = json.loads(answer.read())
    os.waitpid(child, 0)
    return found


@pytest.mark.skipif(not IS_ROOT, reason="needs root to mount a small disk")
def test_a_full_disk_refuses_with_words_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=1500k,mode=755", "tmpfs", str(state)]
    if subprocess.run(small, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a tmpfs here")
    try:
        with real_head(tmp_path) as head:
            _fill_the_disk_and_go_on(head)
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)


def _fill_the_disk_and_go_on(head: RealHead) -> None:
    held = {"holduntil": "60"}
    filler = head.state / "filler"
    acknowledged = [head.submit("true", terms=held)]
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    refused = ""
    while not refused:
        try:
            acknowledged.append(head.submit("true", terms=held))
        except HeadnodeError as error:
            refused = error.code
    assert refused in ("journal-full", "audit")  # whichever finds out first
    assert {job["id"] for job in head.ask("jobs", limit=1000)["jobs"]} == set(acknowledged)
    filler.unlink()
    acknowledged.append(head.submit("true", terms=held))
    head.kill()
    head.start_again()
    assert {job["id"] for job in head.ask("jobs", limit=1000)["jobs"]} == set(acknowledged)


def test_a_head_whose_audit_log_cannot_be_written_is_ended_by_hn_down_all_the_same(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        log = head.state / "audit.log"
        log.mkdir()  # before the first line
        with pytest.raises(HeadnodeError, match=r"the audit log .* cannot be written"):
            head.submit("true")
        hn = [Path(sys.executable).with_name("hn"), "--state", head.state, "down"]
        refused = subprocess.run([*hn, "--cancel-jobs"], capture_output=True, text=True)
        assert (refused.returncode != 0, head.process.poll()) == (True, None)
        down = subprocess.run(hn, capture_output=True, text=True)
        assert (down.returncode, head.process.wait(TIMEOUT)) == (0, 0), down.stderr
        assert down.stdout == "The head has ended. Tasks that run continue without it.\n"
        assert "the head was ended by a signal, without a line in the log" in down.stderr
        log.rmdir()
        head.start_again()
        assert head.wait(head.submit("true"))["state"] == "Finished"


def test_hn_in_a_task_finds_the_head_that_runs_it(head: RealHead) -> None:
    program = Path(sys.executable).with_name("hn")
    job = head.submit(f"{program} job modify $CCP_JOBID --progress 40")
    assert head.wait(job)["state"] == "Finished", head.output(job)
    assert head.ask("job", job=job)["job"]["progress"] == 40


def test_a_task_added_to_a_running_job_runs_there(head: RealHead, tmp_path: Path) -> None:
    go = tmp_path / "go"
    job = head.submit(until_there(go), terms={"numprocessors": "1"})
    head.wait_for(job, "Running")
    head.ask("add_tasks", job=job, tasks=[{"command": "echo added"}])
    go.touch()
    assert head.wait(job)["state"] == "Finished", head.task(job, 2)["message"]
    assert head.output(job, 2) == "added\n"


def test_a_longer_run_time_limit_reaches_a_job_that_runs(head: RealHead) -> None:
    text = '<Job RuntimeSeconds="3"><Tasks><Task CommandLine="sleep 3.5"/></Tasks></Job>'
    job = head.ask("submit_job", jobfile=text)["job"]
    head.wait_for(job, "Running")
    head.ask("modify_job", job=job, terms={"runtime": "5"})  # minutes
    assert head.wait(job)["state"] == "Finished", head.task(job)["message"]


def test_a_task_begins_in_the_home_directory_of_who_started_the_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with real_head(tmp_path) as head:
        job = head.submit("pwd > here", stdout="out.txt")
        assert head.wait(job)["state"] == "Finished", head.task(job)["message"]
        assert (home / "here").read_text() == f"{home}\n"
        assert head.ask("task_output", job=job, task=1)["standard_output"] == str(home / "out.txt")


def test_a_state_directory_may_have_any_length(tmp_path: Path) -> None:
    with real_head(tmp_path / ("d" * 100) / ("e" * 100)) as head:
        assert head.wait(head.submit("true"))["state"] == "Finished"
