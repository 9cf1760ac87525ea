"""Starts a head in the background and watches it come up."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError, Unavailable

PATIENCE = 30.0  # seconds a head may take until a node is ready
PAUSE = 0.05  # seconds between two looks
LAST_LINES = 15  # of the log, told when the head does not come up

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
    with (folder / "head.log").open("ab") as log:
        began = log.tell()
        process = subprocess.Popen(
            command(directory, settings),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    return _when_ready(process, folder / "head.log", began, nodes)


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
    folder = Path(directory)
    try:
        folder.mkdir(mode=0o755 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    except OSError as trouble:
        raise Unavailable(
            code="state-directory",
            what=f"state directory {directory!r} cannot be made: {os.strerror(trouble.errno or 0)}",
            fix="give another with: hn up --state DIRECTORY",
        ) from trouble
    return folder


def _here(nodes: dict[str, int]) -> int:
    """Return how many nodes answer, by how many are in each state: one that takes no jobs is here, too."""
    return sum(count for state, count in nodes.items() if state not in ("Pending", "Unreachable"))


def _when_ready(process: "subprocess.Popen[bytes]", log: Path, began: int, nodes: int) -> dict[str, Any]:
    client, deadline = at(str(log.parent)), time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _died(process.returncode, log, began)
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
        fix=f"stop it with: hn down; its log {log} ends:" + _tail(log, began),
    )


def _died(status: int, log: Path, began: int) -> HeadnodeError:
    return Unavailable(
        code="head-died",
        what=f"the head ended with status {status} before it answered",
        fix=f"its log {log} ends:" + _tail(log, began),
    )


def _tail(log: Path, began: int) -> str:
    with log.open("rb") as file:
        file.seek(began)
        lines = file.read().decode(errors="replace").splitlines()[-LAST_LINES:]
    return "".join(f"\n  | {line}" for line in lines)
