"""A joined node finds the head that took over, and obeys none that was replaced."""

import asyncio
import contextlib
import json
import logging
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.nodes.membership import (
    MAX_ADDRESS,
    MAX_HEADS,
    Membership,
    NodeIdentity,
    usable_addresses,
)
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.wire import tls
from headnode.adapters.wire.agent_messages import MAX_REPORT, PROTOCOL, Hello
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import FromHead, Goodbye, Welcome
from headnode.adapters.wire.tls import Authority, head_side, request_for
from headnode.apps.agent.head_link import REDIAL, HeadLink
from headnode.apps.agent.known_heads import MAX_PAUSE, OTHERS_AFTER, DialOrder, KnownHeads
from headnode.core.model.errors import IS_STANDBY
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Seconds
from testbed.processes import free_address, unanswering

TIMEOUT = 20.0  # seconds
FAST = 50.0  # how much faster the clock of the addresses goes here

A, B, C = ("a", 1), ("b", 2), ("c", 3)


def dialed(order: DialOrder, until: float, answered: bool = False) -> list[str]:
    """Dial until a time, with nobody to obey anywhere; return the hosts."""
    now, found = 0.0, []
    while now < until:
        address = order.next(now)
        found.append(address[0])
        order.missed(address, now, answered=answered and address != A)
        now += order.wait(now)
    return found


def test_a_head_that_is_started_again_is_dialed_as_often_as_one_that_is_alone() -> None:
    assert dialed(DialOrder([A, B, C]), OTHERS_AFTER) == dialed(DialOrder([A]), OTHERS_AFTER)


def test_the_others_are_dialed_in_turn_and_the_last_head_in_between() -> None:
    tried = "".join(dialed(DialOrder([A, B, C]), OTHERS_AFTER + 4)).lstrip("a")
    assert tried[:4] == "baca"
    assert "bb" not in tried
    assert "cc" not in tried


def test_thousands_of_nodes_leave_a_standby_time_and_it_is_not_forgotten() -> None:
    tried = dialed(DialOrder([A, B]), 600.0, answered=True)
    assert 600 / MAX_PAUSE <= tried.count("b") <= 2 * 600 / MAX_PAUSE + 10
    assert tried.count("a") > 0.5 * 600 / REDIAL


def test_one_that_says_that_it_is_no_head_any_more_is_left_at_once() -> None:
    order = DialOrder([A, B])
    order.missed(order.next(0.0), 0.0, answered=True)
    assert order.next(REDIAL) == B
    order.missed(B, REDIAL, answered=True)
    assert 2 * REDIAL <= REDIAL + order.wait(REDIAL) <= MAX_PAUSE


def test_a_single_address_that_is_a_standby_is_dialed_again() -> None:
    order = DialOrder([A])
    order.missed(order.next(0.0), 0.0, answered=True)
    assert order.wait(0.0) >= REDIAL
    assert order.next(1.0) == A


@pytest.mark.parametrize(
    ("texts", "usable"),
    [
        (["h:1", "[::1]:2", "h:1"], [("h", 1), ("::1", 2)]),
        (["h"], [("h", 5817)]),
        (["", "h:x", "h:99999", "a b:1", "a/b:1", "h" * MAX_ADDRESS + ":1", "h:1"], [("h", 1)]),
        ([f"h{number}:1" for number in range(1000)], [(f"h{number}", 1) for number in range(MAX_HEADS)]),
    ],
)
def test_of_addresses_that_are_none_nothing_is_left(texts: list[str], usable: list[tuple[str, int]]) -> None:
    assert usable_addresses(texts) == usable


def test_a_membership_of_before_is_read_and_defaults_are_not_written(
    tmp_path: Path,
) -> None:
    identity = NodeIdentity(tmp_path)
    (tmp_path / "identity").mkdir()
    file = tmp_path / "identity" / "membership.json"
    file.write_text('{"host":"h","port":1,"node":"n"}')
    belongs = identity.membership()
    assert belongs == Membership("h", 1, "n")
    identity.keep(belongs)
    assert json.loads(file.read_text()) == {"host": "h", "port": 1, "node": "n"}
    identity.keep(Membership("h", 1, "n", heads=("b:1",), former="a:1", term=3))
    assert identity.membership() == Membership("h", 1, "n", heads=("b:1",), former="a:1", term=3)
    assert [each.name for each in file.parent.iterdir()] == ["membership.json"]


class SpokenHead:
    """What answers at an address, with the certificate of the cluster; `answer` None: it only hangs up."""

    def __init__(self, answer: FromHead | None) -> None:
        self.answer, self.received = answer, 0
        self.address = free_address()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def open(self, authority: Authority) -> None:
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=head_side(authority)
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if await read_frame(reader, MAX_REPORT) is not None:
            self.received += 1
            if self.answer is None:
                writer.close()
            else:
                self.send(self.answer)

    def send(self, message: FromHead) -> None:
        self._writers[-1].write(frame(msgspec.msgpack.encode(message)))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()

    async def end(self) -> None:
        self.close()
        for writer in self._writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


