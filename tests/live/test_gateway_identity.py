"""For whom a gateway may speak: the head decides it by the account of the gateway, and writes it down."""

import json
import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateways import PYTHON_OF_ALL, RealGateway, real_gateway
from test_standby_takeovers import head_with_standby, hn
from web_shells import Shell, page

from headnode.protocol.rest_routes import ROUTES
from heads import TIMEOUT, RealHead, real_head
from standbys import Standby

GATEWAY, USER, OTHER = "daemon", "games", "nobody"
TALK = """
import json, socket, struct, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
answers, found = connection.makefile("rb"), []
try:
    for said in json.loads(sys.argv[2]):
        data = json.dumps(said).encode()
        connection.sendall(struct.pack("!I", len(data)) + data)
        size = answers.read(4)
        found.append(json.loads(answers.read(struct.unpack("!I", size)[0])))
except (OSError, struct.error):
    pass  # the head has closed the connection
print(json.dumps(found))
"""
LOG_IN = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b'{"verb": "login"}\\n')
print(connection.makefile().readline())
"""


def as_user(name: str, *words: str) -> "subprocess.CompletedProcess[str]":
    group = pwd.getpwnam(name).pw_gid
    command = ["setpriv", f"--reuid={name}", f"--regid={group}", "--clear-groups", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)


pytestmark = pytest.mark.skipif(
    os.geteuid() != 0
    or as_user(OTHER, *PYTHON_OF_ALL, "-c", "import headnode.apps.web.__main__").returncode != 0,
    reason="needs root, and a Python that other users can run",
)


@pytest.fixture(scope="module")
def head() -> Iterator[RealHead]:
    """A head in a directory that other users can reach, which admits the gateway of one account."""
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        with real_head(Path(made), gateway_user=GATEWAY) as found:
            yield found


@pytest.fixture(scope="module")
def gateway(head: RealHead) -> Iterator[RealGateway]:
    with real_gateway(head, "--login", "local", user=pwd.getpwnam(GATEWAY).pw_uid) as found:
        yield found


def talk(head: RealHead | Standby, account: str, *texts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a process of an account is answered at the socket for gateways."""
    done = as_user(account, *PYTHON_OF_ALL, "-c", TALK, str(head.state / "gateway.sock"), json.dumps(texts))
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def greeting(user: str, **more: Any) -> dict[str, Any]:
    return {"verb": "act_for_user", "address": "192.0.2.7", "user": user} | more


WHO = {"verb": "whoami"}


def test_the_account_of_the_gateway_speaks_for_users(head: RealHead) -> None:
    welcome, answer = talk(head, GATEWAY, greeting(USER), WHO)
    assert (welcome["user"], answer["user"], answer["role"]) == (USER, USER, "user")


def test_the_account_of_the_gateway_is_that_of_a_standby_that_took_over() -> None:
    with tempfile.TemporaryDirectory(prefix="headnode-") as made:
        Path(made).chmod(0o755)
        with head_with_standby(Path(made), GATEWAY) as (_, standby):
            assert hn("standby", "takeover", state=standby.state).returncode == 0
            welcome, answer = talk(standby, GATEWAY, greeting(USER), WHO)
            assert (welcome["user"], answer["user"]) == (USER, USER)
            (refused,) = talk(standby, OTHER, greeting(USER), WHO)
            assert refused["code"] == "not-gateway"


@pytest.mark.parametrize(
    ("account", "wanted", "code"),
    [
        (OTHER, USER, "not-gateway"),
        (OTHER, "root", "not-gateway"),
        (GATEWAY, "root", "no-root-by-web"),
        (GATEWAY, "nobody-of-this-name", "no-such-user"),
        ("root", USER, "not-gateway"),
    ],
)
def test_a_forged_speaks_for_is_refused_and_audited(
    head: RealHead, account: str, wanted: str, code: str
) -> None:
    answers = talk(head, account, greeting(wanted), WHO)
    assert [answer["code"] for answer in answers] == [code]
    line = head.ask("audit_log")["entries"][-1]
    assert (line["verb"], line["outcome"], line["address"]) == ("act_for_user", code, "192.0.2.7")
    assert line["owner"] == wanted
    assert line["from"].endswith(f" of {account}")


