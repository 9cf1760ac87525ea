"""Which of the heads that a joined node knows is dialed next, and which is obeyed.

A head of another machine may be replaced by one of its standby heads.  The node remembers their addresses and
the highest term that it has seen: a head with a lower one was replaced, and is never obeyed again.
"""

import logging
import math
import random
from collections.abc import Callable

from msgspec.structs import replace

from headnode.adapters.nodes.membership import Membership, NodeIdentity, usable_addresses
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.wire.frames import Streams
from headnode.adapters.wire.messages import Goodbye, Welcome
from headnode.adapters.wire.peers import TASKS, Address, written_address
from headnode.apps.agent.head_link import JOIN_AGAIN, REDIAL, Transport
from headnode.core.model.bounds import INTEGER
from headnode.core.model.errors import IS_STANDBY, OLD_HEAD, BadRequest

log = logging.getLogger("headnode.agent")

OTHERS_AFTER = 2.0  # seconds for which only the last head is dialed: one that is started again is back sooner
FIRST_PAUSE = 0.5  # seconds until an address that has no head is dialed again; doubled each time
MAX_PAUSE = 5.0  # seconds; thousands of nodes dial a standby head that is about to take over
TOLD = 500  # characters of each reason


class DialOrder:
    """The addresses where a head may be, and when each is dialed.  Times in seconds of any clock."""

    def __init__(self, addresses: list[Address]) -> None:
        """`addresses`: the first is that of the last head; it is dialed in between all others."""
        self.addresses = addresses
        self._missed_since: float | None = None
        self._due: dict[Address, float] = {}
        self._pauses: dict[Address, float] = {}
        self._tried: dict[Address, float] = {}
        self._last: Address | None = None

    def next(self, now: float) -> Address:
        """Return the address to dial now."""
        first, *others = self.addresses
        due = [each for each in self._wanted(now) if self._due.get(each, now) <= now]
        if not due:
            head = min(self._wanted(now), key=lambda each: self._due.get(each, now))
        elif first in due and (self._last != first or len(due) == 1):
            head = first
        else:
            head = min((each for each in others if each in due), key=lambda each: self._tried.get(each, 0.0))
        self._last, self._tried[head] = head, now
        return head

    def _wanted(self, now: float) -> list[Address]:
        """Return those that are to be dialed at all."""
        if self._missed_since is None or now - self._missed_since < OTHERS_AFTER:
            return self.addresses[:1]
        return self.addresses

    def missed(self, address: Address, now: float, *, answered: bool) -> None:
        """Nothing to obey was there; `answered`: and whoever is there will be no head in the next moment."""
        first = address == self.addresses[0]
        if self._missed_since is None or (answered and first):
            self._missed_since = -math.inf if answered else now
        if answered or not first:
            pause = self._pauses.get(address, FIRST_PAUSE)
            self._due[address] = now + pause * random.uniform(0.5, 1.0)  # noqa: S311 (so that not all come at once)
            self._pauses[address] = min(2 * pause, MAX_PAUSE)

    def wait(self, now: float) -> float:
        """Return for how many seconds to dial nothing."""
        return max(REDIAL, min(self._due.get(each, now) for each in self._wanted(now)) - now)


