"""Commands on nodes and shells over a real gateway: what they say, how they end, and who may have them."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gateways import RealGateway, gateway_fixture, real_gateway
from web_shells import Shell, page
from wsproto.events import AcceptConnection, BytesMessage, TextMessage

from headnode.core.model.bounds import WEB_CONVERSATIONS_OF_USER, WEB_MESSAGE
from heads import TIMEOUT, RealHead, processes, real_head, shared_head_fixture

COMMANDS = "/api/v1/node-commands"

head = shared_head_fixture(nodes=3)
gateway = gateway_fixture(scope="module")


@pytest.fixture(scope="module")
def client(gateway: RealGateway) -> Iterator[httpx.Client]:
    with gateway.browser() as logged_in:
        yield logged_in


@pytest.fixture
def running(head: RealHead) -> Iterator[int]:
    job = head.submit("sleep 600")
    head.wait_for(job, "Running")
    yield job
    head.ask("cancel_job", job=job)
    head.wait(job)


def lines_of(client: httpx.Client, **fields: Any) -> list[dict[str, Any]]:
    with client.stream("POST", COMMANDS, json=fields, timeout=TIMEOUT) as answer:
        assert answer.status_code == 200, answer.read()
        return [json.loads(line) for line in answer.iter_lines() if line]


def test_a_command_runs_on_every_node_and_its_end_is_reported(client: httpx.Client, head: RealHead) -> None:
    lines = lines_of(client, command="printf %s $CCP_NODE_NAME; echo oops >&2; exit 3")
    nodes = [node["name"] for node in head.ask("nodes")["nodes"]]
    assert sorted(lines[0]["nodes"]) == sorted(nodes)
    assert lines[-1] == {"done": True}
    for node in nodes:
        own = [line for line in lines if line.get("node") == node]
        assert b"".join(base64.b64decode(line.get("err", "")) for line in own) == b"oops\n"
        assert (own[-1]["exit"], own[-1]["problem"]) == (3, "")
    entry = [each for each in head.ask("audit_log")["entries"] if each["verb"] == "run_on_nodes"][-1]
    assert entry["from"].startswith("web ")


def test_a_command_on_nodes_ends_with_the_connection(
    client: httpx.Client, gateway: RealGateway, head: RealHead
) -> None:
    with client.stream("POST", COMMANDS, json={"command": "exec sleep 7654"}) as answer:
        lines = answer.iter_lines()
        assert len(json.loads(next(lines))["nodes"]) == 3
        head.until(lambda: len(list(processes(b"sleep\x007654"))) == 3)
    head.until(lambda: not list(processes(b"sleep\x007654")))


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"command": "true", "nodes": "nowhere"}, "no-such-node"),
        ({"command": " "}, "command"),
        ({"command": "true", "timeout": 0}, "timeout"),
        ({"command": "true", "nodse": "a"}, "field"),
    ],
)
def test_a_command_on_nodes_that_is_wrong_is_refused_at_once(
    client: httpx.Client, wrong: dict[str, Any], code: str
) -> None:
    answer = client.post(COMMANDS, json=wrong)
    assert (answer.status_code // 100, answer.json()["code"]) == (4, code)


def test_a_shell_is_a_terminal_of_the_job(
    client: httpx.Client, gateway: RealGateway, head: RealHead, running: int
) -> None:
    with Shell(gateway, running, page(client, gateway)) as shell:
        assert isinstance(shell.answer, AcceptConnection)
        shell.say(csrf=client.headers["X-CSRF-Token"], rows=30, columns=100, kind="xterm")
        assert "node" in shell.receive()
        shell.type("stty size; echo job-$CCP_JOBID-here\n")
        assert "30 100" in shell.until(f"job-{running}-here\r\n")
        shell.say(window=[40, 120])
        shell.type("stty size; exit 4\n")
        shell.until("40 120")
        last, code = shell.end()
        assert (last["exit"], last["done"], code) == (4, True, 1000)
    entry = [each for each in head.ask("audit_log")["entries"] if each["verb"] == "shell"][-1]
    assert entry["from"].startswith("web ")


def test_a_shell_ends_with_the_connection(
    client: httpx.Client, gateway: RealGateway, head: RealHead, running: int
) -> None:
    with Shell(gateway, running, page(client, gateway)) as shell:
        shell.say(csrf=client.headers["X-CSRF-Token"], command="exec sleep 8765")
        head.until(lambda: list(processes(b"sleep\x008765")))
    head.until(lambda: not list(processes(b"sleep\x008765")))


def test_a_program_opens_a_shell_with_its_token(gateway: RealGateway, head: RealHead, running: int) -> None:
    headers = {"Authorization": f"Bearer {gateway.token()}"}
    with Shell(gateway, running, headers) as shell:
        shell.say(command="cat; echo end >&2")
        assert "node" in shell.receive()
        shell.type("piece")
        shell.say(end=True)
        messages = []
        while isinstance(one := shell.receive(), dict):
            messages.append(one)
        assert b"".join(base64.b64decode(one.get("out", "")) for one in messages) == b"piece"
        assert b"".join(base64.b64decode(one.get("err", "")) for one in messages) == b"end\n"
        assert (messages[-1]["exit"], one) == (0, 1000)


def test_a_page_of_another_site_opens_no_shell(
    client: httpx.Client, gateway: RealGateway, running: int
) -> None:
    own = page(client, gateway)
    for headers in (
        {**own, "Origin": "https://evil.example"},
        {**own, "Origin": "null"},
        {"Cookie": own["Cookie"]},
        {**own, "Sec-Fetch-Site": "cross-site"},
    ):
        with Shell(gateway, running, headers) as shell:
            assert shell.refusal() == (403, "cross-site")
    with Shell(gateway, running, {"Origin": gateway.address}) as shell:
        assert shell.refusal() == (401, "not-logged-in")
    with Shell(gateway, running, {"Authorization": "Bearer wrong"}) as shell:
        assert shell.refusal() == (401, "token")


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ("{}", "cross-site"),
        ('{"csrf": 7}', "request"),
        ('{"csrf": "another"}', "cross-site"),
        ("[]", "request"),
        ('{"csrf": SECRET, "job": 1}', "field"),
        ('{"csrf": SECRET, "verb": "stop_head"}', "field"),
        ('{"csrf": SECRET, "rows": 99999999999999999999999999}', "request"),
        ('{"csrf": SECRET, "colums": 1}', "field"),
    ],
)
def test_a_first_message_that_is_none_ends_the_shell(
    client: httpx.Client, gateway: RealGateway, running: int, first: str, code: str
) -> None:
    with Shell(gateway, running, page(client, gateway)) as shell:
        shell.send(TextMessage(first.replace("SECRET", json.dumps(client.headers["X-CSRF-Token"]))))
        last, closed = shell.end()
        assert (last["problem"]["code"], closed) == (code, 1008)


def test_what_is_no_frame_or_too_large_ends_the_shell(
    client: httpx.Client, gateway: RealGateway, running: int
) -> None:
    secret = client.headers["X-CSRF-Token"]
    with Shell(gateway, running, page(client, gateway)) as shell:
        shell.say(csrf=secret, command="cat")
        assert "node" in shell.receive()
        shell.send(BytesMessage(b"\xff\xfe nonsense"))
        last, closed = shell.end()
        assert (last["problem"]["code"], closed) == ("said", 1008)
    with Shell(gateway, running, page(client, gateway)) as shell:
        shell.say(csrf=secret, command="cat")
        assert "node" in shell.receive()
        shell.send(TextMessage("x" * (WEB_MESSAGE.most + 1)))
        assert shell.end()[1] == 1009


def test_a_user_has_a_bounded_number_of_conversations(
    client: httpx.Client, gateway: RealGateway, head: RealHead, running: int
) -> None:
    secret = client.headers["X-CSRF-Token"]
    shells = []
    try:
        for _ in range(WEB_CONVERSATIONS_OF_USER.most):
            shells.append(Shell(gateway, running, page(client, gateway)))
            shells[-1].say(csrf=secret, command="cat")
            assert "node" in shells[-1].receive()
        refused = client.post(COMMANDS, json={"command": "true"})
        assert (refused.status_code, refused.json()["code"]) == (503, "gateway-busy")
        with Shell(gateway, running, page(client, gateway)) as shell:
            shell.say(csrf=secret)
            assert shell.end()[0]["problem"]["code"] == "gateway-busy"
    finally:
        for shell in shells:
            shell.__exit__()
    head.until(lambda: client.post(COMMANDS, json={"command": "true"}).status_code == 200)


def test_no_job_and_a_job_that_does_not_run_have_no_shell(
    client: httpx.Client, gateway: RealGateway, head: RealHead
) -> None:
    over = head.submit("true")
    head.wait(over)
    for job, code in ((over, "job-over"), (99_999, "no-such-job")):
        with Shell(gateway, job, page(client, gateway)) as shell:
            shell.say(csrf=client.headers["X-CSRF-Token"])
            assert shell.end()[0]["problem"]["code"] == code


def test_a_command_on_nodes_ends_with_the_head(tmp_path: Path) -> None:
    with real_head(tmp_path) as head, real_gateway(head) as gateway, gateway.browser() as client:
        with client.stream("POST", COMMANDS, json={"command": "exec sleep 6543"}) as answer:
            lines = answer.iter_lines()
            next(lines)
            head.until(lambda: list(processes(b"sleep\x006543")))
            head.ask("stop_head")
            found = [json.loads(line) for line in lines if line]
        assert [line.get("exit") for line in found] == [255, None]
        head.until(lambda: not list(processes(b"sleep\x006543")))
        head.process.wait(TIMEOUT)
        head.start_again()
