"""Starts, stops and asks the standby head of this machine."""

import os
import signal
import socket
from pathlib import Path
from typing import Any, NoReturn

from headnode.adapters.files.local_daemons import STANDBY, take_lock
from headnode.adapters.files.standby_place import CONTROL_SOCKET, STANDBY_LOCK, unusable_state
from headnode.adapters.own_python import module_command
from headnode.adapters.wire.frame_codec import HEADER, frame, size_of
from headnode.adapters.wire.peers import unix_address
from headnode.apps.cli.daemons import BackgroundProgram, wait_for_end
from headnode.apps.client.failures import refusal_in
from headnode.core.model.errors import NotAllowed, Unavailable

TIMEOUT = 30.0  # seconds for a standby to start or to end
TAKEOVER_TIME = 330.0  # seconds for an order: a head that hands over empties its own nodes first
PAUSE = 0.05  # seconds between two looks
MAX_ANSWER = 1024 * 1024  # bytes


def is_standby(directory: str) -> bool:
    """Whether a state directory is that of a standby; not, if it is closed to this user."""
    return os.path.exists(Path(directory) / STANDBY)  # noqa: PTH110 (Path.exists raises if it is closed)


def standby_runs(directory: str) -> bool:
    """Whether a standby runs in a state directory.

    Raises:  NotAllowed ``not-yours``; Unavailable ``standby-state``.
    """
    try:
        descriptor = take_lock(Path(directory) / STANDBY_LOCK)
    except PermissionError:
        raise _of_another_user(directory) from None
    except OSError as error:
        raise unusable_state(Path(directory), error) from None
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def _of_another_user(directory: str) -> NotAllowed:
    what = f"the standby in {directory!r} belongs to another user"
    return NotAllowed(code="not-yours", what=what, fix="ask for it as that user, or as root")


def become_standby(directory: str) -> NoReturn:
    """Turn this process into the standby."""
    command = _command(directory)
    os.execv(command[0], command)


def start_standby(directory: str) -> dict[str, Any]:
    """Start the standby in the background; return its status once it answers; nothing if it is the head now.

    What is returned is empty if it went on with a takeover that was interrupted: it is the head then.
    Raises:  Unavailable ``standby-died``, ``standby-slow``, with the end of its log.
    """
    try:
        started = BackgroundProgram(_command(directory), Path(directory) / "head.log")
    except OSError as error:
        raise unusable_state(Path(directory), error) from None

    def status() -> dict[str, Any] | None:
        if not is_standby(directory):
            return {}
        try:
            return ask_standby(directory, "status")
        except Unavailable:
            return None if is_standby(directory) else {}

    answer = started.answer(status, "the standby", "standby-died", TIMEOUT, PAUSE)
    if answer is not None:
        return answer
    raise Unavailable(
        code="standby-slow",
        what=f"the standby, process {started.process.pid}, has not answered in {TIMEOUT:.0f} s",
        fix=f"its log {started.log} ends:" + started.last_lines(),
    )


def stop_standby(directory: str) -> int | None:
    """Tell the standby to end, and wait until it has; return its process id, None if none runs.

    Raises:  Unavailable ``standby-slow``.
    """
    if not standby_runs(directory):
        return None
    number = int(ask_standby(directory, "status")["pid"])
    os.kill(number, signal.SIGTERM)
    slow = Unavailable(
        code="standby-slow",
        what=f"the standby, process {number}, has not ended after {TIMEOUT:.0f} s",
        fix="see head.log in its state directory",
    )
    wait_for_end(lambda: standby_runs(directory), TIMEOUT, slow)
    return number


def ask_standby(directory: str, order: str, *, force: bool = False) -> dict[str, Any]:
    """Give the standby of this machine an order; return its status afterwards.

    Raises:  Unavailable ``standby-away``; NotAllowed ``not-yours``; what the standby refuses.
    """
    import msgspec

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(TAKEOVER_TIME)
        try:
            with unix_address(Path(directory) / CONTROL_SOCKET) as address:
                connection.connect(address)
            connection.sendall(frame(msgspec.json.encode({"ask": order, "force": force})))
            answer = _answer(connection)
        except PermissionError:
            raise _of_another_user(directory) from None
        except OSError as error:
            raise Unavailable(
                code="standby-away",
                what=f"the standby in {directory!r} does not answer: {error.strerror or error}",
                fix="start it with: hn up",
            ) from None
    status: dict[str, Any] = msgspec.json.decode(answer)
    if status.get("ok") is not True:
        raise refusal_in(status)
    return status


def _answer(connection: socket.socket) -> bytes:
    data = b""
    size = HEADER
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("it closed the connection")
        data += piece
        if len(data) == HEADER and size == HEADER:
            size += size_of(data, MAX_ANSWER)
    return data[HEADER:]


def _command(directory: str) -> list[str]:
    return module_command("headnode.apps.standby", "--state", str(Path(directory).absolute()))
