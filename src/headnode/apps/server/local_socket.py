"""Clients of this machine: the user is known by the kernel's word for the peer."""

import asyncio
import logging

from headnode.apps.server.callers import LocalCaller
from headnode.apps.server.conversation import Conversation, send
from headnode.apps.server.desk import Desk
from headnode.apps.server.requests import refusal
from headnode.apps.server.watching import Watchers
from headnode.core.model.errors import BadRequest

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
            await Conversation(self._desk, self._watchers, caller, (reader, writer)).go_on()
        except BadRequest as error:
            send(writer, refusal(error))
        except ConnectionError as error:
            log.debug("a client went away: %s", error)
        finally:
            writer.close()
