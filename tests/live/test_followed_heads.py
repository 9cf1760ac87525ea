"""A head sends its standby everything: what is acknowledged is there, and one that is late delays nobody."""

import signal
from pathlib import Path

import pytest

from headnode.adapters.standby import audit_tail, followed, sender
from headnode.core.state.nodes import SetParameter
from standbys import ROOT, Leader, Standby, leader_and_standby
from testbed.processes import until

SLACK = 1.5  # seconds that a busy machine may add


def numbers_of(standby: Standby, scratch: Path) -> int:
    store = standby.on_disk(scratch)
    try:
        return store.last_number
    finally:
        store.close()


def test_what_is_acknowledged_is_on_the_disk_of_the_standby(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path, wait=30.0) as (leader, standby):
        for attempt in range(5):
            leader.submit(attempt + 1)
            standby.send(signal.SIGSTOP)  # nothing is written after this
            assert numbers_of(standby, tmp_path / f"seen-{attempt}") == leader.store.last_number
            standby.send(signal.SIGCONT)


def test_a_standby_that_stands_still_delays_one_write_and_is_waited_for_again_later(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        assert leader.submit() < SLACK
        leader.wait = 1.0
        standby.send(signal.SIGSTOP)
        assert 1.0 <= leader.submit() < 1.0 + SLACK
        for _ in range(3):
            assert leader.submit() < SLACK
        assert not leader.follower(standby).in_step
        standby.send(signal.SIGCONT)
        leader.until_in_step(standby)
        leader.wait = 30.0
        leader.submit()
        assert leader.follower(standby).confirmed == leader.store.last_number
        assert standby.log().count("is connected") <= 2
        assert list(standby.state.glob("journal.db.to-event-*")) == []


def test_a_standby_that_was_killed_goes_on_where_it_was_without_a_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    with leader_and_standby(tmp_path) as (leader, standby):
        assert caplog.text.count("gets a copy of") == 1  # the first
        for _ in range(3):
            standby.stop(signal.SIGKILL)
            assert leader.submit() < SLACK + leader.wait
            leader.submit(20)
            standby.start()
            leader.until_in_step(standby)
        assert caplog.text.count("gets a copy of") == 1


def test_a_standby_with_another_history_gets_a_copy_and_keeps_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    with leader_and_standby(tmp_path) as (leader, standby):
        standby.stop(signal.SIGTERM)
        aside = Leader(tmp_path / "aside")
        aside.store.close()
        (standby.state / "journal.db").rename(tmp_path / "aside" / "journal.db")
        wrong = Leader(tmp_path / "aside")
        wrong.engine.handle([SetParameter(by=ROOT, name="HeartbeatInterval", value="7")])
        number = wrong.store.last_number
        wrong.close()
        (tmp_path / "aside" / "journal.db").rename(standby.state / "journal.db")
        leader.submit(3)
        standby.start()
        leader.until_in_step(standby)
        assert caplog.text.count("gets a copy of") == 2
        kept = standby.state / f"journal.db.to-event-{number}"
        assert kept.exists()
        assert b"HeartbeatInterval" in kept.read_bytes()
        leader.submit()
        assert leader.follower(standby).confirmed == leader.store.last_number


def test_a_standby_far_behind_gets_a_copy_and_keeps_no_second_journal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    monkeypatch.setattr(sender, "FARTHEST", 10)
    with leader_and_standby(tmp_path) as (leader, standby):
        standby.stop()
        leader.submit(20)
        standby.start()
        leader.until_in_step(standby)
        assert caplog.text.count("gets a copy of") == 2
        assert list(standby.state.glob("journal.db.to-event-*")) == []
        assert list(standby.state.glob("*.copy*")) == []
        assert list(leader.state.glob("standby-*")) == []


def test_a_standby_that_is_behind_by_more_than_a_little_is_not_waited_for_before_it_has_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "CLOSE_BEHIND", 2)
    monkeypatch.setattr(sender, "MAX_EVENTS", 3)
    with leader_and_standby(tmp_path, wait=30.0) as (leader, standby):
        standby.stop()
        leader.submit(40)
        standby.start()
        leader.until_in_step(standby)
        assert leader.submit() < 30.0
        assert leader.follower(standby).confirmed == leader.store.last_number


