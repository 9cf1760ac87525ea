"""Connections to heads of other machines: TLS 1.3, verified with the authority of the login.

Source:  RFC 8446; docs/contracts/04-clients-of-other-machines.md."""

import socket
import ssl
from typing import TYPE_CHECKING, Any

from headnode.adapters.nodes.membership import Invitation, learn_authority, read_address, read_invitation
from headnode.adapters.wire.peers import CLIENT, HEAD_NAME
from headnode.apps.client.connection import Connection
from headnode.apps.client.failures import refusal_in
from headnode.apps.client.logins import HeadLogin
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Unavailable

if TYPE_CHECKING:
    import asyncio

PATIENCE = 15.0  # seconds to connect and say who we are


def connect(login: HeadLogin) -> Connection:
    """Return a connection on which we are known.

    Raises:  Unavailable ``head-away``; NotAllowed ``wrong-head``; the head's refusal of the token.
    """
    connection = dial(login.host, login.port, login.authority)
    try:
        answer = ask(connection, {"verb": "log_in", "token": login.token}, login.address)
    except BaseException:
        connection.close()
        raise
    if answer.get("ok") is not True:
        connection.close()
        raise refusal_in(answer)
    return connection


def dial(host: str, port: int, authority: str) -> Connection:
    """Return a connection to a head with a certificate of the authority (PEM); it has no user yet.

    Raises:  Unavailable ``head-away``; NotAllowed ``wrong-head``.
    """
    context, address = _client_context(authority), f"{host}:{port}"
    try:
        plain = socket.create_connection((host, port), PATIENCE)
    except OSError as error:
        raise head_away(address, error.strerror or str(error)) from None
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        secure = context.wrap_socket(plain, server_hostname=HEAD_NAME)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise _wrong_head(address, error) from None
    except OSError as error:
        plain.close()
        raise head_away(address, str(error)) from None
    if secure.selected_alpn_protocol() != CLIENT:
        secure.close()
        raise head_away(address, NO_CLIENTS)
    return Connection(secure, secure.pending)


NO_CLIENTS = "it serves no clients of other machines"


def _client_context(authority: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority)
    context.set_alpn_protocols([CLIENT])
    return context


def _wrong_head(address: str, error: ssl.SSLCertVerificationError) -> HeadnodeError:
    return NotAllowed(
        code="wrong-head",
        what=f"{address} is not the head that you logged in to: {error.verify_message}",
        fix="check the address; if the head has a new state directory, log in again: hn login",
    )


async def open_streams(login: HeadLogin) -> "tuple[asyncio.StreamReader, asyncio.StreamWriter]":
    """Return the streams of a TLS connection to a head; nobody is known on it yet.

    Raises:  Unavailable ``head-away``; NotAllowed ``wrong-head``.
    """
    import asyncio

    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(
                login.host, login.port, ssl=_client_context(login.authority), server_hostname=HEAD_NAME
            )
    except ssl.SSLCertVerificationError as error:
        raise _wrong_head(login.address, error) from None
    except OSError as error:  # also when it takes too long
        raise head_away(login.address, error.strerror or str(error) or "it does not answer") from None
    secure: ssl.SSLObject = writer.get_extra_info("ssl_object")
    if secure.selected_alpn_protocol() != CLIENT:
        writer.close()
        raise head_away(login.address, NO_CLIENTS)
    return reader, writer


def ask(connection: Connection, question: dict[str, Any], address: str) -> dict[str, Any]:
    """Return the answer to the first question on a connection.

    Raises:  Unavailable ``head-away``.
    """
    try:
        connection.send(question)
        return connection.receive(PATIENCE)
    except (OSError, EOFError, ValueError) as error:
        raise head_away(address, str(error)) from None


def head_away(address: str, why: str) -> HeadnodeError:
    """Return what to say when a head is not reached."""
    return Unavailable(
        code="head-away",
        what=f"the head at {address} cannot be reached: {why}",
        fix="check the network and the firewall, and that the head runs with --listen",
    )


LOGIN_COMMAND = "hn login "


def redeem_login(line: str, address: str = "", *, shared: bool = False) -> HeadLogin:
    """Return what the line gives; `address` is where the head is reached, if it is not as the line says.

    `shared`: the nodes have the directories of this machine.

    Nothing is said to a head that is not the one that printed the line.
    Raises:  BadRequest ``login``; Unavailable ``head-away``; NotAllowed ``wrong-head``; the head's refusal.
    """
    import asyncio

    offered = _read_login_line(line)
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
        wish = {"verb": "exchange_login", "secret": offered.secret}
        answer = ask(connection, wish, f"{offered.host}:{offered.port}")
    finally:
        connection.close()
    if answer.get("ok") is not True:
        raise refusal_in(answer)
    return HeadLogin(
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


def _read_login_line(line: str) -> Invitation:
    try:
        return read_invitation(line.strip().removeprefix(LOGIN_COMMAND))
    except BadRequest:
        raise BadRequest(
            code="login",
            what="this is not a login line, or only a part of one",
            fix="paste the whole line that `hn token new` printed on the head node",
        ) from None
