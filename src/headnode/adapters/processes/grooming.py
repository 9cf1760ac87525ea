"""A groom makes and removes the groups of one shepherd's tasks, which the shepherd as a user may not do.

It is the parent of the shepherd, in the shepherd's group, and ends with it.  What it is
asked comes from a process of the user: names are numbers, and nothing outside the shepherd's group is
touched.  Each message is a JSON list in a packet: ``["make", number, memory, processes, processors]``
(bytes, a number, and numbers of the machine's processors; None: no limit), answered by ``["made"]`` with
open files into which a process writes ``0`` to enter, or by ``["failed", why]``; and ``["kill", number]``
and ``["remove", number]``, not answered.
Standard library only: this is forked from the shepherd factory.
"""

import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from headnode.adapters.processes import cgroups
from headnode.adapters.processes.hierarchies import Hierarchies

_LARGEST = 65536  # bytes of a message
_AGAIN = 0.02  # seconds between two tries to remove a group in which something still dies
Wanted = tuple[int | None, int | None, list[int] | None]
"""Memory in bytes, how many processes, which processors."""


def name_of(number: int) -> str:
    """Return what the group of a task is called."""
    return f"t{number}"


class Groom:
    """One thread, one loop."""

    def __init__(self, channel: socket.socket, marker: str, found: Hierarchies) -> None:
        self._channel, self._found = channel, found
        self._outer = {place: place / cgroups.name_of(marker) for place in found.places()}
        self._leaving: dict[int, list[Path]] = {}  # groups that are to be removed, by number
        if found.unified is not None:
            self._outer[found.unified] = cgroups.make_tasks(self._outer[found.unified], found)

    def run(self) -> None:
        """Serve until the shepherd is gone."""
        while True:
            self._channel.settimeout(_AGAIN if self._leaving else None)
            message = self._hear()
            if message == b"":
                return
            if message is not None:
                self._obey(json.loads(message))
            self._remove_what_is_empty()

    def _hear(self) -> bytes | None:
        """Return what the shepherd says, nothing when it is gone, None when it is silent for a while."""
        try:
            return self._channel.recv(_LARGEST)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""

    def _obey(self, message: list[Any]) -> None:
        match message:
            case ["make", int(number), memory, processes, processors]:
                self._answer(number, (memory, processes, processors))
            case ["kill", int(number)]:
                for group in self._groups(number):
                    cgroups.kill(group)
            case ["remove", int(number)]:
                self._leaving[number] = self._groups(number)

    def _groups(self, number: int) -> list[Path]:
        return [outer / name_of(number) for outer in self._outer.values()]

    def _answer(self, number: int, wanted: Wanted) -> None:
        opened: list[int] = []
        try:
            for group in self._groups(number):
                group.mkdir()
            self._limit(number, wanted)
            for group in self._groups(number):
                opened.append(os.open(group / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC))
            socket.send_fds(self._channel, [json.dumps(["made"]).encode()], opened)
        except (OSError, TypeError, ValueError) as error:
            self._leaving[number] = self._groups(number)
            with contextlib.suppress(OSError):
                self._channel.send(json.dumps(["failed", str(error)]).encode())
        finally:
            for file in opened:
                os.close(file)

    def _limit(self, number: int, wanted: Wanted) -> None:
        memory, processes, processors = wanted
        where = {
            name: self._outer[place] / name_of(number) for name, place in self._found.controllers.items()
        }
        if memory is not None and "memory" in where:
            limit_memory(where["memory"], int(memory), self._found.version)
        if processes is not None and "pids" in where:
            (where["pids"] / "pids.max").write_text(str(int(processes)))
        if "cpuset" in where:
            self._bind(where["cpuset"], processors)

    def _bind(self, group: Path, processors: list[int] | None) -> None:
        if self._found.version == "v1":
            cgroups.inherit(group)
        if processors:
            with contextlib.suppress(OSError):  # one was taken from us since: the affinity must do
                (group / "cpuset.cpus").write_text(",".join(str(int(each)) for each in processors))

    def _remove_what_is_empty(self) -> None:
        for number, groups in list(self._leaving.items()):
            left = [group for group in groups if group.exists() and not cgroups.remove(group)]
            for group in left:
                cgroups.kill(group)
            if left:
                self._leaving[number] = left
            else:
                del self._leaving[number]


def limit_memory(group: Path, most: int, version: str) -> None:
    """Let a group have so many bytes and no swap beyond; who needs more is killed.

    Raises:  OSError.
    """
    if version == "v2":
        (group / "memory.max").write_text(str(most))
        (group / "memory.oom.group").write_text("1")
        swap, amount = group / "memory.swap.max", 0
    else:
        (group / "memory.limit_in_bytes").write_text(str(most))
        swap, amount = group / "memory.memsw.limit_in_bytes", most  # of memory and swap together
    with contextlib.suppress(OSError):  # systems that do not count swap have no such file
        swap.write_text(str(amount))


def be_groom(channel: socket.socket, marker: str, found: Hierarchies) -> None:
    """Be the groom of a shepherd until that is gone."""
    try:
        Groom(channel, marker, found).run()
    except OSError as error:
        print(f"the groom of shepherd {marker} ends: {error}", file=sys.stderr)  # noqa: T201 (the shepherds' log)
