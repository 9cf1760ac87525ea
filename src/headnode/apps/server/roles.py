"""Who has which role: root, who started the head, and whom Administrators and Operators name."""

import os
import time
from collections.abc import Callable

from headnode.adapters.identity.users import Account, groups_of
from headnode.core.model.user import User
from headnode.engine.settings import Settings

REMEMBERED = 60.0  # seconds that the groups of a user are believed: some sites ask a server for them


class Roles:
    """Looks up roles at each request, so that a change of the parameters counts at once.

    Groups are looked up only while somebody asks for them: where they come from may be slow, or away.
    """

    def __init__(self, settings: Callable[[], Settings], groups_matter: Callable[[], bool]) -> None:
        """`groups_matter`: whether something but the parameters asks for the groups of users."""
        self._settings, self._groups_matter = settings, groups_matter
        self._groups: dict[Account, tuple[float, frozenset[str]]] = {}  # since when they are known

    def of(self, account: Account) -> User:
        """Return the user that somebody is now."""
        settings = self._settings()
        administrators, operators = settings.people("Administrators"), settings.people("Operators")
        named = any(name.startswith("@") for name in (*administrators, *operators))
        groups = self._groups_of(account) if named or self._groups_matter() else frozenset[str]()
        called = {account.name, *(f"@{group}" for group in groups)}
        administers = account.uid in (0, os.geteuid()) or not called.isdisjoint(administrators)
        return User(
            name=account.name,
            uid=account.uid,
            gid=account.gid,
            administrator=administers,
            operator=not administers and not called.isdisjoint(operators),
            groups=tuple(sorted(groups)),
        )

    def _groups_of(self, account: Account) -> frozenset[str]:
        now = time.monotonic()
        since, groups = self._groups.get(account, (-REMEMBERED, frozenset()))
        if now - since >= REMEMBERED:
            self._groups = {who: known for who, known in self._groups.items() if now - known[0] < REMEMBERED}
            groups = groups_of(account)
            self._groups[account] = (now, groups)
        return groups
