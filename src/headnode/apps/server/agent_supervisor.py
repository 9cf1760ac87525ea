"""Looks after nodes: starts the agents of this machine, removes its former nodes, gives up lost ones.

Time is measured by a monotonic clock: a wrong date must not cost a node its tasks.
"""

import asyncio
import logging
import math
import os
import subprocess
import time
from collections.abc import Callable, Collection, Container, Mapping
from pathlib import Path

from headnode.adapters.files.local_daemons import is_agent_locked
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.own_python import module_command
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.core.model.errors import HeadnodeError, Unavailable
from headnode.core.model.node import NodeState
from headnode.core.model.user import User
from headnode.core.state import nodes as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.node_loss import LOST, GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.server")

NODE_SOCKET = "nodes.sock"  # in the state directory
BETWEEN_AGENT_CHECKS = 0.5  # seconds
MAX_PAUSE = 60.0  # seconds between two starts of an agent that does not stay alive


class AgentSupervisor:
    """Starts an agent for each node that has none."""

    def __init__(self, state: Path, names: list[str], processors: int | None) -> None:
        self._state = state
        self._names = names
        self._processors = processors
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._pauses: dict[
            str, float
        ] = {}  # seconds; doubled each time an agent ends without having connected
        self._not_before: dict[str, float] = {}  # monotonic

    def directory(self, name: str) -> Path:
        """Return where a node of this machine keeps its things."""
        return self._state / "nodes" / name

    async def keep(self, connected: Container[str]) -> None:
        """Look after the agents for ever; `connected` has the nodes that are."""
        while True:
            for name in self._names:
                if name in connected:
                    self._pauses.pop(name, None)
                else:
                    self._try_to_start(name)
            await asyncio.sleep(BETWEEN_AGENT_CHECKS)

    def dismiss(self, connected: Container[str]) -> None:
        """End the agents that no goodbye reaches: those that begin, or have lost their connection."""
        for name, agent in self._started.items():
            if name not in connected and agent.poll() is None:
                agent.terminate()
        (self._state / NODE_SOCKET).unlink(missing_ok=True)  # others see it, and end

    def _try_to_start(self, name: str) -> None:
        """Start an agent if there is none; where that fails, as without memory, try again after a pause."""
        try:
            self._start_if_missing(name)
        except OSError as error:
            log.error("the agent of node %s cannot be started now; it is tried again: %s", name, error)
            self._pauses.setdefault(name, BETWEEN_AGENT_CHECKS)

    def _start_if_missing(self, name: str) -> None:
        before = self._started.get(name)
        if before is not None and before.poll() is None:
            return
        directory = self.directory(name)
        directory.mkdir(parents=True, exist_ok=True)
        if is_agent_locked(directory):
            return  # an agent of an earlier head; it will dial in
        if (before is not None or name in self._pauses) and not self._may_start_again(name):
            return
        if before is not None:
            log.warning("the agent of node %s ended with %s; starting another", name, before.returncode)
        self._started[name] = self._start(name, directory)

    def _may_start_again(self, name: str) -> bool:
        """Whether the pause after an agent that ended or did not start is over; pauses grow."""
        now = time.monotonic()
        if name not in self._not_before:
            pause = self._pauses.get(name, 0.0)
            self._not_before[name] = now + pause
            self._pauses[name] = min(max(2 * pause, BETWEEN_AGENT_CHECKS), MAX_PAUSE)
        if now < self._not_before[name]:
            return False
        del self._not_before[name]
        return True

    def _start(self, name: str, directory: Path) -> subprocess.Popen[bytes]:
        command = module_command("headnode.apps.agent")
        command += ["--head", str(self._state / NODE_SOCKET), "--state", str(directory), "--name", name]
        if self._processors is not None or len(self._names) > 1:  # nodes that share a machine bind nothing
            command += ["--processors", str(self._processors or len(os.sched_getaffinity(0)))]
        if name != self._names[0]:  # the first node has the GPUs of the machine
            command += ["--gpus", "0"]
        log.info("starting the agent of node %s", name)
        with (directory / "agent.log").open("ab") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,
                env=dict(os.environ),
            )


BETWEEN_REMOVALS = 5.0  # seconds
HEAD_USER = User(name="headnode", uid=0, gid=0, administrator=True)


def nodes_to_remove(cluster: ClusterState, state: Path, names: Collection[str]) -> list[str]:
    """Return the nodes that this machine no longer runs: they are away, without an agent, and free of jobs.

    Only a head makes a directory below `state` for a node; agents started by hand have none.
    """
    return [
        name
        for name, node in cluster.nodes.items()
        if not node.key
        and name not in names
        and node.state in LOST
        and (state / "nodes" / name).is_dir()
        and not is_agent_locked(state / "nodes" / name)
        and not cluster.on_node(name)
    ]


async def remove_former_nodes(
    engine: Engine, batcher: CommandBatcher, state: Path, names: Collection[str]
) -> None:
    """Look after them for ever."""
    while True:
        await asyncio.sleep(BETWEEN_REMOVALS)
        for name in nodes_to_remove(engine.cluster, state, names):
            log.info("node %s of this machine is no longer used and was removed", name)
            try:
                await batcher.ask(c.ChangeNode(by=HEAD_USER, node=name, action="remove"))
            except HeadnodeError as error:
                log.warning("node %s could not be removed: %s", name, error)


BETWEEN_HEARTBEAT_CHECKS = 1.0  # seconds
STOOD_STILL = 2 * BETWEEN_HEARTBEAT_CHECKS  # seconds from one look to the next
TO_STAND_STILL = 1.25  # of a lease: in its last fifth a node lets its tasks stand still


