"""Who is on the other end of a connection, as he may be known: by the kernel's word, or by his token."""

import asyncio
from typing import Protocol

from headnode.adapters.identity.peer import peer_ids, user_name
from headnode.adapters.identity.users import Account, account
from headnode.apps.server.desk import Desk
from headnode.apps.server.roles import Roles
from headnode.core.lifecycle.tokens import valid
from headnode.core.model.errors import NotAllowed, NotFound
from headnode.core.model.user import User


class Caller(Protocol):
    """Somebody who asks."""

    origin: str  # from where, for the audit log
    near: bool  # he is on the head's own machine

    def user(self) -> User:
        """Return who he is now.

        Raises:  NotAllowed when he is nobody any more.
        """


class LocalCaller:
    """A process of this machine, at the other end of a Unix socket."""

    near = True

    def __init__(self, roles: Roles, writer: asyncio.StreamWriter) -> None:
        pid, uid, gid = peer_ids(writer.get_extra_info("socket"))
        self.origin = f"pid {pid}"
        self._roles, self._account = roles, Account(user_name(uid), uid, gid)

    def user(self) -> User:
        """Return who he is now."""
        return self._roles.of(self._account)


class TokenCaller:
    """Somebody on another machine who showed a token."""

    near = False

    def __init__(self, desk: Desk, roles: Roles, digest: str, address: str) -> None:
        """Look up the user of the token.

        Raises:  NotAllowed ``token``, also when its user is no user of this machine any more.
        """
        self._desk, self._roles, self._digest, self.origin = desk, roles, digest, address
        name = valid(desk.cluster, digest, desk.now()).user
        try:
            self._account = account(name)
        except NotFound:
            raise NotAllowed(
                code="token",
                what=f"{name!r} is no user of the head's machine any more",
                fix="ask an administrator",
            ) from None

    def user(self) -> User:
        """Return who he is now, if his token is good still.

        Raises:  NotAllowed ``token``.
        """
        valid(self._desk.cluster, self._digest, self._desk.now())
        return self._roles.of(self._account)
