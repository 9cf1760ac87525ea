"""The ways to log in that a gateway was started with.  Only their libraries are imported."""

from pathlib import Path
from typing import Final

import msgspec
from starlette.routing import BaseRoute

from headnode.apps.web.gateway import Gateway
from headnode.core.model.errors import BadRequest, NotFound

OWN_USER: Final = "one-user"
LOCAL: Final = "local"
PAM: Final = "pam"
OPENID: Final = "oidc"


class OpenidOptions(msgspec.Struct, frozen=True):
    """A provider of OpenID Connect."""

    issuer: str
    client: str
    secret_file: str = ""
    claim: str = "preferred_username"  # names the user
    users_file: str = ""  # values of the claim and users of this machine; empty: the value is the user


def login_routes(gateway: Gateway, way: str, openid: OpenidOptions | None, address: str) -> list[BaseRoute]:
    """Return the pages by which users log in beside the addresses of `hn web`; `address` of the gateway.

    Raises:  NotFound ``no-pam-service``, ``no-library``; BadRequest ``openid-file``, ``openid-address``.
    """
    if way == PAM:
        from headnode.apps.web.login.passwords import PamPasswords, PasswordPages

        return PasswordPages(gateway, PamPasswords()).routes()
    if openid is None:
        return []
    try:
        from headnode.apps.web.login.openid import OpenidPages, OpenidProvider, users_in
    except ImportError as missing:
        raise NotFound(
            code="no-library",
            what=f"log-in by OpenID Connect needs {missing.name}",
            fix="pip install headnode[oidc]",
        ) from None
    provider = OpenidProvider(openid.issuer, openid.client, _text(openid.secret_file).strip(), openid.claim)
    return OpenidPages(gateway, provider, address, users_in(_text(openid.users_file))).routes()


def _text(path: str) -> str:
    """Return what a file says, "" for none.

    Raises:  BadRequest ``openid-file``.
    """
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(
            code="openid-file",
            what=f"{path!r} cannot be read: {error}",
            fix="name a file that the user of the gateway can read",
        ) from None