async def watch_for_lost_nodes(
    engine: Engine, batcher: CommandBatcher, links: NodeLinks, absences: "Absences"
) -> None:
    """Look after nodes for ever: what a node runs is lost once it missed its heartbeats.

    A connection may end while the tasks go on: then the node has that time to come back.  One that stays and
    is silent has used the time up already.  No node is to blame for the time in which this process, or its
    whole machine, stood still: what was said meanwhile may still be on its way.
    """
    looked = time.monotonic()
    unrecorded: set[Command] = set()  # of what the journal could not write, and that was told
    unconnected: set[str] = set()
    while True:
        await asyncio.sleep(BETWEEN_HEARTBEAT_CHECKS)
        looked, before = time.monotonic(), looked
        if looked - before > STOOD_STILL:
            log.warning(
                "this head was suspended for %.0f s; this time does not count against nodes", looked - before
            )
            links.forgive(looked - before)
            absences.forgive(looked - before)
        limits = NodeLimits(engine, links.leases)
        lost: list[NodeVanished | GiveUpNode] = []
        for name in links.silent(limits.least, limits.silence):
            log.warning("node %s sends no heartbeats: its tasks are lost", name)
            lost += [NodeVanished(node=name), GiveUpNode(node=name)]
        hang_up_on_absent_nodes(engine.cluster, links)
        unconnected, before_that = unconnected_nodes(engine.cluster, links), unconnected
        lost += [NodeVanished(node=name) for name in sorted(unconnected & before_that)]
        # In one batch: none can connect again between two of these.
        await asyncio.gather(*(_record(batcher, command, unrecorded) for command in lost))
        limits = NodeLimits(engine, links.leases)
        states = {name: node.state for name, node in engine.cluster.nodes.items()}
        for name in absences.too_long(states, limits.absence, time.monotonic()):
            if engine.cluster.on_node(name):
                if GiveUpNode(node=name) not in unrecorded:
                    log.warning("node %s was unreachable for too long: its tasks are lost", name)
                await _record(batcher, GiveUpNode(node=name), unrecorded)


def hang_up_on_absent_nodes(cluster: ClusterState, links: NodeLinks) -> None:
    """Abort the connections of nodes that are recorded as away or removed; the agents connect again.

    The end of an older connection may be recorded after the node has greeted on a newer one.  Such a node
    would go on with its tasks, and they would be given up and started elsewhere.
    """
    for name, link in links.links.items():
        node = cluster.nodes.get(name)
        if node is None or node.state in LOST:
            log.warning("node %s is connected but not recorded as such; it has to connect again", name)
            link.abort()


def unconnected_nodes(cluster: ClusterState, links: NodeLinks) -> set[str]:
    """Return the nodes that are recorded as here and have no connection.

    One is on its way if the node greets right now.  If it stays so, the greeting was recorded after its
    connection was closed, or the report of the lost connection was left out.
    """
    return {
        name
        for name, node in cluster.nodes.items()
        if node.state in (NodeState.READY, NodeState.PAUSED) and name not in links.links
    }


class NodeLimits:
    """Seconds that each node may be silent, and away: always longer than its lease on its tasks.

    It is asked each second for all nodes, so a node is looked at only once it has been silent for `least`.
    """

    def __init__(self, engine: Engine, leases: Mapping[str, float]) -> None:
        """`leases`: how long each node may assume that no other gets its tasks, as told it last."""
        self._nodes, self._leases = engine.cluster.nodes, leases
        self._usual = engine.settings.node_timeout() + BETWEEN_HEARTBEAT_CHECKS
        beats = 2 * engine.settings.number("HeartbeatInterval") + BETWEEN_HEARTBEAT_CHECKS
        self.least, self._lease = min(beats, self._usual), engine.settings.lease()

    def silence(self, name: str) -> float:
        """Return how long a connected node may be silent; infinite for one that the cluster does not know."""
        if name not in self._nodes:
            return math.inf
        return max(self.least if self._is_taken(name) else self._usual, self._stands_still_after(name))

    def absence(self, name: str) -> float:
        """Return how long a node may be away; one that was taken offline by force, as long as its lease."""
        return self._stands_still_after(name) if self._is_taken(name) else self.silence(name)

    def _stands_still_after(self, name: str) -> float:
        return TO_STAND_STILL * max(self._leases.get(name, 0.0), self._lease)

    def _is_taken(self, name: str) -> bool:
        return any(drain.force for drain in self._nodes[name].drains)


class Absences:
    """Since when nodes are away, as far as this head has seen it."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def too_long(
        self, states: Mapping[str, NodeState], limit: Callable[[str], float], now: float
    ) -> list[str]:
        """Return which have been away longer than their limit; `now` in seconds of a steady clock."""
        away = [name for name, state in states.items() if state in LOST]
        self._since = {name: self._since.get(name, now) for name in away}
        return [name for name in away if now - self._since[name] > limit(name)]

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
    return max(0.0, since + NodeLimits(engine, links.leases).absence(name) - time.monotonic())


async def _record(
    batcher: CommandBatcher, command: NodeVanished | GiveUpNode, unrecorded: set[Command]
) -> None:
    """Record what became of a node; where that is not possible it comes again, and is told once."""
    try:
        await batcher.ask(command)
    except Unavailable as error:
        if command not in unrecorded:
            log.error("what became of node %s could not be recorded: %s", command.node, error)
        unrecorded.add(command)
    else:
        unrecorded.discard(command)
