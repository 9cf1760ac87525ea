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


def _here(nodes: dict[str, int]) -> int:
    """Return how many nodes answer, by how many are in each state: one that takes no jobs is here, too."""
    return sum(count for state, count in nodes.items() if state not in ("Pending", "Unreachable"))


def _when_ready(started: Started, nodes: int) -> dict[str, Any]:
    process, log = started.process, started.log
    client, deadline = at(str(log.parent)), time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _died(started)
        try:
            cluster: dict[str, Any] = client.ask("cluster")["cluster"]
        except Unavailable:
            cluster = {}
        if cluster and _here(cluster["nodes"]) >= nodes:
            return cluster
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
