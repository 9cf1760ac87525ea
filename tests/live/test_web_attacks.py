"""What a hostile page, program or user tries at a gateway; the table is in docs/security.md."""

import time
from collections.abc import Iterator

import httpx
import pytest
from gateways import RealGateway, raw_exchange, real_gateway

from headnode.core.model.bounds import WEB_BODY, WEB_HEAD
from heads import PATIENCE, RealHead, real_head


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("attacks")) as running:
        yield running


@pytest.fixture(scope="module")
def gateway(head: RealHead) -> Iterator[RealGateway]:
    with real_gateway(head) as running:
        yield running


@pytest.fixture
def client(gateway: RealGateway) -> Iterator[httpx.Client]:
    with gateway.browser() as logged_in:
        yield logged_in


JOB = {"tasks": [{"command": "true"}]}


@pytest.mark.parametrize(
    "headers",
    [
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "another"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    ],
)
def test_a_change_that_another_site_asks_for_is_refused(
    client: httpx.Client, head: RealHead, headers: dict[str, str]
) -> None:
    before = head.ask("jobs")["total"]
    answer = client.post("/api/v1/jobs", json=JOB, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "cross-site")
    assert head.ask("jobs")["total"] == before


def test_a_change_from_a_page_of_the_gateway_is_carried_out(
    client: httpx.Client, gateway: RealGateway
) -> None:
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": gateway.address}
    assert client.post("/api/v1/jobs", json=JOB, headers=headers).status_code == 201


def test_a_form_of_another_site_is_no_json(client: httpx.Client) -> None:
    answer = client.post("/api/v1/jobs", content=b'{"tasks": []}', headers={"Content-Type": "text/html"})
    assert answer.status_code == 415


def test_a_cookie_that_was_planted_before_the_log_in_is_worth_nothing(gateway: RealGateway) -> None:
    with httpx.Client(base_url=gateway.address, cookies={"headnode-session": "planted"}) as client:
        answer = client.get(gateway.control("login")["address"])
        cookie = answer.headers["set-cookie"]
        assert "planted" not in cookie
        assert {"HttpOnly", "SameSite=lax"} <= set(cookie.split("; "))
    with httpx.Client(base_url=gateway.address, cookies={"headnode-session": "planted"}) as attacker:
        assert attacker.get("/api/v1/whoami").status_code == 401


def test_a_log_in_ends_the_session_of_before_and_a_log_out_that_of_now(gateway: RealGateway) -> None:
    with gateway.browser() as client:
        first = client.cookies["headnode-session"]
        client.get(gateway.control("login")["address"])
        second = client.cookies["headnode-session"]
        assert first != second
        assert _whoami_by(gateway, first) == 401
        client.headers["X-CSRF-Token"] = client.get("/api/v1/session").json()["csrf"]
        assert client.post("/logout", headers={"X-CSRF-Token": ""}).status_code == 403
        assert client.post("/logout").status_code == 303
        assert _whoami_by(gateway, second) == 401


def _whoami_by(gateway: RealGateway, cookie: str) -> int:
    with httpx.Client(base_url=gateway.address, cookies={"headnode-session": cookie}) as client:
        return client.get("/api/v1/whoami").status_code


def test_a_page_that_leads_to_a_log_in_address_does_not_log_in(gateway: RealGateway) -> None:
    address = gateway.control("login")["address"]
    with httpx.Client(base_url=gateway.address) as client:
        asked = client.get(address, headers={"Sec-Fetch-Site": "cross-site"})
        assert (asked.status_code, "set-cookie" in asked.headers) == (200, False)
        refused = client.post(address, headers={"Sec-Fetch-Site": "cross-site"})
        assert refused.status_code == 403
        assert client.post(address, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 303


def test_only_names_of_the_gateway_are_answered(gateway: RealGateway, client: httpx.Client) -> None:
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        answer = client.get("/api/v1/whoami", headers={"Host": host})
        assert (answer.status_code, answer.json()["code"]) == (421, "wrong-host"), host
    port = gateway.address.rpartition(":")[2]
    assert client.get("/api/v1/whoami", headers={"Host": f"localhost:{port}"}).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/console/../../main.py",
        "/static/console/..%2f..%2fmain.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
    ],
)
def test_no_path_leads_to_other_files(client: httpx.Client, gateway: RealGateway, path: str) -> None:
    told = raw_exchange(
        gateway, [f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()]
    )
    assert told.split(b" ", 2)[1] in (b"404", b"303", b"400"), told[:300]
    assert b"root:" not in told
    assert b"argparse" not in told


def test_no_log_in_leads_to_another_site(gateway: RealGateway) -> None:
    with httpx.Client(base_url=gateway.address) as client:
        address = gateway.control("login")["address"]
        answer = client.get(f"{address}?next=https://evil.example/")
        assert answer.headers["location"] == "/"


