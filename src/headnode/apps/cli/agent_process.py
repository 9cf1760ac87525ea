"""Starts the agent of a node that belongs to a head on another machine."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from headnode.apps.client.where import user_state_home
from headnode.core.model.errors import Unavailable

SYSTEM_DIRECTORY = "/var/lib/headnode-agent"
_LAST_LINES = 10  # of the log, told when the agent does not stay
_LOOK = 0.5  # seconds in which an agent that cannot run ends
_PAUSE = 0.02  # seconds

Settings = Mapping[str, str | None]


def usual_directory(environment: Mapping[str, str], uid: int) -> str:
    """Return where an agent keeps its things when nobody says otherwise."""
    return SYSTEM_DIRECTORY if uid == 0 else str(Path(user_state_home(environment)) / "headnode-agent")


def log_of(directory: str) -> str:
    """Return the file that holds what the agent says."""
    return str(Path(directory).absolute() / "agent.log")


def join(directory: str, settings: Settings, invitation: str) -> None:
    """Become a node; what keeps this machine from it is told by the agent.

    Raises:  SystemExit with the status of the agent.
    """
    _make(directory)
    joining = subprocess.run(
        [*_command(directory, settings), "--only-join", "--join", invitation], check=False
    )
    if joining.returncode != 0:
        raise SystemExit(joining.returncode)


def start(directory: str, settings: Settings) -> int:
    """Start the agent in the background; return its process id.

    Raises:  Unavailable ``agent-died``.
    """
    _make(directory)
    with Path(log_of(directory)).open("ab") as log:
        began = log.tell()
        process = subprocess.Popen(
            _command(directory, settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    deadline = time.monotonic() + _LOOK
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise Unavailable(
                code="agent-died",
                what=f"the agent ended with status {process.returncode}",
                fix=f"its log {log_of(directory)} ends:" + _tail(log_of(directory), began),
            )
        time.sleep(_PAUSE)
    return process.pid


def become(directory: str, settings: Settings, invitation: str | None) -> NoReturn:
    """Turn this process into the agent."""
    _make(directory)
    joining = ["--join", invitation] if invitation else []
    command = [*_command(directory, settings), *joining]
    os.execv(command[0], command)


def _command(directory: str, settings: Settings) -> list[str]:
    given = [word for name, value in settings.items() if value for word in (f"--{name}", value)]
    return [sys.executable, "-m", "headnode.apps.agent", "--state", str(Path(directory).absolute()), *given]


def _make(directory: str) -> None:
    try:
        Path(directory).mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    except OSError as trouble:
        raise Unavailable(
            code="agent-state",
            what=f"directory {directory!r} cannot be made: {os.strerror(trouble.errno or 0)}",
            fix="give another with --directory",
        ) from trouble


def _tail(log: str, began: int) -> str:
    with Path(log).open("rb") as file:
        file.seek(began)
        lines = file.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
    return "".join(f"\n  | {line}" for line in lines)
