"""Reads of users' files that hang leave the agent its threads, and what waits for them has a bound."""

import asyncio
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headnode.adapters.wire.agent_messages import OutputRead
from headnode.adapters.wire.messages import FromAgent, ReadFile
from headnode.apps.agent.leftovers import remove_leftovers
from headnode.apps.agent.output import MOST_AT_ONCE, MOST_WAITING, TaskFileReader


def order(number: int) -> ReadFile:
    return ReadFile(number, "/out", "me", os.geteuid(), os.getegid(), True, 0, 100)


def test_a_file_is_read_while_all_threads_of_the_agent_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("written")

    async def opened(path: str, uid: int, gid: int) -> int:
        return os.open(file, os.O_RDONLY)

    async def read() -> OutputRead:
        loop, go_on = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        taken = loop.run_in_executor(None, go_on.wait)
        said: asyncio.Future[FromAgent] = loop.create_future()
        reader = TaskFileReader("n1", opened, said.set_result)
        reader.start(order(7), far=False)
        try:
            answer = await asyncio.wait_for(said, 20)
        finally:
            go_on.set()
            await taken
            await reader.close()
        assert isinstance(answer, OutputRead)
        return answer

    assert asyncio.run(read()).data == b"written"


def test_a_read_is_refused_when_too_many_wait() -> None:
    async def refused() -> list[FromAgent]:
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def opened(path: str, uid: int, gid: int) -> int:
            return await never

        said: list[FromAgent] = []
        reader = TaskFileReader("n1", opened, said.append)
        for number in range(MOST_AT_ONCE + MOST_WAITING + 1):
            reader.start(order(number), far=False)
        await asyncio.sleep(0)
        found = list(said)
        await reader.close()
        return found

    full = "too many reads of files wait on node 'n1'"
    number = MOST_AT_ONCE + MOST_WAITING
    assert asyncio.run(refused()) == [OutputRead(number=number, data=b"", size=0, problem=full)]


def test_a_directory_that_is_not_removed_in_time_is_left(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "private"
    for number in range(2000):
        (directory / str(number)).mkdir(parents=True)
    with caplog.at_level(logging.ERROR):
        remove_leftovers([str(directory)], os.geteuid(), 0.0)
    assert directory.exists()
    assert "was not removed within 0 seconds" in caplog.text
    remove_leftovers([str(directory)], os.geteuid())
    assert not directory.exists()