def test_nothing_of_a_request_is_in_the_headers_of_an_answer(client: httpx.Client) -> None:
    name = "evil\r\nSet-Cookie: a=b"
    made = client.post("/api/v1/created-jobs", json=JOB | {"terms": {"jobname": name}})
    shown = client.get("/api/v1/jobs?name=x%0d%0aSet-Cookie:%20a=b")
    keyed = client.post("/api/v1/jobs", json=JOB, headers={"Idempotency-Key": "set-cookie: a=b"})
    for answer in (made, shown, keyed):
        assert "set-cookie" not in answer.headers
        assert "a=b" not in str(answer.headers)


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(
    gateway: RealGateway, client: httpx.Client
) -> None:
    cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    head = (
        f"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nConnection: close\r\n"
        f"X-CSRF-Token: {client.headers['X-CSRF-Token']}\r\nContent-Type: application/json\r\n"
    )
    announced = raw_exchange(gateway, [f"{head}Content-Length: {WEB_BODY.most + 1}\r\n\r\n".encode()])
    assert announced.startswith(b"HTTP/1.1 413")
    answer = client.post("/api/v1/jobs", content=_endless(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


def _endless() -> Iterator[bytes]:
    for _ in range(WEB_BODY.most // (1 << 20) + 2):
        yield b" " * (1 << 20)


def test_headers_and_addresses_that_are_too_long_are_refused(gateway: RealGateway) -> None:
    begin = b"GET /api/v1/ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    long_header = raw_exchange(gateway, [begin, b"X: " + b"x" * (2 * WEB_HEAD.most), b"\r\n\r\n"])
    assert long_header[:12] in (b"", b"HTTP/1.1 400")
    address = (
        b"GET /api/v1/jobs?name=" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert raw_exchange(gateway, [address]).startswith(b"HTTP/1.1 414")


@pytest.mark.parametrize(
    "pieces",
    [
        [b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"],
        [b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n"],
        [b"GET / HTTP/1.1\r\n\r\n"],
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"],
    ],
    ids=["two lengths", "zero byte", "no host", "not HTTP"],
)
def test_what_is_not_http_costs_its_connection_only(gateway: RealGateway, pieces: list[bytes]) -> None:
    assert raw_exchange(gateway, pieces).split(b" ", 2)[1] == b"400"
    assert httpx.get(f"{gateway.address}/health/live").status_code == 200


ALWAYS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def test_every_answer_says_what_a_browser_may_do_with_it(client: httpx.Client, gateway: RealGateway) -> None:
    tag = client.get("/api/v1/parameters").headers["etag"]
    answers = [
        client.get("/api/v1/jobs"),
        client.get("/api/v1/parameters", headers={"If-None-Match": tag}),
        client.get("/api/v1/jobs?no=1"),
        client.get("/nothing"),
        client.delete("/api/v1/jobs"),
        client.get("/api/v1/docs"),
        client.get("/", headers={"Host": "evil.example"}),
        httpx.get(f"{gateway.address}/api/v1/jobs"),
        httpx.get(f"{gateway.address}/login"),
    ]
    for answer in answers:
        assert {name: answer.headers[name] for name in ALWAYS} == ALWAYS, answer.url
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "access-control-allow-origin" not in answer.headers


def test_a_token_is_its_user_until_it_is_revoked(head: RealHead, gateway: RealGateway) -> None:
    made = head.ask("create_token", web=True)
    taken = _take_login(head, made["login"])
    with httpx.Client(
        base_url=gateway.address, headers={"Authorization": f"Bearer {taken['token']}"}
    ) as client:
        assert client.get("/api/v1/whoami").json() == head.ask("whoami")
        assert client.post("/api/v1/jobs", json=JOB).status_code == 201
        assert (
            client.post("/api/v1/jobs", json=JOB, headers={"Origin": "https://evil.example"}).status_code
            == 201
        )
        assert client.delete(f"/api/v1/tokens/{taken['number']}").status_code == 200
        answer = client.get("/api/v1/whoami")
        assert (answer.status_code, answer.json()["code"]) == (401, "token")


def _take_login(head: RealHead, login: str) -> dict[str, object]:
    from headnode.apps.client.connection import Connection, granted

    connection = Connection.to(str(head.state / "gateway.sock"))
    try:
        connection.send({"verb": "exchange_login", "secret": login})
        return granted(connection.receive())
    finally:
        connection.close()


@pytest.mark.parametrize(
    "said", ["Bearer", "Bearer ", "Bearer wrong", "Basic cm9vdDpyb290", "Bearer " + "x" * 300, "Bearer a b"]
)
def test_what_is_no_token_is_nobody(gateway: RealGateway, said: str) -> None:
    answer = raw_exchange(
        gateway,
        [
            b"GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: ",
            said.encode() + b"\r\n\r\n",
        ],
    )
    assert answer.startswith(b"HTTP/1.1 401"), answer[:200]


def test_many_requests_of_a_user_are_answered_or_told_to_come_back(
    client: httpx.Client, gateway: RealGateway
) -> None:
    streams = []
    job = client.post("/api/v1/jobs", json={"tasks": [{"command": "sleep 60"}]}).json()["job"]
    try:
        for _ in range(17):
            request = client.build_request("GET", f"/api/v1/job-updates?job={job}")
            streams.append(client.send(request, stream=True))
        told = [answer.status_code for answer in streams]
        assert told[:16] == [200] * 16
        assert (told[16], streams[16].headers["retry-after"]) == (503, "2")
    finally:
        for answer in streams:
            answer.close()
    deadline = time.monotonic() + PATIENCE
    while client.get("/api/v1/whoami").status_code != 200:
        assert time.monotonic() < deadline
    client.post(f"/api/v1/jobs/{job}/cancel")
