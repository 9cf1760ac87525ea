"""Who is on the other end of a connection, as he may be known: by the kernel's word, or by his token."""

import asyncio
import socket
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from headnode.adapters.identity.peer import peer_ids, user_name
from headnode.adapters.identity.users import Account, account
from headnode.adapters.nodes.relaying import place_of
from headnode.apps.server.desk import Desk
from headnode.apps.server.roles import Roles
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.tokens import valid
from headnode.core.model.errors import NotAllowed, NotFound
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User


class Caller(Protocol):
    """Somebody who asks."""

    origin: str  # from where, for the audit log
    host: str  # the host from which
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
        self.origin, self.host = f"pid {pid}", socket.gethostname()
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
        self._desk, self._roles, self._digest = desk, roles, digest
        self.origin = self.host = address
        name = valid(desk.cluster, digest, desk.now()).user
        try:
            self._account = account(name)
        except NotFound:
            raise NotAllowed(
                code="token",
                what=f"{name!r} is no longer a user of the head's machine",
                fix="ask an administrator",
            ) from None

    def user(self) -> User:
        """Return who he is now, if his token is good still.

        Raises:  NotAllowed ``token``.
        """
        valid(self._desk.cluster, self._digest, self._desk.now())
        return self._roles.of(self._account)


class Attempt(NamedTuple):
    """One attempt of an instance, as a node names it; task 0 is what somebody runs beside the tasks."""

    job: JobId
    task: int
    instance: int
    attempt: int


class TaskCaller:
    """A user for whom a node speaks, by an attempt of his that runs there.

    The node says which attempt; who its user is, is what the head knows.  He has no role there: a node that
    lies is to gain no more than the rights of those whose tasks it runs anyway.
    """

    near = False

    def __init__(self, desk: Desk, node: str, key: str, attempt: Attempt) -> None:
        """`key` is the digest of the key that the node has shown.

        Raises:  NotAllowed ``no-task``, as `user` does.
        """
        self._desk, self._node, self._key, self.attempt = desk, node, key, attempt
        self.origin, self.host = f"node {node}, task {'.'.join(map(str, attempt))}", node
        self.user()

    def user(self) -> User:
        """Return who it is, while the attempt runs on the node.

        Raises:  NotAllowed ``no-task``.
        """
        record = self._record()
        known = self._desk.roles.of(Account(record.owner, record.uid, record.gid))
        return replace(known, administrator=False, operator=False, by_node=True)

    def is_there(self) -> bool:
        """Whether the node is ours, and has a part in the attempt or in a command beside the tasks."""
        node = self._desk.cluster.nodes.get(self._node)
        if node is None or node.key != self._key or node.state is NodeState.PENDING:
            return False
        if self.attempt.task == 0:
            return self._desk.sessions.here(self._node, self.attempt.job)
        return any(name == self._node for name, _ in place_of(self._desk.cluster, *self.attempt))

    def _record(self) -> JobRecord:
        record = self._desk.cluster.jobs.get(self.attempt.job)
        if record is None or not self.is_there():
            raise NotAllowed(
                code="no-task",
                what=f"task {'.'.join(map(str, self.attempt[:3]))} does not run on node {self._node!r}",
                fix="outside of tasks, log in: `hn token new` on the head's machine, then `hn login` here",
            )
        return record
