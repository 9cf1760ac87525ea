"""What nodes are told of standby heads, and when a head must stop because its standby may become the head.

A standby takes over by itself only if more than half of the nodes tell it that they have lost the head.
Nodes look for it there while the head tells them to, and it does while the standby is in step.  A head
that loses such a standby takes that back.  Until most nodes have answered, they may be with the standby; then
the head writes nothing.
Source:  docs/decisions/0057-standby-heads.md.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from headnode.adapters.nodes.link import Contact
from headnode.adapters.standby.followed import Followers
from headnode.adapters.standby.sender import StandbySender
from headnode.core.state.standby_votes import ANSWERED, is_majority, voters
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.standby")

FRESH: Final = 3.0  # seconds: a standby that answered since then has contact
ISOLATED: Final = 5.0  # seconds in which the nodes must answer when it has none


class StandbyFence:
    """Watches the contact with the standby that may take over by itself."""

    def __init__(
        self,
        engine: Engine,
        contacts: Mapping[str, Contact],
        followers: Followers,
        report_nodes: Callable[[], None],
        now: float,
    ) -> None:
        """`tell_nodes` sends the nodes a new welcome, which they answer with a heartbeat."""
        self._engine, self._contacts = engine, contacts
        self._followers, self._report_nodes = followers, report_nodes
        self._of = voters(engine.cluster)  # when there was contact last
        self._received: dict[str, float] = {}  # when nodes were heard last, on the monotonic clock
        self._seen: dict[str, Contact] = {}
        self._lost: float | None = None  # since when there is no contact
        self._began = now
        self.mark = 1  # of the newest welcome, which nodes repeat
        self.is_offered = False  # nodes are told of it: they look for their head there
        self._forgotten = False  # most nodes do not: an earlier head may have told them

    def look(self, sender: StandbySender | None, now: float) -> None:
        """Offer the standby to the nodes, take that back, stop the head, or let it go on.

        sender:  to the standby that may take over by itself; None: there is none
        now:     on the monotonic clock, as all times here
        """
        self._receive(now)
        if sender is None or sender.leaves:
            self._offer(is_offered=False)
            self._go_on()
            return
        received = self._began if sender.received is None else sender.received
        has_contact = sender.received is not None and now - received < FRESH and sender.follower.connected
        self._offer(is_offered=has_contact and sender.follower.in_step)
        if not self.is_offered and not self._forgotten:
            self._forgotten = self._is_forgotten(received + ANSWERED)
        if has_contact:
            self._of = voters(self._engine.cluster)
            self._go_on()
        elif not self._forgotten:
            self._stop_if_isolated(sender.standby, now)
        elif self._lost is None or self._followers.fenced:
            self._go_on_alone(sender.standby, now)

    def _receive(self, now: float) -> None:
        """Note which nodes have said something since the last look."""
        for name, contact in self._contacts.items():
            if self._seen.get(name) != contact:
                self._seen[name], self._received[name] = contact, now

    def _offer(self, *, is_offered: bool) -> None:
        if self.is_offered != is_offered:
            self.is_offered, self._forgotten = is_offered, False
            self.mark += 1
            self._report_nodes()

    def _is_forgotten(self, until: float) -> bool:
        """Whether most nodes have stored soon enough that they are not to look for their head there."""
        stored = [name for name in self._of if name in self._seen and self._seen[name].mark == self.mark]
        return not self._of or is_majority(sum(self._received[name] <= until for name in stored), self._of)

    def _stop_if_isolated(self, standby: str, now: float) -> None:
        self._lost = now if self._lost is None else self._lost
        if now - self._lost > ISOLATED and not self._followers.fenced:
            log.critical(
                "this head has lost its standby %s and most nodes: the standby may become the head, so this "
                "one changes nothing until it reaches the standby; if that is lost and is no head: "
                "hn standby remove %s",
                standby, standby,
            )  # fmt: skip
            self._followers.fenced = True

    def _go_on_alone(self, standby: str, now: float) -> None:
        log.warning("standby %s is away; most nodes know that, so it cannot take over by itself", standby)
        self._go_on()
        self._lost = now

    def _go_on(self) -> None:
        self._lost = None
        if self._followers.fenced:
            log.warning("this head is not isolated any more, and goes on")
            self._followers.fenced = False
