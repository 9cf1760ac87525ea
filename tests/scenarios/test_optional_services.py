"""What only some clusters use is imported and made with its first use, and misses nothing of it."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headnode.apps.server.api.verbs import VerbTable
from headnode.apps.server.optional_services import LastingWork, OptionalEventService, OptionalService
from headnode.core.model.quantities import Instant
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, NodeUnreachable

VERB = """
from headnode.apps.server.api.verbs import READS, verb
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import VerbRequest

@verb(READS)
async def {name}(context: object, by: object, request: VerbRequest) -> VerbAnswer: ...
"""


class Listener:
    """A part that remembers what it learned, and that it worked."""

    def __init__(self) -> None:
        self.learned: list[Event] = []
        self.works = asyncio.Event()

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        self.learned += events

    async def keep(self) -> None:
        self.works.set()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "verbs_of_a_test"
    folder.mkdir()
    for name in ("first", "second", "third"):
        (folder / f"{name}.py").write_text(VERB.format(name=f"show_{name}"))
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder.name


def loaded(package: str) -> set[str]:
    return {name.partition(".")[2] for name in sys.modules if name.startswith(f"{package}.")}


def test_a_verb_of_a_module_that_is_not_imported_yet_is_found(package: str) -> None:
    verbs = VerbTable(package, at_start=("first",), later=("second", "third"))
    assert "show_first" in verbs
    assert loaded(package) == {"first"}
    assert verbs["show_second"].name == "show_second"
    assert loaded(package) == {"first", "second"}
    assert [*verbs] == ["show_first", "show_second", "show_third"]
    for name in loaded(package):
        del sys.modules[f"{package}.{name}"]


def test_a_name_that_no_module_declares_is_no_verb(package: str) -> None:
    verbs = VerbTable(package, at_start=("first",), later=("second",))
    assert "show_nothing" not in verbs
    assert len(verbs) == 2
    for name in loaded(package):
        del sys.modules[f"{package}.{name}"]


def test_a_module_that_could_not_be_imported_is_tried_again(package: str, tmp_path: Path) -> None:
    broken = tmp_path / package / "second.py"
    whole = broken.read_text()
    broken.write_text("raise MemoryError")
    verbs = VerbTable(package, at_start=("first",), later=("second",))
    with pytest.raises(MemoryError):
        verbs["show_second"]
    broken.write_text(whole)
    assert verbs["show_second"].name == "show_second"
    for name in loaded(package):
        del sys.modules[f"{package}.{name}"]


def test_a_part_learns_of_the_events_by_which_it_is_needed_and_of_no_earlier_ones() -> None:
    need: list[bool] = []
    part = OptionalEventService(Listener, lambda: bool(need))
    before, after = (NodeUnreachable(at=Instant(at), node="n1") for at in (1.0, 2.0))
    part.perform([before], ClusterState())
    assert part.service is None
    need.append(True)
    part.perform([after], ClusterState())
    assert part.service is not None
    assert part.service.learned == [after]


def test_a_part_works_as_soon_as_it_is_made_and_is_made_once() -> None:
    async def scene() -> None:
        need: list[bool] = []
        part = OptionalService(Listener, lambda: bool(need))
        keeping = asyncio.create_task(part.keep())
        await asyncio.sleep(0)
        assert part.service is None
        need.append(True)
        part.look()
        first = part.service
        await keeping
        part.look()
        assert part.service is first
        assert first is not None
        assert first.works.is_set()

    asyncio.run(scene())


def test_a_part_whose_need_no_event_shows_is_made_by_looking_again() -> None:
    async def scene() -> None:
        looks: list[int] = []

        def needed() -> bool:
            looks.append(1)
            return len(looks) == 3

        part = OptionalService(Listener, needed, every=0.001)
        await part.keep()
        assert len(looks) == 3
        assert part.service is not None
        assert part.service.works.is_set()

    asyncio.run(scene())


class Fragile:
    """Work that ends in each of these ways, one after the other, and then goes on until it is cancelled."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.goes_on = asyncio.Event()
        self.is_cancelled = False

    async def keep(self) -> None:
        if self.ends:
            end = self.ends.pop(0)
            if end is not None:
                raise end
            return
        self.goes_on.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise


def test_work_that_fails_ends_or_is_cancelled_by_what_it_waits_for_begins_again_and_is_reported() -> None:
    async def scene() -> None:
        failed: dict[str, str] = {}
        work, other = Fragile(KeyError("x"), asyncio.CancelledError(), None), Fragile()
        beside = LastingWork(failed, first=0.001)
        beside.begin("notices", work.keep)
        beside.begin("other", other.keep)
        async with asyncio.timeout(10):
            await work.goes_on.wait()
        assert list(failed) == ["notices"]
        assert "begins again" in failed["notices"]
        beside.cancel()
        await beside.ended()
        assert work.is_cancelled
        assert other.is_cancelled

    asyncio.run(scene())


def test_a_failure_is_forgotten_when_the_work_has_gone_on_for_a_time() -> None:
    async def scene() -> None:
        failed: dict[str, str] = {}
        work = Fragile(OSError("no descriptors"))
        beside = LastingWork(failed, first=0.001, steady=0.2)
        beside.begin("notices", work.keep)
        async with asyncio.timeout(10):
            await work.goes_on.wait()
            assert failed == {"notices": "it failed with OSError, and begins again after a pause; "
                              "see the log of the head"}  # fmt: skip
            while failed:
                await asyncio.sleep(0.001)
        beside.cancel()
        await beside.ended()

    asyncio.run(scene())
