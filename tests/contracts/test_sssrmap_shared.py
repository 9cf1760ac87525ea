"""Queries share what was found a moment ago, and never see the state of before a change."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from headnode.apps.web.sssrmap import service
from headnode.apps.web.sssrmap.queries import SharedObjects
from headnode.apps.web.sssrmap.service import IdGuard, SharedAnswers
from headnode.core.formats.sss.sssrmap.messages import RmapRequest, canonical, leaf
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.errors import Unavailable

KEY = ("jobs",)


class Source:
    """What the answers are made of: counts how often, and waits until it is told to go on."""

    def __init__(self) -> None:
        self.made = 0
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def make(self) -> int:
        self.made += 1
        number = self.made
        await self.goes_on.wait()
        return number


def run(scene: Callable[[SharedAnswers, Source], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(20):
            await scene(SharedAnswers(), Source())

    asyncio.run(whole())


def test_queries_at_the_same_time_are_one_request() -> None:
    async def scene(shared: SharedAnswers, source: Source) -> None:
        found = await asyncio.gather(*(shared.find(KEY, source.make) for _ in range(50)))
        assert (set(found), source.made) == ({1}, 1)
        assert await shared.find(KEY, source.make) == 1
        assert await shared.find(("nodes",), source.make) == 2

    run(scene)


def test_an_older_answer_is_given_while_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "FRESH", 0.0)
    monkeypatch.setattr(service, "SHARE", 0)

    async def scene(shared: SharedAnswers, source: Source) -> None:
        assert await shared.find(KEY, source.make, 0.0) == 1
        source.goes_on.clear()
        assert await shared.find(KEY, source.make, 0.0) == 1  # does not wait
        assert shared.peek(KEY) == 1
        await asyncio.sleep(0)
        source.goes_on.set()
        while shared.peek(KEY) == 1:
            await asyncio.sleep(0)
        assert source.made == 2
        assert await shared.find(KEY, source.make, 60.0) == 2

    run(scene)


def test_an_answer_that_is_too_old_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "STALE", 0.0)

    async def scene(shared: SharedAnswers, source: Source) -> None:
        assert await shared.find(KEY, source.make, 0.0) == 1
        assert await shared.find(KEY, source.make, 0.0) == 2

    run(scene)


def test_an_answer_that_took_long_is_given_for_longer_so_that_the_head_has_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=lambda: now))

    async def scene(shared: SharedAnswers, source: Source) -> None:
        nonlocal now

        async def make() -> int:
            nonlocal now
            now += 0.2
            return await source.make()

        assert await shared.find(KEY, make) == 1  # asked for at 1000.0
        now = 1003.9
        assert (await shared.find(KEY, make), source.made) == (1, 1)
        now = 1004.1
        assert await shared.find(KEY, make) == 1
        while source.made == 1:
            await asyncio.sleep(0)
        assert await shared.find(KEY, make) == 2

    run(scene)


def test_the_same_question_about_the_same_objects_is_answered_once() -> None:
    objects = SharedObjects([XmlElement("Job", {}, [leaf("JobId", "a&b")])])
    rows = [XmlElement("Job", {"a": '"'}, [leaf("JobId", "a&b"), leaf("Name", "")])]
    kept = objects.keep("question", list(rows))
    assert [canonical(one) for one in kept] == [canonical(one) for one in rows]
    assert objects.answers["question"] is kept
    for number in range(100):
        objects.keep(number, rows)
    assert len(objects.answers) < 100


def test_after_a_change_nothing_of_before_is_given() -> None:
    async def scene(shared: SharedAnswers, source: Source) -> None:
        source.goes_on.clear()
        early = asyncio.create_task(shared.find(KEY, source.make))
        await asyncio.sleep(0)
        shared.forget()  # a change was carried out
        late = asyncio.create_task(shared.find(KEY, source.make))
        await asyncio.sleep(0)
        source.goes_on.set()
        assert (await early, await late) == (1, 2)
        assert await shared.find(KEY, source.make) == 2

    run(scene)


def test_a_failure_is_told_to_all_who_wait_and_not_kept() -> None:
    async def fail() -> int:
        await asyncio.sleep(0)
        raise Unavailable(code="no-head", what="no head is running")

    async def scene(shared: SharedAnswers, source: Source) -> None:
        found = await asyncio.gather(*(shared.find(KEY, fail) for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in found] == [Unavailable] * 3
        assert await shared.find(KEY, source.make) == 1

    run(scene)


def test_a_query_that_hangs_up_takes_nothing_from_the_others() -> None:
    async def scene(shared: SharedAnswers, source: Source) -> None:
        source.goes_on.clear()
        first, second = (asyncio.create_task(shared.find(KEY, source.make)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        source.goes_on.set()
        assert (await second, source.made) == (1, 1)

    run(scene)


def test_the_rows_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_SHARED", 100)

    async def rows() -> list[int]:
        return [0] * 60

    async def scene(shared: SharedAnswers, source: Source) -> None:
        for number in range(5):
            await shared.find((number,), rows)
        assert [number for number in range(5) if shared.peek((number,)) is not None] == [4]

    run(scene)


# ---------------------------------------------------------------- ids


def asked(made: float, random: str = "abcdefgh", action: str = "Cancel", actor: str = "ann") -> RmapRequest:
    return RmapRequest(action=action, actor=actor, id=f"{int(made)}-{random}")


def refusal(guard: IdGuard, request: RmapRequest, now: float) -> StatusCode:
    with pytest.raises(MessageFault) as refused:
        guard.admit(request, now)
    return refused.value.status


def test_an_id_counts_once_for_its_actor_within_its_time() -> None:
    begun = 1_000_000_000.0
    guard = IdGuard(begun, required=False)
    now = begun + 1000
    assert guard.admit(asked(now), now) is not None
    assert refusal(guard, asked(now), now + 1) is StatusCode.NOT_UNIQUE
    assert guard.admit(asked(now, actor="bob"), now) is not None
    assert refusal(guard, asked(now - 400, "other-one"), now) is StatusCode.AUTHENTICATION
    assert refusal(guard, asked(now + 400, "other-one"), now) is StatusCode.AUTHENTICATION
    assert refusal(guard, asked(now), now + 700) is StatusCode.AUTHENTICATION  # forgotten, and too old


def test_what_was_recorded_before_the_start_is_refused() -> None:
    begun = 1_000_000_000.0
    assert refusal(IdGuard(begun, required=False), asked(begun - 10), begun + 1) is StatusCode.AUTHENTICATION


def test_an_id_of_the_future_is_refused_as_a_restart_would_forget_it() -> None:
    begun = 1_000_000_000.0
    ahead = asked(begun + 60)
    assert refusal(IdGuard(begun - 100, required=False), ahead, begun - 1) is StatusCode.AUTHENTICATION
    assert IdGuard(begun, required=False).admit(asked(begun + 3), begun) is not None


def test_a_submission_is_answered_again_by_the_head() -> None:
    begun = 1_000_000_000.0
    guard = IdGuard(begun, required=True)
    keys = {guard.admit(asked(begun, action="Submit"), begun + number) for number in range(3)}
    assert keys == {f"sssrmap {int(begun)}-abcdefgh"}
    assert refusal(guard, RmapRequest(action="Cancel", actor="ann", id="17"), begun) is StatusCode.MISSING
    assert (
        IdGuard(begun, required=False).admit(RmapRequest(action="Cancel", actor="a", id="17"), begun) is None
    )
