"""The agent with real processes: what runs, how it ends, and where its output goes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.adapters.nodes import messages as m

from agent_scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path) as scene:
        yield scene


def test_exit_codes_and_signals_are_kept(scene: Scene) -> None:
    scene.job("exit 3", "/bin/true", "kill -9 $$")
    for task in (1, 2, 3):
        scene.head.run(task, (1, 1), processor=task)
    ended = [scene.head.result(task) for task in (1, 2, 3)]
    assert [(each.kind, each.exit_code, each.signal) for each in ended] == [
        ("exited", 3, None),
        ("exited", 0, None),
        ("exited", None, 9),
    ]
    scene.head.close_job()
    assert not scene.shepherds()
