"""A connection to the head by way of the agent of this node, for a task or a user who has one here."""

from headnode.apps.client.connection import Connection
from headnode.apps.client.failures import refusal_in
from headnode.apps.client.where import NodeDoor
from headnode.core.model.errors import Unavailable

PATIENCE = 40.0  # seconds that the agent has to reach the head


def enter(door: NodeDoor) -> Connection:
    """Return a connection on which the head knows us by our task.

    Raises:  Unavailable ``agent-away``; the refusal of the agent or of the head.
    """
    try:
        connection = Connection.to(door.socket)
    except OSError as error:
        raise _away(door, error.strerror or str(error)) from None
    try:
        connection.send({"task": door.task})
        answer = connection.receive(PATIENCE)
    except (OSError, EOFError, ValueError) as error:
        connection.close()
        raise _away(door, str(error)) from None
    if answer.get("ok") is not True:
        connection.close()
        raise refusal_in(answer)
    return connection


def _away(door: NodeDoor, why: str) -> Unavailable:
    return Unavailable(
        code="agent-away",
        what=f"the agent of this node cannot be asked at {door.socket!r}: {why}",
        fix="try again in a while; see on the node: systemctl status headnode-agent",
    )
