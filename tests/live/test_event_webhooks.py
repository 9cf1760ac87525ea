"""Webhooks get the events of a real head: each in its turn, signed, whatever dies meanwhile."""

import json
import socket
from collections.abc import Iterable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from test_notices import free_port

from headnode.adapters.notify.delivery import post_document, signature
from heads import RealHead, head_fixture
from testbed.hostile_server import after_request, hostile_server
from testbed.processes import http_server

SECRET = b"a key of more than twenty-four bytes"


class Receiver(BaseHTTPRequestHandler):
    """Keeps what is posted to it; answers as the list of refusals says first."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        refusals: list[int] = self.server.refusals  # type: ignore[attr-defined]
        status = refusals.pop(0) if refusals else 204
        self.server.posts.append((status, self.headers, body))  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def receiver(port: int = 0, refusals: tuple[int, ...] = ()) -> AbstractContextManager[ThreadingHTTPServer]:
    return http_server(Receiver, port, posts=[], refusals=[*refusals])


def taken(server: ThreadingHTTPServer) -> list[dict[str, Any]]:
    """Return the events that the receiver took, in the order of their coming."""
    return [
        event
        for status, _, body in server.posts  # type: ignore[attr-defined]
        if status == 204
        for event in json.loads(body)
    ]


def ended(server: ThreadingHTTPServer) -> list[int]:
    return [event["data"]["job"] for event in taken(server) if event["type"] == "headnode.job.ended"]


head = head_fixture()


def follow(head: RealHead, port: int, **more: str) -> None:
    head.ask("set_parameters", values={"EventWebhooks": f"http://127.0.0.1:{port}/hook", **more})


def test_a_hook_gets_signed_events_in_their_order_and_each_once(head: RealHead, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_bytes(SECRET)
    with receiver() as server:
        follow(head, server.server_port, EventWebhookSecretFile=str(secret))
        jobs = [head.submit("exit 3") for _ in range(5)]
        head.until(lambda: len(ended(server)) >= 5)
    numbers = [int(event["id"]) for event in taken(server)]
    assert numbers == sorted(set(numbers))
    assert sorted(ended(server)) == jobs
    assert {event["source"] for event in taken(server)} == {f"/clusters/{head.ask('ping')['cluster']}"}
    for _, headers, body in server.posts:  # type: ignore[attr-defined]
        expected = signature(SECRET, headers["webhook-id"], headers["webhook-timestamp"], body)
        assert headers["webhook-signature"] == expected
        assert headers["Content-Type"] == "application/cloudevents-batch+json"


def test_a_hook_that_was_away_gets_what_happened_meanwhile_also_after_the_head_was_killed(
    head: RealHead,
) -> None:
    port = free_port()
    with receiver(port) as server:
        follow(head, port)
        first = head.submit("/bin/true")
        head.until(lambda: ended(server) == [first])
    missed = [head.submit("/bin/true") for _ in range(3)]
    for job in missed:
        head.wait(job)
    head.kill()
    head.start_again()
    with receiver(port) as server:
        head.until(lambda: len(ended(server)) >= 3)
        assert sorted(ended(server)) == missed


def test_a_hook_that_has_no_time_is_asked_again_and_one_that_refuses_is_not(head: RealHead) -> None:
    with receiver(refusals=(503, 404)) as server:
        follow(head, server.server_port, EventWebhookTypes="job.ended")
        job = head.submit("/bin/true")
        head.until(lambda: len(server.posts) == 2)  # type: ignore[attr-defined]
        (_, first, body), (_, again, same) = server.posts  # type: ignore[attr-defined]
        assert (first["webhook-id"], body) == (again["webhook-id"], same)
        assert [event["data"]["job"] for event in json.loads(body)] == [job]
        other = head.submit("/bin/true")
        head.until(lambda: ended(server) == [other])


def test_what_a_webhook_says_steers_no_terminal_and_fills_no_log() -> None:
    def answer(client: socket.socket) -> Iterable[bytes]:
        after_request(client)
        yield b"HTTP/1.1 500 No \x1b]0;mine\x07 \x9b2J" + b"x" * 60_000 + b"\r\nContent-Length: 0\r\n\r\n"

    with hostile_server(answer) as host:
        became, problem = post_document(f"http://{host}/hook", b"{}", {})
    assert (became, problem.isprintable(), problem[:19]) == ("later", True, "it answered 500 No ")
    assert len(problem) < 300
