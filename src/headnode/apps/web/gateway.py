"""What the parts of a gateway share: the head, the identity of requests, the room for their bodies."""

from typing import NamedTuple

from headnode.apps.web.conversations import Conversations
from headnode.apps.web.head_client import HeadClient
from headnode.apps.web.identity import RequestIdentity
from headnode.apps.web.request_body import BodyRoom


class Gateway(NamedTuple):
    """The parts that routes, the console and the log-in use."""

    head: HeadClient
    identity: RequestIdentity
    bodies: BodyRoom
    conversations: Conversations
