"""Programs of the administrators: run for a time, or run once whatever becomes of the agent."""

import asyncio
import contextlib
import fcntl
import logging
import os
import pwd
import shlex
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.own_python import function_command
from headnode.adapters.processes.hook_runner import NO_ROOM, NOT_STARTED

log = logging.getLogger("headnode.agent")

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def base_environment(uid: int) -> dict[str, str]:
    """Return HOME, USER, LOGNAME, SHELL, PATH and LANG of a user; the home of an unknown user is ``/``.

    Who started this process may have chosen another home than the system knows: tasks of his own live there.
    """
    try:
        user = pwd.getpwuid(uid)
        name, home, shell = user.pw_name, user.pw_dir, user.pw_shell
    except KeyError:
        name, home, shell = str(uid), "/", "/bin/sh"
    if uid == os.geteuid():
        home = os.environ.get("HOME", home)
    return {
        "HOME": home,
        "USER": name,
        "LOGNAME": name,
        "SHELL": shell or "/bin/sh",
        "PATH": PATH,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
    }


class ProgramResult(msgspec.Struct, frozen=True):
    """How a program ended, and the beginning of its output; `trouble` is why its result is not used.

    `errors`: its standard error, if that was read separately.
    """

    output: bytes = b""
    trouble: str = ""
    errors: bytes = b""
    started: bool = True  # False: it could not be, so nothing of the job is to blame
    status: int | None = None  # below 0: the signal that ended it; None: it did not end, or never began

    @property
    def line(self) -> str:
        """What it said to people, on one line."""
        return " ".join((self.errors or self.output).decode(errors="replace").split())


async def run_site_program(
    program: str, name: str, environment: Mapping[str, str], timeout: float, most: int
) -> ProgramResult:
    """Run a program, with its arguments as a shell would read them, as the user of this process.

    name:    what it is to a reader of the trouble, such as "the health check"
    timeout:  seconds; one that takes longer is killed with its process group
    most:      bytes that are kept of standard output and standard error together
    """
    try:
        output = _Output(most)
    except OSError as why:
        return ProgramResult(trouble=f"{name} {program!r} cannot be run: {why.strerror}")
    try:
        ran = await _run(program, name, environment, timeout, (asyncio.subprocess.DEVNULL, output, output))
    finally:
        output.close()
    return msgspec.structs.replace(ran, output=output.beginning())


async def ask_site_program(
    program: str, name: str, environment: Mapping[str, str], timeout: float, most: int, question: bytes
) -> ProgramResult:
    """Run a program as `run_site_program` does; it reads a question, and its answer is heard apart.

    Raises:  OSError where it cannot be listened to.
    """
    with contextlib.ExitStack() as opened:
        answer, aside = (opened.enter_context(contextlib.closing(_Output(most))) for _ in range(2))
        with os.fdopen(os.memfd_create("question", os.MFD_CLOEXEC), "w+b") as asked:
            asked.write(question)
            asked.seek(0)  # who does not read it need not
            ran = await _run(program, name, environment, timeout, (asked.fileno(), answer, aside))
    return msgspec.structs.replace(ran, output=answer.beginning(), errors=aside.beginning())


async def _run(
    program: str,
    name: str,
    environment: Mapping[str, str],
    timeout: float,
    files: "tuple[int, _Output, _Output]",
) -> ProgramResult:
    """Run a program with these as standard input, output and error; say how it ended."""
    named, (question, output, error) = f"{name} {program!r}", files
    try:
        words = shlex.split(program)
        if why_not := await asyncio.to_thread(why_not_run, words):
            return ProgramResult(trouble=f"{named} cannot be run: {why_not}")
        process = await asyncio.create_subprocess_exec(
            *words,
            stdin=question, stdout=output.end, stderr=error.end,
            cwd="/", start_new_session=True,
            env={**base_environment(os.geteuid()), **environment},
        )  # fmt: skip
        status = await _ended(process, timeout)
    except TimeoutError:
        return ProgramResult(trouble=f"{named} did not end within {timeout:g} s")
    except (OSError, ValueError) as why:
        return ProgramResult(trouble=f"{named} cannot be run: {why}")
    return ProgramResult(trouble=how_it_ended(named, status), status=status)


async def _ended(process: asyncio.subprocess.Process, timeout: float) -> int:
    try:
        async with asyncio.timeout(timeout):
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

    def beginning(self) -> bytes:
        """Return the beginning of all that was said until it was closed."""
        return bytes(self._kept)

    def close(self) -> None:
        """Take what is there, and listen no longer."""
        while len(self._kept) < self._most and self._take():
            pass
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        os.close(self.end)


_LOOK = 0.05  # seconds between two looks whether a keeper of an earlier agent has ended
_AGAIN = 1.0  # seconds until a result is read again
_FIELDS = 3  # of an outcome
MAX_SAID = 4096  # bytes of a program's last words
MAX_KILLED = 3  # keepers, one after the other, until a program is not tried again