class Speaker:
    """An agent that notes what it hears."""

    def __init__(self) -> None:
        self.obeyed: list[FromHead] = []
        self.off: list[float] = []

    def hello(self) -> Hello:
        return Hello(protocol=PROTOCOL, facts=NodeFacts(name="n", processors=1, memory=1))

    def obey(self, message: FromHead) -> None:
        self.obeyed.append(message)

    def beat(self) -> None:
        return

    def head_is_away(self) -> None:
        return

    def head_is_off(self, dialed: float, *, ended: bool) -> None:
        self.off.append(dialed)


def welcome(name: str, *heads: str, term: int = 0) -> Welcome:
    return Welcome(cluster=name, heartbeat=Seconds(60.0), grace=Seconds(1.0), heads=heads, term=term)


STANDBY = Goodbye(reason=f"{IS_STANDBY}: this is a standby head")


class Scene:
    """A joined node whose heads are spoken by hand."""

    def __init__(self, directory: Path) -> None:
        self._authority = Authority(directory / "authority")
        folder = directory / "node" / "identity"
        folder.mkdir(parents=True)
        (folder / "authority.pem").write_bytes(self._authority.certificate)
        certificate, _ = self._authority.vouch_for(request_for("n", folder / "node.key"), "n")
        (folder / "node.pem").write_bytes(certificate)
        self.identity, self.speaker = NodeIdentity(directory / "node"), Speaker()
        self._heads: list[SpokenHead] = []

    async def head(self, answer: FromHead | None) -> SpokenHead:
        made = SpokenHead(answer)
        await self.open(made)
        return made

    async def open(self, head: SpokenHead) -> None:
        self._heads.append(head)
        await head.open(self._authority)

    def joined(self, address: str, *heads: str, **more: object) -> None:
        host, _, port = address.rpartition(":")
        self.identity.keep(Membership(host, int(port), "n", heads=heads, **more))

    @property
    def membership(self) -> Membership:
        found = self.identity.membership()
        assert found is not None
        return found

    @property
    def clusters(self) -> list[str]:
        return [each.cluster for each in self.speaker.obeyed if isinstance(each, Welcome)]

    @asynccontextmanager
    async def talking(self) -> AsyncIterator[KnownHeads]:
        known = KnownHeads(self.identity, lambda: boot_time() * FAST)
        link = HeadLink(known, self.speaker)
        task = asyncio.create_task(link.talk())
        try:
            yield known
        finally:
            task.cancel()
            await asyncio.wait([task])
            await link.finish()
            for head in self._heads:
                await head.end()


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not happened():
            await asyncio.sleep(0.005)


def run_story(tmp_path: Path, story: Callable[[Scene], Awaitable[None]]) -> Scene:
    scene = Scene(tmp_path)
    asyncio.run(story(scene))
    return scene


def test_a_node_moves_to_the_standby_that_took_over_and_tasks_follow(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        standby = await scene.head(STANDBY)
        first = await scene.head(welcome("first", standby.address, term=1))
        scene.joined(first.address)
        async with scene.talking() as known:
            await until(lambda: scene.clusters == ["first"])
            assert scene.membership.heads == (standby.address,)
            first.close()
            await until(lambda: standby.received >= 2)
            assert scene.clusters == ["first"]
            standby.answer = welcome("second", term=2)
            await until(lambda: scene.clusters == ["first", "second"])
            assert str(known) == standby.address
            _, writer = await known.dial_for_tasks()
            assert writer.get_extra_info("peername")[1] == standby.port
            writer.close()
        belongs = Membership("127.0.0.1", standby.port, "n", former=first.address, term=2)
        assert scene.membership == belongs

    run_story(tmp_path, story)


def test_an_old_head_is_refused_in_words_and_the_next_one_is_dialed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene) -> None:
        old, new = await scene.head(welcome("old", "x:1", term=1)), await scene.head(welcome("new", term=2))
        scene.joined(old.address, new.address, term=2)
        async with scene.talking():
            await until(lambda: scene.clusters)
        assert scene.clusters == ["new"]
        assert (scene.membership.port, scene.membership.heads) == (new.port, ())

    with caplog.at_level(logging.WARNING):
        run_story(tmp_path, story)
    found = [record.getMessage() for record in caplog.records if "old head" in record.getMessage()]
    assert len(found) == 1
    assert "its term is 1, and this node has seen the head of term 2" in found[0]


def test_a_head_that_is_old_is_reported_now_and_then_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene) -> None:
        old = await scene.head(welcome("old", term=1))
        scene.joined(old.address, free_address(), term=2)
        async with scene.talking():
            await until(lambda: old.received >= 6)
        assert scene.speaker.obeyed == []

    with caplog.at_level(logging.WARNING):
        run_story(tmp_path, story)
    assert 1 <= sum("old head" in record.getMessage() for record in caplog.records) <= 3


