"""The clock of recurring jobs: asks the engine to decide the times that have come.

What becomes of a time is decided in core, from the state and the present instant.  So it does no harm if
this asks twice, and nothing is lost if the head is killed before it asks: the next head does.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from headnode.adapters.identity.users import Account, account
from headnode.apps.server.api.job_submission import refuse_unfit_now
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, NotFound, Refused, Unavailable
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobEnded
from headnode.core.state.job_record import decode_spec
from headnode.core.state.recurring import until_due
from headnode.core.state.recurring_record import (
    AdvanceRecurring,
    RecurringJob,
    RecurringJobRemoved,
    RecurringJobSet,
    RecurringRecord,
)

log = logging.getLogger("headnode.server")

LONGEST_PAUSE: Final = 10.0  # seconds between two looks: the clock may have been set
SHORTEST_PAUSE: Final = 0.05  # seconds
AFTER_TROUBLE: Final = 1.0  # seconds until a full disk is tried again
LONGEST_TURN: Final = 0.01  # seconds in which recurring jobs are looked at, until others have their turn
_CHANGES = (RecurringJobSet, RecurringJobRemoved, JobEnded)


def owner_of_recurring(context: ServerContext, recurring: RecurringJob) -> User:
    """Return the owner of a recurring job, with the rights that he has now.

    Raises:  NotFound ``no-such-user`` if there is no such user any more, or another one has the name.
    """
    if recurring.uid == os.geteuid():  # the head's own user needs no entry
        return context.roles.of(Account(recurring.owner, recurring.uid, recurring.gid))
    known = account(recurring.owner)
    if known.uid != recurring.uid:
        raise NotFound(
            code="no-such-user",
            what=f"the user id of {recurring.owner!r} is {known.uid} now; "
            f"the recurring job belongs to {recurring.uid}",
            fix="remove it and create it again: hn recurring remove, hn recurring new",
        )
    return context.roles.of(known)


async def in_turns(records: Iterable[RecurringRecord]) -> AsyncIterator[RecurringRecord]:
    """Yield recurring jobs as they are now; others are answered in between if these take long.

    To find the next times of one takes up to 20 ms, and a cluster may have thousands.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    for record in list(records):
        yield record
        if loop.time() - began > LONGEST_TURN:
            await asyncio.sleep(0)
            began = loop.time()


class RecurringJobs:
    """Wakes when a time has come, and when something of recurring jobs has changed."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._woken = asyncio.Event()

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Look again after a change, and after the end of a job: one may wait for it."""
        if any(isinstance(event, _CHANGES) for event in events):
            self._woken.set()

    async def keep(self) -> None:
        """Decide times as they come, for ever."""
        while True:
            self._woken.clear()
            pause = await self._round()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()

    async def _round(self) -> float:
        """Ask for a decision of every time that has come; return the seconds until the next look."""
        if self._context.engine.closing:
            return LONGEST_PAUSE
        soon = LONGEST_PAUSE
        async for record in in_turns(self._context.cluster.recurring.numbered.values()):
            wait = self._wait(record)
            if wait <= 0 and not await self._advance(record.recurring.number):
                wait = AFTER_TROUBLE
            soon = min(soon, max(wait, SHORTEST_PAUSE))
        return soon

    def _wait(self, record: RecurringRecord) -> float:
        """Return the seconds until something of a recurring job is to be decided; 0 or less: now."""
        try:
            return until_due(self._context.cluster, record, self._context.now())
        except BadRequest:  # the time zone is not known here: perhaps it will be
            return LONGEST_PAUSE

    async def _advance(self, number: int) -> bool:
        """Ask for a decision; return whether it was written."""
        context = self._context
        record = context.cluster.recurring.numbered.get(number)
        if record is None:
            return True
        by, refused = None, ""
        try:
            by = owner_of_recurring(context, record.recurring)
            if context.cluster.limit_index.group_names:
                from headnode.apps.server.user_groups import note_groups

                await note_groups(context, [by])
            refuse_unfit_now(context, by, decode_spec(record.recurring.spec))
        except Refused as no:
            by, refused = None, str(no)
        except Unavailable:
            return False
        try:
            await context.ask(AdvanceRecurring(number=number, by=by, refused=refused))
        except Unavailable as error:
            log.warning("recurring job %d makes its job later: %s", number, error)
            return False
        return True
