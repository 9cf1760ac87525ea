"""The keeper of a program that must run once, whatever becomes of the agent that wants it run.

It reads an order from standard input, a JSON object, and leaves the outcome in a file, a JSON line: exit code
or signal, or null where the program took too long or could not be started, and the last words.  The file
appears locked and stays locked while the keeper lives, so another agent can tell: no file, nothing has run;
locked, it runs; a line, it has ended; neither, the keeper was killed.
Standard library only: it is started for each program.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_CHUNK = 65536  # bytes


def main() -> None:
    """Run the program of the order, unless its outcome is there or somebody else runs it."""
    data = sys.stdin.buffer.read()
    if not data.endswith(b"\n"):
        return  # who wanted this is gone before he had said it all; the next one says it again
    order = json.loads(data)
    outcome = _lock(order["outcome"])
    if outcome is not None:
        os.write(outcome, json.dumps(_run(order)).encode() + b"\n")


def _lock(path: str) -> int | None:
    """Make the file of the outcome, locked from its first moment; None when there is one."""
    scratch = f"{path}.{os.getpid()}"
    file = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.link(scratch, path)
    except FileExistsError:
        return None
    finally:
        Path(scratch).unlink(missing_ok=True)
    return file


def _run(order: dict[str, Any]) -> dict[str, Any]:
    try:
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        process = subprocess.Popen(
            order["program"], env=order["environment"], cwd="/", start_new_session=True,
            stdin=subprocess.PIPE, stdout=theirs, stderr=theirs,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        return {"status": None, "why": f"cannot be run: {error}", "said": ""}
    os.close(theirs)
    status, said = _ended(process, ours, order)
    why = "" if status is not None else f"did not end within {order['patience']:g} s"
    return {"status": status, "why": why, "said": said.decode(errors="replace")}


def _ended(
    process: "subprocess.Popen[bytes]", output: int, order: dict[str, Any]
) -> tuple[int | None, bytes]:
    """Return how it ended, None if it had to be killed, and its last words.

    What it leaves behind may hold the pipe open, and that must hold up nothing.
    """
    ended = os.pidfd_open(process.pid)
    question, said = order["question"].encode(), b""
    until = time.monotonic() + order["patience"]
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)
    os.set_blocking(output, False)
    reading, over = [output, ended], False
    while not over and (left := until - time.monotonic()) > 0:
        writing = [process.stdin] if process.stdin is not None and not process.stdin.closed else []
        ready, able, _ = select.select(reading, writing, [], left)
        if able and process.stdin is not None:
            question = _say(process.stdin.fileno(), question)
            if not question:
                process.stdin.close()
        if output in ready:
            said, goes_on = _hear(output, said, order["most"])
            reading = reading if goes_on else [ended]
        over = ended in ready
    if not over:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    status = process.wait()
    said, _ = _hear(output, said, order["most"])
    return (status if over else None), said


def _say(pipe: int, text: bytes) -> bytes:
    """Write what there is room for; return the rest.  Who does not read need not."""
    try:
        return text[os.write(pipe, text[:_CHUNK]) :] if text else text
    except BrokenPipeError:
        return b""


def _hear(pipe: int, said: bytes, most: int) -> tuple[bytes, bool]:
    """Read what is there; keep the last of it.  Tell whether there may be more."""
    try:
        piece = os.read(pipe, _CHUNK)
    except BlockingIOError:
        return said, True
    return (said + piece)[-most:], bool(piece)


if __name__ == "__main__":
    main()
