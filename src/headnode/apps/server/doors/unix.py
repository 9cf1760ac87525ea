"""Clients of this machine: the kernel identifies the process at the other end of a Unix socket."""

import asyncio
import logging
import socket

from headnode.adapters.identity.users import Account
from headnode.adapters.wire.peers import peer_ids, user_name
from headnode.apps.server.api.verbs import refusal
from headnode.apps.server.doors.conversation import send, serve_client
from headnode.apps.server.doors.user_shares import Roles
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.user import User

log = logging.getLogger("headnode.server")


class UnixCaller:
    """A process of this machine, at the other end of a Unix socket."""

    near = True
    session = False

    def __init__(self, roles: Roles, writer: asyncio.StreamWriter) -> None:
        pid, uid, gid = peer_ids(writer.get_extra_info("socket"))
        self.origin, self.host = f"pid {pid}", socket.gethostname()
        self._roles, self._account = roles, Account(user_name(uid), uid, gid)

    def user(self) -> User:
        """Return the current user."""
        return self._roles.of(self._account)


class UnixDoor:
    """Serves every client of this machine."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client's requests until it goes away.  A bad frame costs this connection only."""
        try:
            caller = UnixCaller(self._context.roles, writer)
            await serve_client(self._context, caller, (reader, writer))
        except HeadnodeError as error:
            send(writer, refusal(error))
        except (ConnectionError, TimeoutError) as error:
            log.debug("a client has disconnected: %s", error or "it was too slow")
            writer.transport.abort()
        finally:
            writer.close()
