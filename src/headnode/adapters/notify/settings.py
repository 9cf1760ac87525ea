"""How notices are brought: the parameters of the cluster that the one who brings them needs."""

import msgspec

from headnode.core.model.errors import BadRequest
from headnode.engine.settings import Settings


class Ways(msgspec.Struct, frozen=True):
    """Mail goes by `server` (host or host:port; empty: by none); hooks may begin as one of `hooks` does."""

    server: str = ""
    encryption: str = "none"
    sender: str = ""
    credentials: str = ""  # path of a file with user:password
    domain: str = ""  # of owners whose jobs name no address
    hooks: tuple[str, ...] = ()
    everything: tuple[str, ...] = ()  # addresses that are told of every notice


def ways_of(settings: Settings) -> Ways:
    """Return the ways that the cluster's parameters allow."""
    return Ways(
        server=settings.text("EmailSmtpServer"),
        encryption=settings.text("EmailEncryption"),
        sender=settings.text("EmailFrom"),
        credentials=settings.text("EmailCredentialsFile"),
        domain=settings.text("EmailDomain"),
        hooks=_words(settings.text("NotificationWebhooks")),
        everything=_words(settings.text("NotificationCopies")),
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))


def host_and_port(server: str) -> tuple[str, int]:
    """Return host and port of a mail server; 0 where the usual one is meant.

    Raises:  BadRequest ``mail-server``.
    """
    host, colon, port = server.rpartition(":")
    if not colon or port.endswith("]"):  # an address of IPv6 has colons of its own
        return server.strip("[]"), 0
    if not port.isdecimal():
        raise BadRequest(
            code="mail-server",
            what=f"{server!r} is not a mail server",
            fix="set EmailSmtpServer to a host, or to host:port",
        )
    return host.strip("[]"), int(port)
