"""A process that answers questions may be lost: its questions fail, and the next one starts another."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headnode.adapters.wire.child_service import ChildProgram, ChildService

CHILD = """
import os, time
from concurrent.futures import ThreadPoolExecutor
from headnode.adapters.wire.child_end import end_on_fault, messages, parent_channel
from headnode.adapters.wire.frame_codec import frame
channel, late = parent_channel(), []
for message in messages(channel):
    if message == b"die":
        os._exit(3)
    elif message == b"fault":
        ThreadPoolExecutor().submit(divmod, 1, 0).add_done_callback(end_on_fault)
    elif message == b"too large":
        channel.sendall((1 << 20).to_bytes(4, "big"))
    elif message.startswith(b"late"):
        late.append(message)
    else:
        channel.sendall(b"".join(map(frame, [message, *late])))
    if message == b"stay":
        time.sleep(1000)
"""


def read(message: bytes) -> tuple[bytes, str]:
    """Return the answer, which names its question; ASCII only."""
    return message, f"{message.decode('ascii')}!"


def with_service(folder: Path, story: Callable[[ChildService[str]], Awaitable[None]]) -> None:
    (folder / "child_of_test.py").write_text(CHILD)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    program = ChildProgram("child_of_test", environment=environment)

    async def reported() -> None:
        service = ChildService(program, read, 1000)
        try:
            await story(service)
        finally:
            await service.end()

    asyncio.run(asyncio.wait_for(reported(), 60.0))


def test_each_question_gets_its_own_answer_in_whatever_order_they_come(tmp_path: Path) -> None:
    async def story(service: ChildService[str]) -> None:
        assert not service.is_up
        asked = [await service.ask(key, key) for key in (b"late 1", b"late 2", b"now")]
        assert await asyncio.gather(*asked) == ["late 1!", "late 2!", "now!"]
        assert await service.end(30.0) == 0

    with_service(tmp_path, story)


@pytest.mark.parametrize("word", [b"die", b"too large", b"\xff", b"fault"])
def test_what_a_lost_process_has_not_answered_fails_and_the_next_question_starts_another(
    word: bytes, tmp_path: Path
) -> None:
    async def story(service: ChildService[str]) -> None:
        asked = [await service.ask(key, key) for key in (b"late", word)]
        for answer in asked:
            with pytest.raises(ConnectionError):
                await answer
        assert await (await service.ask(b"again", b"again")) == "again!"

    with_service(tmp_path, story)


def test_a_process_that_does_not_end_when_we_hang_up_is_killed(tmp_path: Path) -> None:
    async def story(service: ChildService[str]) -> None:
        assert await (await service.ask(b"stay", b"stay")) == "stay!"
        never = await service.ask(b"never", b"never")
        assert await service.end(0.1) == -signal.SIGKILL
        with pytest.raises(ConnectionError):
            await never
        assert await (await service.ask(b"again", b"again")) == "again!"

    with_service(tmp_path, story)
