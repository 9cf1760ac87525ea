"""What nodes are told of standby heads, and when a head must stop because its standby may become the head.

A standby takes over by itself only if more than half of the nodes tell it that they have lost the head.
Nodes look for it there while the head tells them to, and it does while the standby is in step.  A head
that loses such a standby takes that back.  Until most nodes have answered, they may be with the standby; then
the head writes nothing.
Source:  docs/decisions/0057-standby-heads.md.
"""

import logging
import time
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
        tell_nodes: Callable[[], None],
    ) -> None:
        """`tell_nodes` sends the nodes a new welcome, which they answer with a heartbeat."""
        self._engine, self._contacts = engine, contacts
        self._followers, self._tell_nodes = followers, tell_nodes
        self._of: frozenset[str] = frozenset()  # the voters when there was contact last
        self._heard: dict[str, float] = {}  # when nodes were heard last, on the monotonic clock
        self._seen: dict[str, Contact] = {}
        self._lost: float | None = None  # since when it has no contact, and nodes are asked to forget it
        self.mark = 0  # of the newest welcome, which nodes repeat
        self.is_offered = False  # nodes are told of it: they look for their head there

    def look(self, sender: StandbySender | None) -> None:
        """Offer the standby to the nodes, take that back, stop the head, or let it go on.

        sender:  to the standby that may take over by itself; None: there is none
        """
        now = time.monotonic()
        self._hear(now)
        heard = None if sender is None else sender.heard
        if sender is None or sender.leaves:
            self._offer(is_offered=False)
            self._go_on()
        elif heard is not None and now - heard < FRESH and sender.follower.connected:
            self._of = voters(self._engine.cluster)
            self._offer(is_offered=sender.follower.in_step)
            self._go_on()
        elif self.is_offered:
            self._lost = now
            self._offer(is_offered=False)
        elif self._lost is not None:
            self._await_nodes(sender, self._lost, now)

    def _hear(self, now: float) -> None:
        """Note which nodes have said something since the last look."""
        for name, contact in self._contacts.items():
            if self._seen.get(name) != contact:
                self._seen[name], self._heard[name] = contact, now

    def _offer(self, *, is_offered: bool) -> None:
        if self.is_offered != is_offered:
            self.is_offered = is_offered
            self.mark += 1
            self._tell_nodes()

    def _await_nodes(self, sender: StandbySender, lost: float, now: float) -> None:
        """Go on without the standby if most nodes have answered soon; else stop until there is contact."""
        standby, until = sender.standby, (sender.heard or 0.0) + ANSWERED
        answered = sum(self._has_stored(name) and lost < self._heard[name] <= until for name in self._of)
        if not self._of or is_majority(answered, self._of):
            log.warning("standby %s is away; nodes know that, and it cannot take over by itself", standby)
            self._go_on()
        elif now - lost > ISOLATED and not self._followers.fenced:
            log.critical(
                "this head has lost its standby %s and most nodes: the standby may become the head, so this "
                "one changes nothing until it reaches the standby; if the standby is lost and is no head: "
                "hn down, hn up, hn standby remove %s",
                standby, standby,
            )  # fmt: skip
            self._followers.fenced = True

    def _has_stored(self, node: str) -> bool:
        """Whether the node has stored the newest welcome, and repeated its mark."""
        return node in self._seen and self._seen[node].mark == self.mark

    def _go_on(self) -> None:
        self._lost = None
        if self._followers.fenced:
            log.warning("this head is not isolated any more, and goes on")
            self._followers.fenced = False
