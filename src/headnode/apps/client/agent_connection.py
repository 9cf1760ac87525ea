"""A connection to the head through the agent of this node, for a task or a user of a joined node."""

import random
import time

from headnode.apps.client.connection import Connection
from headnode.apps.client.failures import refusal_in
from headnode.apps.client.local_addresses import AgentRoute
from headnode.core.model.errors import IS_STANDBY, HeadnodeError, Unavailable

TIMEOUT = 40.0  # seconds that the agent has to reach the head
RETRY_TIME = 20.0  # seconds in which a task tries again: agent and head may be started anew meanwhile
MAX_PAUSE = 0.5  # seconds between two tries, at most
TRANSIENT_CODES = ("agent-away", "head-away", "too-many-clients", "too-many-connections", IS_STANDBY)
"""What a task need not fail for: nothing was asked yet."""


def connect_through_agent(door: AgentRoute) -> Connection:
    """Return a connection on which the head knows us by our task.

    A task tries again for a while where another moment may do.
    Raises:  Unavailable ``agent-away``; the refusal of the agent or of the head.
    """
    until = time.monotonic() + (RETRY_TIME if door.task else 0.0)
    while True:
        try:
            return _connect_once(door)
        except HeadnodeError as error:
            if error.code not in TRANSIENT_CODES or time.monotonic() >= until:
                raise
        time.sleep(random.uniform(0.1, MAX_PAUSE))  # noqa: S311 (many tasks shall not come back at once)


def _connect_once(door: AgentRoute) -> Connection:
    try:
        connection = Connection.to(door.socket)
    except OSError as error:
        raise _away(door, error.strerror or str(error)) from None
    try:
        connection.send({"task": door.task})
        answer = connection.receive(TIMEOUT)
    except (OSError, EOFError, ValueError) as error:
        connection.close()
        raise _away(door, str(error)) from None
    if answer.get("ok") is not True:
        connection.close()
        raise refusal_in(answer)
    return connection


def _away(door: AgentRoute, why: str) -> Unavailable:
    return Unavailable(
        code="agent-away",
        what=f"the agent of this node does not answer at {door.socket!r}: {why}",
        fix="try again in a while; see on the node: systemctl status headnode-agent",
    )
