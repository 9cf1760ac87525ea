"""Clients of this machine: the user is known by the kernel's word for the peer."""

import asyncio
import logging

from headnode.apps.server.callers import LocalCaller
from headnode.apps.server.conversation import Conversation, send
from headnode.apps.server.desk import Desk
from headnode.apps.server.requests import refusal
from headnode.apps.server.watching import Watchers
from headnode.core.model.errors import HeadnodeError

log = logging.getLogger("headnode.server")


class LocalSocket:
    """Serves every client of this machine."""

    def __init__(self, desk: Desk, watchers: Watchers) -> None:
        self._desk = desk
        self._watchers = watchers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client's requests until it goes away.  A bad frame costs this connection only."""
        try:
            caller = LocalCaller(self._desk.roles, writer)
            user = caller.user()
            with self._desk.shares.connected(user.uid, administrator=user.administrator) as share:
                streams = reader, writer
                await Conversation(self._desk, self._watchers, caller, share, streams).go_on()
        except HeadnodeError as error:
            send(writer, refusal(error))
        except (ConnectionError, TimeoutError) as error:
            log.debug("a client has disconnected: %s", error or "it was too slow")
            writer.transport.abort()
        finally:
            writer.close()
