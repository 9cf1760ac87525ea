"""The health check of a node: a program of the administrators that the agent runs now and then, as itself."""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Callable

from headnode.adapters.identity.base_environment import base_environment

PATIENCE = 60.0  # seconds that a check may take
MOST_OUTPUT = 4096  # bytes that are kept of what it says

Tell = Callable[[bool, str], None]
"""Whether the node is well, and if not, why."""


class HealthCheck:
    """Runs one program, again and again, until another is ordered.  A check that hangs is one that fails."""

    def __init__(self, node: str, tell: Tell, patience: float = PATIENCE) -> None:
        self._node, self._tell, self._patience = node, tell, patience
        self._work: asyncio.Task[None] | None = None
        self.ordered = ("", 0.0)  # the program, and after how many seconds it runs again

    def order(self, program: str, every: float) -> None:
        """Check at once, and then every so many seconds; without a program the node is well."""
        self.stop()
        self.ordered = program, every
        if program:
            self._work = asyncio.ensure_future(self._go_on(program, every))
        else:
            self._tell(True, "")

    def stop(self) -> None:
        """Check no longer."""
        if self._work is not None:
            self._work.cancel()
            self._work = None

    async def _go_on(self, program: str, every: float) -> None:
        while True:
            trouble = await self._trouble(program)
            self._tell(not trouble, trouble)
            await asyncio.sleep(every)

    async def _trouble(self, program: str) -> str:
        """Return why the node is not well, or an empty string."""
        output = _Output()
        try:
            process = await asyncio.create_subprocess_exec(
                *shlex.split(program),
                stdin=asyncio.subprocess.DEVNULL, stdout=output.end, stderr=output.end,
                cwd="/", start_new_session=True,
                env={**base_environment(os.geteuid()), "HEADNODE_NODE": self._node},
            )  # fmt: skip
            return await self._verdict(program, process, output)
        except (OSError, ValueError) as error:
            return f"the health check {program!r} cannot be run: {error}"
        finally:
            output.close()

    async def _verdict(self, program: str, process: asyncio.subprocess.Process, output: "_Output") -> str:
        try:
            async with asyncio.timeout(self._patience):
                status = await process.wait()
        except TimeoutError:
            return f"the health check {program!r} did not end within {self._patience:g} s"
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        return "" if status == 0 else output.said() or _how_it_ended(program, status)


class _Output:
    """What a program says: the beginning is kept, the rest is read so that it need not wait for us.

    A pipe of our own: what the program leaves behind may hold it open, and that must hold up nothing.
    """

    def __init__(self) -> None:
        self._pipe, self.end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        self._kept = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pipe, self._take)

    def _take(self) -> bool:
        """Read what is there; tell whether there may be more."""
        try:
            piece = os.read(self._pipe, 65536)
        except BlockingIOError:
            return False
        self._kept += piece[: MOST_OUTPUT - len(self._kept)]
        return bool(piece)

    def said(self) -> str:
        """Return the beginning of all that has been said, on one line."""
        while len(self._kept) < MOST_OUTPUT and self._take():
            pass
        return " ".join(self._kept.decode(errors="replace").split())

    def close(self) -> None:
        """Listen no longer."""
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        os.close(self.end)


def _how_it_ended(program: str, status: int) -> str:
    how = f"was ended by signal {-status}" if status < 0 else f"ended with exit code {status}"
    return f"the health check {program!r} {how}"
