"""What the verbs about users, tokens and the audit log answer.  The page of the protocol is printed from it.

Times are seconds since 1970.  The comment of a field is what the page says of it.
"""

from typing import Any

from headnode.protocol.answers import VerbAnswer


class RequestingUser(VerbAnswer, frozen=True):
    """The requesting user, as the head knows it."""

    user: str
    uid: int
    role: str  # user, operator, administrator
    cluster: str


class LoginAnswer(VerbAnswer, frozen=True):
    """create_token."""

    login: str  # the one line, see [clients of other machines](04-clients-of-other-machines.md)
    user: str
    expires: float  # of the login
    lifetime: float  # of the token, in seconds


class TokenObject(VerbAnswer, frozen=True):
    """A token that has not expired."""

    token: int
    user: str
    created: float
    expires: float
    last_used: float | None
    address: str


class TokensAnswer(VerbAnswer, frozen=True):
    """tokens."""

    tokens: list[TokenObject]


class RevokedToken(VerbAnswer, frozen=True):
    """revoke_token."""

    token: int


class AuditAnswer(VerbAnswer, frozen=True):
    """audit_log."""

    entries: list[dict[str, Any]]  # the newest lines of the audit log, oldest first
