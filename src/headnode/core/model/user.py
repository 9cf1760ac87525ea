"""Who asks."""

import msgspec


class User(msgspec.Struct, frozen=True):
    """Somebody who gives commands, known by the operating system's own word for them.

    `administrator` is true for root and for the user who started the head.
    """

    name: str
    uid: int
    gid: int
    administrator: bool = False
