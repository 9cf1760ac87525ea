"""Every operation of the OpenAPI document, with what schemathesis makes of it: no answer is a fault."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
import schemathesis
from gateways import RealGateway, real_gateway
from hypothesis import HealthCheck, Phase, settings

import depth
from headnode.apps.web.openapi import document
from heads import real_head

schema = schemathesis.openapi.from_dict(document()).exclude(path="/api/v1/cluster/stop")


@schemathesis.serializer("application/toml")
def toml(_: object, value: object) -> bytes:
    """Send the text as it is."""
    return str(value).encode("utf-8", "surrogatepass")


_BUSY = 503  # with Retry-After


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with ExitStack() as stack:
        head = stack.enter_context(real_head(tmp_path_factory.mktemp("fuzz")))
        gateway: RealGateway = stack.enter_context(real_gateway(head))
        yield stack.enter_context(gateway.browser())
        assert gateway.process.poll() is None
        assert head.ask("ping")


@schema.parametrize()
@settings(
    max_examples=depth.share_of(40),
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_makes_a_fault(case: schemathesis.Case, client: httpx.Client) -> None:
    request = _request_of(case, client)
    if request is None:
        return
    answer = client.send(request, stream=True)
    try:
        assert answer.status_code < 500 or answer.status_code == _BUSY, answer.read()
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert set(json.loads(answer.read())) >= {"type", "status", "code", "fix"}
    finally:
        answer.close()


def _request_of(case: schemathesis.Case, client: httpx.Client) -> httpx.Request | None:
    """Return a case as a request of the user who has logged in; None if HTTP cannot have it."""
    if case.path.endswith("/node-commands") and isinstance(case.body, dict) and case.body.get("command"):
        case.body["command"] = "true"  # an administrator asks: it would run whatever was made up
    sent = case.as_transport_kwargs(base_url=str(client.base_url))
    headers = {
        name: value for name, value in (sent.get("headers") or {}).items() if _can_be_sent(name, value)
    }
    data = sent.get("data")
    try:
        return client.build_request(
            sent["method"],
            sent["url"],
            params=sent.get("params"),
            json=sent.get("json"),
            content=data if isinstance(data, str | bytes) else None,
            headers=headers,
        )
    except (httpx.InvalidURL, UnicodeEncodeError, ValueError):
        return None


def _can_be_sent(name: str, value: object) -> bool:
    plain = isinstance(value, str) and value.isascii() and value.isprintable() and value.strip() == value
    return plain and name.lower() not in ("authorization", "cookie", "x-csrf-token", "host")
