"""Starts the agent of a node that belongs to a head on another machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from headnode.adapters.processes import agent_lock
from headnode.apps.cli.background import Started, make_directory
from headnode.core.model.errors import NotAllowed, Unavailable

_LOOK = 0.5  # seconds in which an agent that cannot run ends
_PATIENCE = 30.0  # seconds an agent may take to end
_PAUSE = 0.02  # seconds

Settings = Mapping[str, str | None]


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
    started = Started(_command(directory, settings), Path(log_of(directory)))
    deadline = time.monotonic() + _LOOK
    while time.monotonic() < deadline:
        if started.process.poll() is not None:
            raise Unavailable(
                code="agent-died",
                what=f"the agent ended with status {started.process.returncode}",
                fix=f"its log {log_of(directory)} ends:" + started.last_lines(),
            )
        time.sleep(_PAUSE)
    return started.process.pid


def stop(directory: str) -> int | None:
    """Tell the agent to end, and wait until it has; return its process id, None when there is none.

    Raises:  NotAllowed ``not-yours``; Unavailable ``agent-slow``.
    """
    folder = Path(directory)
    try:
        number = agent_lock.holder(folder)
        if number is None:
            return None
        process = os.pidfd_open(number)
        try:
            if agent_lock.is_held(folder):  # so the number is still that of the agent
                signal.pidfd_send_signal(process, signal.SIGTERM)
        finally:
            os.close(process)
    except PermissionError:
        raise NotAllowed(
            code="not-yours",
            what=f"the agent in {directory!r} belongs to another user",
            fix="stop it as that user",
        ) from None
    except ProcessLookupError:
        return None
    deadline = time.monotonic() + _PATIENCE
    while agent_lock.is_held(folder):
        if time.monotonic() > deadline:
            raise Unavailable(
                code="agent-slow",
                what=f"the agent, process {number}, has not ended after {_PATIENCE:.0f} seconds",
                fix=f"see its log {log_of(directory)}",
            )
        time.sleep(_PAUSE)
    return number


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
    make_directory(directory, "agent-state", "directory", "give another with --directory")
