"""Directories that attempts had and that their shepherd can no longer remove."""

import contextlib
import logging
import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterable

from headnode.adapters.processes.program_start import PATH, REMOVE, SHELL, holds_mount

log = logging.getLogger("headnode.agent")


TIMEOUT = 60.0  # seconds for one directory; the job's end is reported after that
IN_ALL = 600.0  # seconds for those of a job: its owner can make many that take long
_DEATH = 2.0  # seconds for a killed process to end


def remove_leftovers(
    paths: Iterable[str], uid: int, timeout: float = TIMEOUT, in_all: float = IN_ALL
) -> None:
    """Remove those of the directories that are still there, as the user whose tasks had them.

    Not as root: links on the path may be the user's, and lead anywhere. Only the user's process looks at the
    path, so a file system that does not answer is waited for `timeout` seconds, and all `in_all` seconds.
    """
    identity, end = _identity(uid), time.monotonic() + in_all
    left = list(paths)
    for number, path in enumerate(left):
        try:
            if holds_mount(path):
                log.error("%s was not removed: something is mounted in it; unmount and remove it", path)
                continue
            remover = _remover(path, identity)
        except OSError as error:  # the user has as many processes as it may have
            log.error("%s was not removed: %s; remove it by hand", path, error)
            continue
        try:
            remover.wait(timeout)
        except subprocess.TimeoutExpired:
            _kill(remover)
            log.error("%s was not removed within %g seconds; remove it by hand", path, timeout)
        if time.monotonic() >= end and number + 1 < len(left):
            rest = left[number + 1 :]
            log.error(
                "%d directories from %s on were not removed, because %g seconds were over; remove those that "
                "are still there by hand",
                *(len(rest), rest[0], in_all),
            )
            return


def _kill(remover: subprocess.Popen[bytes]) -> None:
    os.killpg(remover.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for the file system
        remover.wait(_DEATH)


def _remover(path: str, identity: tuple[int | None, int | None, list[int] | None]) -> subprocess.Popen[bytes]:
    """Start to remove a directory as its user.

    Raises:  OSError.
    """
    user, group, others = identity
    return subprocess.Popen(
        [SHELL, "-c", REMOVE, path],
        env=PATH,
        user=user,
        group=group,
        extra_groups=others,
        start_new_session=True,
    )


def _identity(uid: int) -> tuple[int | None, int | None, list[int] | None]:
    """Return the user and groups to become; None where we are that user already."""
    if uid == os.geteuid():
        return None, None, None
    try:
        return uid, pwd.getpwuid(uid).pw_gid, []
    except KeyError:  # a user of the head without a name on this machine
        return uid, uid, []
