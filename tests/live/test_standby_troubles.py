"""What a standby cannot store, or must not, is told; the head goes on, and so does the standby later."""

import contextlib
import os
import signal
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.nodes.membership import read_address
from headnode.adapters.standby import sender
from headnode.adapters.wire.standby_messages import IsHead
from headnode.adapters.wire.tls import Authority
from standbys import ChangedEvents, Leader, Standby, leader_and_standby
from testbed.processes import until
from testbed.small_disks import small_disk

root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


@pytest.fixture(autouse=True)
def soon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "AFTER_PROBLEM", 0.2)


class NewerSource(ChangedEvents):
    """The events of a head of tomorrow: its jobs have a field that is not known today."""

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return [(number, _newer(body)) for number, body in super().rows(after, limit)]


def _newer(body: bytes) -> bytes:
    if b"JobCreated" not in body:
        return body
    return msgspec.msgpack.encode({**msgspec.msgpack.decode(body), "of_tomorrow": 1})


def fill(file: Path) -> None:
    """Write a file that takes all the room of its disk."""
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))


def numbers_on_disk(standby: Standby, scratch: Path) -> int:
    store = standby.on_disk(scratch)
    try:
        return store.last_number
    finally:
        store.close()


def test_an_event_that_the_standby_does_not_know_stops_it_and_changes_nothing_there(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        number = leader.store.last_number
        leader.senders[standby.name].stop()
        leader.senders[standby.name].join()
        newer = leader.follow(standby, NewerSource(leader.store))
        assert leader.submit() < leader.wait + 1.5
        leader.until_problem(standby, f"event {number + 1} has something that Headnode")
        assert standby.status()["number"] == number
        assert not leader.follower(standby).in_step
        assert leader.submit() < 1.5  # nobody waits for it
        standby.send(signal.SIGSTOP)
        assert numbers_on_disk(standby, tmp_path / "seen") == number
        standby.send(signal.SIGCONT)
        newer.stop()
        newer.join()
        leader.follow(standby)  # as after its upgrade
        leader.until_in_step(standby)


@pytest.mark.root
@root
def test_a_full_disk_of_the_standby_is_told_and_it_catches_up_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "standby", "4m") as disk, leader_and_standby(tmp_path) as (leader, standby):
        filler = disk / "filler"
        fill(filler)
        for _ in range(40):
            assert leader.submit(10) < leader.wait + 1.5
        leader.until_problem(standby, "journal-full")
        assert leader.submit() < 1.5
        assert standby.process is not None
        assert standby.process.poll() is None
        filler.unlink()
        leader.until_in_step(standby)
        assert "journal-full" not in standby.status()["problem"]


@pytest.mark.root
@root
def test_a_copy_that_does_not_fit_leaves_the_journal_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "standby", "3m") as disk, leader_and_standby(tmp_path) as (leader, standby):
        number = leader.store.last_number
        standby.stop(signal.SIGTERM)
        monkeypatch.setattr(sender, "FARTHEST", 10)
        for _ in range(60):
            leader.submit(100)
        fill(disk / "filler")
        os.truncate(disk / "filler", (disk / "filler").stat().st_size - 400_000)
        standby.start()
        leader.until_problem(standby, "No space left")
        assert standby.status()["number"] == number
        standby.stop(signal.SIGTERM)
        assert not (disk / "state" / "journal.db.copy").exists()
        assert numbers_on_disk(standby, tmp_path / "seen") == number
        (disk / "filler").unlink()
        standby.start()
        leader.until_in_step(standby)


def test_a_damaged_journal_of_the_standby_is_kept_and_gives_way_to_a_copy(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        standby.stop(signal.SIGTERM)
        leader.submit()
        (standby.state / "journal.db").write_bytes(b"no database" * 1000)
        standby.start()
        leader.until_in_step(standby)
        assert standby.status()["number"] == leader.store.last_number
        assert [
            file for file in standby.state.glob("journal.db.*") if file.read_bytes()[:11] == b"no database"
        ]


def test_a_head_without_the_keys_of_the_cluster_is_refused(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        leader.senders[standby.name].stop()
        leader.senders[standby.name].join()
        keys, leader.authority = leader.authority, Authority(tmp_path / "other")
        leader.follow(standby)
        leader.until_problem(standby, "its certificate is not of this cluster")
        leader.senders[standby.name].stop()
        leader.senders[standby.name].join()
        liar = Leader(tmp_path / "liar")
        liar.authority = leader.authority
        leader.authority = keys
        assert liar.hello(standby.name).secret != leader.hello(standby.name).secret
        for secret in (liar.hello(standby.name).secret, "", "\u00e9", "x" * 10_000):
            wrong = msgspec.structs.replace(leader.hello(standby.name), secret=secret)
            leader.follow(standby, hello=lambda _, wrong=wrong: wrong)
            leader.until_problem(standby, "does not have the keys of this cluster")
            leader.senders[standby.name].stop()
            leader.senders[standby.name].join()
        assert "Traceback" not in standby.log()
        liar.close()


def test_a_head_of_another_version_is_followed_without_copies_though_its_state_has_other_bytes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    with leader_and_standby(tmp_path) as (leader, standby):
        leader.senders[standby.name].stop()
        leader.senders[standby.name].join()
        other = msgspec.structs.replace(leader.hello(standby.name), version="0.0.1")
        leader.follow(standby, hello=lambda _: other)
        leader.until_in_step(standby)
        leader.engine.cluster.parameters["HeartbeatInterval"] = "7"  # as if that were written in other words
        leader.submit()
        assert leader.engine.snapshot_if_due(at_least=1)
        compared = leader.senders[standby.name]
        until(lambda: compared._compared == leader.store.last_number, "the digest is sent")
        leader.submit()
        assert caplog.text.count("gets a copy of") == 1  # the first
        standby.stop(signal.SIGTERM)
        store = standby.on_disk(tmp_path / "seen")
        kept, ours = store.newest_snapshot(), leader.store.newest_snapshot()
        store.close()
        assert kept is not None
        assert ours is not None
        assert kept[0] == ours[0]
        assert kept[1] != ours[1]


def test_a_head_that_was_replaced_is_not_obeyed_even_before_the_new_one_has_sent_anything(
    tmp_path: Path,
) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        newer = msgspec.structs.replace(leader.hello(standby.name), term=1, address="new:1")
        parts = leader.senders[standby.name]._parts._replace(hello=lambda _: newer)
        place = read_address(standby.address, "listen")
        assert sender.ask_whether_head(standby.name, place, parts) is None
        until(lambda: leader.replaced, "the old head is told")
        assert leader.replaced[0] == IsHead(1, "new:1")
        leader.until_problem(standby, "new:1 is a head itself, since takeover 1")
