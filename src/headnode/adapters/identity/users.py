"""The users that this machine knows by name, and the environment that their tasks start from."""

import grp
import os
import pwd
from typing import NamedTuple

from headnode.core.model.errors import NotFound


class Account(NamedTuple):
    """A user of this machine, as its user database says."""

    name: str
    uid: int
    gid: int


def account(name: str) -> Account:
    """Return the user of this name.

    Raises:  NotFound ``no-such-user``.
    """
    try:
        account = pwd.getpwnam(name)
    except (KeyError, ValueError):  # a name with a zero byte is a ValueError
        raise NotFound(
            code="no-such-user",
            what=f"there is no user {name!r} on this machine",
            fix="see: getent passwd",
        ) from None
    return Account(account.pw_name, account.pw_uid, account.pw_gid)


def groups_of(user: Account) -> frozenset[str]:
    """Return the names of all groups of a user; those without a name are left out."""
    return frozenset(name for number in os.getgrouplist(user.name, user.gid) if (name := _group_name(number)))


def first_group(name: str) -> str:
    """Return the name of the first group of a user; "" when user or group are not known here."""
    try:
        return _group_name(account(name).gid)
    except NotFound:
        return ""


def members_of(group: str) -> tuple[str, ...]:
    """Return the names of the users in a group, whether it is their first or another, ascending.

    Raises:  NotFound ``no-such-group``.
    """
    try:
        group_entry = grp.getgrnam(group)
    except (KeyError, ValueError):
        raise NotFound(
            code="no-such-group",
            what=f"there is no group {group!r} on this machine",
            fix="see: getent group",
        ) from None
    first = {user.pw_name for user in pwd.getpwall() if user.pw_gid == group_entry.gr_gid}
    return tuple(sorted({*group_entry.gr_mem, *first}))


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return ""
