"""As which user of this machine a job runs.

On the head's own machine users are numbers, as the kernel knows them.  Another machine has users of its own:
there a job runs as the user of its owner's name, with the number, groups, home and limits that he has there.
"""

import os
import pwd
from typing import TypeVar

from msgspec.structs import replace

from headnode.adapters.nodes import messages as m
from headnode.core.model.errors import Unavailable

Said = TypeVar("Said", m.OpenJob, m.ReadFile)


def as_here(opened: Said, node: str, *, far: bool) -> Said:
    """Return what was said of a user with the numbers that he has on this machine.

    `far`: the head is on another.
    Raises:  Unavailable ``no-such-user``, ``other-number`` or ``other-user`` when it cannot run here.
    """
    here = _named(opened, node) if far else opened
    if os.geteuid() not in (0, here.uid):
        raise Unavailable(
            code="other-user",
            what=f"the agent of node {node!r} cannot run programs as {opened.owner!r}",
            fix="start the agent as root, or submit as the user who started it",
        )
    return here


def _named(opened: Said, node: str) -> Said:
    try:
        found = pwd.getpwnam(opened.owner)
    except (KeyError, ValueError):
        raise Unavailable(
            code="no-such-user",
            what=f"user {opened.owner!r} does not exist on node {node!r}",
            fix="create the user there, or request other nodes",
        ) from None
    if opened.same_numbers and found.pw_uid != opened.uid:
        raise Unavailable(
            code="other-number",
            what=f"user {opened.owner!r} is {found.pw_uid} on node {node!r}, and {opened.uid} on the head",
            fix="use the same uid on both, or map users by name: hn cluster params UserMapping=name",
        )
    return replace(opened, uid=found.pw_uid, gid=found.pw_gid)
