"""What the SDK asks of a gateway is what the gateway reads, for every verb."""

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import h11
import msgspec
import pytest
from starlette.requests import Request
from starlette.routing import Match, Route

from headnode.apps.client.web_connection import WebExchange, web_route
from headnode.apps.web.request_fields import fields_of
from headnode.core.model.errors import NotAllowed
from headnode.protocol.rest_route import RestRoute
from headnode.protocol.rest_routes import NOT_BY_REST, PREFIX, ROUTES

ROUTE = web_route("https://cluster.example.org/below", "secret", "")
VERBS = sorted({route.verb for route in ROUTES})


def sample(kind: Any) -> Any:
    """Return a value of a type, with what HTTP would take for something else."""
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return sample(next(each for each in inside if each is not NoneType))
    if origin is Literal:
        return inside[-1]
    if origin is list:
        return [sample(inside[0])]
    if origin is tuple:
        return (sample(inside[0]),)
    if origin is dict:
        return {"näme=&": sample(inside[1]) if inside[1] is not Any else "x"}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return request_of_type(kind, full=True)
    samples = {str: "a b&c=ü%2F?#+;", int: 7, float: 1.5, bool: True}
    return samples[kind] if kind in samples else list(kind)[-1]


def request_of(route: RestRoute, *, full: bool) -> Any:
    return request_of_type(route.request, full=full)


def request_of_type(kind: type[msgspec.Struct], *, full: bool) -> Any:
    hints = get_type_hints(kind)
    fields = msgspec.structs.fields(kind)
    given = {each.name: sample(hints[each.name]) for each in fields if full or each.required}
    return kind(**given)


def received(data: bytes) -> tuple[h11.Request, bytes]:
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    body = b""
    while isinstance(event := server.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage)
    return request, body


def read(request: h11.Request, body: bytes) -> tuple[RestRoute, dict[str, Any]]:
    """Return the route and the fields that a gateway finds in a request, as uvicorn and Starlette give it."""
    from urllib.parse import unquote

    raw, _, query = request.target.partition(b"?")
    path = unquote(raw.decode("ascii")).removeprefix("/below")
    scope: dict[str, Any] = {
        "type": "http",
        "method": request.method.decode(),
        "path": path,
        "query_string": query,
        "headers": [(name.lower(), value) for name, value in request.headers],
    }
    for route in ROUTES:
        match, found = Route(PREFIX + route.path, lambda _: None, methods=[route.method]).matches(scope)
        if match is Match.FULL:
            return route, fields_of(route, Request({**scope, **found}), body)
    raise AssertionError(f"no route for {request.target!r}")


@pytest.mark.parametrize("full", [True, False], ids=["every field", "no more than needed"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_gateway_reads_what_a_program_asks(verb: str, full: bool) -> None:
    route = next(each for each in ROUTES if each.verb == verb)
    request = request_of(route, full=full)
    sent = WebExchange(ROUTE).request({"verb": verb, **msgspec.to_builtins(request)})
    found, fields = read(*received(sent))
    assert found is route
    raw = {
        name: msgspec.json.decode(each) if isinstance(each, msgspec.Raw) else each
        for name, each in fields.items()
    }
    assert msgspec.convert(raw, route.request) == request


@pytest.mark.parametrize("verb", sorted(NOT_BY_REST))
def test_a_verb_without_a_route_is_refused_before_anything_is_sent(verb: str) -> None:
    with pytest.raises(NotAllowed, match="not-by-rest"):
        WebExchange(ROUTE).request({"verb": verb})


def test_the_key_of_a_request_is_a_header_and_the_token_in_no_address() -> None:
    sent = WebExchange(ROUTE).request({"verb": "submit_job", "jobfile": "x", "idempotency": "k-1"})
    request, body = received(sent)
    headers = dict(request.headers)
    assert (headers[b"idempotency-key"], headers[b"authorization"]) == (b"k-1", b"Bearer secret")
    assert headers[b"host"] == b"cluster.example.org:443"
    assert request.target == b"/below/api/v1/jobs"
    assert body == b'{"jobfile":"x"}'


def answered(verb: str, *pieces: bytes) -> list[Any]:
    """Return what an exchange makes of the bytes of a gateway; the last is the error that ends it."""
    exchange = WebExchange(ROUTE)
    exchange.request({"verb": verb, "job": 7} if verb == "watch_jobs" else {"verb": verb})
    found: list[Any] = []
    try:
        for piece in pieces:
            exchange.receive(piece)
            while (answer := exchange.answer()) is not None:
                found.append(answer)
                if verb != "watch_jobs":
                    break
    except (OSError, EOFError, ValueError) as error:
        found.append(type(error))
    return found


def http(status: str, kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([http("200 OK", "application/json", b'{"cluster":"c"}')], [{"ok": True, "cluster": "c"}]),
        ([bytes([each]) for each in http("200 OK", "application/json", b"{}")], [{"ok": True}]),
        (
            [http("404 Not Found", "application/problem+json", b'{"code":"x","class":"not-found"}')],
            [{"ok": False, "code": "x", "class": "not-found"}],
        ),
        ([http("503 x", "application/problem+json", b'{"code":"no-head"}')], [ConnectionResetError]),
        ([http("503 x", "text/html", b"<p>away")], [ConnectionResetError]),
        ([http("502 Bad Gateway", "text/html", b"<html>")], [ConnectionResetError]),
        ([http("200 OK", "text/html", b"<html>")], [ValueError]),
        ([http("200 OK", "application/json", b"[1]")], [ValueError]),
        ([http("200 OK", "application/json", b'"\xff"')], [ValueError]),
        ([b"SSH-2.0-OpenSSH\r\n\r\n"], [ValueError]),
        ([b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 100_000], [ValueError]),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", b""], [ValueError]),
        ([b""], [ValueError]),
    ],
)  # fmt: skip
def test_whatever_answers_is_an_answer_or_an_error(pieces: list[bytes], expected: list[Any]) -> None:
    assert answered("ping", *pieces) == expected


def test_lines_come_as_they_are_and_empty_ones_are_no_answers() -> None:
    first, rest = chunk(b'{"done":false}\n\n{"do'), chunk(b'ne":true}\n') + chunk(b"")
    assert answered("watch_jobs", CHUNKED + first) == [{"ok": True, "done": False}]
    both = answered("watch_jobs", CHUNKED + first, rest)
    assert both == [{"ok": True, "done": False}, {"ok": True, "done": True}, EOFError]
    broken = chunk(b'{"problem":{"code":"token","class":"not-allowed"}}\n')
    assert answered("watch_jobs", CHUNKED + broken) == [
        {"ok": False, "code": "token", "class": "not-allowed"}
    ]
    assert answered("watch_jobs", CHUNKED + chunk(b"{}\n"), b"") == [{"ok": True}, ValueError]
