"""The directories that an attempt has for itself, made by its user.

Standard library only: this is loaded by the shepherd factory."""

import errno
import os
import stat

from headnode.adapters.processes.missing_program import reason
from headnode.adapters.processes.program_start import make, remove
from headnode.adapters.processes.start_failures import CannotStart, cannot
from headnode.core.model import faults

_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make_directories(temporary: str, scratch: str) -> None:
    """Make the temporary directory of an attempt and the one that it starts in, both or none; empty: none.

    Raises:  CannotStart.
    """
    if temporary:
        make_temporary(temporary)
    if scratch:
        try:
            _make_scratch(scratch)
        except CannotStart:
            if temporary:
                remove(temporary)
            raise


def _make_scratch(work_directory: str) -> None:
    try:
        make(work_directory)
    except OSError as error:
        raise CannotStart(
            f"the private directory {work_directory!r} cannot be made: {reason(error)}; "
            "give the task a work directory, or TMPDIR, in which its owner may make one",
            faults.WORK_DIRECTORY,
        ) from None


def make_temporary(path: str) -> None:
    """Make the temporary directory of an attempt, for its user alone.

    Raises:  CannotStart.
    """
    parent = os.path.dirname(path)  # noqa: PTH120 - pathlib costs every shepherd memory
    try:
        mode = os.stat(parent).st_mode  # noqa: PTH116
        if mode & _OF_OTHERS and not mode & stat.S_ISVTX:
            raise CannotStart(
                f"no temporary directory can be made in {parent!r} on this node: other users can replace "
                f"what is in it; let only owners remove their files there: chmod +t {parent}",
                faults.TEMPORARY_DIRECTORY,
            )
        make(path)
    except OSError as error:
        quota = error.errno == errno.EDQUOT
        fix = (
            "free some space" if quota else "let all users make directories there, or set TemporaryDirectory"
        )
        raise cannot(
            f"the temporary directory {path!r} cannot be made on this node: {reason(error)}; {fix}",
            faults.FILES if quota else faults.TEMPORARY_DIRECTORY,
            error,
        ) from None


def is_own_directory(path: str) -> bool:
    """Tell whether this is a directory of our user, which no other user can enter."""
    try:
        seen = os.lstat(path)
    except OSError:
        return False
    return (
        stat.S_ISDIR(seen.st_mode)
        and seen.st_uid == os.geteuid()
        and stat.S_IMODE(seen.st_mode) == stat.S_IRWXU
    )
