"""A standby has what its head has: every row, and the very bytes of the state, over any history."""

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asked_filters import FilteredWorld
from test_elastic_nodes import tour_of_an_elastic_pool
from test_histories import (
    Hooked,
    OnGpus,
    Player,
    Preempting,
    tour_of_detached,
    tour_of_filters,
    tour_of_transfers,
    tour_of_waiting_for_files,
)
from test_resources import tour_of_a_choice, tour_of_a_resource
from test_usage_weights import WithWeights
from worlds import World

from depth import seeds
from headnode.core.model.errors import Refused
from headnode.core.state.job_events import JobEnded, JobUnarchived
from headnode.core.state.snapshot import Snapshot
from headnode.engine.recovery import save
from headnode.engine.replica import Replica
from replica_histories import History, closed_at_the_end, compare, opened, rows


def pages(history: History, begin: int, dice: random.Random, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last number of pages of up to `most` events."""
    after = begin
    while after < history.last:
        last = min(history.last, after + dice.randint(1, most))
        yield after, after + len(history.bodies(after, last))
        after += len(history.bodies(after, last))


def event_by_event(history: History, replica: Replica, dice: random.Random) -> None:
    for number in range(replica.number, history.last):
        replica.follow(number, history.bodies(number, number + 1), history.journal.ends)
        compare(history, replica)


def page_by_page(history: History, replica: Replica, dice: random.Random) -> None:
    for after, last in pages(history, replica.number, dice, 40):
        replica.follow(after, history.bodies(after, last), history.journal.ends)
        compare(history, replica)


def where_the_ends_are_not_known(history: History, replica: Replica, dice: random.Random) -> None:
    """As when the head has written more batches than it remembers: only the end of each target is known."""
    ends = [end for end in history.journal.ends[:-1] if dice.random() < 0.1] + [history.last]
    for after, last in pages(history, replica.number, dice, 60):
        replica.follow(after, history.bodies(after, last), ends)
        compare(history, replica)


def cut_and_read_again(history: History, replica: Replica, dice: random.Random) -> None:
    """As when the connection or the standby ends: what was not stored is sent again."""
    while replica.number < history.last:
        after = replica.number
        bodies = history.bodies(after, min(history.last, after + dice.randint(1, 40)))
        known = [end for end in history.journal.ends if after < end <= after + len(bodies)]
        ends = known if dice.random() < 0.5 else history.journal.ends[-1:]
        replica.follow(after, bodies, ends)
        compare(history, replica)
        if dice.random() < 0.3:
            replica.read_again()
            compare(history, replica)
        elif not replica.is_settled:
            here = after + len(bodies)
            end = next(end for end in history.journal.ends if end >= here)
            replica.follow(here, history.bodies(here, end), history.journal.ends)


__all__ = ["closed_at_the_end"]
WAYS = (event_by_event, page_by_page, where_the_ends_are_not_known, cut_and_read_again)


def check_followed(tmp_path: Path, history: History, way: Callable[..., None]) -> None:
    path = tmp_path / "copy.db"  # some of the history, if the history was copied there
    replica = Replica(opened(path))
    way(history, replica, random.Random(1))
    assert replica.is_settled
    history.note()
    assert replica.is_same(history.last, history.digests[history.last])
    replica.read_again()
    assert save(replica.cluster) == save(history.world.cluster)
    ours, theirs = (rows(each, tmp_path / "all") for each in (replica.store, history.journal.store))
    assert ours.keys() == theirs.keys() >= {"events", "ended_jobs"}
    for name, there in theirs.items():
        assert ours[name] == there, name


class Reviving(Player):
    """Brings jobs back again and again, so that they end more than once between two writes of a replica."""

    def step(self) -> None:
        with contextlib.suppress(Refused):
            if self.random.random() < 0.2:
                self.requeue()
            elif self.random.random() < 0.2:
                self.stop()
        super().step()


PLAYERS = (Player, Reviving, Preempting, Hooked, OnGpus, WithWeights)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("player", PLAYERS)
@pytest.mark.parametrize("seed", seeds(8))
def test_a_replica_of_any_history_is_the_same_to_the_last_byte(
    tmp_path: Path, seed: int, player: Callable[[int], Player], way: Callable[..., None]
) -> None:
    made = player(seed)
    history = History(tmp_path / "source.db", made.world)
    history.play(made, random.Random(seed), tmp_path / "copy.db")
    check_followed(tmp_path, history, way)


def test_the_histories_bring_jobs_back_and_end_them_again(tmp_path: Path) -> None:
    found: list[type] = []
    for seed in range(3):
        made = Reviving(seed)
        history = History(tmp_path / f"{seed}.db", made.world)
        history.play(made, random.Random(seed), tmp_path / f"copy-{seed}.db")
        found += [type(event) for _, event in history.journal.replay()]
    assert found.count(JobUnarchived) > 5
    assert found.count(JobEnded) > 20


TOURS: tuple[tuple[Callable[[Any], object], Callable[[], World]], ...] = (
    (tour_of_a_resource, lambda: World(1)),
    (tour_of_a_choice, lambda: World(1)),
    (tour_of_an_elastic_pool, lambda: World(1)),
    (tour_of_filters, lambda: FilteredWorld(4)),
    (tour_of_transfers, lambda: World(1)),
    (tour_of_waiting_for_files, lambda: World(1)),
    (tour_of_detached, lambda: World(1)),
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("tour", "made"), TOURS)
def test_a_replica_of_what_is_rare_is_the_same_to_the_last_byte(
    tmp_path: Path, tour: Callable[[Any], object], made: Callable[[], World], way: Callable[..., None]
) -> None:
    world = made()
    history = History(tmp_path / "source.db", world)
    tour(world)
    check_followed(tmp_path, history, way)


def kinds_in(kind: msgspec.inspect.Type, seen: set[object]) -> Iterator[msgspec.inspect.Type]:
    """Yield a type and all that are inside it."""
    yield kind
    inside: list[Any] = []
    match kind:
        case msgspec.inspect.StructType(cls=cls, fields=fields) if cls not in seen:
            seen.add(cls)
            inside = [field.type for field in fields]
        case msgspec.inspect.DataclassType(cls=cls, fields=fields) if cls not in seen:
            seen.add(cls)
            inside = [field.type for field in fields]
        case msgspec.inspect.UnionType(types=types):
            inside = list(types)
        case msgspec.inspect.DictType(key_type=key, value_type=value):
            inside = [key, value]
        case msgspec.inspect.TupleType(item_types=items):
            inside = list(items)
        case (
            msgspec.inspect.ListType(item_type=item)
            | msgspec.inspect.VarTupleType(item_type=item)
            | msgspec.inspect.SetType(item_type=item)
            | msgspec.inspect.FrozenSetType(item_type=item)
            | msgspec.inspect.Metadata(type=item)
        ):
            inside = [item]
    for each in inside:
        yield from kinds_in(each, seen)


def test_a_snapshot_has_nothing_whose_order_is_chance() -> None:
    """Sets of texts have another order in each process: two equal clusters would have other bytes."""
    found = list(kinds_in(msgspec.inspect.type_info(Snapshot), set()))
    assert len(found) > 100
    wrong = (msgspec.inspect.SetType, msgspec.inspect.FrozenSetType, msgspec.inspect.AnyType)
    assert [kind for kind in found if isinstance(kind, wrong)] == []
