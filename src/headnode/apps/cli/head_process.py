"""Starts a head in the background and watches it come up."""

import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from headnode.apps.cli.background import Started, make_directory
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, Unavailable

PATIENCE = 30.0  # seconds a head may take until a node is ready
PAUSE = 0.05  # seconds between two looks
OTHERS = 2.0  # seconds for nodes of other machines to dial again
_AWAY = ("Pending", "Unreachable")

Settings = dict[str, str | None]


def at(directory: str) -> Client:
    """Return a client of the head in `directory`, which need not run."""
    return Client(str(Path(directory).absolute()))


def answers(client: Client) -> dict[str, Any] | None:
    """Return what the head says of itself, or None when it does not run.

    Raises:  NotAllowed ``no-access`` when it is somebody else's.
    """
    try:
        return client.ask("ping")
    except Unavailable:
        return None


def become(directory: str, settings: Settings) -> NoReturn:
    """Turn this process into the head."""
    _make(directory)
    os.execv(sys.executable, command(directory, settings))


def start(directory: str, settings: Settings, *, nodes: int = 1) -> dict[str, Any]:
    """Start a head in the background; return the cluster once it answers and so many `nodes` are ready.

    Raises:  Unavailable ``head-died`` or ``head-slow``, with the end of its log.
    """
    folder = _make(directory)
    return _when_ready(Started(command(directory, settings), folder / "head.log"), nodes)


def command(directory: str, settings: Settings) -> list[str]:
    """Return the words that start a head in the foreground."""
    given = [word for name, value in settings.items() if value for word in (f"--{name}", value)]
    return [
        sys.executable,
        "-m",
        "headnode.apps.server",
        "--state",
        str(Path(directory).absolute()),
        *given,
    ]


def _make(directory: str) -> Path:
    fix = "give another with: hn up --state DIRECTORY"
    return make_directory(directory, "state-directory", "state directory", fix)


def _here(nodes: list[dict[str, Any]]) -> int:
    """Return how many nodes of this machine answer: one that takes no jobs is here, too."""
    return sum(not node["remote"] and node["state"] not in _AWAY for node in nodes)


def _are_back(nodes: list[dict[str, Any]]) -> bool:
    """Return whether the nodes of other machines answer again."""
    return not any(node["remote"] and node["state"] == "Unreachable" for node in nodes)


def _when_ready(started: Started, nodes: int) -> dict[str, Any]:
    process, log = started.process, started.log
    client, deadline, here_since = at(str(log.parent)), time.monotonic() + PATIENCE, 0.0
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _died(started)
        try:
            seen: list[dict[str, Any]] = client.ask("nodes")["nodes"]
            here_since = here_since or (time.monotonic() if _here(seen) >= nodes else 0.0)
            if here_since and (_are_back(seen) or time.monotonic() - here_since > OTHERS):
                cluster: dict[str, Any] = client.ask("cluster")["cluster"]
                return cluster
        except Unavailable:
            here_since = 0.0
        time.sleep(PAUSE)
    raise Unavailable(
        code="head-slow",
        what=f"the head runs as process {process.pid}, but not all nodes are ready after {PATIENCE:.0f} s",
        fix=f"stop it with: hn down; its log {log} ends:" + started.last_lines(),
    )


def _died(started: Started) -> HeadnodeError:
    return Unavailable(
        code="head-died",
        what=f"the head ended with status {started.process.returncode} before it answered",
        fix=f"its log {started.log} ends:" + started.last_lines(),
    )
