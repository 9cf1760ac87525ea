"""The process that runs a prolog or epilog once, whatever becomes of the agent that wants it run.

Standard library only."""

import errno
import fcntl
import os
import select
import sys
import time

_CHUNK = 65536  # bytes
_KILL = 9
_ANSWERED_AS_USUAL = (13, 25)  # SIGPIPE and SIGXFSZ, which Python ignores
NOT_STARTED = "cannot be run"  # how the reason begins of what was not started
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # exit codes: the outcome could not be kept, so nothing was run
_WHY = 1024  # bytes of an outcome beside the last words
_END = b"\0"


class HookOrder:
    """What to run, and how."""

    def __init__(self, data: bytes) -> None:
        fields = data.split(_END)[:-1]
        self.outcome = os.fsdecode(fields[0])
        self.timeout, self.most, self.question = float(fields[1]), int(fields[2]), fields[3]
        count = int(fields[4])
        self.argv, variables = fields[5 : 5 + count], fields[5 + count :]
        self.environment = dict(each.split(b"=", 1) for each in variables)


def main() -> None:
    """Run the program of the order, unless its outcome exists or another process runs it."""
    order = HookOrder(sys.stdin.buffer.read())
    try:
        outcome = _lock(order.outcome, order.most + _WHY)
    except OSError as error:
        if error.errno in NO_ROOM:
            sys.exit(error.errno)
        raise
    if outcome is not None:
        status, why, said = _run(order)
        fields = ("" if status is None else str(status)).encode(), why.encode(), said.replace(_END, b"?")
        os.ftruncate(outcome, os.write(outcome, b"".join(field + _END for field in fields)))


def _lock(path: str, room: int) -> int | None:
    """Make the file of the outcome, locked from its first moment; None when there is one.

    It has its room before the program runs: the program may fill the disk, and one whose outcome is not known
    runs again. Until the outcome is written, the file has other fields than one.

    Raises:  OSError, `NO_ROOM` on a full disk.
    """
    scratch = f"{path}.{os.getpid()}"
    file = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.posix_fallocate(file, 0, room)
        os.link(scratch, path)
    except FileExistsError:
        return None
    finally:
        os.unlink(scratch)  # noqa: PTH108 - a Path costs more than all the rest
    return file


def _run(order: HookOrder) -> tuple[int | None, str, bytes]:
    """Run the program; return how it ended, or why not, and its last words."""
    (read, ours), (output, theirs) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    files = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate((read, theirs, theirs))]
    try:
        process = os.posix_spawn(
            order.argv[0],
            order.argv,
            order.environment,
            file_actions=files,
            setsid=True,
            setsigdef=_ANSWERED_AS_USUAL,
        )
    except OSError as error:
        return None, f"{NOT_STARTED}: {os.strerror(error.errno or 0).lower()}", b""
    os.close(read)
    os.close(theirs)
    status, said = _ended(process, ours, output, order)
    return status, "" if status is not None else f"did not end within {order.timeout:g} s", said


def _ended(process: int, question: int, output: int, order: HookOrder) -> tuple[int | None, bytes]:
    """Return how it ended, None if it had to be killed, and its last words.

    What it leaves behind may hold the pipe open, and that must hold up nothing.
    """
    ended = os.pidfd_open(process)
    unsaid, said = order.question, b""
    os.set_blocking(question, False)
    os.set_blocking(output, False)
    until = time.monotonic() + order.timeout
    reading, writing, over = [output, ended], [question], False
    while not over and (left := until - time.monotonic()) > 0:
        ready, able, _ = select.select(reading, writing, [], left)
        if able:
            unsaid = _send(question, unsaid)
            if not unsaid:
                os.close(question)
                writing = []
        if output in ready:
            said, goes_on = _receive(output, said, order.most)
            reading = reading if goes_on else [ended]
        over = ended in ready
    if not over:
        os.killpg(process, _KILL)  # it is our child and was not waited for: there is such a group
    _, status = os.waitpid(process, 0)
    said, _ = _receive(output, said, order.most)
    return (os.waitstatus_to_exitcode(status) if over else None), said


def _send(pipe: int, text: bytes) -> bytes:
    """Write what there is room for; return the rest.  Who does not read need not."""
    try:
        return text[os.write(pipe, text[:_CHUNK]) :] if text else text
    except BrokenPipeError:
        return b""


def _receive(pipe: int, data: bytes, most: int) -> tuple[bytes, bool]:
    """Read what is there; keep the last of it.  Tell whether there may be more."""
    try:
        piece = os.read(pipe, _CHUNK)
    except BlockingIOError:
        return data, True
    return (data + piece)[-most:], bool(piece)
