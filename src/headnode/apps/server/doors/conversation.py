"""The protocol of clients on a stream: length-prefixed JSON, requests answered in order.

It is the same for all doors; only how the user is identified differs.
Source:  docs/contracts/01-local-protocol.md.
"""

import asyncio
import contextlib
import logging
from itertools import islice
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from headnode.adapters.wire.frames import frame, read_rest, read_size
from headnode.apps.server.api import jobs as verbs_jobs
from headnode.apps.server.api.access import DONE, access_to, admit, audit_entry, audited_answer
from headnode.apps.server.api.pipeline import (
    STREAMING,
    WATCH,
    answer_again,
    begin_stream,
    carry_out,
    read_fields,
    read_request,
    refusal,
    refuse_unknown,
    split_key,
)
from headnode.apps.server.api.requests import WatchJobsRequest
from headnode.apps.server.api.streams import ClientStream, JobWatchers, StreamHandler
from headnode.apps.server.doors.user_shares import UserShare
from headnode.apps.server.server_context import ServerContext
from headnode.core.model import bounds as b
from headnode.core.model.errors import HeadnodeError, NotAllowed, WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state.decide import REPEATED


class Caller(Protocol):
    """Somebody who asks."""

    origin: str  # from where, for the audit log
    host: str  # the host from which
    near: bool  # he is on the head's own machine

    def user(self) -> User:
        """Return who he is now.

        Raises:  NotAllowed when he is nobody any more.
        """


log = logging.getLogger("headnode.server")

LARGEST_REQUEST = b.REQUEST.most  # bytes
BETWEEN_UPDATES = 0.1  # seconds
BETWEEN_WAITING_UPDATES = 5.0  # seconds after which a client that watches a queued job hears of it again
MOST_WAITING_TOLD = 12  # jobs of which it does

RequestFields = dict[str, Any]


