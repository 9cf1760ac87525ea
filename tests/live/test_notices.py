"""Notices: real heads tell real mail servers and hooks, and nothing of that makes a job wait."""

import asyncio
import json
import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from email.message import EmailMessage, Message
from email.parser import BytesParser
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from headnode.adapters.notify import delivery
from headnode.adapters.notify.outbox import Delivery, DeliveryResult, DeliverySettings
from headnode.apps.cli.screens.cluster import cluster_view
from headnode.apps.server import job_notices
from headnode.apps.server.job_notices import NotifierProcess
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.notices import Notice
from heads import TIMEOUT, RealHead, head_fixture, real_head
from testbed.processes import http_server

NOTICE = Notice(7, "ended", "c", JobId(1), "ann", "", "", "finished", Instant(0.0))
TOLD = {"notifyonstart": "true", "notifyoncompletion": "true"}


class Post:
    """A mail server that keeps what it gets; the first `refusals` letters are to be sent later."""

    def __init__(self, refusals: int = 0) -> None:
        self.letters: list[Message] = []
        self.refused = 0
        self._refusals = refusals

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refused < self._refusals:
            self.refused += 1
            return "451 come again"
        self.letters.append(BytesParser(EmailMessage, policy=default).parsebytes(envelope.content))
        return "250 kept"


@contextmanager
def open_post(post: Post, port: int = 0) -> Iterator[str]:
    """Open the mail server; yield where it is."""
    controller = Controller(post, hostname="127.0.0.1", port=port or free_port(), ready_timeout=TIMEOUT)
    controller.start()
    try:
        yield f"127.0.0.1:{controller.port}"
    finally:
        controller.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        port: int = door.getsockname()[1]
        return port


