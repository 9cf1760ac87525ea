"""Who has which role: root, who started the head, and whom Administrators and Operators name."""

import os
from collections.abc import Callable

from headnode.adapters.identity.users import Account, groups_of
from headnode.core.model.user import User
from headnode.engine.settings import Settings


class Roles:
    """Looks up roles at each request, so that a change of the parameters counts at once."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def of(self, who: "Person") -> User:
        """Return the user that somebody is now."""
        settings, account = self._settings(), who.account
        administers = account.uid in (0, os.geteuid()) or who.is_among(settings.people("Administrators"))
        return User(
            name=account.name,
            uid=account.uid,
            gid=account.gid,
            administrator=administers,
            operator=not administers and who.is_among(settings.people("Operators")),
        )


class Person:
    """Somebody on one connection.  His groups are looked up once, when they first matter."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._groups: frozenset[str] | None = None

    def is_among(self, people: tuple[str, ...]) -> bool:
        """Whether he, or a group of his with an @ before it, is named."""
        if not people:
            return False
        if self.account.name in people:
            return True
        if not any(name.startswith("@") for name in people):
            return False
        if self._groups is None:
            self._groups = groups_of(self.account)
        return any(f"@{group}" in people for group in self._groups)