class ServedConversation:
    """One client's requests."""

    def __init__(
        self,
        context: ServerContext,
        watchers: JobWatchers,
        caller: Caller,
        share: UserShare,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """`share` is what its user has of the head."""
        self._context, self._watchers, self._caller = context, watchers, caller
        self._shares, self._share = context.shares, share
        self._reader, self._writer = streams

    async def go_on(self) -> None:
        """Answer requests until the client goes away; what it had still asked for is dropped.

        Raises:  BadRequest ``frame``; ConnectionError; TimeoutError for a client that is too slow.
        """
        while (size := await read_size(self._reader, LARGEST_REQUEST)) is not None:
            async with self._shares.room_for(self._share, size):
                talk = await self._one(await self._next(size))  # no name here keeps the bytes in memory
            if talk is not None:  # it takes the connection over, to its end
                client = ClientStream(self._reader, self._writer)
                await talk(client)
                await client.let_go()
                return

    async def _next(self, size: int) -> bytes:
        """Return the request behind its length when it may begin.

        Raises:  BadRequest ``frame``; ConnectionError; TimeoutError for a client that is too slow.
        """
        async with asyncio.timeout(b.REQUEST_TIME.most):
            data = await read_rest(self._reader, size)
        await self._shares.turn(self._share)
        if self._writer.is_closing():
            raise ConnectionResetError("the client has disconnected")
        return data

    async def _one(self, data: bytes) -> StreamHandler | None:
        """Answer one request; return the conversation that follows it, if one does."""
        try:
            verb, fields = read_request(data)
            del data
            refuse_unknown(verb)
        except HeadnodeError as error:
            await self._say(refusal(error))
            return None
        user: User | None = None
        try:
            user = replace(self._caller.user(), origin=self._caller.origin, host=self._caller.host)
            self._admit(user, verb)
            if verb == WATCH:
                await self._watch(user, fields)
                return None
            if verb in STREAMING:
                talk = await begin_stream(self._context, user, verb, dict(fields))
                await self._tell_audit(user, verb, fields, None)
                return talk
            answer = await self._carried_out(user, verb, fields)
        except HeadnodeError as error:
            await self._tell_audit(user, verb, fields, error)
            await self._say(refusal(error))
            return None
        try:
            await self._tell_audit(user, verb, {**fields, **audited_answer(answer)}, None)
        except HeadnodeError as error:
            answer = refusal(error)
        await self._say(answer)
        if self._context.going_down and self._context.shut_down is not None:
            self._context.shut_down()  # not before the one who asked for it has his answer
        return None

    async def _carried_out(self, user: User, verb: str, fields: RequestFields) -> RequestFields:
        """Carry a request out; one with an idempotency key once only.

        Raises:  what refuses it.
        """
        rest, once = split_key(verb, fields)
        if once is None:
            return await carry_out(self._context, user, verb, dict(fields))
        if (known := await answer_again(self._context, user, once, rest)) is not None:
            return known
        try:
            return await carry_out(self._context, replace(user, once=once), verb, rest)
        except WrongState as refused:
            if refused.code != REPEATED:
                raise
            known = await answer_again(self._context, user, once, rest)  # the same request came twice at once
            if known is None:
                raise
            return known

    def _admit(self, user: User, verb: str) -> None:
        """Let through who may use the verb, if it can be written down that he did.

        Raises:  NotAllowed; Unavailable ``audit``.
        """
        admit(user, verb, near=self._caller.near)
        if access_to(verb).changes:
            self._context.audit.make_ready()

    async def _tell_audit(
        self, user: User | None, verb: str, fields: RequestFields, no: HeadnodeError | None
    ) -> None:
        """Write down what was changed, what should have been, and who asked for what is not his to ask for.

        Raises:  Unavailable ``audit-late`` when what was changed cannot be written down.
        """
        if not (access_to(verb).changes or isinstance(no, NotAllowed)):
            return
        outcome = DONE if no is None else no.code
        line = audit_entry(self._context.now(), user, self._caller.origin, verb, fields, outcome)
        if no is None:
            await self._context.audit.append(line)
            return
        with contextlib.suppress(HeadnodeError):  # nothing was changed; the line is written when it can be
            await self._context.audit.append(line)

    async def _watch(self, user: User, fields: RequestFields) -> None:
        """Send all jobs now and at the end, and those that changed ten times a second at most, until then."""
        request = read_fields(WatchJobsRequest, WATCH, fields)
        watched = request if isinstance(request, WatchJobsRequest) else WatchJobsRequest(job=[])
        jobs = watched.job if isinstance(watched.job, list) else [watched.job]
        signal, changed = self._watchers.watch(jobs), set(jobs)
        try:
            while True:
                user = self._caller.user()  # a token may have been revoked meanwhile
                shown, done = await verbs_jobs.watch(self._context, user, watched, changed)
                await self._say({"ok": True, "jobs": shown, "done": done})
                if done:
                    return
                await self._changed_or_waiting(jobs, signal)
                await self._pause(jobs, signal)
                await self._shares.turn(self._share)
                changed = signal.take() | self._waiting(jobs)
        finally:
            self._watchers.leave(jobs, signal)

    async def _changed_or_waiting(self, jobs: list[int], signal: asyncio.Event) -> None:
        """Return when a job has changed, or after a while when one waits: why and until when may be new."""
        while True:
            try:
                async with asyncio.timeout(BETWEEN_WAITING_UPDATES):
                    await signal.wait()
                    return
            except TimeoutError:
                if self._waiting(jobs):
                    return

    def _waiting(self, jobs: list[int]) -> set[int]:
        """Return the first few jobs that wait for processors."""
        alive = (self._context.cluster.jobs.get(JobId(job)) for job in jobs)
        waiting = (record.id for record in alive if record is not None and record.state.is_queued)
        return set(islice(waiting, MOST_WAITING_TOLD))

    async def _pause(self, jobs: list[int], signal: asyncio.Event) -> None:
        """Let changes gather before the next update, unless the jobs are over: then nobody should wait."""
        loop = asyncio.get_running_loop()
        until = loop.time() + BETWEEN_UPDATES
        while any(job in self._context.cluster.jobs for job in jobs) and loop.time() < until:
            signal.clear()
            try:
                async with asyncio.timeout_at(until):
                    await signal.wait()
            except TimeoutError:
                return

    async def _say(self, message: RequestFields) -> None:
        """Send one answer, and wait until most of it is read.

        Raises:  ConnectionError; TimeoutError when it is not.
        """
        if self._writer.is_closing():
            return
        data = frame(msgspec.json.encode(message))
        with self._shares.unread(self._share, len(data)):
            self._writer.write(data)
            async with asyncio.timeout(b.UNREAD_TIME.most):
                await self._writer.drain()


def send(writer: asyncio.StreamWriter, message: RequestFields) -> None:
    """Send one answer, unless nobody is there to get it."""
    if not writer.is_closing():
        writer.write(frame(msgspec.json.encode(message)))
