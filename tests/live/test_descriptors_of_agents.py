"""An agent whose descriptors are used up, or that strangers would like to use up."""

import os
import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from agent_scene import JOB, TIMEOUT, Scene, alive, scene_fixture

from headnode.adapters import process_tree
from headnode.adapters.processes.agent_link import AGENT_SOCKET
from headnode.adapters.processes.launcher import SOCKET
from headnode.adapters.wire.messages import Hooks
from headnode.apps.agent.silent_peers import MAX_OF_ONE
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.task import TaskSpec

UNKNOWN = JobId(99)  # a job that is not open: its order makes the agent say a heartbeat at once

scene = scene_fixture()


@contextmanager
def nothing_can_be_opened(scene: Scene) -> Iterator[None]:
    """Let the agent open nothing more; what is open stays so."""
    assert scene.agent is not None
    before = resource.prlimit(scene.agent.pid, resource.RLIMIT_NOFILE, (1, 20_000))
    try:
        yield
    finally:
        resource.prlimit(scene.agent.pid, resource.RLIMIT_NOFILE, before)


def some_turns(scene: Scene) -> None:
    """Let the agent take in what has happened: each turn is a question and its answer."""
    for _ in range(5):
        received = len(scene.head.heartbeats)
        scene.head.run(1, (1, 1), job=UNKNOWN)
        scene.head.until(lambda received=received: len(scene.head.heartbeats) > received)


def test_a_shepherd_that_dies_when_no_file_can_be_opened_is_settled_when_one_can(scene: Scene) -> None:
    scene.job("sleep 600")
    scene.head.run(1, (1, 1))
    scene.head.until(lambda: scene.head.started)
    shepherd = scene.shepherd()
    with nothing_can_be_opened(scene):
        os.kill(shepherd, signal.SIGKILL)
        scene.head.until(lambda: not alive(shepherd))
        some_turns(scene)
    assert scene.head.result(1).kind == "lost"


def test_a_prolog_that_ends_when_no_file_can_be_opened_has_ended_when_one_can(
    scene: Scene, tmp_path: Path
) -> None:
    prolog = tmp_path / "prolog"
    lines = "echo $$ > begun.new; mv begun.new begun", "until [ -e go ]; do sleep 0.01; done"
    prolog.write_text("\n".join(("#!/bin/sh", f"cd {scene.work}", *lines, "")))
    prolog.chmod(0o755)
    job = JobSpec(name="test", tasks=(TaskSpec(command="true", work_directory=str(scene.work)),))
    scene.head.open(job, hooks=Hooks(prolog=str(prolog), prolog_timeout=Seconds(600.0)))
    scene.head.until(lambda: (scene.work / "begun").exists())
    keeper = process_tree.picture()[scene.number("begun")].parent
    with nothing_can_be_opened(scene):
        (scene.work / "go").touch()
        scene.head.until(lambda: not alive(keeper))
        some_turns(scene)
    scene.head.until(lambda: JOB in scene.head.ready)


@contextmanager
def connections(path: Path, number: int) -> Iterator[list[socket.socket]]:
    """Connect to a socket of the agent, and say nothing."""
    with ExitStack() as opened:
        found = [opened.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(number)]
        for each in found:
            each.connect(str(path))
            each.settimeout(TIMEOUT / 2)
        yield found


def test_who_is_no_shepherd_keeps_no_connection_to_the_socket_of_shepherds(scene: Scene) -> None:
    with connections(scene.state / "run" / AGENT_SOCKET, 40) as silent:
        assert [each.recv(1) for each in silent] == [b""] * len(silent)


def test_a_user_who_connects_again_and_again_and_says_nothing_gets_so_many_connections(scene: Scene) -> None:
    with connections(scene.state / "run" / SOCKET, MAX_OF_ONE + 20) as silent:
        assert [each.recv(1) for each in silent[MAX_OF_ONE:]] == [b""] * 20
