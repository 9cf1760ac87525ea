"""An agent in an allocation: what the other scheduler kills is lost with the node, and has not failed."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_scene import Scene, alive

from headnode.core.model.outcome import AttemptOutcome

FIRST = (1, 1, 1)
WRITES_ITS_NUMBER = "echo $$ > number; exec sleep 30"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    scene.options = ["--allocation"]
    with scene:
        yield scene


def running(scene: Scene, command: str = WRITES_ITS_NUMBER) -> int:
    """Let a task run; return its process."""
    scene.job(command, rerunnable=True)
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    return scene.number("number")


def signal_task(scene: Scene, process: int, number: int) -> None:
    """End a task from outside, and wait until its shepherd has written that down."""
    os.kill(process, number)
    (journal,) = (scene.state / "jobs").glob("*.journal")
    scene.head.until(lambda: b'["ended"' in journal.read_bytes())


def end_agent(scene: Scene) -> list[AttemptOutcome]:
    """End the agent as the script of its allocation does; return what was told of the task."""
    assert scene.agent is not None
    scene.agent.terminate()
    scene.head.until(scene.agent_has_ended)
    return scene.head.results.get(FIRST, [])


def test_what_runs_when_an_allocation_is_ended_is_lost_and_has_not_failed(scene: Scene) -> None:
    process = running(scene)
    assert {each.kind for each in end_agent(scene)} == {"lost"}
    assert not alive(process)
    assert not scene.head.healthy  # so nothing is started here again


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_task_that_is_killed_a_moment_before_its_agent_is_told_to_end_is_lost(
    scene: Scene, number: int
) -> None:
    signal_task(scene, running(scene), number)
    found = end_agent(scene)
    assert {(each.kind, each.signal) for each in found} == {("lost", None)}


def test_a_task_whose_shell_saw_its_last_program_killed_is_lost_too(scene: Scene) -> None:
    process = running(scene, "sleep 30 & echo $! > number; wait $!; exit $?")
    signal_task(scene, process, signal.SIGTERM)
    assert {(each.kind, each.exit_code) for each in end_agent(scene)} == {("lost", None)}


CATCHES = "trap 'exit 7' TERM; echo $$ > number; while :; do sleep 0.02; done"


def test_a_task_that_catches_the_signal_and_ends_with_its_own_code_is_lost_too(scene: Scene) -> None:
    signal_task(scene, running(scene, CATCHES), signal.SIGTERM)
    assert {(each.kind, each.exit_code) for each in end_agent(scene)} == {("lost", None)}


@pytest.mark.parametrize("more", [{"rerunnable": False}, {"valid_exit_codes": ((7, 7),)}])
def test_a_task_that_may_not_run_again_or_has_succeeded_has_its_own_code(
    scene: Scene, more: dict[str, Any]
) -> None:
    scene.job(CATCHES, **{"rerunnable": True, **more})
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    signal_task(scene, scene.number("number"), signal.SIGTERM)
    assert {(each.kind, each.exit_code) for each in end_agent(scene)} == {("exited", 7)}


def test_a_task_that_fails_while_its_allocation_goes_on_has_failed(scene: Scene) -> None:
    scene.job("exit 3", rerunnable=True)
    scene.head.run(1, (1, 1))
    assert scene.head.result(1).exit_code == 3


def test_of_a_task_that_is_killed_a_moment_before_its_agent_nothing_is_told(scene: Scene) -> None:
    signal_task(scene, running(scene), signal.SIGKILL)
    scene.kill_agent()
    scene.head.receive(0.1)
    assert not scene.head.results


def test_a_task_that_is_killed_while_its_allocation_goes_on_has_failed(scene: Scene) -> None:
    signal_task(scene, running(scene), signal.SIGKILL)
    result = scene.head.result(1)
    assert (result.kind, result.signal) == ("exited", 9)
    scene.head.close_job()


def test_a_task_that_ended_by_itself_has_its_result_although_the_allocation_ends(scene: Scene) -> None:
    scene.head.acknowledges = False
    scene.job("exit 3")
    scene.head.run(1, (1, 1))
    result = scene.head.result(1)
    assert (result.kind, result.exit_code) == ("exited", 3)
    scene.head.acknowledge()
    assert {(each.kind, each.exit_code) for each in end_agent(scene)} == {("exited", 3)}


def test_a_job_that_is_closed_takes_the_result_of_a_killed_task_along_at_once(scene: Scene) -> None:
    signal_task(scene, running(scene), signal.SIGTERM)
    scene.head.close_job()
    assert scene.head.result(1).signal == signal.SIGTERM
