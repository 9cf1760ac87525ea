"""Event streams of a real gateway: what happened and happens comes once, whatever breaks between."""

import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import h11
import httpx
import pytest
from gateways import RealGateway, gateway_fixture, raw_exchange

from headnode.apps.web.event_hub import EventBatch, EventQueue, StreamedEvent
from headnode.apps.web.http_server import SharedChunk
from headnode.core.model.bounds import STREAM_QUEUE
from headnode.protocol.event_answers import EventObject
from heads import TIMEOUT, RealHead, head_fixture

STREAM = "/api/v1/event-stream"

head = head_fixture()
gateway = gateway_fixture()


class Follower:
    """A client that follows a stream in a thread of its own."""

    def __init__(self, client: httpx.Client, last: str = "", **query: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self.comments = 0
        self._headers = {"Last-Event-ID": last} if last else {}
        self._client, self._query = client, query
        self.opened = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Follower":
        self._thread.start()
        assert self.opened.wait(TIMEOUT)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)

    def _read(self) -> None:
        with self._client.stream("GET", STREAM, params=self._query, headers=self._headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            name = ""
            for line in answer.iter_lines():
                self.opened.set()
                if self._stop.is_set():
                    return
                if line.startswith(":"):
                    self.comments += 1
                elif line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: ") and name not in ("end", "reset"):
                    self.events.append(json.loads(line.removeprefix("data: ")))

    def ends(self) -> list[int]:
        """Return the jobs that ended, in their order."""
        return [each["data"]["job"] for each in self.events if each["type"] == "headnode.job.ended"]

    def numbers(self) -> list[int]:
        return [int(each["id"]) for each in self.events]


def end_a_job(head: RealHead, command: str = "/bin/true") -> int:
    """Let a job end."""
    job = head.submit(command)
    head.wait(job)
    return job


def test_a_stream_shows_the_past_then_the_present_and_each_event_once(
    head: RealHead, gateway: RealGateway
) -> None:
    past = [end_a_job(head) for _ in range(3)]
    with gateway.browser() as client, Follower(client, after="beginning") as follower:
        present = [end_a_job(head) for _ in range(3)]
        head.until(lambda: len(follower.ends()) == 6)
        head.submit("/bin/true")  # wakes the reader, which then ends
    assert follower.ends() == past + present
    assert follower.numbers() == sorted(set(follower.numbers()))
    found = [each["type"] for each in follower.events if each.get("subject") == f"jobs/{present[0]}"]
    assert found[0] == "headnode.job.created"
    assert found[-1] == "headnode.job.ended"
    assert "headnode.task.ended" in found


def test_one_that_comes_back_with_its_last_id_gets_the_rest(head: RealHead, gateway: RealGateway) -> None:
    with gateway.browser() as client:
        with Follower(client) as follower:
            first = end_a_job(head)
            head.until(lambda: follower.ends() == [first])
            head.submit("/bin/true")
        seen = follower.events[: follower.numbers().index(max(follower.numbers())) + 1]
        missed = end_a_job(head)
        with Follower(client, last=seen[-1]["id"]) as again:
            head.until(lambda: missed in again.ends())
            head.submit("/bin/true")
        assert min(again.numbers()) > int(seen[-1]["id"])
        whole = head.ask("events", after=0, limit=1000)["events"]
        between = [each["number"] for each in whole if each["number"] > int(seen[-1]["id"])]
        assert again.numbers() == between[: len(again.numbers())]


def test_a_stream_goes_on_when_the_head_was_killed(head: RealHead, gateway: RealGateway) -> None:
    with gateway.browser() as client, Follower(client, type="job.ended") as follower:
        first = end_a_job(head)
        head.kill()
        head.start_again()
        second = end_a_job(head)
        head.until(lambda: follower.ends() == [first, second])
        end_a_job(head)


def test_filters_choose_jobs_and_types(head: RealHead, gateway: RealGateway) -> None:
    job, other = end_a_job(head, "exit 1"), end_a_job(head)
    with gateway.browser() as client, Follower(client, after="beginning", job=[job], type="job") as follower:
        head.until(lambda: job in follower.ends())
        last = head.submit("/bin/true")
        head.wait(last)
        head.ask("requeue_job", job=job)
        head.until(lambda: follower.ends().count(job) == 2)
        head.wait(job)
    assert {each["data"]["job"] for each in follower.events} == {job}
    assert other != job


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"after": "999999999"}, 410, "events-gone"),
        ({"after": "x"}, 400, "query"),
        ({"job": "x"}, 400, "query"),
        ({"type": "job.endet"}, 400, "event-type"),
        ({"nothing": "1"}, 400, "query"),
    ],
)
def test_wrong_questions_are_refused_before_the_stream_begins(
    gateway: RealGateway, query: dict[str, str], status: int, code: str
) -> None:
    with gateway.browser() as client:
        answer = client.get(STREAM, params=query)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_stream_is_for_users_only(gateway: RealGateway) -> None:
    assert httpx.get(gateway.address + STREAM).status_code == 401