def test_every_account_speaks_for_itself(head: RealHead) -> None:
    assert talk(head, OTHER, greeting(OTHER), WHO)[-1]["user"] == OTHER
    assert talk(head, "root", greeting("root"), WHO)[-1]["role"] == "administrator"


@pytest.mark.parametrize(
    "texts",
    [
        WHO,
        {"verb": "act_for_user", "address": "x"},
        {"verb": "act_for_user", "user": USER},
        greeting(USER, address="line\nof another"),
        greeting(USER, address="x" * 300),
        greeting(USER, uid=0),
    ],
)
def test_what_is_no_greeting_is_refused(head: RealHead, texts: dict[str, Any]) -> None:
    answer, *more = talk(head, GATEWAY, texts, WHO)
    assert (answer["ok"], answer["class"], more) == (False, "bad-input", [])


def test_a_greeting_that_is_too_large_is_not_read(head: RealHead) -> None:
    assert not any(answer["ok"] for answer in talk(head, GATEWAY, greeting(USER, more="x" * 5000), WHO))


def test_requests_through_the_gateway_are_audited_as_those_of_their_user(
    head: RealHead, gateway: RealGateway
) -> None:
    with browser_of(gateway, USER) as client:
        job = client.post("/api/v1/jobs", json={"tasks": [{"command": "true"}]}).json()["job"]
    line = next(entry for entry in head.ask("audit_log")["entries"] if entry.get("job") == job)
    assert (line["user"], line["from"], line["verb"]) == (USER, "web 127.0.0.1", "submit_job")


MANY = """
import contextlib, json, socket, struct, sys
from headnode.core.model.bounds import CONNECTIONS
def speak(user):
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    data = json.dumps({"verb": "act_for_user", "address": "x", "user": user}).encode()
    connection.sendall(struct.pack("!I", len(data)) + data)
    answers = connection.makefile("rb")
    greeted = json.loads(answers.read(struct.unpack("!I", answers.read(4))[0]))
    return connection, answers, greeted
def ask(connection, answers, greeted):
    if not greeted["ok"]:
        return greeted
    data = b'{"verb": "whoami"}'
    with contextlib.suppress(BrokenPipeError):  # it was refused already; the answer is there
        connection.sendall(struct.pack("!I", len(data)) + data)
    return json.loads(answers.read(struct.unpack("!I", answers.read(4))[0]))
held = [speak(sys.argv[2]) for _ in range(CONNECTIONS.most)]
print(json.dumps([ask(*held[0]), ask(*speak(sys.argv[2])), ask(*speak(sys.argv[3]))]))
"""


def test_connections_are_counted_for_the_user_and_not_for_the_gateway(head: RealHead) -> None:
    socket = str(head.state / "gateway.sock")
    done = as_user(GATEWAY, *PYTHON_OF_ALL, "-c", MANY, socket, USER, OTHER)
    assert done.returncode == 0, done.stderr
    first, one_more, of_another = json.loads(done.stdout)
    assert (first["user"], one_more["code"], of_another["user"]) == (USER, "too-many-connections", OTHER)


def test_what_needs_the_machine_of_the_head_is_refused_through_the_gateway(head: RealHead) -> None:
    answers = talk(head, "root", greeting("root"), {"verb": "backup"})
    assert [answer.get("code") for answer in answers[1:]] == ["not-here"]


def test_a_browser_that_has_logged_in_makes_a_token_and_a_token_makes_none(
    head: RealHead, gateway: RealGateway
) -> None:
    by_session, by_token = (
        greeting("root"),
        {"verb": "act_for_user", "address": "a", "token": gateway.token()},
    )
    wish = {"verb": "create_token", "web": True}
    assert [answer.get("code") for answer in talk(head, "root", by_session, wish)] == [None, None]
    assert [answer.get("code") for answer in talk(head, "root", by_token, wish)] == [None, "not-here"]


