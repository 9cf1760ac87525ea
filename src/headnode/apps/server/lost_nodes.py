"""Hangs up on nodes that say nothing, and gives up the tasks of those that have been away too long.

Time is taken by a clock that nobody can set: a day that is wrong must not cost a node its tasks.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from headnode.adapters.nodes.links import NodeLinks
from headnode.apps.server.inbox import Inbox
from headnode.core.lifecycle import commands as c
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeState
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.server")

BETWEEN_LOOKS = 1.0  # seconds
STOOD_STILL = 2 * BETWEEN_LOOKS  # seconds from one look to the next
TO_STAND_STILL = 1.25  # of a lease: in its last fifth a node lets its tasks stand still
AWAY = (NodeState.UNREACHABLE, NodeState.LOST_PAUSED)


async def watch_for_lost_nodes(engine: Engine, inbox: Inbox, links: NodeLinks, absences: "Absences") -> None:
    """Look after nodes for ever: what a node runs is lost once it missed its heartbeats.

    A connection may end while the tasks go on: then the node has that time to come back.  One that stays and
    is silent has used the time up already.  No node is to blame for the time in which this process, or its
    whole machine, stood still: what was said meanwhile may still be on its way.
    """
    looked = time.monotonic()
    unrecorded: set[c.Command] = set()  # of what the journal could not write, and that was told
    while True:
        await asyncio.sleep(BETWEEN_LOOKS)
        looked, before = time.monotonic(), looked
        if looked - before > STOOD_STILL:
            log.warning(
                "this head has stood still for %.0f s, which no node is to blame for", looked - before
            )
            links.forgive(looked - before)
            absences.forgive(looked - before)
        for name in links.silent(patience(engine, links.leases)):
            log.warning("node %s is silent: its tasks are given up", name)
            await _tell(inbox, c.NodeVanished(node=name), unrecorded)
            await _tell(inbox, c.GiveUpNode(node=name), unrecorded)
        states = {name: node.state for name, node in engine.cluster.nodes.items()}
        for name in absences.too_long(states, patience_away(engine, links.leases), time.monotonic()):
            if engine.cluster.on_node(name):
                if c.GiveUpNode(node=name) not in unrecorded:
                    log.warning("node %s has been away too long: its tasks are given up", name)
                await _tell(inbox, c.GiveUpNode(node=name), unrecorded)


Patience = Mapping[str, float]
"""Seconds that a node may be silent, by its name."""


def patience(engine: Engine, leases: Patience) -> dict[str, float]:
    """Return how long each node may be silent: always longer than it believes that nobody has its tasks."""
    usual = engine.settings.patience() + BETWEEN_LOOKS
    beats = 2 * engine.settings.number("HeartbeatInterval") + BETWEEN_LOOKS
    taken, lease = _taken_by_force(engine), engine.settings.lease()
    return {
        name: max(min(beats, usual) if name in taken else usual, _stands_still_after(leases, name, lease))
        for name in engine.cluster.nodes
    }


def patience_away(engine: Engine, leases: Patience) -> dict[str, float]:
    """Return how long each node may be away; one that was taken offline by force, as long as its lease."""
    lease = engine.settings.lease()
    taken = {name: _stands_still_after(leases, name, lease) for name in _taken_by_force(engine)}
    return patience(engine, leases) | taken


def _stands_still_after(leases: Patience, name: str, lease: float) -> float:
    return TO_STAND_STILL * max(leases.get(name, 0.0), lease)


def _taken_by_force(engine: Engine) -> set[str]:
    nodes = engine.cluster.nodes.items()
    return {name for name, node in nodes if any(drain.force for drain in node.drains)}


class Absences:
    """Since when nodes are away, as far as this head has seen it."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def too_long(self, states: Mapping[str, NodeState], patience: Patience, now: float) -> list[str]:
        """Return the nodes that have been away longer than they may; `now` in seconds of a steady clock."""
        away = [name for name, state in states.items() if state in AWAY]
        self._since = {name: self._since.get(name, now) for name in away}
        return [name for name in away if now - self._since[name] > patience[name]]

    def since(self, name: str) -> float | None:
        """Return since when a node is away, in seconds of the steady clock; None if it is here."""
        return self._since.get(name)

    def forgive(self, seconds: float) -> None:
        """Let those that are away have so much more time."""
        self._since = {name: since + seconds for name, since in self._since.items()}


def given_up_in(engine: Engine, links: NodeLinks, absences: Absences, name: str) -> float | None:
    """Return in how many seconds the tasks of a node are given up that is away; None if none are there."""
    since = absences.since(name)
    if since is None or not engine.cluster.on_node(name):
        return None
    return max(0.0, since + patience_away(engine, links.leases)[name] - time.monotonic())


async def _tell(inbox: Inbox, command: c.NodeVanished | c.GiveUpNode, unrecorded: set[c.Command]) -> None:
    """Record what became of a node; where that is not possible it comes again, and is told once."""
    try:
        await inbox.ask(command)
    except Unavailable as error:
        if command not in unrecorded:
            log.error("what became of node %s could not be recorded: %s", command.node, error)
        unrecorded.add(command)
    else:
        unrecorded.discard(command)
