"""What every door with a stream promises.  A new one gets its row in `DOORS`."""

import asyncio
import json
import os
import pwd
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_doors import QUESTIONS, SUBMISSION
from test_local_socket import Peer, Scene, run
from test_who_may import entries

from headnode.adapters.wire.frame_codec import frame
from headnode.apps.server.doors.gateway import GatewayDoor
from headnode.apps.server.doors.tls import TlsDoor, TokenDesk
from headnode.apps.server.doors.unix import UnixDoor
from headnode.apps.server.server_context import ServerContext
from headnode.core.model import bounds
from headnode.core.model.user import User
from testbed.function_door import call
from testbed.lines_door import LinesDoor

ME = User(name=pwd.getpwuid(os.getuid()).pw_name, uid=os.getuid(), gid=os.getgid(), administrator=True)
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


MAX_ANSWER = 2**24  # bytes


class LinePeer(Peer):
    """A client whose messages are lines."""

    def written(self, message: bytes) -> bytes:
        return message + b"\n"

    async def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.reader.readline())
        return found


async def _nothing(scene: Scene, peer: Peer) -> None:
    """Do not greet: the kernel says who the client is."""


async def _for_user(scene: Scene, peer: Peer) -> None:
    peer.send(verb="act_for_user", user=ME.name, address="::1")
    assert (await peer.receive())["user"] == ME.name


async def _with_token(scene: Scene, peer: Peer) -> None:
    secret = (await call(scene.context, ME, "create_token", web=True))["login"]
    token = (await TokenDesk(scene.context).take({"secret": secret}, "::1"))["token"]
    peer.send(verb="log_in", token=token)
    assert (await peer.receive())["user"] == ME.name


class DoorRow(NamedTuple):
    """How a door is made, and what a client says before its first request."""

    serve: Callable[[ServerContext], Serve]
    greet: Callable[[Scene, Peer], Awaitable[None]]
    peer: type[Peer] = Peer


DOORS: Mapping[str, DoorRow] = {
    "unix": DoorRow(lambda context: UnixDoor(context).serve, _nothing),
    "gateway": DoorRow(lambda context: GatewayDoor(context, "").serve, _for_user),
    "lines": DoorRow(lambda context: LinesDoor(context, ME).serve, _nothing, LinePeer),
    "tls": DoorRow(lambda context: partial(TlsDoor(context).serve, authenticated=lambda: None), _with_token),
}
Connect = Callable[[], Any]


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> DoorRow:
    return DOORS[request.param]


def play(tmp_path: Path, door: DoorRow, story: Callable[[Scene, Connect], Awaitable[None]]) -> None:
    """Play a story with clients that come through a door."""

    async def with_door(scene: Scene) -> None:
        path = tmp_path / "door"
        server = await asyncio.start_unix_server(door.serve(scene.context), path=path)

        @asynccontextmanager
        async def connect() -> AsyncIterator[Peer]:
            peer = door.peer(*await asyncio.open_unix_connection(path, limit=MAX_ANSWER))
            try:
                await door.greet(scene, peer)
                yield peer
            finally:
                peer.writer.close()

        try:
            await story(scene, connect)
        finally:
            server.close()

    run(tmp_path, with_door)


def test_requests_that_were_sent_at_once_are_answered_in_order_as_a_function_call_is(
    tmp_path: Path, door: DoorRow
) -> None:
    async def story(scene: Scene, connect: Connect) -> None:
        await call(scene.context, ME, "submit_job", **SUBMISSION)
        async with connect() as peer:
            for asked in QUESTIONS:
                peer.send(**asked)
            reply = [await peer.receive() for _ in QUESTIONS]
        for asked, answer in zip(QUESTIONS, reply, strict=True):
            if asked["verb"] != "whoami":  # says by which door
                assert await call(scene.context, ME, **asked) == answer

    play(tmp_path, door, story)


def test_a_refused_request_leaves_the_connection_and_a_change_is_in_the_audit_log(
    tmp_path: Path, door: DoorRow
) -> None:
    async def story(scene: Scene, connect: Connect) -> None:
        async with connect() as peer:
            assert await peer.refused(verb="submit_jbo") == "verb"
            assert await peer.refused(verb="job", job=99) == "no-such-job"
            wrong = await peer.ask(verb="submit_job", tasks=[{"command": "x"}, {"command": 3}])
            assert (wrong["class"], wrong["path"]) == ("bad-input", ["tasks", 1, "command"])
            job = (await peer.done(verb="submit_job", **SUBMISSION))["job"]
        last = entries(scene)[-1]
        assert (last["user"], last["verb"], last["outcome"], last["job"]) == (
            ME.name,
            "submit_job",
            "done",
            job,
        )
        assert last["from"]

    play(tmp_path, door, story)


