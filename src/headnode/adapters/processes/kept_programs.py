"""Programs of the administrators that run once, whatever becomes of the agent: each has a keeper."""

import asyncio
import fcntl
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.identity.base_environment import base_environment
from headnode.adapters.processes.keeper import NOT_STARTED
from headnode.adapters.processes.site_programs import Ran, how_it_ended

_SOURCE_ROOT = Path(__file__).parents[3]
_KEEPER = (
    "import sys; sys.path.insert(0, sys.argv.pop()); "
    "from headnode.adapters.processes.keeper import main; main()"
)
_LOOK = 0.05  # seconds between two looks whether a keeper of an earlier agent has ended
_FIELDS = 3  # of an outcome
MOST_SAID = 4096  # bytes of a program's last words
MOST_KILLED = 3  # keepers, one after the other, until a program is not tried again


class Kept(msgspec.Struct, frozen=True):
    """A program: with its arguments as a shell would read them, and what it finds around it.

    called:    what it is to a reader of the trouble, such as "the prolog"
    patience:  seconds; one that takes longer is killed with its process group
    question:  what it reads from standard input
    """

    program: str
    called: str
    environment: Mapping[str, str]
    patience: float
    question: str = ""


async def run_once(kept: Kept, outcome: Path) -> Ran:
    """Run a program as the user of this process, or hear what became of it that an earlier agent had run.

    `outcome` is the file that tells: whoever removes it lets the program run again.  A program of which
    nobody knows how it ended, because the machine stopped or its keeper was killed, is run again.
    """
    for _ in range(MOST_KILLED):
        if not outcome.exists():
            trouble = await _start(kept, outcome)
            if trouble:
                return Ran(trouble=trouble, started=False)
        await _unlocked(outcome)
        told = _read(outcome)
        if told is not None:
            return told_of(kept, told)
        outcome.unlink(missing_ok=True)
    return Ran(trouble=f"{kept.called} {kept.program!r} was tried {MOST_KILLED} times; its keeper was killed")


async def _start(kept: Kept, outcome: Path) -> str:
    """Start a keeper and wait until it has ended; return why it could not be started."""
    try:
        if why_not := await asyncio.to_thread(why_not_run, shlex.split(kept.program)):
            return f"{kept.called} {kept.program!r} cannot be run: {why_not}"
        with _said_beforehand(_order(kept, outcome)) as order:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _KEEPER, str(_SOURCE_ROOT)],
                stdin=order, stdout=subprocess.DEVNULL, cwd="/", start_new_session=True,
            )  # fmt: skip
    except (OSError, ValueError) as error:
        return f"{kept.called} {kept.program!r} cannot be run: {error}"
    await _ended(process)
    return ""


def _said_beforehand(order: bytes) -> BinaryIO:
    """Return a file with the order: nobody need wait for its reader, nor keep it if we are gone first."""
    file = os.fdopen(os.memfd_create("order", os.MFD_CLOEXEC), "w+b")
    file.write(order)
    file.seek(0)
    return file


async def _ended(process: "subprocess.Popen[bytes]") -> None:
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


def _order(kept: Kept, outcome: Path) -> bytes:
    """Return the order as `keeper` has it.

    Raises:  ValueError when the program is not written as a shell would read it, or holds a zero byte.
    """
    argv = shlex.split(kept.program)
    around = {**base_environment(os.geteuid()), **kept.environment}
    variables = [f"{name}={value}" for name, value in around.items()]
    fields = [
        str(outcome),
        str(kept.patience),
        str(MOST_SAID),
        kept.question,
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
    """Return the fields that a keeper wrote; None when it did not write all."""
    try:
        fields = outcome.read_bytes().split(b"\0")
    except FileNotFoundError:
        return None
    return fields[:-1] if len(fields) == _FIELDS + 1 else None


def told_of(kept: Kept, told: Sequence[bytes]) -> Ran:
    """Return in words what a keeper wrote."""
    status, why, said = told
    named = f"{kept.called} {kept.program!r}"
    if not status:
        started = not why.startswith(NOT_STARTED.encode())
        return Ran(said, f"{named} {why.decode(errors='replace')}", started=started)
    return Ran(said, how_it_ended(named, int(status)), status=int(status))
