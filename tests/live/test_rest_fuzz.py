"""Every operation of the OpenAPI document, with what schemathesis makes of it: no answer is a fault.

Only the tests import schemathesis and make cases, not each process that collects them: both take seconds.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from gateways import RealGateway, real_gateway
from hypothesis import HealthCheck, Phase, settings

import depth
from headnode.apps.web.openapi import document
from heads import real_head

if TYPE_CHECKING:
    import schemathesis

STOPS = "/api/v1/cluster/stop"
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, operations in document()["paths"].items()
    for method in operations
    if path != STOPS
]
SETTINGS = settings(
    max_examples=depth.share_of(40),
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
_BUSY = 503  # with Retry-After


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with ExitStack() as stack:
        head = stack.enter_context(real_head(tmp_path_factory.mktemp("fuzz")))
        gateway: RealGateway = stack.enter_context(real_gateway(head))
        yield stack.enter_context(gateway.browser())
        assert gateway.process.poll() is None
        assert head.ask("ping")


@pytest.fixture(scope="module")
def schema() -> Any:
    import schemathesis

    @schemathesis.serializer("application/toml")
    def toml(_: object, value: object) -> bytes:
        """Send the text as it is."""
        return str(value).encode("utf-8", "surrogatepass")

    return schemathesis.openapi.from_dict(document())


def test_all_operations_are_tried(schema: Any) -> None:
    assert sorted(each.ok().label for each in schema.exclude(path=STOPS).get_all_operations()) == sorted(
        OPERATIONS
    )


@pytest.mark.parametrize("label", OPERATIONS)
def test_no_request_makes_a_fault(label: str, schema: Any, client: httpx.Client) -> None:
    from schemathesis.generation.hypothesis.builder import (
        HypothesisTestConfig,
        HypothesisTestMode,
        create_test,
    )

    def answers_without_fault(case: "schemathesis.Case") -> None:
        _check_answer(case, client)

    config = HypothesisTestConfig(
        project=schema.config, modes=list(HypothesisTestMode), explicit_settings=SETTINGS
    )
    create_test(
        operation=schema.find_operation_by_label(label), test_func=answers_without_fault, config=config
    )()


def _check_answer(case: "schemathesis.Case", client: httpx.Client) -> None:
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


def _request_of(case: "schemathesis.Case", client: httpx.Client) -> httpx.Request | None:
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
