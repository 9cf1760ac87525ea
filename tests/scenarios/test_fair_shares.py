"""Users share the head: turns, connections, and bytes of requests and answers that are not finished."""

import asyncio
import contextlib
import gc
import json
import os
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Scene, run

from headnode.adapters.wire.frame_codec import frame
from headnode.apps.server.api import job_views
from headnode.apps.server.doors.user_shares import SHORT_ROUND, RequestTurns, UserShare, UserShares
from headnode.core.model import bounds as b
from headnode.core.model.errors import Unavailable


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 30.0))


def test_a_user_with_many_requests_makes_another_wait_for_one_of_them() -> None:
    async def story() -> None:
        turns, begun = RequestTurns(), []

        async def ask(user: int) -> None:
            await turns.take(user)
            begun.append(user)
            time.sleep(2 * SHORT_ROUND if user == 1 else 0)  # a costly one

        many = [asyncio.create_task(ask(1)) for _ in range(20)]
        await asyncio.sleep(0)
        await ask(2)
        assert begun.index(2) <= 3
        await asyncio.gather(*many)
        assert begun.count(1) == 20

    play(story)


def test_requests_of_one_user_begin_in_their_order_and_those_that_were_given_up_do_not() -> None:
    async def story() -> None:
        turns, begun = RequestTurns(), []

        async def ask(number: int) -> None:
            await turns.take(1)
            begun.append(number)

        asked = [asyncio.create_task(ask(number)) for number in range(20)]
        await asyncio.sleep(0)
        asked[7].cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert begun == [number for number in range(20) if number != 7]

    play(story)


def test_a_user_has_so_many_connections_and_others_have_theirs() -> None:
    async def story() -> None:
        shares = UserShares()
        taken = [shares.connected(1, administrator=False) for _ in range(b.CONNECTIONS.most)]
        for each in taken:
            each.__enter__()
        with pytest.raises(Unavailable), shares.connected(1, administrator=False):
            pass
        with shares.connected(2, administrator=False):
            pass
        taken.pop().__exit__(None, None, None)
        with shares.connected(1, administrator=False):
            pass

    play(story)


def test_administrators_get_in_however_many_others_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        monkeypatch.setattr(b, "CONNECTIONS_OF_ALL", b.CONNECTIONS_OF_ALL._replace(most=5))
        shares = UserShares()
        with contextlib.ExitStack() as stack:
            for user in range(1, 6):
                stack.enter_context(shares.connected(user, administrator=False))
            with pytest.raises(Unavailable), shares.connected(6, administrator=False):
                pass
            with shares.connected(7, administrator=True):
                pass

    play(story)


def test_large_requests_wait_for_room_and_small_ones_never() -> None:
    async def story() -> None:
        shares = UserShares()
        with shares.connected(1, administrator=False) as one, shares.connected(2, administrator=False) as two:
            held = [shares.room_for(one, b.REQUEST.most) for _ in range(2)]
            for each in held:
                await each.__aenter__()

            async def more() -> None:
                async with shares.room_for(one, b.REQUEST.most):
                    pass

            third = asyncio.create_task(more())
            async with shares.room_for(one, b.SMALL_REQUEST.most), shares.room_for(two, b.REQUEST.most):
                assert not third.done()
            await held[0].__aexit__(None, None, None)
            await third

    play(story)


def test_decoded_requests_wait_for_room_and_one_above_the_bound_goes_alone() -> None:
    async def story() -> None:
        shares = UserShares()
        with shares.connected(1, administrator=False) as one, shares.connected(2, administrator=False) as two:
            largest = shares.room_to_decode(one, 2 * b.DECODED_OF_ALL.most)
            await largest.__aenter__()

            async def more(share: UserShare) -> None:
                async with shares.room_to_decode(share, b.MB):
                    pass

            waiting = [asyncio.create_task(more(share)) for share in (one, two)]
            await asyncio.sleep(0)
            assert not any(each.done() for each in waiting)
            await largest.__aexit__(None, None, None)
            async with shares.room_to_decode(one, b.DECODED.most):
                await waiting[1]  # another user has room besides
                assert not waiting[0].done()
            await waiting[0]

    play(story)


