"""Requests to the REST API of a gateway: the verbs of the local protocol as HTTP/1.1, over TLS.

`WebExchange` makes the bytes and reads none itself; a blocking and an asynchronous connection carry them.
Source:  docs/contracts/05-rest-api.md; RFC 9110, RFC 9112.
"""

import re
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import h11
import msgspec

from headnode.adapters.wire.peers import connect_tls
from headnode.apps.client.connection import MAX_FRAME, MAX_REQUEST, TIMEOUT, Connection
from headnode.apps.client.local_addresses import WebRoute
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Unavailable
from headnode.protocol.rest_route import RestBody, RestForm, RestRoute
from headnode.protocol.rest_routes import PREFIX, ROUTES

CONNECT_TIME: Final = 15.0  # seconds
SILENCE: Final = 60.0  # seconds; the gateway sends an empty line each 15 while it follows something
PIECE: Final = 1 << 18  # bytes that are read at once
MAX_ADDRESS: Final = 8000  # characters of path and query; the gateway takes 8,192
_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
_ROUTES: Final[Mapping[str, RestRoute]] = {route.verb: route for route in reversed(ROUTES)}
_NAMED: Final = re.compile(r"\{(\w+)\}")
_AWAY: Final = ("no-head", "head-gone")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

Fields = dict[str, Any]


def web_route(address: str, token: str, ca_file: str) -> WebRoute:
    """Return the way to a gateway.

    ca_file: certificates, in PEM, of the authorities that vouch for it; "": those of the system
    Raises:  BadRequest ``gateway-address``; NotAllowed ``token`` without a token.
    """
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise _wrong_address(address, str(error)) from None
    encrypted = parts.scheme == "https"
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise _wrong_address(address, "it is not the address of a gateway")
    if parts.username or parts.password:
        raise _wrong_address("https://...@" + parts.hostname, "it has a user or a password")
    if not encrypted and parts.hostname not in _LOOPBACK:
        raise _wrong_address(address, "without TLS others on the network could read the token")
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise NotAllowed(
            code="token",
            what=f"there is no token for {address}",
            fix="on the head's machine: hn token new --web; then pass token=, or set HEADNODE_TOKEN",
        )
    return WebRoute(
        address=address.rstrip("/"),
        host=parts.hostname,
        port=port or (443 if encrypted else 80),
        path=parts.path.rstrip("/"),
        token=token,
        ca_file=ca_file,
        encrypted=encrypted,
        shared=parts.hostname in _LOOPBACK,  # another machine may have other directories
    )


def _wrong_address(address: str, why: str) -> BadRequest:
    return BadRequest(
        code="gateway-address",
        what=f"{address!r} cannot be used: {why}",
        fix="write https://HOST:PORT; http is for this machine only, http://127.0.0.1:PORT",
    )


