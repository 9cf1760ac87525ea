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
from headnode.apps.agent.output import (
    MAX_AT_ONCE,
    MAX_OF_USER,
    MAX_WAITING,
    MAX_WAITING_OF_USER,
    ReadingTurns,
    TaskFileReader,
)


def order(number: int, owner: str = "me") -> ReadFile:
    return ReadFile(number, "/out", owner, os.geteuid(), os.getegid(), True, 0, 100)


def test_a_file_is_read_while_all_threads_of_the_agent_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("written")

    async def opened(path: str, uid: int, gid: int) -> int:
        return os.open(file, os.O_RDONLY)

    async def read() -> OutputRead:
        loop, go_on = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        taken = loop.run_in_executor(None, go_on.wait)
        found: asyncio.Future[FromAgent] = loop.create_future()
        reader = TaskFileReader("n1", opened, found.set_result)
        reader.start(order(7), far=False)
        try:
            answer = await asyncio.wait_for(found, 20)
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

        messages: list[FromAgent] = []
        reader = TaskFileReader("n1", opened, messages.append)
        for number in range(MAX_AT_ONCE + MAX_WAITING + 1):
            reader.start(order(number, f"user{number % 10}"), far=False)
        await asyncio.sleep(0)
        found = list(messages)
        await reader.close()
        return found

    full = "too many reads of files wait on node 'n1'"
    number = MAX_AT_ONCE + MAX_WAITING
    assert asyncio.run(refused()) == [OutputRead(number=number, data=b"", size=0, problem=full)]


def answers_beside_hanging_reads(
    folder: Path, hanging: list[str], reading: str, number: int = 1, turns: ReadingTurns | None = None
) -> list[OutputRead]:
    """Return the answers to a user who reads, behind the users of reads that hang."""
    file = folder / "out"
    file.write_text("written")

    async def read() -> list[OutputRead]:
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        left = len(hanging)

        async def opened(path: str, uid: int, gid: int) -> int:
            nonlocal left
            if left:
                left -= 1
                return await never
            return os.open(file, os.O_RDONLY)

        shown: asyncio.Queue[FromAgent] = asyncio.Queue()
        reader = TaskFileReader("n1", opened, shown.put_nowait, turns)
        for owner in hanging:
            reader.start(order(0, owner), far=False)
        while left:
            await asyncio.sleep(0)
        for each in range(1, number + 1):
            reader.start(order(each, reading), far=False)
        try:
            async with asyncio.timeout(20):
                found = [await shown.get() for _ in range(number)]
        finally:
            await reader.close()
        return [answer for answer in found if isinstance(answer, OutputRead)]

    return asyncio.run(read())


def test_hanging_reads_of_one_user_leave_turns_to_others(tmp_path: Path) -> None:
    hanging = ["me"] * MAX_OF_USER
    (answer,) = answers_beside_hanging_reads(tmp_path, hanging, "other")
    assert answer.data == b"written"


def test_a_user_whose_reads_hang_gets_no_further_turn_and_one_read_more_than_may_wait_is_refused() -> None:
    async def scene() -> list[FromAgent]:
        never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        opens = 0

        async def opened(path: str, uid: int, gid: int) -> int:
            nonlocal opens
            opens += 1
            return await never

        messages: list[FromAgent] = []
        reader = TaskFileReader("n1", opened, messages.append, ReadingTurns(hangs=0.0))
        for number in range(MAX_OF_USER + MAX_WAITING_OF_USER + 1):
            reader.start(order(number), far=False)
        for _ in range(100):
            await asyncio.sleep(0)
        assert opens == MAX_OF_USER
        await reader.close()
        return messages

    full = OutputRead(MAX_OF_USER + MAX_WAITING_OF_USER, b"", 0, "too many reads of files wait on node 'n1'")
    assert asyncio.run(scene()) == [full]


def test_hanging_reads_of_many_users_give_their_turns_to_others(tmp_path: Path) -> None:
    users = [f"user{number}" for number in range(2 * MAX_AT_ONCE)]
    answers = answers_beside_hanging_reads(tmp_path, users, "other", 3, ReadingTurns(hangs=0.01))
    assert [answer.data for answer in answers] == [b"written"] * 3


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


def test_many_directories_that_take_long_keep_a_job_from_ending_for_a_limited_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [tmp_path / name for name in ("first", "second", "third")]
    for path in paths:
        (path / "x").mkdir(parents=True)
    with caplog.at_level(logging.ERROR):
        remove_leftovers(map(str, paths), os.geteuid(), in_all=0.0)
    assert [path.exists() for path in paths] == [False, True, True]
    assert f"2 directories from {paths[1]} on were not removed" in caplog.text