HUGE = [{"command": f"sleep {number}"} for number in range(10 * b.TASKS.most)]
LARGE = HUGE[: b.TASKS.most]


def live_lists_of(count: int) -> int:
    """Return how many lists of so many objects are in memory, beside our own."""
    return sum(type(each) is list and len(each) == count and each is not HUGE for each in gc.get_objects())


@contextlib.asynccontextmanager
async def disk_that_waits() -> AsyncIterator[None]:
    """Keep all threads that wait for the disk busy."""
    goes_on = threading.Event()
    loop = asyncio.get_running_loop()
    busy = [loop.run_in_executor(None, goes_on.wait) for _ in range(64)]
    try:
        yield
    finally:
        goes_on.set()
        await asyncio.gather(*busy)


def test_refused_requests_are_not_in_memory_while_the_audit_log_waits_for_the_disk(tmp_path: Path) -> None:
    request = frame(json.dumps({"verb": "submit_job", "tasks": HUGE}).encode())

    async def story(scene: Scene) -> None:
        async with contextlib.AsyncExitStack() as stack:
            peers = [await stack.enter_async_context(scene.peer()) for _ in range(10)]
            async with disk_that_waits(), scene.peer() as other:
                for peer in peers:
                    peer.writer.write(request)
                    await peer.writer.drain()
                for _ in range(30):  # each lets one of the others begin
                    await other.done(verb="ping")
                assert live_lists_of(len(HUGE)) == 0
            for peer in peers:
                assert (await peer.receive())["code"] == "too-many-tasks"

    run(tmp_path, story)


@pytest.mark.parametrize(("end", "jobs"), [("write_eof", 1), ("close", 0)])
def test_what_a_client_asked_for_is_dropped_when_it_reads_no_answer_any_more(
    tmp_path: Path, end: str, jobs: int
) -> None:
    async def story(scene: Scene) -> None:
        shares = scene.context.shares
        async with scene.peer() as peer, scene.peer() as other:
            with shares.connected(os.geteuid(), administrator=True) as same_user:
                async with shares.room_to_decode(same_user, b.DECODED.most):
                    peer.writer.write(frame(json.dumps({"verb": "submit_job", "tasks": LARGE}).encode()))
                    await peer.writer.drain()
                    for _ in range(30):  # meanwhile it is read
                        await other.done(verb="ping")
                    getattr(peer.writer, end)()
                    await other.done(verb="ping")
            for _ in range(30):
                await other.done(verb="ping")
        assert len(scene.context.cluster.jobs) == jobs

    run(tmp_path, story)


def test_who_reads_no_answers_gets_no_more_of_them_until_he_reads() -> None:
    async def story() -> None:
        shares = UserShares()
        with shares.connected(1, administrator=False) as one, shares.connected(2, administrator=False) as two:
            unread = shares.unread(one, b.ANSWERS.most + 1)
            unread.__enter__()
            asked = asyncio.create_task(shares.turn(one))
            await shares.turn(two)
            assert not asked.done()
            unread.__exit__(None, None, None)
            await asked

    play(story)


@pytest.mark.parametrize(
    "request_",
    [
        b'{"verb": "job", "job": %d}' % 2**63,
        b'{"verb": "jobs", "before": %d}' % 2**70,
        b'{"verb": "read_output", "job": 1, "task": 1, "offset": %d}' % -(2**70),
        b'{"verb": "ping", "x": ' + b"[" * 100_000,
        b'{"verb": "ping", "x": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"verb": "ping\xff"}',
        b'{"verb": "\\ud800"}',
        b'{"verb": "jobs", "states": [' + b"1," * 500_000 + b"1]}",
        json.dumps({"verb": "x" * 1_000_000}).encode(),
        json.dumps({"verb": "cancel_job", "job": 1, "message": "x" * 5000}).encode(),
        json.dumps({"verb": "submit_job", "tasks": [{"command": "true"}] * (b.TASKS.most + 1)}).encode(),
        json.dumps(
            {"verb": "submit_job", "terms": {"jobname": "x" * 300}, "tasks": [{"command": "a"}]}
        ).encode(),
    ],
    ids=[
        "id",
        "cursor",
        "offset",
        "deep",
        "deeper",
        "bytes",
        "half",
        "many",
        "verb",
        "note",
        "tasks",
        "name",
    ],
)
def test_what_is_beyond_a_bound_is_refused_in_few_words_and_the_connection_goes_on(
    tmp_path: Path, request_: bytes
) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            peer.writer.write(struct.pack(">I", len(request_)) + request_)
            answer = await peer.receive()
            assert not answer["ok"]
            assert answer["code"] not in ("internal", "")
            assert len(answer["what"]) <= b.NOTE.most
            assert await peer.done(verb="ping")

    run(tmp_path, story)


