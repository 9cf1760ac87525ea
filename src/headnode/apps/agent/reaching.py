"""Which head an agent talks to, by which name, and joining it first where that is wished."""

import socket
import sys

from msgspec.structs import replace

from headnode.adapters.nodes.identity import Identity, read_invitation
from headnode.apps.agent.head_link import LocalSocket, Transport
from headnode.apps.agent.machine import facts_of_this_machine
from headnode.apps.agent.options import Options
from headnode.core.model.errors import BadRequest


async def reach_head(options: Options) -> tuple[Transport, Options]:
    """Return how the head is reached, and the options with the name that it knows this node by.

    Raises:  what keeps this node from joining; BadRequest ``no-head`` when nobody said where the head is.
    """
    machine = socket.gethostname().split(".")[0]
    if options.head is not None:
        return LocalSocket(options.head), replace(options, name=options.name or machine)
    identity = Identity(options.state)
    if options.join:
        options = replace(options, name=options.name or machine)
        await _join(identity, options)
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
    return identity, replace(options, name=belongs.node)


async def _join(identity: Identity, options: Options) -> None:
    """Become a node, and tell the one who types."""
    text = sys.stdin.readline() if options.join == "-" else options.join
    invitation = read_invitation(text)
    ready = await identity.join(invitation, facts_of_this_machine(options))
    head = f"{invitation.host}:{invitation.port}"
    print(f"Node {options.name} has joined the cluster of {head}.", flush=True)
    if not ready:
        print(f"It waits for an administrator there: hn node approve {options.name}", flush=True)
