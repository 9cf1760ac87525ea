"""How a standby becomes the head: the head hands over, or an administrator says that it is lost."""

import asyncio
import logging
import os
import sqlite3
import time
from pathlib import Path
from typing import Final

import msgspec

from headnode.adapters.clock import WallClock
from headnode.adapters.files.copied_tables import end_at
from headnode.adapters.files.local_daemons import STANDBY
from headnode.adapters.files.standby_place import StandbyPlace, unusable_state, write_place
from headnode.apps.standby.following import HeadReplica
from headnode.core.model.errors import NotAllowed, Unavailable
from headnode.core.model.user import User
from headnode.core.state.events import HeadTakenOver
from headnode.core.state.join import TakeOver
from headnode.engine.replica import Replica

log = logging.getLogger("headnode.standby")

HAND_OVER_TIME: Final = 300.0  # seconds for the head to hand over: it empties its own nodes first
LOOK: Final = 0.05  # seconds


class Takeover:
    """The takeover of one standby, from the order to the state directory of a head."""

    def __init__(self, state: Path, place: StandbyPlace, following: HeadReplica) -> None:
        self._state, self._place, self._following = state, place, following
        self._taker: User | None = None  # who asked for it
        self.is_head = False

    async def begin(self, user: User, *, force: bool) -> None:
        """Become the head: the present one hands over; without it only with `force`.

        Raises:  Unavailable ``no-journal``, ``head-slow``; NotAllowed ``head-silent``; as `become_head`.
        """
        following = self._following
        replica = self.replica()
        self._taker = user
        if self._is_recorded(replica):  # only its files were not written
            self._be_head(replica)
            return
        if following.connected:
            following.wants_hand_over = True
            try:
                await self._until_handed_over()
            except Unavailable as error:
                if not force:
                    raise
                log.warning("it takes over all the same: %s", error)
            else:
                return
        if not force:
            silent = (
                "" if following.received is None else f" for {time.monotonic() - following.received:.0f} s"
            )
            why = f" ({following.trouble})" if following.trouble else ""
            raise NotAllowed(
                code="head-silent",
                what=f"the head at {following.head or self._place.head} has said nothing{silent}{why}; "
                "if it still runs, two heads would act at once",
                fix="make sure that it is off, or that its machine is; then: hn standby takeover --force",
            )
        following.hang_up()
        self.become_head(forced=True)

    def replica(self) -> Replica:
        """Return the journal here.

        Raises:  Unavailable ``no-journal``.
        """
        follows = "wait until hn standby list shows that it follows the head"
        if self._following.replica is None:
            raise Unavailable(
                code="no-journal",
                what="this standby has no copy of the journal yet",
                fix=f"{self._following.trouble or follows}; "
                "if the head is lost, restore a backup elsewhere: hn restore FILE --state DIRECTORY",
            )
        return self._following.replica

    async def _until_handed_over(self) -> None:
        deadline = time.monotonic() + HAND_OVER_TIME
        while not self.is_head:
            if time.monotonic() > deadline or not self._following.connected:
                self._following.wants_hand_over = False
                why = f": {self._following.trouble}" if self._following.trouble else ""
                raise Unavailable(
                    code="head-slow",
                    what=f"the head has not handed over{why}",
                    fix="see its log; if it is lost: hn standby takeover --force",
                )
            await asyncio.sleep(LOOK)

    def become_head(self, *, forced: bool) -> None:
        """Record the takeover; from now on this is the state directory of a head.

        It may be killed anywhere here: its file says that it was about to, and the journal whether it did.
        Raises:  Unavailable, as the journal does, or ``standby-state``: then it is the standby still.
        """
        replica, place = self._following.replica, self._place
        if replica is None or self.is_head:
            return
        user = self._taker or User(name="headnode", uid=os.geteuid(), gid=os.getegid(), administrator=True)
        command = TakeOver(by=user, name=place.name, address=place.listen, forced=forced)
        try:
            write_place(self._state, msgspec.structs.replace(place, taking_over=True))
            self._forget_later_rows(replica.number)
            replica.carry_out(command, WallClock().now())
        except OSError as error:
            raise unusable_state(self._state, error) from None
        self._be_head(replica)

    def _forget_later_rows(self, number: int) -> None:
        """Forget what the head has noted of events that never came here: others get their numbers."""
        try:
            end_at(self._state, number)
        except (sqlite3.Error, OSError) as error:  # the cluster needs a head
            log.error("notifications of events after %d may be sent: %s", number, error)

    def _be_head(self, replica: Replica) -> None:
        """The takeover is in the journal: no head before it counts any more.

        Raises:  Unavailable ``standby-state``.
        """
        try:
            replica.keep_snapshot(replica.number)
        except Unavailable as error:  # it is made again by the head
            log.warning("no snapshot was kept: %s", error)
        try:
            with (self._state / "listen").open("w", encoding="utf-8") as file:
                file.write(self._place.listen + "\n")
                file.flush()
                os.fsync(file.fileno())
            for name, node in replica.cluster.nodes.items():
                if not node.key:  # it was on the machine of the former head: this head may remove it
                    (self._state / "nodes" / name).mkdir(parents=True, exist_ok=True)
            (self._state / STANDBY).unlink()
        except OSError as error:
            raise Unavailable(
                code="standby-state",
                what=f"it took over, but its state directory cannot be written: {error.strerror or error}",
                fix=f"make room or rights in {str(self._state)!r}, then again: hn standby takeover",
            ) from None
        self.is_head = True
        log.warning(
            "this machine is the head of cluster %s now, after event %d", self._place.cluster, replica.number
        )

    def go_on(self) -> None:
        """Become the head if the takeover that was interrupted is in the journal; else it never began."""
        replica = self._following.replica
        if replica is None:
            return  # it cannot be told
        if self._is_recorded(replica):
            self._be_head(replica)
            return
        self._place = msgspec.structs.replace(self._place, taking_over=False)
        write_place(self._state, self._place)
        log.warning("a takeover that was begun here did not happen: this is the standby still")

    def is_recorded(self) -> bool:
        """Whether the takeover is in the journal; only the files of the directory may not say so."""
        replica = self._following.replica
        return replica is not None and self._is_recorded(replica)

    def _is_recorded(self, replica: Replica) -> bool:
        last = replica.last_event()
        return isinstance(last, HeadTakenOver) and last.name == self._place.name
