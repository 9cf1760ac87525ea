"""Nodes are prepared and released by real processes: once each, whoever dies in between."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, head_fixture, processes

head = head_fixture(nodes=2, processors=1)


def until_written(path: Path, text: str) -> list[str]:
    """Wait until a line with this text is in the file; return its lines."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if any(text in line for line in lines):
            return lines
        time.sleep(0.01)
    raise AssertionError(f"{text!r} is not in {path}")


def both(log: Path) -> str:
    """Return the command that waits until two nodes are prepared: one alone might do all the work."""
    return f"until test $(grep -c prepared {log}) = 2; do sleep 0.01; done"


def special(log: Path, prepare: str = "true", release: str = "true") -> list[dict[str, str]]:
    return [
        {"type": "NodePrep", "command": f"{prepare}; echo prepared $HEADNODE_NODE >> {log}"},
        {"type": "NodeRelease", "command": f"{release}; echo released $HEADNODE_NODE >> {log}"},
    ]


def test_each_node_is_prepared_first_and_released_last(head: RealHead, tmp_path: Path) -> None:
    log = tmp_path / "log"
    work = {"command": f"{both(log)}; echo task $HEADNODE_NODE >> {log}", "parametric": "1-6"}
    job = head.ask("submit_job", terms={"numprocessors": "2-2"}, tasks=[*special(log), work])["job"]
    assert head.wait(job)["state"] == "Finished"
    lines = [line.split() for line in log.read_text().splitlines()]
    for node in {node for _, node in lines}:
        found = [word for word, where in lines if where == node]
        assert found[0] == "prepared"
        assert found[-1] == "released"
        assert set(found[1:-1]) <= {"task"}
    assert sorted(word for word, _ in lines) == ["prepared"] * 2 + ["released"] * 2 + ["task"] * 6
    shown = head.ask("tasks", job=job, expand=1)["tasks"]
    assert {row["node"] for row in shown} == {node for _, node in lines}
    assert [row["state"] for row in shown] == ["Finished"] * 2
    assert head.task(job, 1)["instances"]["finished"] == 2
    assert head.task(job, 2, instance=2)["state"] == "Finished"


def test_the_job_goes_on_without_the_node_that_cannot_be_prepared(head: RealHead, tmp_path: Path) -> None:
    log = tmp_path / "log"
    bad = head.ask("nodes")["nodes"][0]["name"]
    gate = tmp_path / "gate"
    wait = f"until test -e {gate}; do sleep 0.01; done"
    work = {"command": f"{wait}; echo task $HEADNODE_NODE >> {log}", "parametric": "1-4"}
    tasks = [*special(log, prepare=f"test $HEADNODE_NODE != {bad} || exit 5"), work]
    job = head.ask("submit_job", terms={"numprocessors": "1-2"}, tasks=tasks)["job"]
    deadline = time.monotonic() + TIMEOUT
    while head.task(job, 1)["instances"]["failed"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    gate.touch()
    assert head.wait(job)["state"] == "Finished"
    assert not [line for line in log.read_text().splitlines() if bad in line]
    history = str(head.ask("job_history", job=job)["history"][2:])
    assert f"node {bad} could not be prepared: the program ended with exit code 5" in history


def test_a_canceled_job_releases_its_nodes_and_a_forced_one_does_not(head: RealHead, tmp_path: Path) -> None:
    for force in (False, True):
        log = tmp_path / f"log{force}"
        tasks = [*special(log), {"command": f"echo runs >> {log}; sleep 100"}]
        job = head.ask("submit_job", terms={}, tasks=tasks)["job"]
        until_written(log, "runs")
        head.ask("cancel_job", job=job, force=force)
        assert head.wait(job)["state"] == "Canceled"
        assert any("released" in line for line in log.read_text().splitlines()) is not force


def test_a_release_that_takes_too_long_is_ended_and_the_job_is_what_it_was(
    head: RealHead, tmp_path: Path
) -> None:
    head.ask("set_parameters", values={"NodeReleaseTaskTimeout": "1"})
    tasks = [*special(tmp_path / "log", release="sleep 100"), {"command": "true"}]
    job = head.ask("submit_job", terms={}, tasks=tasks)["job"]
    assert head.wait(job)["state"] == "Finished"
    release = head.task(job, 2, instance=1)
    assert release["state"] == "Failed"
    assert release["message"] == "the run time limit of the task, 1 s, expired"


def test_head_and_agents_killed_while_nodes_are_prepared_prepare_none_twice(
    head: RealHead, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    slow = f"echo begins $HEADNODE_NODE >> {log}; sleep 1"
    command = f"{both(log)}; echo task $HEADNODE_NODE >> {log}; sleep 0.3"
    work = {"command": command, "parametric": "1-4"}
    tasks = [*special(log, prepare=slow, release=slow.replace("begins", "leaves")), work]
    job = head.ask("submit_job", terms={"numprocessors": "2-2"}, tasks=tasks)["job"]
    for moment in ("begins", "prepared", "task", "leaves"):
        until_written(log, moment)
        head.process.send_signal(signal.SIGKILL)
        head.process.wait()
        for agent in processes(b"headnode.apps.agent", b"--state\0" + str(head.state).encode()):
            with suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)
        head.start_again()
    assert head.wait(job)["state"] == "Finished"
    words = [line.split()[0] for line in log.read_text().splitlines()]
    counts = {word: words.count(word) for word in words}
    assert counts == {"begins": 2, "prepared": 2, "task": 4, "leaves": 2, "released": 2}


def test_a_service_runs_on_all_processors_again_and_again_until_its_job_is_finished(
    head: RealHead, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    service = {"type": "Service", "command": f"echo serves $CCP_TASKINSTANCEID >> {log}; sleep 100"}
    job = head.ask("submit_job", terms={"numprocessors": "1-2"}, tasks=[service])["job"]
    until_written(log, "serves 2")
    head.ask("cancel_task", job=job, task=1, instance=1)
    until_written(log, "serves 3")
    head.ask("finish_job", job=job)
    assert head.wait(job)["state"] == "Finished"
    with pytest.raises(HeadnodeError, match="has no sub-task 4"):
        head.task(job, 1, instance=4)
