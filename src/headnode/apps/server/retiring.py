"""Removes nodes of this machine that an earlier head ran and this one does not, once no job is there."""

import asyncio
import logging
from collections.abc import Collection
from pathlib import Path

from headnode.adapters.processes.agent_lock import is_held
from headnode.apps.server.inbox import Inbox
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.node import NodeState
from headnode.core.model.user import User
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.server")

BETWEEN_LOOKS = 5.0  # seconds
_HEAD = User(name="headnode", uid=0, gid=0, administrator=True)


def retired(cluster: Cluster, state: Path, names: Collection[str]) -> list[str]:
    """Return the nodes that this machine no longer runs: they are away, without an agent, and free of jobs.

    Only a head makes a directory below `state` for a node; those that somebody started by hand have none.
    """
    return [
        name
        for name, node in cluster.nodes.items()
        if not node.key
        and name not in names
        and node.state in (NodeState.UNREACHABLE, NodeState.LOST_PAUSED)
        and (state / "nodes" / name).is_dir()
        and not is_held(state / "nodes" / name)
        and not cluster.on_node(name)
    ]


async def retire_nodes(engine: Engine, inbox: Inbox, state: Path, names: Collection[str]) -> None:
    """Look after them for ever."""
    while True:
        await asyncio.sleep(BETWEEN_LOOKS)
        for name in retired(engine.cluster, state, names):
            log.info("node %s of this machine is no longer used and was removed", name)
            try:
                await inbox.ask(c.ChangeNode(by=_HEAD, node=name, wish="remove"))
            except HeadnodeError as error:
                log.warning("node %s could not be removed: %s", name, error)
