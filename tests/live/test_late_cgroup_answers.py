"""A shepherd whose cgroup helper answers late, with the test as the helper."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from headnode.adapters.processes import cgroup_helper, cgroups
from headnode.adapters.processes.cgroup_helper import NoGroup, TaskCgroup, TaskCgroups
from headnode.adapters.processes.cgroups import Hierarchies

MARKER = "late"


class Helper:
    """Hears what the shepherd asks for, and answers when the test says so."""

    def __init__(self, folder: Path, channel: socket.socket) -> None:
        self.folder, self._channel = folder, channel

    def answer(self, number: int) -> None:
        entrance = os.open(self.entrance(number), os.O_WRONLY | os.O_CREAT)
        socket.send_fds(self._channel, [json.dumps(["made", number]).encode()], [entrance])
        os.close(entrance)

    def entrance(self, number: int) -> Path:
        return self.folder / f"entrance-{number}"

    def received(self) -> list[Any]:
        return list(json.loads(self._channel.recv(4096)))


def enters(group: TaskCgroup) -> list[Path]:
    return [Path(f"/proc/self/fd/{file}").readlink() for file in group.entrances]


def test_an_answer_that_comes_too_late_is_not_taken_for_that_of_the_next_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup_helper, "_TIMEOUT", 0.05)
    own = tmp_path / cgroups.name_of(MARKER) / cgroups.SHEPHERD
    own.mkdir(parents=True)
    (own / "cgroup.procs").touch()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        groups, helper = TaskCgroups(ours, MARKER, Hierarchies("v2", tmp_path, {})), Helper(tmp_path, theirs)
        with pytest.raises(NoGroup):
            groups.make(None, None, ())
        helper.answer(1)
        helper.answer(2)
        second = groups.make(None, None, ())
        assert enters(second) == [helper.entrance(2)]
        assert [helper.received()[:2] for _ in range(3)] == [["make", 1], ["remove", 1], ["make", 2]]
        second.entered()
