"""What a shepherd that was killed could not remove: directories of its own that tasks had."""

import os
import pwd
import subprocess
from collections.abc import Iterable

from headnode.adapters.processes.private_directories import PATH, REMOVE, SHELL


def remove_private(paths: Iterable[str], uid: int) -> None:
    """Remove those of the directories that are still there, as the user whose tasks had them.

    As nobody else: what lies on the way may be the user's, and lead anywhere.
    """
    for path in paths:
        if os.path.lexists(path):  # a link is there even if it leads nowhere
            user, group, others = _identity(uid)
            subprocess.run(
                [SHELL, "-c", REMOVE, path],
                env=PATH,
                check=False,
                user=user,
                group=group,
                extra_groups=others,
            )


def _identity(uid: int) -> tuple[int | None, int | None, list[int] | None]:
    """Return the user and groups to become; None where we are that user already."""
    if uid == os.geteuid():
        return None, None, None
    try:
        return uid, pwd.getpwuid(uid).pw_gid, []
    except KeyError:  # a user of the head whom this machine has no name for
        return uid, uid, []
