"""Takes the login that ``hn token new`` offered for a token.  Only who logs in pays for these imports."""

import asyncio

from headnode.adapters.nodes.identity import Invitation, learn_authority, read_address, read_invitation
from headnode.apps.client.failures import refusal_in
from headnode.apps.client.logins import Login
from headnode.apps.client.secure import ask, dial, head_away
from headnode.core.model.errors import BadRequest

COMMAND = "hn login "


def take(line: str, address: str = "", *, shared: bool = False) -> Login:
    """Return what the line gives; `address` is where the head is reached, if it is not as the line says.

    `shared`: the nodes have the directories of this machine.

    Nothing is said to a head that is not the one that printed the line.
    Raises:  BadRequest ``login``; Unavailable ``head-away``; NotAllowed ``wrong-head``; the head's refusal.
    """
    offered = _read(line)
    if address:
        host, port = read_address(address, "login")
        offered = offered._replace(host=host, port=port)
    try:
        authority = asyncio.run(learn_authority(offered)).decode()
    except TimeoutError:
        raise head_away(f"{offered.host}:{offered.port}", "it does not answer") from None
    except OSError as error:
        raise head_away(f"{offered.host}:{offered.port}", error.strerror or str(error)) from None
    connection = dial(offered.host, offered.port, authority)
    try:
        wish = {"do": "take_login", "secret": offered.secret}
        answer = ask(connection, wish, f"{offered.host}:{offered.port}")
    finally:
        connection.close()
    if answer.get("ok") is not True:
        raise refusal_in(answer)
    return Login(
        host=offered.host,
        port=offered.port,
        cluster=str(answer["cluster"]),
        user=str(answer["user"]),
        number=int(answer["number"]),
        token=str(answer["token"]),
        expires=float(answer["expires"]),
        authority=authority,
        shared=shared,
    )


def _read(line: str) -> Invitation:
    try:
        return read_invitation(line.strip().removeprefix(COMMAND))
    except BadRequest:
        raise BadRequest(
            code="login",
            what="this is not a login line, or only a part of one",
            fix="paste the whole line that `hn token new` printed on the head node",
        ) from None
