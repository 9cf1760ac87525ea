"""Directories that attempts had and that their shepherd can no longer remove."""

import contextlib
import logging
import os
import pwd
import signal
import subprocess
from collections.abc import Iterable

from headnode.adapters.processes.program_start import PATH, REMOVE, SHELL

log = logging.getLogger("headnode.agent")


TIMEOUT = 60.0  # seconds for one directory; the job's end is reported after that
_DEATH = 2.0  # seconds for a killed process to end


def remove_leftovers(paths: Iterable[str], uid: int, timeout: float = TIMEOUT) -> None:
    """Remove those of the directories that are still there, as the user whose tasks had them.

    Not as root: links on the path may be the user's, and lead anywhere. Only the user's process looks at the
    path, so a file system that does not answer is waited for `timeout` seconds.
    """
    user, group, others = _identity(uid)
    for path in paths:
        try:
            remover = subprocess.Popen(
                [SHELL, "-c", REMOVE, path],
                env=PATH,
                user=user,
                group=group,
                extra_groups=others,
                start_new_session=True,
            )
        except OSError as error:  # the user has as many processes as it may have
            log.error("%s was not removed: %s; remove it by hand", path, error)
            continue
        try:
            remover.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(remover.pid, signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):  # it waits for the file system
                remover.wait(_DEATH)
            log.error("%s was not removed within %g seconds; remove it by hand", path, timeout)


def _identity(uid: int) -> tuple[int | None, int | None, list[int] | None]:
    """Return the user and groups to become; None where we are that user already."""
    if uid == os.geteuid():
        return None, None, None
    try:
        return uid, pwd.getpwuid(uid).pw_gid, []
    except KeyError:  # a user of the head without a name on this machine
        return uid, uid, []
