"""What tasks find around them to reach the head: `hn` in PATH, and on a joined node the agent's socket."""

import logging
import os
import sys
from pathlib import Path

import headnode
from headnode.apps.agent.client_door import SOCKET, ClientDoor
from headnode.apps.agent.launch_places import LaunchPlaces, all_may_reach, all_may_run, make_program

log = logging.getLogger("headnode.agent")

COMMANDS = "bin"
_OPTIONS = ("-P",) if "PYTHONPATH" in os.environ else ("-E", "-P")
"""Neither the directory of a task nor its variables for Python change what `hn` imports."""


class WayToHead:
    """Knows for each user by which program and by which socket his tasks reach the head."""

    def __init__(self, places: LaunchPlaces, door: ClientDoor | None) -> None:
        """`door` None: the head is on this machine, and its own socket is the way."""
        self._places, self._door = places, door
        self._installed: set[Path] = set()

    def open(self) -> None:
        """Listen where tasks of an earlier agent look for us, and users of the node."""
        for folder in self._places.folders() if self._door is not None else ():
            self._listen(folder)

    def close(self) -> None:
        """Listen no more."""
        if self._door is not None:
            self._door.close()

    def socket(self, uid: int) -> str:
        """Return the socket by which processes of a user reach the head; empty: not by us."""
        if self._door is None:
            return ""
        try:
            folder = self._places.reachable(uid)
        except OSError as error:
            log.warning("tasks of user %d cannot reach the head: %s", uid, error)
            return ""
        return str(folder / SOCKET) if self._listen(folder) else ""

    def _listen(self, folder: Path) -> bool:
        """Listen in a directory; whether that can be."""
        try:
            if self._door is not None:
                self._door.open(folder)
        except OSError as error:
            log.error("tasks of this node cannot reach the head at %s: %s", folder, error)
            return False
        return True

    def path(self, uid: int, path: str) -> str:
        """Return the PATH of a user with `hn` behind all else, where he can run it."""
        mine = uid in (0, os.geteuid())
        package = Path(headnode.__file__).parent
        if not mine and not (all_may_run(sys.executable) and all_may_reach(package)):
            return path  # he may have a Headnode of his own
        try:
            folder = self._places.reachable(uid) / COMMANDS
            if folder not in self._installed:
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755)
                make_program(folder / "hn", [sys.executable, *_OPTIONS, "-m", "headnode.apps.cli"])
                self._installed.add(folder)
        except OSError as error:
            log.warning("tasks of user %d have no hn: %s", uid, error)
            return path
        return f"{path}:{folder}"
