"""Hangs up on nodes that say nothing, and gives up the tasks of those that have been away too long."""

import asyncio
import logging

from headnode.adapters.nodes.links import NodeLinks
from headnode.apps.server.inbox import Inbox
from headnode.core.lifecycle import commands as c
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeState
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.server")

BETWEEN_LOOKS = 1.0  # seconds
AWAY = (NodeState.UNREACHABLE, NodeState.LOST_PAUSED)


async def watch_for_lost_nodes(engine: Engine, inbox: Inbox, links: NodeLinks) -> None:
    """Look after nodes for ever: what a node runs is lost once it missed its heartbeats.

    A connection may end while the tasks go on: then the node has that time to come back.  One that stays and
    is silent has used the time up already.
    """
    while True:
        await asyncio.sleep(BETWEEN_LOOKS)
        settings = engine.settings
        patience = settings.number("HeartbeatInterval") * settings.number("InactivityCount")
        for name in links.silent(patience + BETWEEN_LOOKS):
            await _tell(inbox, c.NodeVanished(node=name))
            await _give_up(inbox, name)
        now = engine.clock.now()
        for name, node in list(engine.cluster.nodes.items()):
            gone = node.state in AWAY and now - node.since > patience
            if gone and engine.cluster.on_node(name):
                await _give_up(inbox, name)


async def _give_up(inbox: Inbox, name: str) -> None:
    log.warning("node %s has been away too long: its tasks are given up", name)
    await _tell(inbox, c.GiveUpNode(node=name))


async def _tell(inbox: Inbox, command: c.NodeVanished | c.GiveUpNode) -> None:
    try:
        await inbox.ask(command)
    except Unavailable as error:
        log.error("what became of node %s could not be recorded: %s", command.node, error)
