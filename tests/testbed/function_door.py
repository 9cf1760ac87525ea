"""A door that is a plain function call: a client of the head without any connection."""

import json
from typing import Any

from headnode.apps.server.api.pipeline import client_session
from headnode.apps.server.api.verbs import encode_answer
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.user import User
from headnode.protocol.answers import VerbAnswer


class KnownCaller:
    """A client whose user is known beforehand."""

    def __init__(self, user: User, *, near: bool = True, session: bool = False) -> None:
        self._user, self.near, self.session = user, near, session
        self.origin, self.host = user.origin or "a test", user.host or "a.host"

    def user(self) -> User:
        return self._user


async def call(context: ServerContext, by: User, verb: str, **fields: Any) -> dict[str, Any]:
    """Return what a head answers, as its clients read it.

    Raises:  HeadnodeError for what is refused.
    """
    request = json.dumps({"verb": verb, **fields}).encode()
    with client_session(context, KnownCaller(by)) as session:
        async with session.room_for(len(request)):
            reply = await session.carry_out(request)
    if not isinstance(reply, VerbAnswer):
        raise TypeError(f"{verb} has more than one answer")
    answer: dict[str, Any] = json.loads(encode_answer(reply))
    return answer
