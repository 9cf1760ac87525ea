"""Gives up the tasks of nodes that have been away too long."""

import asyncio
import logging

from headnode.apps.server.inbox import Inbox
from headnode.core.lifecycle import commands as c
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeState
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.server")

BETWEEN_LOOKS = 1.0  # seconds


async def watch_for_lost_nodes(engine: Engine, inbox: Inbox) -> None:
    """Look after nodes for ever: what a node runs is lost once it missed its heartbeats."""
    while True:
        await asyncio.sleep(BETWEEN_LOOKS)
        settings = engine.settings
        patience = settings.number("HeartbeatInterval") * settings.number("InactivityCount")
        now = engine.clock.now()
        for name, node in list(engine.cluster.nodes.items()):
            away = node.state in (NodeState.UNREACHABLE, NodeState.LOST_PAUSED)
            if away and now - node.since > patience and engine.cluster.holders.get(name):
                await _give_up(inbox, name)


async def _give_up(inbox: Inbox, name: str) -> None:
    log.warning("node %s has been away too long: its tasks are given up", name)
    try:
        await inbox.ask(c.GiveUpNode(node=name))
    except Unavailable as error:
        log.error("node %s could not be given up: %s", name, error)
