"""What a task may ask of the agent by its launcher has bounds, and strange words are refused."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import pytest

from headnode.adapters.processes.job_journal import Key
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.message_checks import read_message
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent import launch_client
from headnode.apps.agent.launch_client import LaunchClient
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.task_tools import LaunchPlaces
from headnode.core.model.quantities import JobId

TASK = "1.1.1.1"


class Node:
    """A node with one attempt, and a head that does not answer."""

    def __init__(self, folder: Path) -> None:
        self.places = LaunchPlaces(folder, folder)
        self.client = LaunchClient("n1", self.places, cast(NodeServices, self), asyncio.ensure_future)
        self.socket = folder / "s"

    def send(self, message: FromAgent) -> None:
        """Nobody hears it, but it must be one that a head understands: else it drains the node."""
        read_message(msgspec.msgpack.encode(message), 1.8e9)

    def user_of(self, job: JobId, key: Key) -> int | None:
        return os.geteuid() if (job, *key) == (1, 1, 1, 1) else None

    def temporary_name(self, number: JobId, key: Key) -> str:
        return ""

    @asynccontextmanager
    async def asked(self, **words: object) -> AsyncIterator[asyncio.StreamReader]:
        request = {
            "secret": self.places.secret(TASK),
            "task": TASK,
            "host": "n2",
            "command": "true",
            "directory": "/",
            "environment": {},
        }

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await self.client.serve(json.dumps(request | words).encode(), os.geteuid(), reader, writer)
            finally:
                writer.close()

        async with await asyncio.start_unix_server(serve, self.socket):
            reader, writer = await asyncio.open_unix_connection(self.socket)
            try:
                yield reader
            finally:
                writer.close()

    async def refusal(self, **words: object) -> str:
        async with self.asked(**words) as reader, asyncio.timeout(20):
            answer = await read_frame(reader, 1 << 20)
            return str(json.loads((answer or b"x{}")[1:]))


def test_a_secret_of_other_letters_is_refused_like_any_wrong_one(tmp_path: Path) -> None:
    async def refused() -> str:
        return await Node(tmp_path).refusal(secret="\u00e9")

    assert "this is not task '1.1.1.1'" in asyncio.run(refused())


def test_no_name_of_a_node_is_longer_than_names_are(tmp_path: Path) -> None:
    async def refused() -> tuple[str, frozenset[str]]:
        node = Node(tmp_path)
        message = await node.refusal(host="n" * 1_000_000)
        return message, node.client.gathering.targets(JobId(1), (1, 1, 1))

    message, targets = asyncio.run(refused())
    assert "the request was not understood" in message
    assert not targets


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ({"command": "x" * 140_000}, "a command line of 140,000 characters"),
        ({"environment": {f"V{number}": "" for number in range(10_001)}}, "a command with 10,001 variables"),
    ],
)
def test_a_command_that_is_too_large_is_refused_and_drains_no_node(
    tmp_path: Path, words: dict[str, object], problem: str
) -> None:
    message = asyncio.run(Node(tmp_path).refusal(**words))
    assert f"{problem} cannot be launched on another node" in message
    assert "131,071" in message


def test_a_task_names_so_many_nodes_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_client, "MAX_TARGETS", 2, raising=False)

    async def refused() -> str:
        node = Node(tmp_path)
        for name in ("n2", "n3"):
            node.client.gathering.launches(JobId(1), (1, 1, 1), name)
        return await node.refusal(host="n4")

    assert "the task has named 2 nodes already" in asyncio.run(refused())


def test_a_user_launches_so_many_commands_at_a_time_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_client, "MAX_LAUNCHES", 2, raising=False)

    async def refused() -> str:
        node = Node(tmp_path)
        async with AsyncExitStack() as stack, asyncio.timeout(20):
            for number in (1, 2):
                await stack.enter_async_context(node.asked())
                while len(node.client.streams) < number:
                    await asyncio.sleep(0)
            return await node.refusal()

    assert "has 2 commands running from this node" in asyncio.run(refused())
