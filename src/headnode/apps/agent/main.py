"""Run the agent of a node until it is told to end; find its head, or join the cluster of one first."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headnode import __version__
from headnode.adapters.files.owners import FILE_MODE_MASK, warn_of_unsafe_code
from headnode.adapters.processes import cgroups
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.processes.job_journal import UnknownRecordError
from headnode.adapters.wire.frames import read_by_pieces
from headnode.apps.agent.agent import Agent
from headnode.apps.agent.head_link import LocalTransport, Transport
from headnode.apps.agent.machine import (
    AgentOptions,
    facts_of_this_machine,
    gpus_of_this_machine,
    read_options,
)
from headnode.apps.agent.places import Places
from headnode.core.model.errors import BadRequest, HeadnodeError, Unavailable

if TYPE_CHECKING:
    from headnode.adapters.nodes.membership import NodeIdentity

log = logging.getLogger("headnode.agent")

JOINING = 30.0  # seconds that the agent of an allocation tries to join a head that is away


def main(argv: Sequence[str]) -> int:
    """Run an agent; return the exit status: 0 ended as told, 1 refused."""
    options = read_options(argv)
    logging.raiseExceptions = False  # a log that cannot be written must not be filled with that
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.umask(FILE_MODE_MASK)
    warn_of_unsafe_code(log)
    read_by_pieces()
    try:
        asyncio.run(_run(options))
    except UnknownRecordError as error:
        print(f"headnode agent: {error}; start the newer version that wrote it", file=sys.stderr)
        return 1
    except HeadnodeError as error:
        print(f"headnode agent: {error}", file=sys.stderr)
        return error.exit_status
    return 0


async def _run(options: AgentOptions) -> None:
    places = Places(options.state)
    cgroups.switch_on()
    transport, options = await _find_head(options)
    if options.only_join:
        return
    gpus = gpus_of_this_machine(options)
    facts = facts_of_this_machine(options, gpus)
    if not facts.machine_processors:
        log.info("processors are declared, not found on the machine: tasks are not bound to processors")
    log.info("the agent of node %s starts: Headnode %s, process %d", facts.name, __version__, os.getpid())
    agent = Agent(places, facts, transport, allocation=options.allocation, gpus=gpus)
    loop = asyncio.get_running_loop()
    for what in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(what, agent.leave)
    await agent.run()


async def _find_head(options: AgentOptions) -> tuple[Transport, AgentOptions]:
    """Return how the head is reached, and the options with the name that it knows this node by.

    Raises:  what keeps this node from joining; BadRequest ``no-head`` if no address of the head is known.
    """
    machine = socket.gethostname().split(".")[0]
    if options.head is not None:
        return LocalTransport(options.head), replace(options, name=options.name or machine)
    from headnode.adapters.nodes.membership import NodeIdentity  # with TLS: a third of the agent's start

    identity = NodeIdentity(options.state)
    if options.join:
        options = replace(options, name=options.name or machine)
        await _join(identity, options, timeout=JOINING if options.allocation else 0.0)
    belongs = identity.membership()
    if belongs is None:
        raise BadRequest(
            code="no-head",
            what=f"this node has joined no cluster: {str(options.state)!r} holds no certificate of one",
            fix="paste the line that `hn node invite` prints on the head node",
        )
    if options.name and options.name != belongs.node:
        raise BadRequest(
            code="node-name",
            what=f"this machine has joined as node {belongs.node!r}, not as {options.name!r}",
            fix="leave --name out, or join again with a new invitation",
        )
    from headnode.apps.agent.known_heads import KnownHeads

    return KnownHeads(identity), replace(options, name=belongs.node)


async def _join(identity: "NodeIdentity", options: AgentOptions, timeout: float) -> None:
    """Join the cluster as a node, and report that to the user; try for so many seconds."""
    from headnode.adapters.nodes.membership import read_invitation

    text = sys.stdin.readline() if options.join == "-" else options.join
    invitation = read_invitation(text)
    until = boot_time() + timeout
    while True:
        try:
            ready = await identity.join(invitation, facts_of_this_machine(options))
            break
        except Unavailable:
            if boot_time() >= until:
                raise
            await asyncio.sleep(1.0)
    head = f"{invitation.host}:{invitation.port}"
    print(f"Node {options.name} has joined the cluster of {head}.", flush=True)
    if not ready:
        print(f"It waits for an administrator there: hn node approve {options.name}", flush=True)