def test_a_job_of_many_tasks_is_built_up_in_several_requests(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            some: list[dict[str, Any]] = [{"command": "true"}] * b.TASKS.most
            job = (await peer.done(verb="create_job", tasks=some))["job"]
            assert (await peer.done(verb="add_tasks", job=job, tasks=some))["tasks"][-1] == 2 * len(some)
            await peer.done(verb="submit_job", job=job)
            listed = await peer.done(verb="jobs")
            assert listed["jobs"][0]["tasks"]["total"] == 2 * len(some)

    run(tmp_path, story)


def test_a_list_reads_the_description_of_a_large_job_once_and_follows_its_changes(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            tasks: list[dict[str, Any]] = [
                {"command": "true", "name": f"task {number}"} for number in range(500)
            ]
            job = (await peer.done(verb="create_job", tasks=tasks, terms={"jobname": "before"}))["job"]
            assert (await peer.done(verb="jobs"))["jobs"][0]["name"] == "before"
            found = next(scene.context.lookups.newest(None, set(), None, 1))
            assert scene.context.briefs.weight(found) == 0
            await peer.done(verb="modify_job", job=job, terms={"jobname": "after"})
            assert scene.context.briefs.weight(found) > 0
            assert (await peer.done(verb="jobs"))["jobs"][0]["name"] == "after"

    run(tmp_path, story)


def test_who_watches_a_job_of_many_tasks_costs_no_more_than_who_watches_a_small_one(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer, scene.peer() as other:
            tasks = [{"command": f"true {number}"} for number in range(500)]
            job = (await other.done(verb="submit_job", tasks=tasks, terms={"numprocessors": "1-2"}))["job"]
            answer = [await peer.done(verb="watch_jobs", job=[job])]
            await scene.end(job, exit_code=0)
            found = next(scene.context.lookups.newest(None, set(), None, 1))
            assert scene.context.briefs.weight(found) == 0  # its description is read already
            answer.append(await peer.receive())
            assert [each["jobs"][0]["tasks"]["finished"] > 0 for each in answer] == [False, True]
            assert max(len(json.dumps(each)) for each in answer) < 2000

    run(tmp_path, story)


def test_a_page_ends_where_too_much_would_have_to_be_read_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_views, "PAGE_BYTES", b.PAGE_BYTES._replace(most=30_000))

    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            tasks: list[dict[str, Any]] = [{"command": "x" * 5000}] * 2
            made = [(await peer.done(verb="create_job", tasks=tasks))["job"] for _ in range(7)]
            seen: list[int] = []
            pages, before = 0, None
            while pages == 0 or before is not None:
                answer = await peer.done(verb="jobs", before=before)
                seen += [job["id"] for job in answer["jobs"]]
                pages, before = pages + 1, answer["more"]
            assert seen == made[::-1]
            assert pages > 2

    run(tmp_path, story)


def test_a_list_of_tasks_cuts_what_a_task_shows_whole(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            command = "true " + "x" * 50_000
            job = (await peer.done(verb="create_job", tasks=[{"command": command, "parametric": "1-5000"}]))[
                "job"
            ]
            page = await peer.done(verb="tasks", job=job, expand=1, limit=1_000_000)
            assert (len(page["tasks"]), page["more"]) == (b.TASK_PAGE.most, b.TASK_PAGE.most)
            assert len(page["tasks"][0]["command"]) == b.TASK_COMMAND.most
            assert (await peer.done(verb="task", job=job, task=1))["task"]["command"] == command

    run(tmp_path, story)
