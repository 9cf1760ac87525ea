"""Events for webhooks: each hook gets them in order, from the journal, until it has taken them."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec

from headnode.adapters.notify.outbox import DeliveryResult, EventPost, HookCursors
from headnode.apps.server.api.events import EventPages
from headnode.apps.server.job_notices import FIRST_REST, LIFETIME, MAX_REST, NotifierProcess
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import HeadnodeError, WrongState
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, ParameterSet
from headnode.protocol.event_answers import BATCH_TYPE, EventObject, EventsRequest, cloud_event

BETWEEN_POSTS = 0.1  # seconds in which events are collected
MAX_WAIT = 15.0  # seconds
MAX_IN_POST = 100  # events
log = logging.getLogger("headnode.notices")


class EventWebhooks:
    """Has events posted to the addresses of the parameter `EventWebhooks`."""

    def __init__(self, context: ServerContext, path: Path) -> None:
        """`path` is the file of the cursors."""
        self._context, self._path = context, path
        self._notifier = NotifierProcess(lambda _: None)
        self._changed = asyncio.Event()  # a parameter has
        self._set_at = 0  # the event that set the hooks last
        self._problems = context.webhook_problems

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Notice that the hooks were set: new ones get what follows."""
        for number, event in enumerate(events, self._context.engine.number - len(events) + 1):
            if isinstance(event, ParameterSet) and event.name == "EventWebhooks":
                self._set_at = number
                self._changed.set()

    def _words(self, parameter: str) -> tuple[str, ...]:
        text = self._context.engine.settings.text(parameter)
        return tuple(word for each in text.split(",") if (word := each.strip()))

    async def keep(self) -> None:
        """Post events for ever."""
        running: dict[str, asyncio.Task[None]] = {}
        self._cursors = await self._opened()
        try:
            while True:
                self._changed.clear()
                wanted = set(self._words("EventWebhooks"))
                for hook in running.keys() - wanted:
                    running.pop(hook).cancel()
                    self._problems.pop(hook, None)
                self._cursors.keep_only(wanted)
                for hook in wanted - running.keys():
                    running[hook] = asyncio.create_task(self._serve(hook))
                changed = asyncio.create_task(self._changed.wait())
                await asyncio.wait((changed, *running.values()), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                for task in running.values():
                    if task.done():
                        task.result()  # it serves for ever: this raises what went wrong
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)
            await self._notifier.end()
            self._cursors.close()

    async def _opened(self) -> HookCursors:
        """Return the cursors; wait while their file cannot be used."""
        while True:
            try:
                return HookCursors(self._path, self._context.row_changes)
            except sqlite3.Error as error:
                problem = f"{self._path} cannot be used: {error}"
            log.error("no webhook gets events: %s", problem)
            self._problems |= dict.fromkeys(self._words("EventWebhooks"), problem)
            await asyncio.sleep(MAX_WAIT)

    async def _serve(self, hook: str) -> None:
        after = self._cursors.number(hook)
        if after is None:
            after = self._set_at or self._context.engine.number
            self._cursors.move(hook, after)
        with self._context.feed.following() as follower:
            while True:
                follower.clear()
                after = await self._post_next(hook, after)
                self._context.feed.seen(follower, after)
                if after >= self._context.engine.number:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(MAX_WAIT):
                            await follower.wait()
                    await asyncio.sleep(BETWEEN_POSTS)

    async def _post_next(self, hook: str, after: int) -> int:
        """Post the next events to a hook; return up to which number it has them."""
        try:
            request = EventsRequest(after=after, types=self._words("EventWebhookTypes"), limit=MAX_IN_POST)
            page = EventPages(self._context, request).next()
        except WrongState:  # the cluster was restored: these numbers are of another life
            log.warning("webhook %s begins anew: the cluster was restored", hook)
            self._cursors.move(hook, self._context.engine.number)
            return self._context.engine.number
        except HeadnodeError as error:
            self._problems[hook] = str(error)
            await asyncio.sleep(MAX_WAIT)
            return after
        if page.events:
            await self._post(hook, page.events)
        if page.after != after:
            self._cursors.move(hook, page.after)
        return page.after

    async def _post(self, hook: str, events: Sequence[EventObject]) -> None:
        """Post events until the hook has taken or refused them, or they are a day old."""
        name, rest = self._context.name, FIRST_REST
        body = msgspec.json.encode([cloud_event(event, name) for event in events])
        identity = f"{name}-{events[0].number}-{events[-1].number}"
        while self._context.now() - events[-1].at <= LIFETIME:
            secret = self._context.engine.settings.text("EventWebhookSecretFile")
            post = EventPost(identity, events[-1].number, hook, body, BATCH_TYPE, secret)
            result = await self._sent(post)
            if result.became == "brought":
                self._problems.pop(hook, None)
                return
            self._problems[hook] = f"{hook}: {result.problem}"
            if result.became == "never":
                log.warning("webhook %s refused events up to %d: %s", hook, post.number, result.problem)
                return
            log.warning("webhook %s gets its events again in %.0f s: %s", hook, rest, result.problem)
            await asyncio.sleep(rest)
            rest = min(rest * 3, MAX_REST)
        log.warning("events up to %d are a day old; webhook %s does not get them", events[-1].number, hook)

    async def _sent(self, post: EventPost) -> DeliveryResult:
        try:
            return await self._notifier.post(post)
        except OSError as error:
            await self._notifier.end()
            return DeliveryResult(post.number, post.hook, "later", str(error))