def test_a_stream_that_is_not_read_holds_a_bounded_number_of_events() -> None:
    queue, event = EventQueue(), StreamedEvent(EventObject(1, "job.ended", 0.0), "c")
    queue.put(EventBatch([event] * STREAM_QUEUE.most))
    assert not queue.is_behind
    queue.put(EventBatch([event]))
    assert queue.is_behind


def test_streams_share_chunks_and_old_clients_get_plain_bytes(head: RealHead, gateway: RealGateway) -> None:
    with gateway.browser() as client:
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        where = urlsplit(gateway.address)
        begun = f"Host: {where.netloc}\r\nCookie: {cookies}\r\n\r\n"
        with socket.create_connection((where.hostname or "", where.port or 0), TIMEOUT) as old:
            old.sendall(f"GET {STREAM} HTTP/1.0\r\n{begun}".encode())
            got = _until(old, b": headnode\n\n")
            assert b"chunked" not in got
            with Follower(client) as follower:
                job = end_a_job(head)
                head.until(lambda: follower.ends() == [job])
                answer = follower.events[0]
                end_a_job(head)
            got += _until(old, b"event: job.ended\n")
    body = got.partition(b"\r\n\r\n")[2]
    assert body.startswith(b": headnode\n\nid: ")
    assert b"\r" not in body  # no sizes of chunks
    assert b"id: %d\nevent: job.created\ndata: " % int(answer["id"]) in body


def _until(connection: socket.socket, wanted: bytes) -> bytes:
    got = b""
    while wanted not in got:
        piece = connection.recv(1 << 16)
        assert piece, got
        got += piece
    return got


@pytest.mark.parametrize("path", [STREAM, "/news"])
def test_a_head_request_for_a_stream_gets_no_body_and_its_connection_goes_on(
    gateway: RealGateway, path: str
) -> None:
    headers = {"Host": "localhost", "Authorization": f"Bearer {gateway.token()}"}
    rest = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    both = f"HEAD {path} HTTP/1.1\r\n{rest}\r\nGET /api/v1/whoami HTTP/1.1\r\n{rest}Connection: close\r\n\r\n"
    output = raw_exchange(gateway, [both.encode()])
    assert output.count(b"HTTP/1.1 200") == 2, output


def test_a_shared_chunk_is_its_bytes_in_the_form_of_http() -> None:
    for body in (b"x", b"\r\n", b"id: 1\r\n\n" * 9000):
        chunk = SharedChunk(body)
        assert chunk.body == body
        reader = h11.Connection(h11.CLIENT)
        reader.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
        reader.send(h11.EndOfMessage())
        reader.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk.chunk)
        assert isinstance(reader.next_event(), h11.Response)
        found = b""
        while isinstance(event := reader.next_event(), h11.Data):
            found += event.data
        assert found == body
