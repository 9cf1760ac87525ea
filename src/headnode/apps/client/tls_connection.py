"""Connections to heads of other machines: TLS 1.3, verified with the authority of the login.

The login names where its head may be; an answer of a head names the others.
Source:  RFC 8446; docs/contracts/04-clients-of-other-machines.md.
"""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headnode.adapters.nodes.membership import (
    MAX_ADDRESS,
    MAX_HEADS,
    Invitation,
    learn_authority,
    read_address,
    read_invitation,
    usable_addresses,
)
from headnode.adapters.wire.peers import CLIENT, HEAD_NAME, Address, connect_tls, written_address
from headnode.apps.client.connection import Connection
from headnode.apps.client.failures import refusal_in
from headnode.apps.client.logins import HeadLogin, keep_moved
from headnode.core.model.bounds import INTEGER
from headnode.core.model.errors import (
    IS_STANDBY,
    OLD_HEAD,
    BadRequest,
    HeadnodeError,
    NotAllowed,
    Unavailable,
)

if TYPE_CHECKING:
    import asyncio


NOT_THERE = ("head-away", "wrong-head", IS_STANDBY, OLD_HEAD)
"""The codes of errors after which the next address is tried: nothing was asked yet."""


def others_of(listed: object, known: "tuple[str, ...]", address: str) -> tuple[str, ...]:
    """Return the other addresses where a head may be.

    said:     what the head said of its standby heads; what is no address is left out
    known:    what was known before
    address:  where the head is
    """
    addresses = (
        [each for each in listed[:MAX_HEADS] if isinstance(each, str)] if isinstance(listed, list) else []
    )
    usable = [written_address(each) for each in usable_addresses(addresses)]
    rest = [each for each in known if len(each) <= MAX_ADDRESS]
    return tuple(each for each in dict.fromkeys((*usable, *rest)) if each != address)[:MAX_HEADS]


class SearchForHead:
    """One search for the head of a login: yields the addresses in turn, and says why none was of use."""

    def __init__(self, login: HeadLogin) -> None:
        self._login = login
        self._failures: list[tuple[str, HeadnodeError]] = []

    def __iter__(self) -> Iterator[Address]:
        first = self._login.host, self._login.port
        yield first
        yield from (each for each in usable_addresses(self._login.others) if each != first)

    @property
    def is_choice(self) -> bool:
        """Whether there is more than one address."""
        return bool(self._login.others)

    def failed(self, address: Address, error: HeadnodeError) -> None:
        """Go on with the next address, unless it was the head that refused; raise that refusal."""
        if error.code not in NOT_THERE:
            raise error
        self._failures.append((written_address(address), error))

    def failure(self) -> HeadnodeError:
        """Return why no address was of use."""
        if len(self._failures) == 1:
            return self._failures[0][1]
        failures = "; ".join(f"at {address}: {_short(address, error)}" for address, error in self._failures)
        of_cluster = f" of cluster {self._login.cluster}" if self._login.cluster else ""
        return Unavailable(
            code="head-away",
            what=f"the head{of_cluster} is not reached; {failures}",
            fix="check the network; if a standby head is to take over, an administrator tells it to",
        )

    def found(self, address: Address, answer: dict[str, Any]) -> None:
        """Learn from the first answer of a head at an address; the next command begins there.

        Raises:  Unavailable ``old-head`` when a head with a higher term was seen.
        """
        login, answered = self._login, answer.get("term", 0)
        term = answered if isinstance(answered, int) and 0 <= answered <= INTEGER.most else 0
        if term < login.term:
            raise Unavailable(
                code=OLD_HEAD,
                what=f"{written_address(address)} is an old head that was replaced: its term is {term}, "
                f"and you have used the head of term {login.term}",
                fix="ask an administrator where the head is; if it is this one nevertheless, log in again",
            )
        known = (login.address, *login.others)
        others = others_of(answer.get("standbys"), known, written_address(address))
        if (login.host, login.port, login.others, login.term) == (*address, others, term):
            return
        login.host, login.port, login.others, login.term = *address, others, term
        with contextlib.suppress(HeadnodeError):  # it is found again the next time, only later
            keep_moved(login)


def _short(address: str, error: HeadnodeError) -> str:
    """Return the failure at one address, without the text that is the same for all."""
    return error.what.removeprefix(f"the head at {address} cannot be reached: ")


TIMEOUT = 15.0  # seconds to connect and say who we are
CONNECT = 5.0  # seconds to connect where the head may be elsewhere: a machine without power answers nothing


def connect(login: HeadLogin) -> Connection:
    """Return a connection on which we are known, to the head where it is now.

    Raises:  Unavailable ``head-away`` and ``old-head``; NotAllowed ``wrong-head``; the head's refusal of the
             token.
    """
    search = SearchForHead(login)
    for address in search:
        try:
            return _log_in(login, address, search)
        except HeadnodeError as error:
            search.failed(address, error)
    raise search.failure()


