"""Which users of this machine may log in by a password or a provider, and to which pages they return."""

from urllib.parse import urlsplit

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


def local_path(address: str) -> str:
    r"""Return a path of this gateway to go on to; ``/`` for every other address.

    >>> [local_path(each) for each in ("/jobs?page=2", "//evil.example/", "https://evil.example", "/\\evil")]
    ['/jobs?page=2', '/', '/', '/']
    """
    plain = address.isascii() and address.isprintable() and "\\" not in address
    if not plain or not address.startswith("/") or address.startswith("//"):
        return "/"
    parts = urlsplit(address)
    return "/" if parts.scheme or parts.netloc else address
