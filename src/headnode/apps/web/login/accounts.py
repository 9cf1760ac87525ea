"""Which users of this machine may log in by a password or a provider."""

from headnode.adapters.identity.users import account
from headnode.core.model.errors import NotAllowed, NotFound


def user_to_log_in(name: str) -> str:
    """Return the name of a user as this machine has it; root logs in with an address of `hn web` only.

    Raises:  NotAllowed ``log-in``.
    """
    try:
        found = account(name)
    except NotFound:
        found = None
    if found is None or found.uid == 0:
        raise NotAllowed(
            code="log-in",
            what=f"{name[:200]!r} is not a user who may log in here",
            fix="ask an administrator, or log in as another user: /login",
        )
    return found.name
