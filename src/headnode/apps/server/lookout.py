"""Who looks ahead for the head: a process of its own, started when it is first needed."""

import asyncio
import contextlib
import sys

import msgspec

from headnode.adapters.nodes.framing import frame, read_frame
from headnode.apps.foresee.question import Question
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.engine.foreseeing import Outlook, Situation

GRACE = 10.0  # seconds beyond those it was given, after which it is taken for stuck
LARGEST_ANSWER = 64 * 1024 * 1024  # bytes


class Lookout:
    """Looks ahead in a process beside this one, which is started again when it was lost."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._outlooks = msgspec.msgpack.Decoder(Outlook)

    async def look(self, situation: Situation, seconds: float) -> Outlook:
        """Return what is seen ahead within so many seconds.

        Raises:  Unavailable ``lookout`` when the process cannot be started, was lost or is stuck.
        """
        question = msgspec.msgpack.encode(Question(situation, seconds))
        try:
            async with asyncio.timeout(seconds + GRACE):
                answer = await self._answer(question)
            return self._outlooks.decode(answer)
        except (OSError, TimeoutError, BadRequest, msgspec.DecodeError) as trouble:
            await self.end()
            raise Unavailable(
                code="lookout",
                what=f"the process that looks ahead was lost: {str(trouble) or type(trouble).__name__}",
                fix="another is started for the next look; see the head's log",
            ) from trouble

    async def _answer(self, question: bytes) -> bytes:
        process = await self._started()
        if process.stdin is None or process.stdout is None:
            raise OSError("it has no pipes")
        process.stdin.write(frame(question))
        await process.stdin.drain()
        answer = await read_frame(process.stdout, LARGEST_ANSWER)
        if answer is None:
            raise OSError("it hung up")
        return answer

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "headnode.apps.foresee",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd="/",
            )  # fmt: skip
        return self._process

    async def end(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
