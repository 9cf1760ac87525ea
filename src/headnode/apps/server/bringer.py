"""Who brings the notices: a process beside the head, started when there is something to bring."""

import asyncio
import contextlib
import sys
from collections.abc import Callable

import msgspec

from headnode.adapters.nodes.framing import frame, read_frame
from headnode.adapters.notify.bringing import Delivered, Delivery
from headnode.core.model.errors import BadRequest

LONGEST = 120.0  # seconds without an answer, though one is due: the process is stuck
_LARGEST = 1024 * 1024  # bytes of an answer


class Bringer:
    """Gives deliveries to a process, and tells what became of them; it is started again when it was lost."""

    def __init__(self, told: Callable[[Delivered], None]) -> None:
        self._told = told
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._answers = msgspec.msgpack.Decoder(Delivered)
        self.busy: set[tuple[int, str]] = set()  # numbers and addresses of what it has to bring

    async def give(self, delivery: Delivery) -> None:
        """Let it bring something.

        Raises:  OSError when it cannot be started, or does not read.
        """
        process = await self._started()
        if process.stdin is None:
            raise OSError("it has no pipes")
        self.busy.add((delivery.notice.number, delivery.address))
        process.stdin.write(frame(msgspec.msgpack.encode(delivery)))
        await process.stdin.drain()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            await self.end()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "headnode.apps.notify",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd="/",
            )  # fmt: skip
            self._listening = asyncio.create_task(self._listen(self._process))
        return self._process

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Hear what became of deliveries until it falls silent, which it may while it has none."""
        if process.stdout is None:
            return
        with contextlib.suppress(BadRequest, msgspec.DecodeError, TimeoutError):
            while True:
                async with asyncio.timeout(LONGEST):
                    answer = await read_frame(process.stdout, _LARGEST)
                if answer is None:
                    break
                self._hear(self._answers.decode(answer))
        self.busy.clear()
        with contextlib.suppress(ProcessLookupError):
            process.kill()

    def _hear(self, answer: Delivered) -> None:
        self.busy.discard((answer.number, answer.address))
        self._told(answer)

    async def end(self) -> None:
        """End the process; what it had to bring is still to be brought."""
        process, self._process = self._process, None
        listening, self._listening = self._listening, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if listening is not None:
            await listening
        self.busy.clear()