TOO_LARGE = (bounds.REQUEST.most + 1).to_bytes(4, "big")


@pytest.mark.parametrize("sent", [TOO_LARGE, b"\0\0\0\x05ab", frame(b"[]"), frame(b"\xff"), b""])
def test_a_bad_client_costs_its_own_connection_and_nobody_else_anything(
    tmp_path: Path, door: DoorRow, sent: bytes
) -> None:
    async def story(scene: Scene, connect: Connect) -> None:
        async with connect() as good:
            async with connect() as bad:
                bad.writer.write(sent)
                bad.writer.write_eof()
                assert b'"ok":true' not in await bad.reader.read()  # and the door hangs up
            async with connect() as gone:
                gone.send(verb="watch_jobs", job=[1])
            assert (await good.done(verb="ping"))["cluster"] == "test"

    play(tmp_path, door, story)


def test_a_job_is_watched_to_its_end_and_the_connection_goes_on(tmp_path: Path, door: DoorRow) -> None:
    async def story(scene: Scene, connect: Connect) -> None:
        async with connect() as peer:
            job = (await peer.done(verb="submit_job", **SUBMISSION))["job"]
            peer.send(verb="watch_jobs", job=[job])
            while (answer := await peer.receive())["jobs"][0]["state"] != "Finished":
                await scene.end(job)
            assert answer["ok"]
            while "jobs" in answer:  # asked for in the middle of the answers, or after the last
                peer.send(verb="ping")
                answer = await peer.receive()
            assert answer["cluster"] == "test"

    play(tmp_path, door, story)


def test_large_requests_of_a_user_that_are_not_whole_keep_others_waiting(
    tmp_path: Path, door: DoorRow
) -> None:
    """Two of the largest are all that a user may have: a door that counts nothing takes the third."""
    padding = b" " * (2 * bounds.SMALL_REQUEST.most)
    whole = json.dumps({"verb": "ping"}).encode() + padding

    async def story(scene: Scene, connect: Connect) -> None:
        async with connect() as small, connect() as third:
            async with connect() as one, connect() as two:
                for each in (one, two):
                    beginning = each.written(b" " * bounds.REQUEST.most)[: len(padding)]
                    each.writer.write(beginning)
                    await each.writer.drain()
                    await pings(small)
                third.writer.write(third.written(whole))
                answer = asyncio.create_task(third.receive())
                await pings(small)
                assert not answer.done()
            assert (await answer)["cluster"] == "test"

    play(tmp_path, door, story)


def test_a_user_who_reads_no_answers_gets_no_more_of_them(tmp_path: Path, door: DoorRow) -> None:
    """A door that does not count what is unread answers the fourth."""
    large = {"command": "#" * 100_000}
    tasks = [large] * (bounds.ANSWERS.most // 300_000 + 1)

    async def story(scene: Scene, connect: Connect) -> None:
        job = (await call(scene.context, ME, "submit_job", tasks=tasks))["job"]
        async with connect() as one, connect() as two, connect() as three, connect() as fourth:
            for each in (one, two, three):
                each.reader._limit = 1  # what it does not ask for stays in the socket
                each.send(verb="job", job=job)
            for each in (one, two, three):
                await each.reader.readexactly(1)  # its answer is being sent
            answer = asyncio.create_task(fourth.done(verb="ping"))
            other = User(name="other", uid=ME.uid + 1, gid=1)
            for _ in range(20):
                await call(scene.context, other, "ping")
            assert not answer.done()
            one.writer.transport.abort()
            assert (await answer)["cluster"] == "test"

    play(tmp_path, door, story)


async def pings(peer: Peer) -> None:
    """Let the head read what others have sent."""
    for _ in range(20):
        await peer.done(verb="ping")


def test_who_ends_the_head_has_the_answer_first(tmp_path: Path, door: DoorRow) -> None:
    async def story(scene: Scene, connect: Connect) -> None:
        async with connect() as peer:
            assert (await peer.done(verb="stop_head"))["ok"]
            async with asyncio.timeout(5):
                while not scene.ended:
                    await asyncio.sleep(0)

    play(tmp_path, door, story)