def _log_in(login: HeadLogin, address: Address, search: SearchForHead) -> Connection:
    connection = dial(*address, login.authority, CONNECT if search.is_choice else TIMEOUT)
    try:
        answer = ask(connection, {"verb": "log_in", "token": login.token}, written_address(address))
        if answer.get("ok") is not True:
            raise refusal_in(answer)
        search.found(address, answer)
    except BaseException:
        connection.close()
        raise
    return connection


def dial(host: str, port: int, authority: str, timeout: float = TIMEOUT) -> Connection:
    """Return a connection to a head with a certificate of the authority (PEM); it has no user yet.

    `timeout`: seconds for each address of the host to accept a connection.
    Raises:  Unavailable ``head-away``; NotAllowed ``wrong-head``.
    """
    context, address = _client_context(authority), written_address((host, port))
    try:
        secure = connect_tls((host, port), context, HEAD_NAME, timeout, TIMEOUT)
    except ssl.SSLCertVerificationError as error:
        raise _wrong_head(address, error) from None
    except (OSError, ValueError) as error:  # a ValueError for what cannot be the name of a host
        raise head_away(address, getattr(error, "strerror", "") or str(error)) from None
    secure.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if secure.selected_alpn_protocol() != CLIENT:
        secure.close()
        raise head_away(address, NO_CLIENTS)
    return Connection(secure, secure.pending)


NO_ANSWER = "it does not answer"
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


async def open_streams(
    login: HeadLogin, address: Address, *, timeout: float = TIMEOUT
) -> "tuple[asyncio.StreamReader, asyncio.StreamWriter]":
    """Return the streams of a TLS connection to an address of a head; nobody is known on it yet.

    Unit:    seconds (`timeout`).
    Raises:  Unavailable ``head-away``; NotAllowed ``wrong-head``.
    """
    import asyncio

    where = written_address(address)
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(
                *address, ssl=_client_context(login.authority), server_hostname=HEAD_NAME
            )
    except ssl.SSLCertVerificationError as error:
        raise _wrong_head(where, error) from None
    except (OSError, ValueError) as error:  # also when it takes too long, or cannot be the name of a host
        raise head_away(where, getattr(error, "strerror", "") or str(error) or NO_ANSWER) from None
    secure: ssl.SSLObject = writer.get_extra_info("ssl_object")
    if secure.selected_alpn_protocol() != CLIENT:
        writer.close()
        raise head_away(where, NO_CLIENTS)
    return reader, writer


def ask(connection: Connection, question: dict[str, Any], address: str) -> dict[str, Any]:
    """Return the answer to the first question on a connection.

    Raises:  Unavailable ``head-away``.
    """
    try:
        connection.send(question)
        return connection.receive(TIMEOUT)
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

    `address` may name several places, with commas, of which the first that is the head answers.
    `shared`: the nodes have the directories of this machine.

    Nothing is said to a head that is not the one that printed the line.
    Raises:  BadRequest ``login``; Unavailable ``head-away``; NotAllowed ``wrong-head``; the head's refusal.
    """
    offered = _read_login_line(line)
    addresses = [read_address(each, "login") for each in address.split(",")] if address else []
    if len(addresses) > MAX_HEADS:
        raise BadRequest(
            code="login",
            what=f"{len(addresses)} addresses are too many for one head",
            fix=f"name at most {MAX_HEADS}",
        )
    first, *others = dict.fromkeys(addresses or [(offered.host, offered.port)])
    login = HeadLogin(
        host=first[0], port=first[1], cluster="", user="", number=0, token="", expires=0.0, authority="",
        shared=shared, others=[written_address(each) for each in others],
    )  # fmt: skip
    search = SearchForHead(login)
    for place in search:
        try:
            return _exchange(offered._replace(host=place[0], port=place[1]), login, search)
        except HeadnodeError as error:
            search.failed(place, error)
    raise search.failure()


def _exchange(offered: Invitation, login: HeadLogin, search: SearchForHead) -> HeadLogin:
    """Exchange a login line for a token at one address; complete the login with it."""
    import asyncio

    place = offered.host, offered.port
    where = written_address(place)
    try:
        authority = asyncio.run(learn_authority(offered)).decode()
    except TimeoutError:
        raise head_away(where, NO_ANSWER) from None
    except OSError as error:
        raise head_away(where, error.strerror or str(error)) from None
    connection = dial(*place, authority)
    try:
        answer = ask(connection, {"verb": "exchange_login", "secret": offered.secret}, where)
    finally:
        connection.close()
    if answer.get("ok") is not True:
        raise refusal_in(answer)
    login.authority, login.token = authority, str(answer["token"])
    login.cluster, login.user = str(answer["cluster"]), str(answer["user"])
    login.number, login.expires = int(answer["number"]), float(answer["expires"])
    search.found(place, answer)
    return login


def _read_login_line(line: str) -> Invitation:
    try:
        return read_invitation(line.strip().removeprefix(LOGIN_COMMAND))
    except BadRequest:
        raise BadRequest(
            code="login",
            what="this is not a login line, or only a part of one",
            fix="paste the whole line that `hn token new` printed on the head node",
        ) from None