def tls_context(route: WebRoute) -> ssl.SSLContext | None:
    """Return how the gateway is verified; None without TLS.

    Raises:  BadRequest ``certificate`` if the file of authorities cannot be used.
    """
    if not route.encrypted:
        return None
    try:
        context = ssl.create_default_context(cafile=route.ca_file or None)
    except OSError as error:  # an SSLError is one
        raise BadRequest(
            code="certificate",
            what=f"{route.ca_file!r} has no certificates of authorities: {error}",
            fix="name a file in PEM: ca_file=, or HEADNODE_CA_FILE",
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def unreached(route: WebRoute, error: OSError) -> HeadnodeError:
    """Return what to say when a gateway is not reached, or is another one."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotAllowed(
            code="wrong-gateway",
            what=f"{route.address} does not prove that it is this gateway: {error.verify_message}",
            fix="name the certificates of the authority that vouches for it: ca_file=, HEADNODE_CA_FILE",
        )
    why = error.strerror or str(error) or "it does not answer"
    return Unavailable(
        code="head-away",
        what=f"the gateway at {route.address} cannot be reached: {why}",
        fix="check the address and the network, and that the gateway runs: hn web",
    )


class WebExchange:
    """Makes HTTP of requests to verbs, and answers to verbs of HTTP; one request at a time."""

    def __init__(self, route: WebRoute) -> None:
        self._route = route
        self._http = h11.Connection(h11.CLIENT)
        self._verb: RestRoute | None = None
        self._response: h11.Response | None = None
        self._body = bytearray()

    def request(self, fields: Mapping[str, Any]) -> bytes:
        """Return the bytes of a request: ``{"verb": ..., ...}`` as in the local protocol.

        Raises:  NotAllowed ``not-by-rest`` for a verb without a route; OverflowError if it is too large.
        """
        rest = dict(fields)
        self._verb = route = _route_of(rest.pop("verb"))
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        self._response, self._body = None, bytearray()
        host = f"[{self._route.host}]" if ":" in self._route.host else self._route.host
        kind = _LINES if route.form is RestForm.LINES else _JSON
        headers = [
            ("host", f"{host}:{self._route.port}"),
            ("authorization", f"Bearer {self._route.token}"),
            ("accept", kind),
        ]
        if (key := rest.pop("idempotency", None)) is not None:
            headers.append(("idempotency-key", str(key)))
        in_request = {**_defaults_in_path(route), **rest}
        path = self._route.path + PREFIX + _NAMED.sub(lambda name: _segment(in_request[name[1]]), route.path)
        rest = {name: value for name, value in rest.items() if f"{{{name}}}" not in route.path}
        body = b""
        if route.body is RestBody.QUERY:
            path += "?" + urlencode(list(_query(rest)))
        else:
            body = msgspec.json.encode(rest)
            headers.append(("content-type", _JSON))
        if len(path) > MAX_ADDRESS or len(body) > MAX_REQUEST:
            raise OverflowError(f"a request of {len(path) + len(body)} bytes is larger than a gateway reads")
        headers.append(("content-length", str(len(body))))
        parts = [self._http.send(h11.Request(method=route.method, target=path, headers=headers))]
        parts += [self._http.send(h11.Data(data=body))] if body else []
        return b"".join(part for part in [*parts, self._http.send(h11.EndOfMessage())] if part)

    def receive(self, data: bytes) -> None:
        """Take what the gateway has sent; b"": it has closed the connection.

        Raises:  EOFError; ValueError if it is not HTTP.
        """
        try:
            self._http.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise ValueError(str(error)) from None

    def answer(self) -> Fields | None:
        """Return the next answer as in the local protocol, with ``ok``; None: more must be received first.

        Raises:  ConnectionResetError if the head is away, EOFError if the answer ends before its end;
                 ValueError if it is none.
        """
        while True:
            if self._are_lines and (line := self._next_line()) is not None:
                return line
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise ValueError(str(error)) from None
            match event:
                case h11.Response():
                    self._response = event
                case h11.Data():
                    self._body += event.data
                    if len(self._body) > MAX_FRAME:
                        raise ValueError(f"the answer is larger than {MAX_FRAME} bytes")
                case h11.EndOfMessage():
                    if self._are_lines:
                        raise EOFError("the answer has ended before its last line")
                    return self._whole(bytes(self._body))
                case h11.ConnectionClosed():
                    raise EOFError("the gateway closed the connection")
                case _:  # NEED_DATA; PAUSED cannot be: the next request waits for this answer
                    return None

    @property
    def may_be_used_again(self) -> bool:
        """Whether another request may follow on this connection."""
        return h11.MUST_CLOSE not in (self._http.our_state, self._http.their_state)

    @property
    def _are_lines(self) -> bool:
        of_lines = self._verb is not None and self._verb.form is RestForm.LINES
        return of_lines and self._response is not None and self._response.status_code == 200

    def _next_line(self) -> Fields | None:
        """Return the answer in the next line; None if there is no whole line yet."""
        while (end := self._body.find(b"\n")) >= 0:
            line = bytes(self._body[:end])
            del self._body[: end + 1]
            if line:
                return self._granted(_object(line))
        return None

    def _whole(self, body: bytes) -> Fields:
        """Return the answer that a body is.

        Raises:  ConnectionResetError; ValueError.
        """
        assert self._response is not None  # h11 ends no message that has not begun
        status = self._response.status_code
        if status in (502, 504) or (status == 503 and b"application/problem+json" not in self._kind()):
            raise ConnectionResetError(f"a proxy before the gateway answers {status}")
        answer = _object(body)
        return self._granted(answer) if status < 400 else self._granted({"problem": answer})

    def _granted(self, answer: Fields) -> Fields:
        """Return an answer, or a refusal, as the local protocol has it.

        Raises:  ConnectionResetError if the gateway has no head now.
        """
        problem = answer.get("problem")
        if not isinstance(problem, dict):
            return {"ok": True, **answer}
        if problem.get("code") in _AWAY:
            raise ConnectionResetError(str(problem.get("what")))
        return {"ok": False, **problem}

    def _kind(self) -> bytes:
        headers = () if self._response is None else self._response.headers
        return next((value for name, value in headers if name == b"content-type"), b"")


def _route_of(verb: str) -> RestRoute:
    """Return the route that carries out a verb; of several the one with the fewest names in its path.

    Raises:  NotAllowed ``not-by-rest``.
    """
    if (route := _ROUTES.get(verb)) is None:
        raise NotAllowed(
            code="not-by-rest",
            what=f"a gateway does not carry out {verb!r}",
            fix="do it on the head's machine",
        )
    return route


def _defaults_in_path(route: RestRoute) -> Fields:
    """Return the defaults of fields that are in the path: requests leave them out."""
    fields = msgspec.structs.fields(route.request)
    return {field.name: field.default for field in fields if f"{{{field.name}}}" in route.path}


def _segment(value: object) -> str:
    return quote(str(value), safe="")


def _query(fields: Mapping[str, Any]) -> "list[tuple[str, str]]":
    """Return the parameters of a query; what is None is left out, a list is one parameter for each value."""
    query: list[tuple[str, str]] = []
    for name, value in fields.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            if each is not None:
                query.append((name, str(each).lower() if isinstance(each, bool) else str(each)))
    return query


def _object(text: bytes) -> Fields:
    try:
        return msgspec.json.decode(text, type=Fields)
    except UNREADABLE as error:
        raise ValueError(f"the gateway has sent no JSON object: {error}") from None


class WebConnection(Connection):
    """A blocking connection to a gateway."""

    def __init__(self, route: WebRoute, plain: socket.socket) -> None:
        super().__init__(plain)
        self._exchange = WebExchange(route)

    def send(self, request: Fields) -> None:
        """Send one request.

        Raises:  as `WebExchange.request`; OSError.
        """
        self._socket.settimeout(TIMEOUT)
        self._socket.sendall(self._exchange.request(request))

    def receive(self, timeout: float | None = TIMEOUT) -> Fields:
        """Return the next answer.

        Unit:    seconds (`timeout`; None waits as long as the gateway shows that it is there).
        Raises:  TimeoutError; EOFError; ValueError.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (answer := self._exchange.answer()) is None:
            left = SILENCE if deadline is None else min(SILENCE, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(PIECE)
            except TimeoutError:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                raise EOFError(f"the gateway was silent for {SILENCE:g} seconds") from None
            self._exchange.receive(data)
        return answer

    @property
    def ended(self) -> bool:
        """Whether no other request can follow on this connection."""
        return not self._exchange.may_be_used_again or super().ended


def connect_to_gateway(route: WebRoute) -> WebConnection:
    """Return a connection to a gateway.

    Raises:  Unavailable ``head-away``; NotAllowed ``wrong-gateway``; BadRequest ``certificate``.
    """
    context = tls_context(route)
    place = route.host, route.port
    try:
        if context:
            used: socket.socket = connect_tls(place, context, route.host, CONNECT_TIME, CONNECT_TIME)
        else:
            used = socket.create_connection(place, CONNECT_TIME)
        used.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        used.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except OSError as error:
        raise unreached(route, error) from None
    return WebConnection(route, used)
