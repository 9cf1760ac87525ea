"""The local protocol on a stream: length-prefixed JSON, the user known by the kernel's word for the peer."""

import asyncio
import logging

import msgspec

from headnode.adapters.identity.peer import peer_user
from headnode.adapters.nodes.framing import frame, read_frame
from headnode.apps.server import verbs_jobs
from headnode.apps.server.desk import Desk
from headnode.apps.server.requests import WATCH, answer, read_request, read_wish, refusal
from headnode.apps.server.watching import Watchers
from headnode.apps.server.wishes import WatchWish
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.user import User

log = logging.getLogger("headnode.server")

LARGEST_REQUEST = 64 * 1024 * 1024  # bytes
BETWEEN_UPDATES = 0.1  # seconds


class LocalSocket:
    """Serves every client of this machine."""

    def __init__(self, desk: Desk, watchers: Watchers) -> None:
        self._desk = desk
        self._watchers = watchers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one client's requests until it goes away.  A bad frame costs this connection only."""
        try:
            user = peer_user(writer.get_extra_info("socket"))
            while (data := await read_frame(reader, LARGEST_REQUEST)) is not None:
                await self._one(user, data, writer)
                await writer.drain()
        except BadRequest as error:
            _send(writer, refusal(error))
        except ConnectionError as error:
            log.debug("a client went away: %s", error)
        finally:
            writer.close()

    async def _one(self, user: User, data: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            verb, fields = read_request(data)
            if verb == WATCH:
                await self._watch(user, fields, writer)
                return
        except HeadnodeError as error:
            _send(writer, refusal(error))
            return
        _send(writer, await answer(self._desk, user, verb, fields))

    async def _watch(self, user: User, fields: dict[str, object], writer: asyncio.StreamWriter) -> None:
        """Send all jobs now and at the end, and those that changed ten times a second at most, until then."""
        wish = read_wish(WatchWish, WATCH, fields)
        watched = wish if isinstance(wish, WatchWish) else WatchWish(job=[])
        jobs = watched.job if isinstance(watched.job, list) else [watched.job]
        bell, changed = self._watchers.watch(jobs), set(jobs)
        try:
            while True:
                shown, done = await verbs_jobs.watch(self._desk, user, watched, changed)
                _send(writer, {"ok": True, "jobs": shown, "done": done})
                await writer.drain()
                if done:
                    return
                await bell.wait()
                await self._pause(jobs, bell)
                changed = bell.take()
        finally:
            self._watchers.leave(jobs, bell)

    async def _pause(self, jobs: list[int], bell: asyncio.Event) -> None:
        """Let changes gather before the next update, unless the jobs are over: then nobody should wait."""
        loop = asyncio.get_running_loop()
        until = loop.time() + BETWEEN_UPDATES
        while any(job in self._desk.cluster.jobs for job in jobs) and loop.time() < until:
            bell.clear()
            try:
                async with asyncio.timeout_at(until):
                    await bell.wait()
            except TimeoutError:
                return


def _send(writer: asyncio.StreamWriter, message: dict[str, object]) -> None:
    if not writer.is_closing():
        writer.write(frame(msgspec.json.encode(message)))
