"""How the agent finds its head: on this machine, or of the cluster that the node has joined or joins now."""

import asyncio
import socket
import sys
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headnode.adapters.processes.agent_link import boot_time
from headnode.apps.agent.head_link import LocalTransport, Transport
from headnode.apps.agent.machine import AgentOptions, facts_of_this_machine
from headnode.core.model.errors import BadRequest, Unavailable

if TYPE_CHECKING:
    from headnode.adapters.nodes.membership import NodeIdentity

JOINING = 30.0  # seconds that the agent of an allocation tries to join a head that is away


async def find_head(options: AgentOptions) -> tuple[Transport, AgentOptions]:
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
        await _join(identity, options, patience=JOINING if options.allocation else 0.0)
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


async def _join(identity: "NodeIdentity", options: AgentOptions, patience: float) -> None:
    """Join the cluster as a node, and report that to the user; try for so many seconds."""
    from headnode.adapters.nodes.membership import read_invitation

    text = sys.stdin.readline() if options.join == "-" else options.join
    invitation = read_invitation(text)
    until = boot_time() + patience
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
