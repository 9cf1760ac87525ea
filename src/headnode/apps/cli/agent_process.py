"""Starts the agent of a node that belongs to a head on another machine."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from headnode.apps.cli.background import Started, make_directory
from headnode.core.model.errors import Unavailable

_LOOK = 0.5  # seconds in which an agent that cannot run ends
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