def test_equal_states_are_kept_as_snapshots_and_nothing_is_sent_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "headnode.standby")
    with leader_and_standby(tmp_path) as (leader, standby):
        for _ in range(3):
            leader.submit(3)
            assert leader.engine.snapshot_if_due(at_least=1)
            compared = leader.senders[standby.name]
            until(lambda: compared._compared == leader.store.last_number, "the states are compared")  # noqa: B023
        leader.submit()
        assert caplog.text.count("gets a copy of") == 1
        standby.stop(signal.SIGTERM)
        store = standby.on_disk(tmp_path / "seen")
        kept, ours = store.newest_snapshot(), leader.store.newest_snapshot()
        store.close()
        assert kept == ours


def test_a_standby_whose_state_differs_gets_a_copy(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "headnode.standby")
    with leader_and_standby(tmp_path) as (leader, standby):
        leader.engine.cluster.parameters["HeartbeatInterval"] = "7"  # no event says so
        leader.submit()
        assert leader.engine.snapshot_if_due(at_least=1)
        until(lambda: caplog.text.count("gets a copy of") == 2, "it gets a copy")
        leader.until_in_step(standby)
        leader.submit()
        assert leader.follower(standby).confirmed == leader.store.last_number
        assert caplog.text.count("gets a copy of") == 2


def test_the_audit_log_arrives_byte_for_byte_also_after_it_was_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_tail, "PIECE", 1000)
    monkeypatch.setattr(sender, "PIECE", 1000)
    with leader_and_standby(tmp_path) as (leader, standby):
        log, kept = leader.state / "audit.log", b"line \xff\n" * 1000
        log.write_bytes(kept)
        until(lambda: standby.audit == kept, "the log is there")
        with log.open("ab") as file:
            file.write(b"late\n")
        log.rename(leader.state / "audit.log.1")
        log.write_bytes(b"other " * 2000)
        until(lambda: standby.audit == b"other " * 2000, "the new log is there")
        (aside,) = standby.state.glob("audit.log-*")
        assert aside.read_bytes() == kept + b"late\n"
        standby.stop()
        with log.open("ab") as file:
            file.write(b"more\n")
        standby.start()
        until(lambda: standby.audit == b"other " * 2000 + b"more\n", "it goes on")
        standby.stop()
        log.write_bytes(b"other".ljust(20_000))  # moved away and longer by now
        standby.start()
        until(lambda: standby.audit == b"other".ljust(20_000), "the third log is there")
        assert len(list(standby.state.glob("audit.log-*"))) == 2


def test_an_audit_log_that_lost_its_end_in_a_power_cut_is_sent_again(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        (leader.state / "audit.log").write_bytes(b"line\n" * 1000)
        until(lambda: standby.audit == b"line\n" * 1000, "the log is there")
        standby.stop()
        (standby.state / "audit.log").write_bytes(b"line\n" * 990 + bytes(50))
        standby.start()
        until(lambda: standby.audit == b"line\n" * 1000, "the log is there again")


def test_a_hand_over_is_taken_back_only_where_the_standby_was_not_told(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        sends = leader.senders[standby.name]
        standby.stop(signal.SIGKILL)
        leader.submit()
        leader.followers.seal(leader.store.last_number, standby.name)
        (refused,) = leader.engine.handle([SetParameter(by=ROOT, name="StandbyWait", value="1")])
        assert getattr(refused, "code", "") == "handed-over"
        assert sends.take_back()
        leader.submit()
        standby.start()
        leader.until_in_step(standby)
        leader.followers.seal(leader.store.last_number, standby.name)
        assert sends.handed_over.wait(30.0)
        assert not sends.take_back()