class HookProgram(msgspec.Struct, frozen=True):
    """A program: with its arguments as a shell would read them, and what it finds around it.

    name:    what it is to a reader of the trouble, such as "the prolog"
    timeout:  seconds; one that takes longer is killed with its process group
    question:  what it reads from standard input
    """

    program: str
    name: str
    environment: Mapping[str, str]
    timeout: float
    question: str = ""


async def run_once(program: HookProgram, outcome: Path) -> ProgramResult:
    """Run a program as the user of this process, or return the result of one that an earlier agent ran.

    `outcome` is the file with the result: if it is removed, the program runs again.  A program without a
    known result, because the machine stopped or its runner was killed, runs again.  Where a result cannot be
    read now, as for want of descriptors, it is read later: the program may have done its work.
    """
    while True:
        try:
            return await _run_once(program, outcome)
        except OSError as error:
            log.error(
                "it is not known yet how %s %r ended: %s; trying on", program.name, program.program, error
            )
            await asyncio.sleep(_AGAIN)


async def _run_once(program: HookProgram, outcome: Path) -> ProgramResult:
    """Run it or hear what became of it.

    Raises:  OSError.
    """
    for _ in range(MAX_KILLED):
        if not outcome.exists():
            trouble = await _start(program, outcome)
            if trouble:
                return ProgramResult(trouble=trouble, started=False)
        await _unlocked(outcome)
        told = _read(outcome)
        if told is not None:
            return hook_result(program, told)
        outcome.unlink(missing_ok=True)
    named = f"{program.name} {program.program!r}"
    return ProgramResult(trouble=f"{named} was tried {MAX_KILLED} times; its hook runner was killed")


async def _start(program: HookProgram, outcome: Path) -> str:
    """Start a keeper and wait until it has ended; return why it could not be started."""
    try:
        if why_not := await asyncio.to_thread(why_not_run, shlex.split(program.program)):
            return f"{program.name} {program.program!r} cannot be run: {why_not}"
        with _order_file(_order(program, outcome)) as order:
            process = subprocess.Popen(
                function_command("headnode.adapters.processes.hook_runner", "main"),
                stdin=order, stdout=subprocess.DEVNULL, cwd="/", start_new_session=True,
            )  # fmt: skip
    except (OSError, ValueError) as error:
        return f"{program.name} {program.program!r} cannot be run: {error}"
    await _runner_ended(process)
    if process.returncode in NO_ROOM:
        why = os.strerror(process.returncode).lower()
        return f"{program.name} {program.program!r} cannot be run: there is no room for its result: {why}"
    return ""


def _order_file(order: bytes) -> BinaryIO:
    """Return a file with the order; its reader needs no waiting, and it is gone with its last user."""
    file = os.fdopen(os.memfd_create("order", os.MFD_CLOEXEC), "w+b")
    file.write(order)
    file.seek(0)
    return file


async def _runner_ended(process: "subprocess.Popen[bytes]") -> None:
    """Wait for the end of a process that must outlive us: asyncio's own would be killed with us."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
        process.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _order(program: HookProgram, outcome: Path) -> bytes:
    """Return the order as `hook_runner` has it.

    Raises:  ValueError when the program is not written as a shell would read it, or holds a zero byte.
    """
    argv = shlex.split(program.program)
    around = {**base_environment(os.geteuid()), **program.environment}
    variables = [f"{name}={value}" for name, value in around.items()]
    fields = [
        str(outcome),
        str(program.timeout),
        str(MAX_SAID),
        program.question,
        str(len(argv)),
        *argv,
        *variables,
    ]
    if any("\0" in field for field in fields):
        raise ValueError("its arguments or its environment contain a zero byte")
    return b"".join(os.fsencode(field) + b"\0" for field in fields)


async def _unlocked(outcome: Path) -> None:
    while _is_locked(outcome):
        await asyncio.sleep(_LOOK)


def _is_locked(outcome: Path) -> bool:
    try:
        with outcome.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def _read(outcome: Path) -> list[bytes] | None:
    """Return the fields that a hook runner wrote; None if it did not write all of them."""
    try:
        fields = outcome.read_bytes().split(b"\0")
    except FileNotFoundError:
        return None
    return fields[:-1] if len(fields) == _FIELDS + 1 else None


def hook_result(program: HookProgram, fields: Sequence[bytes]) -> ProgramResult:
    """Return in words what a keeper wrote."""
    status, why, said = fields
    named = f"{program.name} {program.program!r}"
    if not status:
        started = not why.startswith(NOT_STARTED.encode())
        return ProgramResult(said, f"{named} {why.decode(errors='replace')}", started=started)
    return ProgramResult(said, how_it_ended(named, int(status)), status=int(status))