@pytest.mark.parametrize("term", [-1, 2**60])
def test_a_term_that_cannot_be_is_not_remembered(tmp_path: Path, term: int) -> None:
    async def story(scene: Scene) -> None:
        silly = await scene.head(welcome("silly", term=term))
        scene.joined(silly.address)
        async with scene.talking():
            await until(lambda: silly.received >= 2)
        assert scene.speaker.obeyed == []
        assert scene.membership.term == 0

    run_story(tmp_path, story)


def test_what_a_head_says_while_it_is_connected_is_remembered_and_silly_addresses_are_not(
    tmp_path: Path,
) -> None:
    async def story(scene: Scene) -> None:
        head = await scene.head(welcome("one", "b:1"))
        scene.joined(head.address)
        async with scene.talking():
            await until(lambda: scene.membership.heads == ("b:1",))
            long = f"{'ß' * 70}:1"  # letters, but no name that can be looked up
            silly = "", "no address", "c" * 400, "\ud7ff:1"
            head.send(welcome("one", "c:1", *silly, head.address, long, "d:2"))
            await until(lambda: scene.membership.heads != ("b:1",))
            assert scene.membership.heads == ("c:1", long, "d:2")
            head.send(welcome("one", term=5))
            await until(lambda: scene.membership.term == 5)
            assert scene.membership.heads == ()
            head.send(welcome("one", term=4))
            await until(lambda: head.received >= 2)
        assert len(scene.clusters) == 3

    run_story(tmp_path, story)


def test_names_that_no_host_can_have_keep_nobody_from_the_head(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        head = await scene.head(welcome("one"))
        nowhere = free_address()
        scene.joined(nowhere, "h" * 100 + ":1", "\x00:1", ".:1", "", head.address)
        async with scene.talking():
            await until(lambda: scene.clusters)

    run_story(tmp_path, story)


def test_a_goodbye_is_obeyed_only_when_the_last_head_says_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        other = await scene.head(Goodbye(reason="cancel"))
        last = SpokenHead(Goodbye(reason="this node was removed"))
        scene.joined(last.address, other.address)
        async with scene.talking():
            await until(lambda: other.received >= 2)
            assert scene.speaker.obeyed == []
            await scene.open(last)
            await until(lambda: scene.speaker.obeyed)
        assert scene.speaker.obeyed[0] == last.answer

    run_story(tmp_path, story)


def test_the_head_is_off_only_if_no_address_has_one(tmp_path: Path) -> None:
    """Else another may have given away what runs here: the lease must end."""

    async def story(scene: Scene) -> None:
        standby = await scene.head(None)
        scene.joined(free_address(), standby.address)
        async with scene.talking():
            await until(lambda: standby.received >= 2)
            assert scene.speaker.off == []
            standby.answer = STANDBY
            await until(lambda: scene.speaker.off)
        assert scene.speaker.off[0] <= boot_time()
        assert scene.speaker.off == sorted(scene.speaker.off)

    run_story(tmp_path, story)


def test_a_former_head_that_is_away_does_not_keep_a_lease_from_going_on(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        former = await scene.head(None)
        scene.joined(free_address(), former=former.address)
        async with scene.talking():
            await until(lambda: scene.speaker.off)

    run_story(tmp_path, story)


def test_on_a_full_disk_the_node_follows_all_the_same_and_writes_it_down_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(scene: Scene) -> None:
        head = await scene.head(welcome("one", "b:1", term=3))
        scene.joined(head.address)
        before, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        async with scene.talking():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
            try:
                await until(lambda: scene.clusters)
                head.send(welcome("two", "b:1", term=2))  # the term is remembered in memory
                await until(lambda: head.received >= 2)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (before, resource.RLIM_INFINITY))
            assert "two" not in scene.clusters
            await until(lambda: len(scene.clusters) >= 2)
            head.send(welcome("three", "b:1", term=3))
            await until(lambda: scene.membership.term == 3)

    with caplog.at_level(logging.WARNING):
        run_story(tmp_path, story)
    assert any("cannot be written down" in record.getMessage() for record in caplog.records)


def test_a_node_that_joins_anew_meanwhile_belongs_to_the_new_head(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        old, new = await scene.head(welcome("old", term=7)), await scene.head(welcome("new", term=0))
        scene.joined(old.address)
        async with scene.talking():
            await until(lambda: scene.membership.term == 7)
            scene.joined(new.address)
            old.send(welcome("old", term=8))
            await until(lambda: scene.clusters == ["old", "new"])
        assert scene.membership == Membership("127.0.0.1", new.port, "n")

    run_story(tmp_path, story)


def test_a_machine_that_answers_nothing_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "CONNECT", 0.2)

    async def story(scene: Scene) -> None:
        head = await scene.head(welcome("one"))
        with unanswering() as silent:
            scene.joined(silent, head.address)
            async with scene.talking():
                await until(lambda: scene.clusters)
            assert scene.speaker.off == []

    run_story(tmp_path, story)
