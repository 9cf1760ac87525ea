"""Tell the node of this machine the new address of its head: the node, its key and its tasks stay."""

from pathlib import Path

from msgspec.structs import replace

from headnode.adapters.files.local_daemons import agent_lock_holder
from headnode.adapters.nodes.membership import MAX_HEADS, NodeIdentity, read_address
from headnode.adapters.wire.peers import Address, written_address
from headnode.apps.cli.output import Output
from headnode.core.model.errors import NotAllowed, Unavailable, WrongState


def change_head(directory: str, text: str, out: Output) -> bool:
    """Write down the address at which the agent of a directory looks for its head first; True if it runs.

    The address of before counts as that of a standby head.  So the agent finds the head that is still there,
    and a node that reaches the head at neither address keeps its lease.
    Raises:  BadRequest ``head``; WrongState ``no-head`` when the machine has joined no cluster;
             NotAllowed ``not-yours``; Unavailable ``identity``, ``agent-state``.
    """
    address = read_address(text, "head")
    try:
        node = _write(NodeIdentity(Path(directory)), directory, address)
        number = agent_lock_holder(Path(directory))
    except PermissionError:
        raise NotAllowed(
            code="not-yours",
            what=f"the agent in {directory!r} belongs to another user",
            fix="type this as that user",
        ) from None
    except OSError as error:
        raise Unavailable(
            code="agent-state",
            what=f"the address of the head cannot be written below {directory!r}: {error.strerror}",
            fix="free some space there, or correct the directory",
        ) from None
    if number is None:
        return False
    head = written_address(address)
    out.outcome(
        f"Node {node} looks for its head at {head} first. Its agent, process {number}, connects there when "
        "its present connection ends.",
        {"node": node, "head": head, "pid": number},
        node,
    )
    return True


def _write(identity: NodeIdentity, directory: str, address: Address) -> str:
    """Write the address down; return the name of the node.

    Raises:  WrongState ``no-head``; Unavailable ``identity``; OSError.
    """
    belongs = identity.membership()
    if belongs is None:
        raise WrongState(
            code="no-head",
            what=f"this machine has joined no cluster: there is no certificate of one in {directory!r}",
            fix="paste the line that hn node invite prints on the head node",
        )
    before, after = written_address((belongs.host, belongs.port)), written_address(address)
    if before != after:
        others = (before, *(each for each in belongs.heads if each not in (before, after)))
        host, port = address
        identity.keep(replace(belongs, host=host, port=port, heads=others[:MAX_HEADS]))
    return belongs.node
