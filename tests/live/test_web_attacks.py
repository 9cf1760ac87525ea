"""What a hostile page, program or user tries at a gateway; the table is in docs/security.md."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from gateways import RealGateway, gateway_fixture, raw_exchange, real_gateway
from web_shells import Shell

from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind
from headnode.apps.web.console.serving import ACTIONS
from headnode.apps.web.hpc_pack.routes import PATHS
from headnode.core.model.bounds import WEB_BODY, WEB_HEAD, WEB_UPDATES_OF_USER
from headnode.protocol.rest_routes import ROUTES
from heads import TIMEOUT, RealHead, real_head, shared_head_fixture

head = shared_head_fixture()
gateway = gateway_fixture(scope="module")


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
    output = raw_exchange(
        gateway, [f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()]
    )
    assert output.split(b" ", 2)[1] in (b"404", b"303", b"400"), output[:300]
    assert b"root:" not in output
    assert b"argparse" not in output


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


def test_large_bodies_at_once_do_not_make_the_gateway_large(tmp_path: Path) -> None:
    xml = "<Job><Tasks>" + "<Task CommandLine='" + "x" * 7_900_000 + "'/>"
    bodies = {
        "application/json": b'{"jobfile": "' + b"x" * 15_000_000 + b'"}',
        "application/xml": xml.encode() * 2,
    }
    with real_head(tmp_path) as own, real_gateway(own) as gateway, ThreadPoolExecutor(6) as threads:
        token = gateway.token()

        def send(number: int) -> int:
            kind = [*bodies][number % 2]
            headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
            return httpx.post(
                f"{gateway.address}/api/v1/jobs", content=bodies[kind], headers=headers, timeout=TIMEOUT
            ).status_code

        assert {*threads.map(send, range(12))} <= {400, 413, 422, 503}
        status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    assert int(status.partition("VmHWM:")[2].split()[0]) / 1024 < 120


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
    token = gateway.token()
    number = max(each["token"] for each in head.ask("tokens")["tokens"])
    with httpx.Client(base_url=gateway.address, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.get("/api/v1/whoami").json() == head.ask("whoami")
        assert client.post("/api/v1/jobs", json=JOB).status_code == 201
        assert (
            client.post("/api/v1/jobs", json=JOB, headers={"Origin": "https://evil.example"}).status_code
            == 201
        )
        assert client.delete(f"/api/v1/tokens/{number}").status_code == 200
        answer = client.get("/api/v1/whoami")
        assert (answer.status_code, answer.json()["code"]) == (401, "token")


def test_a_token_of_a_page_has_only_the_rights_that_were_chosen(
    head: RealHead, gateway: RealGateway, client: httpx.Client
) -> None:
    job = head.submit("sleep 100")
    with gateway.browser() as browser:
        secret = browser.headers["X-CSRF-Token"]

        def made(role: str) -> str:
            form = {"csrf": secret, "name": f"for {role}", "role": role, "days": "7"}
            page = browser.post("/people", data=form)
            found = re.search(r'aria-label="Token">([^<]+)<', page.text)
            assert found, page.text
            assert found[1] not in browser.get("/people").text
            return found[1]

        for role, reads, submits, administers in (
            ("reader", 200, 403, 403),
            ("user", 200, 201, 403),
            ("all", 200, 201, 200),
        ):
            with httpx.Client(
                base_url=gateway.address, headers={"Authorization": f"Bearer {made(role)}"}
            ) as program:
                answers = (
                    program.get(f"/api/v1/jobs/{job}"),
                    program.post("/api/v1/jobs", json=JOB),
                    program.get("/api/v1/audit"),
                )
                assert [each.status_code for each in answers] == [reads, submits, administers], role
        named = [(token["name"], token["role"]) for token in head.ask("tokens")["tokens"]]
        assert ("for reader", "reader") in named
        assert browser.post("/people", data={"name": "x", "role": "all", "days": "7"}).status_code == 403
        for wrong in ({"name": ""}, {"role": "root"}, {"days": "0"}, {"days": "x"}, {"days": "400"}):
            form = {"csrf": secret, "name": "x", "role": "all", "days": "7"} | wrong
            assert browser.post("/people", data=form).status_code in (400, 422), wrong


def test_a_token_that_only_reads_changes_nothing_by_any_route(head: RealHead, gateway: RealGateway) -> None:
    job = head.submit("sleep 100")
    head.wait_for(job, "Running")
    token, user = gateway.token("reader"), head.ask("whoami")["user"]
    parts = {"job": job, "task": 1, "instance": 1, "token": 1, "operation": "takeOffline", "word": "cancel"}

    def filled(path: str) -> str:
        return re.sub(r"{(\w+)(:\w+)?}", lambda part: str(parts.get(part[1], "x")), path)

    ours = [(route.method, f"/api/v1{filled(route.path)}", route.verb) for route in ROUTES]
    theirs = [(method, f"/hpc{filled(path)}", "") for method, path, _ in PATHS]
    pages = [("POST", filled(action.path), "") for action in ACTIONS]
    newest = head.ask("events", limit=1)["newest"]
    seen: dict[str, tuple[int, str]] = {}
    with httpx.Client(base_url=gateway.address, timeout=TIMEOUT) as program:
        for method, path, verb in ours + theirs + pages:
            if method == "GET" or verb in READING:
                continue
            auth = httpx.BasicAuth(user, token) if path.startswith("/hpc") else None
            headers = {} if auth else {"Authorization": f"Bearer {token}"}
            answer = program.request(method, path, json={}, headers=headers, auth=auth)
            seen[f"{method} {path}"] = answer.status_code, answer.text
        events = program.get("/api/v1/events", headers={"Authorization": f"Bearer {token}"})
        assert events.status_code == 200, events.text
    with Shell(gateway, job, {"Authorization": f"Bearer {token}"}) as shell:
        shell.say(command="id")
        assert shell.end()[0]["problem"]["code"] == "reads-only"
    assert {each: found for each, found in seen.items() if found[0] < 400} == {}
    asked = [found for each, found in seen.items() if "/api/v1" in each]
    assert [found for found in asked if "reads-only" not in found[1]] == []
    assert head.ask("events", after=newest)["events"] == []


READING = [
    name for name, verb in VERBS.items() if not verb.access.changes and verb.kind is not VerbKind.STREAM
]
"""The verbs that a token that only reads may use, whatever the method of their route."""


@pytest.mark.parametrize(
    "text", ["Bearer", "Bearer ", "Bearer wrong", "Basic cm9vdDpyb290", "Bearer " + "x" * 300, "Bearer a b"]
)
def test_what_is_no_token_is_nobody(gateway: RealGateway, text: str) -> None:
    answer = raw_exchange(
        gateway,
        [
            b"GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: ",
            text.encode() + b"\r\n\r\n",
        ],
    )
    assert answer.startswith(b"HTTP/1.1 401"), answer[:200]


def test_many_requests_of_a_user_are_answered_or_told_to_come_back(
    client: httpx.Client, gateway: RealGateway
) -> None:
    streams = []
    job = client.post("/api/v1/jobs", json={"tasks": [{"command": "sleep 60"}]}).json()["job"]
    try:
        for _ in range(WEB_UPDATES_OF_USER.most + 1):
            request = client.build_request("GET", f"/api/v1/job-updates?job={job}")
            streams.append(client.send(request, stream=True))
        found = [answer.status_code for answer in streams]
        assert found[:-1] == [200] * WEB_UPDATES_OF_USER.most
        assert (found[-1], streams[-1].headers["retry-after"]) == (503, "2")
    finally:
        for answer in streams:
            answer.close()
    deadline = time.monotonic() + TIMEOUT
    while client.get("/api/v1/whoami").status_code != 200:
        assert time.monotonic() < deadline
    client.post(f"/api/v1/jobs/{job}/cancel")


def origins(gateway: RealGateway, forwarded: str) -> list[str]:
    """Change something with a header; return where the audit log says that the client is."""
    with gateway.browser() as client:
        made = client.post("/api/v1/created-jobs", json=JOB, headers={"X-Forwarded-For": forwarded})
        assert made.status_code == 201, made.text
    entries = gateway.head.ask("audit_log", job=made.json()["job"])["entries"]
    return [entry["from"] for entry in entries]


def test_only_a_trusted_proxy_says_where_a_client_is(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        with real_gateway(head) as direct:
            assert origins(direct, "203.0.113.9") == ["web 127.0.0.1"]
        with real_gateway(head, "--trusted-proxy", "127.0.0.1,10.0.0.0/8") as behind:
            assert origins(behind, "203.0.113.9") == ["web 203.0.113.9"]
            assert origins(behind, "198.51.100.1, 203.0.113.9, 10.1.2.3") == ["web 203.0.113.9"]
            assert origins(behind, "2001:db8::7") == ["web 2001:db8::7"]
        with real_gateway(head, "--trusted-proxy", "10.0.0.0/8") as elsewhere:
            assert origins(elsewhere, "203.0.113.9") == ["web 127.0.0.1"]
