"""Notes about cluster parameters that name users or groups whom this machine does not know.

They are notes, not refusals: the account may be created later, and then the parameter applies.
"""

import asyncio
import grp
import pwd
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Final

from headnode.core.model.owner_limits import EVERY, GROUP_MARK, LimitScope, read_owner_limits
from headnode.core.model.priority_factors import USER_SHARES, read_shares
from headnode.engine.settings import read_people

MOST_NOTED = 10


def _limited_users(value: str) -> Iterable[str]:
    return read_owner_limits(value)


def _limited_groups(value: str) -> Iterable[str]:
    return (f"{GROUP_MARK}{name}" for name in read_owner_limits(value))


def _sharing_users(value: str) -> Iterable[str]:
    return (name.rpartition("/")[2] for name in read_shares(value, USER_SHARES))


NAMES_IN: Final[Mapping[str, Callable[[str], Iterable[str]]]] = MappingProxyType(
    {
        "Administrators": read_people,
        "Operators": read_people,
        "SiteKeyRoles": read_people,
        LimitScope.USER.parameter: _limited_users,
        LimitScope.GROUP.parameter: _limited_groups,
        USER_SHARES: _sharing_users,
    }
)
"""The parameter -> the users, and groups with an @, that a value names."""


async def notes_about(changes: Mapping[str, tuple[str, str]]) -> tuple[str, ...]:
    """Return a note for each user and group that a parameter names now, and that has no account here.

    `changes` has the value before and after.  Names that were there before are not noted again.  The user
    database of a site may be slow, so it is asked in a thread.
    """
    named = [
        (parameter, name)
        for parameter, (before, after) in changes.items()
        if parameter in NAMES_IN
        for name in _added(NAMES_IN[parameter], before, after)
    ]
    return await asyncio.to_thread(lambda: tuple(islice(_notes(named), MOST_NOTED))) if named else ()


def _added(names_in: Callable[[str], Iterable[str]], before: str, after: str) -> list[str]:
    known = {EVERY, *names_in(before)}
    return [name for name in dict.fromkeys(names_in(after)) if name not in known]


def _notes(named: Iterable[tuple[str, str]]) -> Iterator[str]:
    for parameter, name in named:
        if name.startswith(GROUP_MARK):
            group = name.removeprefix(GROUP_MARK)
            if not _is_known(grp.getgrnam, group):
                yield (
                    f"{parameter} names the group {group!r}, and this machine has no such group; correct the "
                    f"name, or create the group (see: getent group)"
                )
        elif not name.isdecimal() and not _is_known(pwd.getpwnam, name):  # a number: a user without a name
            yield (
                f"{parameter} names the user {name!r}, and this machine has no such account; correct the "
                f"name, or create the account (see: getent passwd)"
            )


def _is_known(ask: Callable[[str], object], name: str) -> bool:
    try:
        ask(name)
    except (KeyError, ValueError):  # a name with a zero byte is a ValueError
        return False
    return True