class Hook(BaseHTTPRequestHandler):
    """Keeps what is posted to it; /away sends elsewhere, /no refuses for good."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append((self.path, json.loads(body)))  # type: ignore[attr-defined]
        self.send_response({"/away": 307, "/no": 404}.get(self.path, 204))
        if self.path == "/away":
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hook() -> Iterator[ThreadingHTTPServer]:
    with http_server(Hook, posted=[]) as server:
        yield server


head = head_fixture()


def waiting(head: RealHead) -> int:
    count: int = head.ask("cluster")["cluster"]["notices"]["waiting"]
    return count


def test_mail_shows_that_a_job_has_started_and_how_it_ended(head: RealHead) -> None:
    post = Post()
    with open_post(post) as server:
        head.ask("set_parameters", values={"EmailSmtpServer": server, "EmailFrom": "cluster@example.org"})
        job = head.submit("exit 3", terms={**TOLD, "emailaddress": "ann@example.org", "name": "räder\n"})
        head.until(lambda: len(post.letters) == 2)
        ended, started = sorted(post.letters, key=lambda letter: "has started" in str(letter["Subject"]))
    assert started["To"] == ended["To"] == "ann@example.org"
    assert started["From"] == "cluster@example.org"
    assert started["Subject"].endswith(f"job {job} (räder) has started")
    assert ended["Subject"].endswith(f"job {job} (räder) is failed")
    assert "Exit code:   3" in ended.get_payload(decode=True).decode()
    assert started["Message-ID"] != ended["Message-ID"]
    head.until(lambda: waiting(head) == 0)


def test_who_names_no_address_is_told_at_the_domain_and_copies_go_to_all(head: RealHead) -> None:
    post = Post()
    with open_post(post) as server:
        values = {
            "EmailSmtpServer": server,
            "EmailDomain": "example.org",
            "NotificationCopies": "ops@example.org",
        }
        head.ask("set_parameters", values=values)
        job = head.submit("/bin/true", terms={"notifyoncompletion": "true"})
        owner = head.ask("job", job=job)["job"]["owner"]
        head.until(lambda: len(post.letters) == 2)
    assert {letter["To"] for letter in post.letters} == {f"{owner}@example.org", "ops@example.org"}


def test_a_hook_gets_the_notice_and_one_that_is_not_allowed_nothing(
    head: RealHead, hook: ThreadingHTTPServer
) -> None:
    root = f"http://127.0.0.1:{hook.server_port}/"
    head.ask("set_parameters", values={"NotificationWebhooks": f"{root}good,{root}away"})
    wishes = {"notifyoncompletion": "true", "emailaddress": f"{root}good?room=1, {root}secret, {root}away"}
    answer = head.ask("submit_job", tasks=[{"command": "/bin/true"}], terms=wishes)
    found = [item["what"] for item in answer["report"] if item["where"] == "notification"]
    assert [f"{root}secret" in what for what in found] == [True]
    head.until(lambda: waiting(head) == 0 and len(hook.posted) == 2)  # type: ignore[attr-defined]
    posted = dict(hook.posted)  # type: ignore[attr-defined]
    assert set(posted) == {"/good?room=1", "/away"}  # it followed nobody elsewhere
    reply = posted["/good?room=1"]
    assert (reply["job"], reply["kind"], reply["state"], reply["exit_code"]) == (
        answer["job"],
        "ended",
        "finished",
        0,
    )
    assert reply["text"].endswith(f"job {answer['job']} is finished")


def test_a_failure_of_the_notices_is_shown_and_they_go_on_when_its_cause_is_gone(head: RealHead) -> None:
    post = Post()
    with open_post(post) as server, closing(sqlite3.connect(head.state / "notices.db")) as outbox:
        head.ask("set_parameters", values={"EmailSmtpServer": server, "EmailFrom": "cluster@example.org"})
        with outbox:
            outbox.execute("alter table waiting rename column notice to lost")
        head.until(lambda: failed_parts(head) == ["notices"])
        view = cluster_view(head.ask("cluster")["cluster"])
        assert view["Failed Parts"].startswith("notices (it failed with OperationalError, and begins again")
        assert "Plug-ins" not in view
        with outbox:
            outbox.execute("alter table waiting rename column lost to notice")
        head.submit("/bin/true", terms={**TOLD, "emailaddress": "ann@example.org"})
        head.until(lambda: len(post.letters) == 2)


def test_a_notice_that_cannot_be_read_is_set_aside_and_the_others_go(head: RealHead) -> None:
    post = Post()
    with open_post(post) as server, closing(sqlite3.connect(head.state / "notices.db")) as outbox:
        with outbox:
            outbox.execute("insert into waiting values (1, 'nowhere', x'c1')")
        head.ask("set_parameters", values={"EmailSmtpServer": server, "EmailFrom": "cluster@example.org"})
        head.submit("/bin/true", terms={**TOLD, "emailaddress": "ann@example.org"})
        head.until(lambda: len(post.letters) == 2)
        assert failed_parts(head) == []
        assert outbox.execute("select * from unreadable").fetchall() == [(1, "nowhere", b"\xc1")]
    assert "notice 1 for nowhere cannot be read" in head.log()


def failed_parts(head: RealHead) -> list[str]:
    return list(head.ask("cluster")["cluster"]["failed_parts"])


def test_a_hook_whose_answer_is_no_http_is_a_problem_that_is_reported(head: RealHead) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        root = f"http://127.0.0.1:{door.getsockname()[1]}/"

        def answer() -> None:
            with door.accept()[0] as caller:
                caller.recv(65_536)
                caller.sendall(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")

        server = threading.Thread(target=answer)
        server.start()
        head.ask("set_parameters", values={"NotificationWebhooks": root})
        head.submit("/bin/true", terms={"notifyoncompletion": "true", "emailaddress": root})
        head.until(lambda: "not HTTP" in head.ask("cluster")["cluster"]["notices"]["problem"])
        server.join()
    assert waiting(head) == 1  # it will be tried again


def test_what_is_being_brought_is_known_until_it_is_told_what_became_of_it() -> None:
    messages: list[DeliveryResult] = []

    async def bring() -> None:
        notifier = NotifierProcess(messages.append)
        await notifier.send(Delivery(NOTICE, "nowhere", DeliverySettings()))
        async with asyncio.timeout(TIMEOUT):
            while not messages:  # a step of the event loop each: else it would be brought twice
                assert (NOTICE.number, "nowhere") in notifier.busy
                await asyncio.sleep(0)
        assert not notifier.busy
        await notifier.end()

    asyncio.run(bring())
    assert [(one.number, one.became) for one in messages] == [(NOTICE.number, "never")]


@contextmanager
def dripping_server() -> Iterator[str]:
    """Open a web server whose answers never end, a byte every tenth of a second; yield its address."""
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while not over.wait(0.1):
                connection.sendall(b"x")

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = door.accept()
                threads.append(threading.Thread(target=drip, args=(connection,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as door:
        threads = [threading.Thread(target=serve)]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{door.getsockname()[1]}/"
        finally:
            over.set()
            door.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def test_a_delivery_ends_although_bytes_arrive_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MAX_DELIVERY", 0.5)
    with dripping_server() as slow:
        hook = delivery.deliver(Delivery(NOTICE, slow, DeliverySettings(hooks=(slow,))))
        post = slow.removeprefix("http://").rstrip("/")
        mail = delivery.deliver(Delivery(NOTICE, "ann@example.org", DeliverySettings(server=post)))
    assert (hook.became, hook.problem) == ("later", "the delivery took too long: more than 0.5 s")
    assert (mail.became, mail.problem) == ("later", f"{post}: the delivery took too long: more than 0.5 s")


def test_a_hook_that_drips_its_answers_starves_no_other(head: RealHead, hook: ThreadingHTTPServer) -> None:
    root = f"http://127.0.0.1:{hook.server_port}/"
    with dripping_server() as slow:
        head.ask("set_parameters", values={"NotificationWebhooks": f"{slow},{root}"})
        for _ in range(4):
            head.submit("/bin/true", terms={"notifyoncompletion": "true", "emailaddress": slow})
        head.until(lambda: waiting(head) == 4)
        head.submit("/bin/true", terms={"notifyoncompletion": "true", "emailaddress": f"{root}good"})
        head.until(lambda: len(hook.posted) == 1)  # type: ignore[attr-defined]


def test_a_process_that_falls_silent_is_killed_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_notices, "MAX_SILENCE", 0.3)

    async def bring(hook: str) -> None:
        notifier = NotifierProcess(lambda _: None)
        async with asyncio.timeout(delivery.TIMEOUT / 2):
            for _ in range(2):
                await notifier.send(Delivery(NOTICE, hook, DeliverySettings(hooks=(hook,))))
                while notifier.busy:
                    await asyncio.sleep(0.01)
        await notifier.end()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(bring(f"http://127.0.0.1:{silent.getsockname()[1]}/"))


def test_a_server_that_wants_it_later_gets_it_later(head: RealHead) -> None:
    post = Post(refusals=1)
    with open_post(post) as server:
        head.ask("set_parameters", values={"EmailSmtpServer": server})
        head.submit("/bin/true", terms={"notifyoncompletion": "true", "emailaddress": "ann@example.org"})
        head.until(lambda: len(post.letters) == 1)
        assert post.refused == 1
        head.until(lambda: waiting(head) == 0)


def test_a_notice_survives_the_head_and_is_brought_by_the_next_one(tmp_path: Path) -> None:
    port, post = free_port(), Post()
    with real_head(tmp_path) as head:
        head.ask("set_parameters", values={"EmailSmtpServer": f"127.0.0.1:{port}"})
        job = head.submit(
            "/bin/true", terms={"notifyoncompletion": "true", "emailaddress": "ann@example.org"}
        )
        head.wait(job)
        head.until(lambda: "refused" in head.ask("cluster")["cluster"]["notices"]["problem"])
        head.kill()
        with open_post(post, port):
            head.start_again()
            head.until(lambda: waiting(head) == 0)
    assert [letter["Subject"].endswith(f"job {job} is finished") for letter in post.letters] == [True]


def test_what_ended_while_nothing_could_be_noted_is_reported_after_the_restart(tmp_path: Path) -> None:
    post = Post()
    with real_head(tmp_path) as head, open_post(post) as server:
        head.ask("set_parameters", values={"EmailSmtpServer": server})
        job = head.submit(
            "sleep 300", terms={"notifyoncompletion": "true", "emailaddress": "ann@example.org"}
        )
        head.wait_for(job, "Running")
        head.kill()
        before = {path: path.read_bytes() for path in head.state.glob("notices.db*")}
        head.start_again()
        head.ask("cancel_job", job=job, force=True)
        head.wait(job)
        head.until(lambda: waiting(head) == 0 and bool(post.letters))
        head.kill()
        for path in head.state.glob("notices.db*"):
            path.unlink()
        for path, data in before.items():  # as after a power cut: the journal is ahead of the notices
            path.write_bytes(data)
        head.start_again()
        head.until(lambda: len(post.letters) == 2)
    first, again = post.letters
    assert first["Message-ID"] == again["Message-ID"]  # who reads mail sees that it is the same


def test_notices_that_do_not_read_are_put_aside_and_the_head_goes_on(tmp_path: Path) -> None:
    with real_head(tmp_path) as head:
        head.kill()
        for path in head.state.glob("notices.db*"):
            path.unlink()
        (head.state / "notices.db").write_bytes(b"this is no database at all, whatever you think" * 100)
        head.start_again()
        assert (head.state / "notices.damaged").exists()
        assert head.wait(head.submit("/bin/true"))["state"] == "Finished"


def test_a_mail_server_that_never_answers_makes_nobody_wait(
    head: RealHead, hook: ThreadingHTTPServer
) -> None:
    root = f"http://127.0.0.1:{hook.server_port}/"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        values = {"EmailSmtpServer": f"127.0.0.1:{silent.getsockname()[1]}", "NotificationWebhooks": root}
        head.ask("set_parameters", values=values)
        wishes = {**TOLD, "emailaddress": f"ann@example.org, {root}good"}
        assert head.wait(head.submit("/bin/true", terms=wishes))["state"] == "Finished"
        head.until(lambda: len(hook.posted) == 2 and waiting(head) == 2)  # type: ignore[attr-defined]


def test_who_asked_for_nothing_is_told_nothing_and_who_cannot_be_told_hears_it_at_once(
    head: RealHead,
) -> None:
    post = Post()
    with open_post(post) as server:
        quiet = head.submit("/bin/true", terms={"emailaddress": "ann@example.org"})
        asked = head.ask(
            "submit_job", tasks=[{"command": "/bin/true"}], terms=TOLD | {"emailaddress": "a@b.org"}
        )
        assert any("EmailSmtpServer" in item["what"] for item in asked["report"])
        nowhere = head.ask("submit_job", tasks=[{"command": "/bin/true"}], terms=TOLD)
        assert any("/emailaddress" in item["what"] for item in nowhere["report"])
        for job in (quiet, asked["job"], nowhere["job"]):
            head.wait(job)
        assert waiting(head) == 2  # of the one who has an address: once there is a server, it goes out
        head.ask("set_parameters", values={"EmailSmtpServer": server})
        head.until(lambda: len(post.letters) == 2)
    assert {str(letter["To"]) for letter in post.letters} == {"a@b.org"}