class KnownHeads(Transport):
    """The heads of a joined node, as its agent reaches them."""

    def __init__(self, identity: NodeIdentity, now: Callable[[], float] = boot_time) -> None:
        self._identity, self._now = identity, now
        self._stored: Membership | None = None  # what the file has
        self._belongs: Membership | None = None  # newer than the file if that could not be written
        self._order = DialOrder([])
        self._dialed: Address | None = None
        self._why: dict[Address, str] = {}  # why each address has no head for us
        self._empty: dict[Address, float] = {}  # when there was surely no head

    def __str__(self) -> str:
        belongs = self._belongs or self._identity.membership()
        return "an unknown address" if belongs is None else written_address((belongs.host, belongs.port))

    def _known(self) -> Membership:
        """Return where the heads are; what somebody else has written since is read, as by joining again.

        Raises:  FileNotFoundError when this node has not joined; Unavailable ``identity``.
        """
        membership = self._identity.membership()
        if membership is None:
            raise FileNotFoundError("this node has not joined: its membership is missing")
        if self._belongs is None or membership != self._stored:
            self._stored = membership
            self._belong(membership)
        return self._belongs or membership

    def _belong(self, belongs: Membership) -> None:
        self._belongs = belongs
        others = (*usable_addresses(belongs.heads), *usable_addresses((belongs.former,)))
        self._order = DialOrder(list(dict.fromkeys(((belongs.host, belongs.port), *others))))
        self._why.clear()
        self._empty.clear()

    async def dial(self) -> Streams:
        """Return a new connection to one of the addresses.

        Raises:  OSError.
        """
        self._known()
        self._dialed = self._order.next(self._now())
        return await self._identity.dial(self._dialed)

    async def dial_for_tasks(self) -> Streams:
        """Return a connection to the last head for what a task of this node asks it.

        Raises:  OSError.
        """
        belongs = self._known()
        return await self._identity.dial((belongs.host, belongs.port), TASKS)

    def welcomed(self, welcome: Welcome) -> None:
        """Remember the head that was dialed last, and the others that it names.

        Raises:  BadRequest ``old-head`` when one with a higher term was seen.
        """
        before, address = self._belongs, self._dialed
        if before is None or address is None or self._known() is not before:
            raise BadRequest(code=OLD_HEAD, what="this node has joined another head meanwhile")
        if not before.term <= welcome.term <= INTEGER.most:
            raise BadRequest(
                code=OLD_HEAD,
                what=f"it is an old head that was replaced: its term is {welcome.term}, "
                f"and this node has seen the head of term {before.term}",
                fix=f"end it there (hn down); if it is the right one nevertheless, {JOIN_AGAIN}",
            )
        last = before.host, before.port
        host, port = address
        after = replace(
            before,
            host=host,
            port=port,
            heads=tuple(written_address(one) for one in usable_addresses(welcome.heads) if one != address),
            former=before.former if address == last else written_address(last),
            term=welcome.term,
        )
        self._belong(after)
        if after != self._stored:
            self._keep(after)
        self.mark = welcome.mark if after == self._stored else 0

    def _keep(self, belongs: Membership) -> None:
        try:
            self._identity.keep(belongs)
        except OSError as error:  # a full disk keeps no agent from its work; the next welcome tries again
            log.warning("where the head is cannot be written down, and is lost with this agent: %s", error)
        else:
            self._stored = belongs

    def looks_elsewhere(self) -> bool:
        """Whether the address dialed last is not that of the last head."""
        return self._dialed != self._order.addresses[0]

    def is_no_head(self, goodbye: Goodbye) -> bool:
        """Whether a first answer means that the head is elsewhere: from another address it always does."""
        return goodbye.reason.startswith(IS_STANDBY) or self.looks_elsewhere()

    def no_head_since(self, dialed: float) -> float | None:
        """Learn that the address dialed last had no head then; see `Transport`.

        The former head does not count: it could only come back as a standby head that this one names.
        """
        if self._dialed is None or self._belongs is None:
            return None
        self._empty[self._dialed] = dialed
        may_be = {self._order.addresses[0], *usable_addresses(self._belongs.heads)}
        return min(self._empty[each] for each in may_be) if may_be <= self._empty.keys() else None

    def missed(self, why: str, *, answered: bool) -> str:
        """Learn why the address dialed last has no head for us; return that of all addresses."""
        if self._dialed is None or self._dialed not in self._order.addresses:  # it has joined another head
            return why
        self._order.missed(self._dialed, self._now(), answered=answered)
        self._why[self._dialed] = why[:TOLD]
        first, *others = self._order.addresses
        lines = [f"{written_address(each)}: {self._why[each]}" for each in others if each in self._why]
        return "; ".join([self._why.get(first, "it was not dialed"), *lines])

    def pause(self) -> float:
        """Return in how many seconds to dial again."""
        return self._order.wait(self._now()) if self._order.addresses else REDIAL
