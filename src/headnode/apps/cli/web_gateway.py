"""Starts and stops gateways in the background, and asks them for addresses that log in."""

import os
import select
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from headnode.adapters.own_python import module_command
from headnode.adapters.wire.peers import unix_address
from headnode.apps.cli.daemons import BackgroundProgram, make_directory
from headnode.apps.client.connection import read_json, write_json
from headnode.apps.client.local_addresses import user_state_home
from headnode.core.model.errors import Unavailable

CONTROL_SOCKET = "web.sock"
SYSTEM_GATEWAY = Path("/run/headnode-web")
TIMEOUT = 15.0  # seconds a gateway may take until it listens, or has ended
PAUSE = 0.05  # seconds between two looks
MAX_ANSWER = 65536  # bytes

WebSettings = Mapping[str, str | None]


def gateway_directories(state: str) -> list[Path]:
    """Return where a gateway of a head may be: with the head, with the machine, with the user."""
    return [Path(state), SYSTEM_GATEWAY, _directory_of_user()]


def own_directory(state: str) -> Path:
    """Return where a gateway of this user has its control socket and its log."""
    folder = Path(state)
    if folder.exists() and folder.stat().st_uid == os.geteuid():
        return folder
    return _directory_of_user()


def _directory_of_user() -> Path:
    """Return where gateways are that were started beside a head of another user, or before there was one."""
    return Path(user_state_home(os.environ)) / "headnode-web"


def ask_gateway(state: str, question: str) -> dict[str, Any] | None:
    """Return the answer of a gateway of a head to status, login or stop; None if none runs that we may use.

    Others may have gateways of the head that serve only themselves.
    """
    for directory in gateway_directories(state):
        answer = _ask(directory / CONTROL_SOCKET, question)
        if answer is not None and answer.get("ok") and answer["state"] == state:
            return answer
    return None


def _ask(path: Path, question: str) -> dict[str, Any] | None:
    """Return the answer at a control socket; None if nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TIMEOUT)
        try:
            with unix_address(path) as address:
                connection.connect(address)
            connection.sendall(write_json({"verb": question}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                answer = read_json(lines.readline(MAX_ANSWER).decode())
        except (OSError, ValueError):
            return None
    return answer if isinstance(answer, dict) else None


def become_gateway(state: str, settings: WebSettings) -> NoReturn:
    """Turn this process into the gateway."""
    command = _command(state, _made_directory(state), settings)
    os.execv(command[0], command)


def start_gateway(state: str, settings: WebSettings) -> dict[str, Any]:
    """Start a gateway in the background; return the address that logs in once.

    Raises:  Unavailable ``gateway-died`` or ``gateway-slow``, with the end of its log.
    """
    directory = _made_directory(state)
    started = BackgroundProgram(_command(state, directory, settings), directory / "web.log")

    def login() -> dict[str, Any] | None:
        answer = _ask(directory / CONTROL_SOCKET, "login")
        return answer if answer is not None and answer.get("pid") == started.process.pid else None

    answer = started.answer(login, "the gateway", "gateway-died", TIMEOUT, PAUSE)
    if answer is not None:
        return answer
    raise Unavailable(
        code="gateway-slow",
        what=f"the gateway, process {started.process.pid}, is not ready after {TIMEOUT:.0f} s",
        fix=f"its log {started.log} ends:" + started.last_lines(),
    )


def stop_gateway(state: str, *, of_others: bool = False) -> int | None:
    """End a gateway of a head, and wait until it has ended; return its process id, None if none runs.

    `of_others`: root may end one of another account, too.
    Raises:  Unavailable ``gateway-slow``.
    """
    running = ask_gateway(state, "status")
    if running is None or not (of_others or running["uid"] == os.geteuid()):
        return None
    number = int(running["pid"])
    try:
        process = os.pidfd_open(number)
    except ProcessLookupError:  # it has just ended
        return number
    try:
        if ask_gateway(state, "stop") is None:
            return None
        ended, _, _ = select.select([process], [], [], TIMEOUT)
    finally:
        os.close(process)
    if not ended:
        raise Unavailable(
            code="gateway-slow",
            what=f"the gateway, process {number}, has not ended after {TIMEOUT:.0f} seconds",
            fix="see its log, web.log",
        )
    return number


def _command(state: str, directory: Path, settings: WebSettings) -> list[str]:
    argv = [word for name, value in settings.items() if value for word in (f"--{name}", value)]
    places = ["--state", str(Path(state).absolute()), "--directory", str(directory)]
    return module_command("headnode.apps.web", *places, *argv)


def _made_directory(state: str) -> Path:
    directory = own_directory(state)
    return make_directory(
        str(directory), "web-directory", "directory", "give another head with: hn --state DIRECTORY web"
    )
