"""Directories that belong to one attempt: made before it starts, removed with all in them when it is over.

Standard library only: this is loaded by the shepherd factory.
Source: grid, task: the directory in which a task starts is made for it, and removed after it.
"""

import os

SHELL = "/bin/sh"
_RM = 'rm -rf --one-file-system -- "$0"'
REMOVE = f'{_RM} 2>/dev/null || {{ chmod -R u+rwX -- "$0"; {_RM}; }}'
PATH = {"PATH": "/usr/bin:/bin"}


def make(path: str) -> None:
    """Make the directory, for its owner alone.

    Raises:  OSError, also when it is there already.
    """
    os.mkdir(path, 0o700)  # noqa: PTH102 - pathlib costs every shepherd memory


def remove(path: str) -> None:
    """Remove the directory with what is in it, and wait for that."""
    os.waitpid(_start(path), 0)


class Removals:
    """Removes directories beside everything else: there may be much in them."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}  # by the process that removes
        self._cut_short: list[str] = []

    @property
    def processes(self) -> set[int]:
        """The processes that remove: nobody's strays."""
        return set(self._paths)

    def begin(self, path: str) -> None:
        """Start removing a directory."""
        self._paths[_start(path)] = path

    def reaped(self, process: int, status: int) -> None:
        """A child of this process has ended: one of those has done its work, unless it was killed."""
        path = self._paths.pop(process, "")
        if path and os.WIFSIGNALED(status):
            self._cut_short.append(path)

    def finish(self) -> None:
        """Remove what is left of all; those that were at it may have been killed."""
        for path in (*self._paths.values(), *self._cut_short):
            remove(path)
        self._paths, self._cut_short = {}, []


def _start(path: str) -> int:
    return os.posix_spawn(SHELL, ["sh", "-c", REMOVE, path], PATH, setsid=True)
