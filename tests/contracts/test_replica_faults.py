"""What a replica refuses: events that are not known, come in part, or do not follow; another state."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, Unavailable
from headnode.core.model.task import TaskSpec
from headnode.core.state.join import TakeOver
from headnode.engine.recovery import save
from headnode.engine.replica import Replica
from replica_histories import History, closed_at_the_end, compare, opened, rows

__all__ = ["closed_at_the_end"]


def short_history(tmp_path: Path) -> History:
    world = World(2)
    history = History(tmp_path / "source.db", world)
    job = world.submit(TaskSpec(command="x"), by=ADA)
    world.end(job, 1)
    world.submit(TaskSpec(command="x"), by=ADA)
    history.note()
    return history


def followed(tmp_path: Path, history: History) -> Replica:
    replica = Replica(opened(tmp_path / "copy.db"))
    replica.follow(0, history.bodies(0, history.last), history.journal.ends)
    return replica


def word_of_tomorrow(event: bytes) -> bytes:
    """Return an event with a field that only a later version knows."""
    output = msgspec.msgpack.decode(event)
    return msgspec.msgpack.encode({**output, "of_tomorrow": 1})


def job_of_tomorrow(event: bytes) -> bytes:
    """Return an event whose description has such a field; it is not decoded before the job is looked at."""
    output = msgspec.msgpack.decode(event)
    spec = msgspec.msgpack.decode(output["spec"])
    return msgspec.msgpack.encode({**output, "spec": msgspec.msgpack.encode({**spec, "of_tomorrow": 1})})


@pytest.mark.parametrize("newer", [word_of_tomorrow, job_of_tomorrow, lambda _: b"", lambda _: b"\xc1"])
def test_an_event_that_is_not_known_is_refused_when_it_comes_and_changes_nothing(
    tmp_path: Path, newer: Callable[[bytes], bytes]
) -> None:
    history = short_history(tmp_path)
    replica = followed(tmp_path, history)
    before = rows(replica.store, tmp_path / "all")
    after = history.last
    history.world.submit(TaskSpec(command="y"), TaskSpec(command="z"))
    good = history.bodies(after, history.last)
    created = next(at for at, body in enumerate(good) if b"JobCreated" in body)
    bodies = [*good[:created], newer(good[created]), *good[created + 1 :]]
    with pytest.raises(Unavailable, match="journal-unknown") as refused:
        replica.follow(after, bodies, history.journal.ends)
    assert f"event {after + created + 1} has something" in str(refused.value)
    assert not replica.is_settled
    assert rows(replica.store, tmp_path / "all") == before
    replica.read_again()
    replica.follow(after, good, history.journal.ends)  # as after an upgrade
    history.note()
    compare(history, replica)


def test_a_takeover_after_an_event_that_failed_half_way_begins_with_what_is_on_the_disk(
    tmp_path: Path,
) -> None:
    history = short_history(tmp_path)
    replica = followed(tmp_path, history)
    after = history.last
    history.world.submit(TaskSpec(command="y"))
    good = history.bodies(after, history.last)
    with pytest.raises(Unavailable):
        replica.follow(after, [*good, b"never"], [after + len(good) + 1])
    replica.carry_out(TakeOver(by=ROOT, name="spare", address="b:1", forced=True), history.world.clock.now())
    live = save(replica.cluster)
    replica.read_again()
    assert save(replica.cluster) == live
    assert (replica.number, replica.cluster.term, len(replica.cluster.jobs)) == (after + 1, 1, 1)


def test_a_batch_that_has_come_in_part_is_none_at_a_takeover(tmp_path: Path) -> None:
    history = short_history(tmp_path)
    replica = followed(tmp_path, history)
    after = history.last
    history.world.submit(TaskSpec(command="y"))
    replica.follow(after, history.bodies(after, history.last)[:1], history.journal.ends)
    assert len(replica.cluster.jobs) == 2
    replica.carry_out(TakeOver(by=ROOT, name="spare", address="b:1", forced=True), history.world.clock.now())
    assert (replica.number, len(replica.cluster.jobs)) == (after + 1, 1)


def test_events_that_do_not_follow_what_is_here_are_refused(tmp_path: Path) -> None:
    history = short_history(tmp_path)
    replica = followed(tmp_path, history)
    for after in (0, history.last - 1, history.last + 1):
        with pytest.raises(BadRequest, match="standby-events"):
            replica.follow(after, history.bodies(0, 1), [after + 1])
    assert replica.is_settled
    compare(history, replica)


def test_another_state_is_seen_by_its_digest(tmp_path: Path) -> None:
    history = short_history(tmp_path)
    replica = followed(tmp_path, history)
    replica.cluster.parameters["HeartbeatInterval"] = "7"
    assert not replica.is_same(history.last, history.digests[history.last])
    assert replica.store.newest_snapshot() is None
    replica.read_again()
    assert replica.is_same(history.last, history.digests[history.last])
    assert replica.store.newest_snapshot() == (history.last, save(replica.cluster))


def test_a_replica_does_not_grow_with_the_jobs_that_are_over(tmp_path: Path) -> None:
    world = World(4)
    history = History(tmp_path / "source.db", world)
    for _ in range(100):
        world.end(world.submit(TaskSpec(command="x")), 1)
    replica = followed(tmp_path, history)
    agenda = replica.cluster.agenda
    assert len(agenda.dirty_jobs | agenda.dirty_job_views | agenda.for_archive.keys()) == 0
    assert len(agenda.deadlines) < 100
