"""Log-in by OpenID Connect, against a provider of our own that may lie."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateways import RealGateway, real_gateway
from openid_provider import CLIENT, SECRET, FakeProvider, fake_provider

from heads import TIMEOUT, RealHead, real_head

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a gateway that speaks for others needs root here")


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with fake_provider() as running:
        yield running


@pytest.fixture(scope="module")
def head() -> Iterator[RealHead]:
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        with real_head(Path(made), gateway_user="root") as found:
            yield found


@pytest.fixture(scope="module")
def gateway(head: RealHead, provider: FakeProvider) -> Iterator[RealGateway]:
    secret = head.state.parent / "secret"
    secret.write_text(SECRET + "\n")
    options = ("--oidc-issuer", provider.issuer, "--oidc-client", CLIENT, "--oidc-secret-file", str(secret))
    with real_gateway(head, "--login", "oidc", *options) as running:
        yield running


@pytest.fixture(autouse=True)
def honest(provider: FakeProvider) -> None:
    provider.claims, provider.signed = {}, provider.properly_signed


@pytest.fixture
def browser(gateway: RealGateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=gateway.address, timeout=TIMEOUT) as client:
        yield client


def way_back(browser: httpx.Client, following: str = "/jobs") -> str:
    """Go to the provider; return the address by which it sends the browser back."""
    there = browser.get("/login", params={"next": following})
    assert there.status_code == 303, there.text
    return str(httpx.get(there.headers["location"]).headers["location"])


def test_the_provider_logs_a_user_in_who_goes_on(browser: httpx.Client) -> None:
    answer = browser.get(way_back(browser))
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs"), answer.text
    assert browser.get("/api/v1/whoami").json()["user"] == "games"


def test_a_log_in_goes_on_only_here(browser: httpx.Client) -> None:
    assert browser.get(way_back(browser, "https://evil.example/")).headers["location"] == "/"


LIES: dict[str, dict[str, Any]] = {
    "another nonce": {"nonce": "of another log-in"},
    "no nonce": {"nonce": None},
    "another client": {"aud": "another"},
    "several clients, for another": {"aud": [CLIENT, "another"], "azp": "another"},
    "another issuer": {"iss": "https://evil.example"},
    "expired": {"exp": 1_000_000_000},
    "no end": {"exp": None},
    "no user": {"preferred_username": None},
    "a list of users": {"preferred_username": ["games"]},
    "root": {"preferred_username": "root"},
    "an unknown user": {"preferred_username": "nobody-of-this-name"},
}


@pytest.mark.parametrize("claims", LIES.values(), ids=LIES)
def test_a_token_that_is_not_for_this_log_in_is_refused(
    browser: httpx.Client, provider: FakeProvider, claims: dict[str, Any]
) -> None:
    provider.claims = claims
    answer = browser.get(way_back(browser))
    assert (answer.status_code, answer.json()["code"]) == (403, "log-in")
    assert browser.get("/api/v1/whoami").status_code == 401


def test_a_token_that_the_provider_has_not_signed_is_refused(
    browser: httpx.Client, provider: FakeProvider
) -> None:
    for forged in (
        provider.signed_with_another_key,
        provider.signed_with_the_public_key,
        provider.not_signed,
    ):
        provider.signed = forged
        answer = browser.get(way_back(browser))
        assert (answer.status_code, answer.json()["code"]) == (403, "log-in"), forged.__name__


def test_the_provider_gives_no_role(browser: httpx.Client, provider: FakeProvider) -> None:
    provider.claims = {"preferred_username": "daemon"}
    assert browser.get(way_back(browser)).status_code == 303
    assert browser.get("/api/v1/whoami").json()["role"] == "user"


def test_the_way_back_of_another_browser_logs_nobody_in(browser: httpx.Client, gateway: RealGateway) -> None:
    back = way_back(browser)
    with httpx.Client(base_url=gateway.address, timeout=TIMEOUT) as victim:
        assert victim.get(back).json()["code"] == "log-in"
        assert victim.get("/api/v1/whoami").status_code == 401


def test_a_way_back_is_gone_once(browser: httpx.Client) -> None:
    back = way_back(browser)
    assert browser.get(back).status_code == 303
    assert browser.get(back).status_code == 403
    assert browser.get("/login/openid?state=x&code=y").status_code == 403
    refused = way_back(browser).partition("code=")[0] + "state=" + way_back(browser).partition("state=")[2]
    assert browser.get(refused + "&error=access_denied").json()["code"] == "log-in"
