"""Programs of the administrators, run beside everything else: for a time, and heard only so far."""

import asyncio
import contextlib
import os
import shlex
import signal
from collections.abc import Mapping

import msgspec

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.identity.base_environment import base_environment


class Ran(msgspec.Struct, frozen=True):
    """How a program ended, and the beginning of what it said; `trouble` is why it is not to be believed.

    `aside`: what it said on standard error, where that was listened to apart.
    """

    said: bytes = b""
    trouble: str = ""
    aside: bytes = b""
    started: bool = True  # False: it could not be, so nothing of the job is to blame
    status: int | None = None  # below 0: the signal that ended it; None: it did not end, or never began

    @property
    def line(self) -> str:
        """What it said to people, on one line."""
        return " ".join((self.aside or self.said).decode(errors="replace").split())


async def run_site_program(
    program: str, called: str, environment: Mapping[str, str], patience: float, most: int
) -> Ran:
    """Run a program, with its arguments as a shell would read them, as the user of this process.

    called:    what it is to a reader of the trouble, such as "the health check"
    patience:  seconds; one that takes longer is killed with its process group
    most:      bytes that are kept of standard output and standard error together
    """
    output = _Output(most)
    try:
        ran = await _run(program, called, environment, patience, (asyncio.subprocess.DEVNULL, output, output))
    finally:
        output.close()
    return msgspec.structs.replace(ran, said=output.said())


async def ask_site_program(
    program: str, called: str, environment: Mapping[str, str], patience: float, most: int, question: bytes
) -> Ran:
    """Run a program as `run_site_program` does; it reads a question, and its answer is heard apart."""
    answer, aside = _Output(most), _Output(most)
    try:
        with os.fdopen(os.memfd_create("question", os.MFD_CLOEXEC), "w+b") as asked:
            asked.write(question)
            asked.seek(0)  # who does not read it need not
            ran = await _run(program, called, environment, patience, (asked.fileno(), answer, aside))
    finally:
        answer.close()
        aside.close()
    return msgspec.structs.replace(ran, said=answer.said(), aside=aside.said())


async def _run(
    program: str,
    called: str,
    environment: Mapping[str, str],
    patience: float,
    files: "tuple[int, _Output, _Output]",
) -> Ran:
    """Run a program with these as standard input, output and error; say how it ended."""
    named, (question, output, error) = f"{called} {program!r}", files
    try:
        words = shlex.split(program)
        if why_not := await asyncio.to_thread(why_not_run, words):
            return Ran(trouble=f"{named} cannot be run: {why_not}")
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=question, stdout=output.end, stderr=error.end,
            cwd="/", start_new_session=True,
            env={**base_environment(os.geteuid()), **environment},
        )  # fmt: skip
        status = await _ended(process, patience)
    except TimeoutError:
        return Ran(trouble=f"{named} did not end within {patience:g} s")
    except (OSError, ValueError) as why:
        return Ran(trouble=f"{named} cannot be run: {why}")
    return Ran(trouble=how_it_ended(named, status), status=status)


async def _ended(process: asyncio.subprocess.Process, patience: float) -> int:
    try:
        async with asyncio.timeout(patience):
            return await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def how_it_ended(named: str, status: int) -> str:
    """Return in words how a program ended, a signal as a number below 0; empty for exit code 0."""
    if status == 0:
        return ""
    return (
        f"{named} was ended by signal {-status}" if status < 0 else f"{named} ended with exit code {status}"
    )


class _Output:
    """What a program says: the beginning is kept, the rest is read so that it need not wait for us.

    A pipe of our own: what the program leaves behind may hold it open, and that must hold up nothing.
    """

    def __init__(self, most: int) -> None:
        self._pipe, self.end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        self._kept, self._most = bytearray(), most
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pipe, self._take)

    def _take(self) -> bool:
        """Read what is there; tell whether there may be more."""
        try:
            piece = os.read(self._pipe, 65536)
        except BlockingIOError:
            return False
        self._kept += piece[: self._most - len(self._kept)]
        return bool(piece)

    def said(self) -> bytes:
        """Return the beginning of all that was said until it was closed."""
        return bytes(self._kept)

    def close(self) -> None:
        """Take what is there, and listen no longer."""
        while len(self._kept) < self._most and self._take():
            pass
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        os.close(self.end)
