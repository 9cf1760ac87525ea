"""The REST API of a real gateway beside a real head."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from gateways import RealGateway, real_gateway

from heads import RealHead, real_head


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("rest")) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(head: RealHead) -> Iterator[RealGateway]:
    with real_gateway(head) as running:
        yield running


def test_an_address_logs_in_once_and_requests_are_those_of_its_user(gateway: RealGateway) -> None:
    address = gateway.control("login")["address"]
    with httpx.Client(base_url=gateway.address) as client:
        assert client.get("/api/v1/whoami").status_code == 401
        assert client.get(address).status_code == 303
        told = client.get("/api/v1/whoami").json()
        assert told == gateway.head.ask("whoami")
    with httpx.Client(base_url=gateway.address) as another:
        refused = another.get(address)
        assert (refused.status_code, refused.json()["code"]) == (403, "used-address")
        assert another.get("/api/v1/whoami").status_code == 401


def test_what_is_read_has_an_entity_tag_and_is_not_sent_again(gateway: RealGateway) -> None:
    with gateway.browser() as client:
        first = client.get("/api/v1/parameters")
        again = client.get("/api/v1/parameters", headers={"If-None-Match": first.headers["etag"]})
        assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_a_gateway_without_its_head_says_that_it_is_away(tmp_path: Path) -> None:
    with real_head(tmp_path) as head, real_gateway(head) as gateway, gateway.browser() as client:
        assert client.get("/health/ready").status_code == 200
        head.kill()
        answer = client.get("/api/v1/jobs")
        assert (answer.status_code, answer.json()["class"]) == (503, "busy")
        assert "retry-after" in answer.headers
        assert client.get("/health/ready").status_code == 503
        assert client.get("/health/live").status_code == 200
        head.start_again()
        assert client.get("/api/v1/jobs").status_code == 200