def test_one_user_may_not_touch_the_job_of_another_by_any_route(head: RealHead, gateway: RealGateway) -> None:
    with browser_of(gateway, USER) as owner, browser_of(gateway, OTHER) as other:
        job = owner.post(
            "/api/v1/jobs", json={"tasks": [{"command": "sleep 60", "rerunnable": "true"}]}
        ).json()
        place = f"/api/v1/jobs/{job['job']}"
        head.wait_for(job["job"], "Running")
        refused = {
            f"{place}/cancel": {},
            f"{place}/finish": {},
            f"{place}/requeue": {},
            f"{place}/suspend": {},
            f"{place}/resume": {},
            f"{place}/signal": {"signal": "KILL"},
            f"{place}/hold": {},
            f"{place}/release": {"all": True},
            f"{place}/refund": {},
            f"{place}/submit": {},
            f"{place}/tasks": {"tasks": [{"command": "true"}]},
            f"{place}/tasks/1/cancel": {},
            f"{place}/tasks/1/finish": {},
            f"{place}/tasks/1/requeue": {},
            f"{place}/tasks/1/hold": {},
            f"{place}/tasks/1/release": {},
        }
        answers = {path: other.post(path, json=body) for path, body in refused.items()}
        answers["PATCH job"] = other.patch(place, json={"terms": {"priority": "Lowest"}})
        answers["PATCH task"] = other.patch(f"{place}/tasks/1", json={"terms": {"name": "mine"}})
        answers["PUT progress"] = other.put(f"{place}/progress", json={"percent": 1})
        answers["GET output"] = other.get(f"{place}/tasks/1/output/captured")
        created = owner.post("/api/v1/created-jobs", json={"tasks": [{"command": "true"}]}).headers[
            "location"
        ]
        answers["PUT file"] = other.put(f"{created}/file", json={"tasks": [{"command": "id"}]})
        answers["GET output as JSON"] = other.get(
            f"{place}/tasks/1/output/captured", headers={"Accept": "application/json"}
        )
        answers["commands on its nodes"] = other.post(
            "/api/v1/node-commands", json={"command": "id", "job": job["job"]}
        )
        reply = {name: (answer.status_code, answer.json()["class"]) for name, answer in answers.items()}
        assert set(reply.values()) == {(403, "not-allowed")}, reply
        with Shell(gateway, job["job"], page(other, gateway)) as shell:
            shell.say(csrf=other.headers["X-CSRF-Token"], command="id")
            assert shell.end()[0]["problem"]["status"] == 403
        changing = {
            route.path.format(job=job["job"], task=1)
            for route in ROUTES
            if route.method != "GET"
            and "{job}" in route.path
            and route.verb not in ("clone_job", "check_job")
        }
        tried = {path.removeprefix("/api/v1") for path in refused}
        assert changing - tried == {
            f"/jobs/{job['job']}{end}" for end in ("", "/progress", "/tasks/1", "/file")
        }
        assert owner.post(f"{place}/cancel", json={}).status_code == 200


@contextmanager
def browser_of(gateway: RealGateway, user: str) -> Iterator[httpx.Client]:
    """Yield a client that a user of this machine has logged in."""
    done = as_user(user, *PYTHON_OF_ALL, "-c", LOG_IN, str(gateway.directory / "web.sock"))
    assert done.returncode == 0, done.stderr
    with httpx.Client(base_url=gateway.address, timeout=TIMEOUT) as client:
        assert client.get(json.loads(done.stdout)["address"]).status_code == 303
        client.headers["X-CSRF-Token"] = client.get("/api/v1/session").json()["csrf"]
        yield client


def test_a_site_key_does_not_speak_for_root(head: RealHead) -> None:
    """The account of the head may speak for itself, but a holder of the key is not that account."""
    found = {"verb": "act_for_user", "address": "a", "user": "root"}
    (admitted,) = talk(head, "root", found)
    (refused,) = talk(head, "root", found | {"by_key": True})
    assert (admitted["ok"], refused["ok"], refused["code"]) == (True, False, "no-root-by-key")
    entries = head.ask("audit_log", user="root")["entries"]
    assert [each["outcome"] for each in entries if each["verb"] == "act_for_user"][-1] == "no-root-by-key"
