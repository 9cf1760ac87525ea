"""A standby head among enemies, liars, broken machines and people who are in a hurry."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lying_standby import Lie, LyingStandby, connected, greet, hello, send

from headnode.adapters.clock import WallClock
from headnode.adapters.files.standby_place import standby_place, successor, write_place
from headnode.adapters.journal.sqlite import JOURNAL
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.standby_messages import (
    AuditPiece,
    FromLeader,
    FromStandby,
    HandOver,
    HeadHello,
    IsHead,
    JournalEvents,
    JournalPiece,
    StandbyAnswer,
    StandbyHello,
    encode_message,
)
from headnode.apps.standby.journal_copy import COPY, WHOLE, open_replica
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.core.state.events import StandbyRemoved, encode
from headnode.core.state.join import TakeOver
from heads import RealHead
from testbed.processes import free_address, until

HN = str(Path(sys.executable).with_name("hn"))
ADMIN = User(name="root", uid=0, gid=0, administrator=True)


def hn(*words: str, state: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours about a state directory."""
    environment = {**os.environ, "HEADNODE_STATE": str(state), "HEADNODE_RESIDENT_CLIENT": "0"}
    return subprocess.run(
        [HN, *words], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    """A head that listens; whether it runs at the end is up to the test."""
    made = RealHead(tmp_path / "head" / "state", nodes=0, listen=free_address())
    made.wait_until_ready()
    yield made
    if made.process.poll() is None:
        made.kill()
    made.client.close()


@pytest.fixture
def standby(head: RealHead, tmp_path: Path) -> Iterator[Path]:
    """The state directory of a standby that has all that the head has."""
    state = tmp_path / "standby"
    joined = join(head, state)
    assert joined.returncode == 0, joined.stderr
    yield state
    hn("down", state=state)


def join(head: RealHead, state: Path, *more: str, name: str = "b") -> "subprocess.CompletedProcess[str]":
    """Make a directory that of a standby."""
    word = head.ask("invite_standby")["invitation"]
    return hn("standby", "join", word, "--listen", free_address(), "--name", name, *more, state=state)


def seen(head: RealHead) -> dict[str, Any]:
    """Return the only standby as its head sees it."""
    (found,) = head.ask("standbys")["standbys"]
    return dict(found)


def standby_state(state: Path) -> dict[str, Any]:
    """Return what a standby says of itself."""
    found: dict[str, Any] = json.loads(hn("standby", "list", "--json", state=state).stdout)
    return found


def change(head: RealHead, value: int) -> None:
    """Let the head write something."""
    head.ask("set_parameters", values={"ClusterEnvironment": f"A={value}"})


def place_of(state: Path) -> tuple[str, int]:
    """Return where a standby listens."""
    place = standby_place(state)
    assert place is not None
    host, _, port = place.listen.rpartition(":")
    return host, int(port)


def test_strangers_get_nothing_and_cost_nothing(head: RealHead, standby: Path) -> None:
    place = place_of(standby)
    for secret in ("", "wrong", "é"):
        answer = greet(place, hello(head.state, secret=secret))
        assert type(answer).__name__ == "HeadRefused", answer
    for junk in (b"\xff\xff\xff\xff", frame(b"junk"), frame(encode_message(JournalPiece(b"x", True, "y")))):
        with connected(place) as connection:
            connection.sendall(junk)
            assert connection.recv(100) == b""
    silent = [socket.create_connection(place, 10) for _ in range(500)]
    change(head, 1)
    assert seen(head)["state"] == "InStep"
    assert standby_state(standby)["connected"] is True
    for each in silent:
        each.close()
    assert "Traceback" not in (standby / "head.log").read_text()


def test_others_of_this_machine_get_a_refusal_and_can_read_nothing(head: RealHead, standby: Path) -> None:
    refused = hn("job", "list", state=standby)
    assert "is the standby of cluster" in refused.stderr
    assert "hn standby takeover" in refused.stderr
    until(lambda: (standby / "audit.log").exists(), "the audit log has arrived")
    for private in (JOURNAL, "audit.log", "authority", "standby.sock", *(
        f"authority/{name}" for name in ("authority.key", "head.key")
    )):  # fmt: skip
        assert (standby / private).stat().st_mode & 0o077 == 0, private
    for file in standby.rglob("*"):
        assert file.name == "head.sock" or file.stat().st_mode & 0o022 == 0, file


def test_a_standby_can_be_backed_up_while_it_runs(head: RealHead, standby: Path, tmp_path: Path) -> None:
    made = hn("backup", str(tmp_path / "backup"), state=standby)
    assert made.returncode == 0, made.stderr
    assert not list(standby.glob("backup*"))
    assert standby_state(standby)["connected"] is True
    restored = hn("restore", str(tmp_path / "backup"), state=tmp_path / "restored")
    assert restored.returncode == 0, restored.stderr
    assert hn("restore", str(tmp_path / "backup"), state=standby).returncode == 1
    assert head.process.poll() is None


def test_a_head_gives_way_to_a_later_one_at_the_standby(head: RealHead, standby: Path) -> None:
    assert isinstance(greet(place_of(standby), hello(head.state, name="other")), FromStandby)
    later = greet(place_of(standby), hello(head.state, term=3, address="new:1"))
    assert isinstance(later, StandbyHello)
    assert greet(place_of(standby), hello(head.state, term=2)) == IsHead(3, "new:1")
    head.process.wait(30)  # it dialed again, and was told so
    left = successor(head.state)
    assert left is not None
    assert (left.term, left.address) == (3, "new:1")


def test_a_lying_head_changes_nothing_at_the_standby(head: RealHead, standby: Path) -> None:
    head.process.send_signal(signal.SIGSTOP)
    place, here = place_of(standby), int(standby_state(standby)["number"])
    impossible = encode(StandbyRemoved(at=Instant(1.0), name="nobody"))
    lies: dict[str, FromLeader] = {
        "is the last": JournalEvents(here + 5, (impossible,), (here + 6,)),
        "does not know": JournalEvents(here, (b"\xc1",), (here + 1,)),
        "the audit log here has": AuditPiece(10**9, b"x"),
        "not all events up to": HandOver(here + 1),
        "not what the head sent": JournalPiece(b"x", True, "0" * 64),
        "cannot happen": JournalEvents(here, (impossible,), (here + 1,)),
    }
    for word, lie in lies.items():
        with connected(place) as connection:
            assert isinstance(send(connection, hello(head.state)), StandbyHello)
            answer = send(connection, lie)
            assert isinstance(answer, StandbyAnswer)
            assert word in answer.problem
            assert answer.number == here
            assert connection.recv(1) == b""  # nothing that follows counts
    with connected(place) as connection:  # it does not fit to this head, and asks for a copy
        needs = send(connection, hello(head.state))
        assert isinstance(needs, StandbyHello)
        assert needs.number == 0
        send(connection, JournalPiece(b"x" * 1000, True))
        assert (standby / COPY).exists()
    head.process.send_signal(signal.SIGCONT)
    until(lambda: seen(head)["state"] == "InStep", "the standby follows its head")
    change(head, 3)
    until(lambda: seen(head)["behind"] == 0, "it has what is new")
    assert not (standby / COPY).exists()
    assert standby_place(standby) is not None


@pytest.mark.parametrize("recorded", [False, True])
def test_a_kill_during_the_takeover_leaves_one_head(head: RealHead, standby: Path, *, recorded: bool) -> None:
    hn("down", state=standby)
    place = standby_place(standby)
    assert place is not None
    write_place(standby, type(place)(place.name, place.listen, place.head, place.cluster, taking_over=True))
    if recorded:
        replica = open_replica(standby)
        replica.carry_out(TakeOver(ADMIN, place.name, place.listen), WallClock().now())
        replica.store.close()
    up = hn("up", state=standby)
    assert up.returncode == 0, up.stderr
    if not recorded:
        until(lambda: seen(head)["state"] == "InStep", "it is the standby still")
        return
    assert "this machine is the head of cluster" in up.stdout
    assert hn("job", "list", state=standby).returncode == 0
    head.process.wait(30)
    refused = hn("up", state=head.state)
    assert "took over from the head" in refused.stderr
    assert "hn standby join" in refused.stderr


def test_a_copy_that_was_whole_before_a_kill_is_the_journal(head: RealHead, standby: Path) -> None:
    before = standby_state(standby)["number"]
    head.kill()
    hn("down", state=standby)
    (standby / JOURNAL).rename(standby / WHOLE)
    assert hn("up", state=standby).returncode == 0
    assert standby_state(standby)["number"] >= before
    assert not (standby / WHOLE).exists()
    assert hn("standby", "takeover", "--force", state=standby).returncode == 0


def test_a_damaged_journal_of_a_standby_is_kept_until_a_copy_has_come(head: RealHead, standby: Path) -> None:
    hn("down", state=standby)
    whole = (standby / JOURNAL).read_bytes()
    (standby / JOURNAL).write_bytes(whole[:4096] + b"\xaa" * (len(whole) - 4096))
    assert hn("up", state=standby).returncode == 0
    until(lambda: standby_state(standby)["number"], "the standby has a copy")
    assert (standby / f"{JOURNAL}.damaged").exists()
    assert head.process.poll() is None


def test_a_stopped_standby_delays_a_write_by_half_a_heartbeat_at_most(head: RealHead, standby: Path) -> None:
    head.ask("set_parameters", values={"HeartbeatInterval": "4", "StandbyWait": "60"})
    process = standby_state(standby)["pid"]
    os.kill(process, signal.SIGSTOP)
    began = time.monotonic()
    change(head, 1)
    change(head, 2)
    assert time.monotonic() - began < 10
    os.kill(process, signal.SIGCONT)
    until(lambda: seen(head)["state"] == "InStep", "the standby has caught up")


def test_a_standby_that_was_removed_says_so(head: RealHead, standby: Path) -> None:
    assert hn("standby", "remove", "b", state=head.state).returncode == 0
    until(lambda: "removed this standby" in standby_state(standby)["problem"], "it is told")
    assert "removed this standby" in hn("standby", "takeover", state=standby).stderr


def test_a_standby_without_its_keys_makes_no_new_ones(head: RealHead, standby: Path) -> None:
    hn("down", state=standby)
    (standby / "authority").rename(standby / "elsewhere")
    up = hn("up", state=standby)
    assert "keys of the cluster are not in" in up.stderr
    assert not (standby / "authority").exists()
    assert head.process.poll() is None


def test_events_that_an_old_backup_has_not_are_kept_and_reported(
    head: RealHead, standby: Path, tmp_path: Path
) -> None:
    assert hn("backup", str(tmp_path / "old"), state=head.state).returncode == 0
    for number in range(5):
        change(head, number)
    until(lambda: seen(head)["state"] == "InStep", "the standby has everything")
    newest = seen(head)["event"]
    head.kill()
    for file in sorted(head.state.iterdir()):
        file.rename(tmp_path / f"lost-{file.name}")
    assert hn("restore", str(tmp_path / "old"), state=head.state).returncode == 0
    left_by_a_kill = head.state / "standby-b.db"
    left_by_a_kill.touch()
    head.start_again()
    until(lambda: seen(head)["state"] == "InStep", "the standby follows the restored head")
    assert not left_by_a_kill.exists()
    assert "old backup" in seen(head)["problem"]
    assert (standby / f"{JOURNAL}.to-event-{newest}").exists()


def test_a_head_that_hangs_is_replaced_by_force_only(head: RealHead, standby: Path) -> None:
    head.process.send_signal(signal.SIGSTOP)
    until(lambda: hn("standby", "takeover", state=standby).stderr.count("head-s") == 0, "it is asked")
    until(lambda: "said nothing" in hn("standby", "takeover", state=standby).stderr, "it is silent")
    taken = hn("standby", "takeover", "--force", state=standby)
    assert taken.returncode == 0, taken.stderr
    head.process.send_signal(signal.SIGCONT)
    head.process.wait(30)
    assert "took over from the head" in hn("up", state=head.state).stderr


def test_a_join_that_fails_changes_nothing(head: RealHead, standby: Path, tmp_path: Path) -> None:
    used = head.ask("invite_standby")["invitation"]
    listen = standby_place(standby)
    assert listen is not None
    for word in ("nonsense", used[:-4] + "0000", head.ask("invite_node")["invitation"]):
        refused = hn("standby", "join", word, "--listen", listen.listen, "--name", "b", state=standby)
        assert refused.returncode != 0
        assert standby_state(standby)["name"] == "b"
    assert "already uses the state directory" in join(head, head.state).stderr.replace("\n", " ")
    taken = join(head, tmp_path / "second")
    assert "exists already" in taken.stderr
    assert "--for b" in taken.stderr
    for name in ("../x", "a b"):
        assert "cannot be the name" in join(head, tmp_path / "second", name=name).stderr
    until(lambda: seen(head)["state"] == "InStep", "the standby follows as before")


def test_a_slow_standby_delays_a_write_by_its_wait_and_a_start_by_seconds(
    head: RealHead, tmp_path: Path
) -> None:
    liar = LyingStandby(head.state / "authority", follow_then(lambda message: b"\0\0\1\0" + b"x" * 256))
    liar.join(head, tmp_path / "liar")
    until(lambda: any(isinstance(one, JournalPiece) for one in liar.received), "it gets a copy")
    began = time.monotonic()
    change(head, 1)
    assert time.monotonic() - began < 5
    head.kill()
    liar.lie = lambda message: b"\0\0\1\0" + b"x" * 256
    began = time.monotonic()
    head.start_again()
    assert time.monotonic() - began < 20
    liar.close()


def follow_then(lie: Lie) -> Lie:
    """Greet as a standby without a journal, and lie afterwards."""
    return lambda message: (
        StandbyHello("0.3.0", "", 0, 0, 0) if isinstance(message, HeadHello) else lie(message)
    )


LIES: dict[str, tuple[Lie, str]] = {
    "more": (follow_then(lambda message: StandbyAnswer(2**53)), "ends with event"),
    "unsent": (
        follow_then(lambda message: StandbyAnswer(1 if isinstance(message, JournalPiece) else 2**53)),
        "was not sent",
    ),
    "large": (follow_then(lambda message: b"\xff\xff\xff\xff"), "too large"),
    "junk": (lambda message: b"\0\0\0\1x", "Expected"),
    "negative": (lambda message: StandbyHello("0.3.0", "", -1, 0, -1), ">= 0"),
    "equal": (lambda message: IsHead(0, "other:1"), "is a head itself"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_costs_the_liar_its_events_only(head: RealHead, tmp_path: Path, lie: str) -> None:
    found, word = LIES[lie]
    liar = LyingStandby(head.state / "authority", found)
    liar.join(head, tmp_path / "liar")
    until(lambda: word in seen(head)["problem"], f"the head says {word!r}")
    assert seen(head)["state"] in ("Away", "CatchingUp")
    change(head, 7)
    assert "Traceback" not in head.log()
    liar.close()


def test_a_head_does_not_begin_beside_another_of_its_term(head: RealHead, tmp_path: Path) -> None:
    liar = LyingStandby(head.state / "authority", lambda message: IsHead(0, "other:1"))
    liar.join(head, tmp_path / "liar")
    until(lambda: "is a head itself" in seen(head)["problem"], "it is seen")
    head.kill()
    refused = hn("up", state=head.state)
    assert refused.returncode != 0
    assert "other:1 is the head of this cluster, too" in refused.stderr
    left = successor(head.state)
    assert left is not None  # hn standby join makes it the standby of the other
    assert left.address == "other:1"
    liar.close()


def test_a_head_ends_if_only_the_answer_to_the_hand_over_was_lost(head: RealHead, tmp_path: Path) -> None:
    found = [0]  # the last event

    def lie(message: FromLeader) -> FromStandby | None:
        match message:
            case HeadHello():
                is_head = any(isinstance(one, HandOver) for one in liar.received)
                return IsHead(1, "new:1") if is_head else StandbyHello("0.3.0", "", 0, 0, 0)
            case HandOver():
                return None
            case JournalEvents(after=after, events=events):
                found[0] = after + len(events)
            case JournalPiece():
                found[0] = found[0] or 1
        return StandbyAnswer(found[0], hand_over=True)

    liar = LyingStandby(head.state / "authority", lie)
    liar.join(head, tmp_path / "liar")
    head.process.wait(60)
    left = successor(head.state)
    assert left is not None
    assert left.address == f"{liar.place[0]}:{liar.place[1]}"
    liar.close()
