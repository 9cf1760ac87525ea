"""Directories that attempts had and that their shepherd can no longer remove."""

import logging
import os
import pwd
import subprocess
from collections.abc import Iterable

from headnode.adapters.processes.program_start import PATH, REMOVE, SHELL

log = logging.getLogger("headnode.agent")


def remove_leftovers(paths: Iterable[str], uid: int) -> None:
    """Remove those of the directories that are still there, as the user whose tasks had them.

    Not as root: links on the path may be the user's, and lead anywhere.
    """
    for path in paths:
        if os.path.lexists(path):  # a link is there even if it leads nowhere
            user, group, others = _identity(uid)
            command = [SHELL, "-c", REMOVE, path]
            try:
                subprocess.run(command, env=PATH, check=False, user=user, group=group, extra_groups=others)
            except OSError as error:  # the user has as many processes as it may have
                log.error("%s was not removed: %s; remove it by hand", path, error)


def _identity(uid: int) -> tuple[int | None, int | None, list[int] | None]:
    """Return the user and groups to become; None where we are that user already."""
    if uid == os.geteuid():
        return None, None, None
    try:
        return uid, pwd.getpwuid(uid).pw_gid, []
    except KeyError:  # a user of the head without a name on this machine
        return uid, uid, []
