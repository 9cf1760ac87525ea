"""What is beside the journal is there after a takeover: notifications, events for webhooks, credentials."""

import os
import signal
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state
from lying_standby import LyingStandby
from test_event_webhooks import ended, receiver
from test_notices import TOLD, Hook, free_port
from test_standby_takeovers import DIES_WHEN_IT_HAS_ASKED, head_with_standby, hn, standby_state

from headnode.adapters.identity.delegations import Delegation, DelegationStore
from headnode.adapters.wire.standby_messages import (
    FromLeader,
    FromStandby,
    HeadHello,
    JournalEvents,
    JournalPiece,
    RowsBetween,
    RowsChanged,
    StandbyAnswer,
    StandbyHello,
)
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT, RealHead, real_head
from standbys import ChangedEvents, Standby, leader_and_standby
from testbed.faulty_storage import FaultyStorage
from testbed.processes import free_address, http_server, until

SECRET = b"secret-token"


def hook_at(port: int) -> AbstractContextManager[ThreadingHTTPServer]:
    """Take notifications at a port that was closed before."""
    return http_server(Hook, port, posted=[])


def jobs_told(server: ThreadingHTTPServer) -> list[int]:
    return sorted(body["job"] for _, body in server.posted)  # type: ignore[attr-defined]


def kill_and_take_over(head: RealHead, standby: Standby) -> None:
    head.process.kill()
    head.process.wait()
    until(lambda: not standby.status()["connected"], "the standby sees that")
    done = hn("standby", "takeover", "--force", state=standby.state)
    assert done.returncode == 0, done.stderr + standby.log()


def end_told_jobs(head: RealHead, number: int, address: str) -> list[int]:
    """Submit and cancel jobs whose owner wants to be told at an address; return them."""
    jobs = [head.submit("true", terms={**TOLD, "emailaddress": address}) for _ in range(number)]
    for job in jobs:
        head.ask("cancel_job", job=job)
    return jobs


def waiting(state: Path) -> int:
    with closing(Client(str(state))) as client:
        count: int = client.ask("cluster")["cluster"]["notices"]["waiting"]
        return count


def test_each_notification_that_the_former_head_had_not_sent_is_sent_by_the_new_one(tmp_path: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/hook"
    with head_with_standby(tmp_path) as (head, standby):
        head.ask("set_parameters", values={"NotificationWebhooks": address})
        with hook_at(port) as server:
            sent = end_told_jobs(head, 5, address)
            until(lambda: jobs_told(server) == sent, "they are sent")
            until(lambda: waiting(head.state) == 0, "nothing waits")
        unsent = end_told_jobs(head, 30, address)
        kill_and_take_over(head, standby)
        until(lambda: waiting(standby.state) == len(unsent), "the new head has them")
        with hook_at(port) as server:
            until(lambda: set(jobs_told(server)) >= set(unsent), "all are sent")
            until(lambda: waiting(standby.state) == 0, "nothing waits")
            assert jobs_told(server) == unsent  # those that were sent did not come again


def test_notifications_of_the_last_events_are_derived_by_the_new_head(tmp_path: Path) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}/hook"
    with head_with_standby(tmp_path) as (head, standby):
        head.ask("set_parameters", values={"NotificationWebhooks": address})
        unsent = end_told_jobs(head, 10, address)
        until(lambda: rows(standby, "select count(*) from waiting") == [(10,)], "they are copied")
        head.kill()
        standby.stop(signal.SIGKILL)
        with closing(sqlite3.connect(standby.state / "notices.db")) as outbox, outbox:
            outbox.execute("delete from waiting where number > ?", (middle := middle_of(outbox),))
            outbox.execute("update seen set number = ?", (middle,))  # as if the head had died at that event
        standby.start()
        assert hn("standby", "takeover", "--force", state=standby.state).returncode == 0
        with hook_at(port) as server:
            until(lambda: jobs_told(server) == unsent, "all are sent")


def middle_of(outbox: sqlite3.Connection) -> int:
    numbers = [number for (number,) in outbox.execute("select number from waiting order by number")]
    return int(numbers[len(numbers) // 2])


def rows(standby: Standby, question: str, file: str = "notices.db") -> list[tuple[Any, ...]]:
    """Return what a standby has in a file; nothing if it is not there yet, or has no tables yet."""
    if not (standby.state / file).exists():
        return []
    with closing(sqlite3.connect(standby.state / file)) as database:
        if not database.execute("select 1 from sqlite_master where type = 'table'").fetchall():
            return []
        return database.execute(question).fetchall()


@pytest.mark.parametrize("killed", [True, False])
def test_a_webhook_gets_all_events_after_a_takeover(tmp_path: Path, *, killed: bool) -> None:
    port = free_port()
    with head_with_standby(tmp_path) as (head, standby):
        with receiver(port) as server:
            values = {"EventWebhooks": f"http://127.0.0.1:{port}/hook", "EventWebhookTypes": "job.ended"}
            head.ask("set_parameters", values=values)
            first = end_told_jobs(head, 3, "ann@example.org")
            until(lambda: ended(server) == first, "the receiver is up")
        cursor = rows(standby, "select number from cursors", "webhooks.db")
        missed = end_told_jobs(head, 10, "ann@example.org")
        if killed:
            kill_and_take_over(head, standby)
        else:
            assert hn("standby", "takeover", state=standby.state).returncode == 0
        with receiver(port) as server:
            until(lambda: len(ended(server)) >= len(missed), f"it gets them, after {cursor}")
            assert ended(server)[-len(missed) :] == missed
            assert set(ended(server)) <= {*first, *missed}


def credential(state: Path, name: str) -> dict[str, Any]:
    with closing(Client(str(state))) as client:
        return client.ask("delegated_credential", name=name)


def keep(head: RealHead, name: str, **more: Any) -> None:
    head.ask("keep_delegation", name=name, bearer=SECRET.decode(), hosts=["127.0.0.1"], **more)


def test_a_job_with_a_stored_credential_runs_after_a_takeover(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    with head_with_standby(tmp_path) as (head, standby), FaultyStorage(tmp_path / "storage") as storage:
        node = JoinedNode(tmp_path / "nodes", "far")
        assert node.join(invite(head, approve=True)).returncode == 0
        node.start()
        try:
            wait_for_state(head, "far", "Ready")
            head.ask("set_parameters", values={"TransferNetworks": "127.0.0.0/8"})
            storage.put("data", b"private\n")
            keep(head, "storage")
            files: dict[str, Any] = {"stagein": f"{storage.url}/private/data=data", "credential": "storage"}
            node.stop()
            job = head.submit("cat data", **files)
            kill_and_take_over(head, standby)
            node.start()
            with closing(Client(str(standby.state))) as client:
                until(lambda: client.ask("job", job=job)["job"]["state"] == "Finished", "the job runs")
        finally:
            node.stop()


def test_a_stored_credential_is_copied_before_it_is_acknowledged_and_private(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        file = standby.state / "delegations.db"
        for number in range(20):
            keep(head, f"d{number}")
            assert (f"d{number}",) in rows(standby, "select name from delegations", file.name)
        mine, theirs = (path.stat() for path in (head.state / file.name, file))
        assert (theirs.st_mode, theirs.st_uid) == (mine.st_mode, mine.st_uid)
        assert theirs.st_mode & 0o077 == 0
        for number in range(20):
            head.ask("forget_delegation", name=f"d{number}")
            assert (f"d{number}",) not in rows(standby, "select name from delegations", file.name)
        assert SECRET not in file.read_bytes()


def test_a_credential_that_was_removed_while_the_standby_was_away_is_removed_there_too(
    tmp_path: Path,
) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        for name in ("removed", "kept"):
            keep(head, name)
        standby.stop(signal.SIGKILL)
        head.ask("forget_delegation", name="removed")
        keep(head, "new")
        standby.start()
        until(lambda: standby.status()["connected"], "the head is there again")
        until(lambda: standby_state(head) == "InStep", "the standby is in step")
        assert rows(standby, "select name from delegations", "delegations.db") == [("kept",), ("new",)]
        kill_and_take_over(head, standby)
        assert credential(standby.state, "new")["values"]["token"] == SECRET.decode()
        with pytest.raises(HeadnodeError, match="no delegation 'removed'"):
            credential(standby.state, "removed")


def test_a_credential_of_a_job_that_has_ended_is_removed_at_the_standby(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        job = head.submit("true")
        keep(head, "of-the-job", job=job)
        head.ask("cancel_job", job=job)
        until(lambda: not rows(standby, "select * from delegations", "delegations.db"), "it is removed")


def test_a_file_that_the_standby_cannot_store_is_told_and_events_go_on(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.touch()
        (standby.state / "delegations.db").symlink_to(elsewhere)
        keep(head, "storage")
        until(lambda: "cannot store" in problem(head), "the head says so")
        head.submit("true")
        assert standby_state(head) == "InStep"
        assert elsewhere.read_bytes() == b""  # it is not followed
        (standby.state / "delegations.db").unlink()
        until(lambda: problem(head) == "", "it is stored once that is possible")
        assert rows(standby, "select name from delegations", "delegations.db") == [("storage",)]


def test_a_damaged_file_of_the_standby_is_copied_again(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        keep(head, "one")
        (standby.state / "delegations.db").write_bytes(os.urandom(8192))
        keep(head, "two")
        names = [("one",), ("two",)]
        until(
            lambda: problem(head) == "" and rows(standby, "select name from delegations", FILE) == names,
            "it is whole again",
        )


FILE = "delegations.db"


def problem(head: RealHead) -> str:
    (found,) = head.ask("standbys")["standbys"]
    return str(found["problem"])


SLOW = """
import sys, time
from headnode.apps.standby import following, main

def slowly(self, *events, real=following.HeadReplica._follow):
    time.sleep(0.1)
    real(self, *events)

following.HeadReplica._follow = slowly
sys.exit(main.main(sys.argv[1:]))
"""


def test_how_long_changes_wait_for_a_slow_standby_is_shown(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        standby.stop(signal.SIGTERM)
        standby.start("-c", SLOW)
        until(lambda: standby.status()["connected"], "the head is there again")
        until(lambda: standby_state(head) == "InStep", "the standby is in step")
        waits = head.ask("metrics")["standby_waits"][standby.name]
        for _ in range(10):
            head.submit("true")
        (found,) = head.ask("standbys")["standbys"]
        assert found["wait_p99"] >= 0.1
        assert "/" in hn("standby", "list", state=head.state).stdout.split()[-2]
        later = head.ask("metrics")["standby_waits"][standby.name]
        assert later["total"] - waits["total"] >= 1.0
        assert sum(later["counts"]) - sum(waits["counts"]) >= 10


def test_programs_and_files_of_the_site_that_the_standby_does_not_have_are_told(tmp_path: Path) -> None:
    programs = tmp_path / "site"
    programs.mkdir(0o755)
    for name in ("submit", "activate", "licences"):
        (programs / name).write_text("#!/bin/sh\nexit 0\n")
        (programs / name).chmod(0o755)
    with head_with_standby(tmp_path) as (head, standby):
        values = {
            "SubmissionFilterProgram": f"{programs}/submit",
            "ActivationFilterProgram": f"{programs}/activate -x",
            "LicenceProgram": f"{programs}/licences 7",
        }
        head.ask("set_parameters", values=values)
        assert standby.status()["missing"] == []
        (programs / "activate").unlink()  # both are on one machine here
        (programs / "licences").chmod(0o777)
        (standby.state / "gateway-user").write_text("no-such-account\n")
        until(lambda: len(standby.status()["missing"]) == 3, "the standby looks")
        sentence = f"ActivationFilterProgram: {programs}/activate is not on spare"
        account, unsafe, absent = sorted(standby.status()["missing"], reverse=True)
        assert account == "gateway-user: account no-such-account is not on spare"
        assert absent == sentence
        assert unsafe.startswith("LicenceProgram: on spare, ")
        until(lambda: sentence in problem(head), "the head says so")
        assert standby_state(head) == "InStep"
        assert sentence in hn("standby", "list", state=standby.state).stderr.replace("\n", " ")
        done = hn("standby", "takeover", state=standby.state)
        assert done.returncode == 0
        assert sentence in done.stderr.replace("\n", " ")


def test_a_standby_says_at_once_what_is_not_there(tmp_path: Path) -> None:
    program = tmp_path / "licences"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with head_with_standby(tmp_path) as (head, _):
        head.ask("set_parameters", values={"LicenceProgram": str(program)})
        program.unlink()
        state, word = tmp_path / "third", head.ask("invite_standby")["invitation"]
        joined = hn("standby", "join", word, "--name", "third", "--listen", free_address(), state=state)
        try:
            assert joined.returncode == 0
            assert f"LicenceProgram: {program} is not on third" in joined.stderr.replace("\n", " ")
        finally:
            hn("down", state=state)


def test_credentials_of_a_former_head_that_the_new_one_does_not_have_are_overwritten(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        keep(head, "shared")
        standby.stop(signal.SIGTERM)
        keep(head, "late")
        head.kill()
        standby.start()
        assert hn("standby", "takeover", "--force", state=standby.state).returncode == 0
        line = hn("standby", "invite", state=standby.state).stdout.split()[3]
        address = free_address()
        joined = hn("standby", "join", line, "--name", "first", "--listen", address, state=head.state)
        try:
            assert joined.returncode == 0, joined.stderr
            until(lambda: "in step" in hn("standby", "list", state=standby.state).stdout, "it is in step")
            assert sorted(names_in(head.state.rglob("delegations.db"))) == ["shared"]
        finally:
            hn("down", state=head.state)


def names_in(files: Iterable[Path]) -> Iterator[str]:
    for file in files:
        with closing(sqlite3.connect(file)) as database:
            yield from (name for (name,) in database.execute("select name from delegations"))


class OneByOne(ChangedEvents):
    """The events of a head, of which each message has one."""

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return super().rows(after, 1)


def test_rows_get_their_turn_while_events_never_end(tmp_path: Path) -> None:
    with leader_and_standby(tmp_path) as (leader, standby):
        leader.wait = 0.0
        leader.senders[standby.name].stop()
        leader.senders[standby.name].join()
        sender = leader.follow(standby, OneByOne(leader.store))
        until(lambda: sender.rows.is_whole, "whole tables came")
        leader.submit(1000)
        store = DelegationStore(leader.state, leader.rows)
        store.keep(Delegation(owner="ann", name="a", expires=2.0e9, token="t", hosts=("h",)))
        deadline = time.monotonic() + TIMEOUT
        while not rows(standby, "select name from delegations", FILE):
            leader.submit(50)
            assert time.monotonic() < deadline
        assert sender.follower.confirmed < leader.store.last_number - 1000  # it was never idle


@pytest.mark.parametrize("hangs", [True, False])
def test_a_standby_that_stores_no_rows_delays_few_changes(tmp_path: Path, *, hangs: bool) -> None:
    def lie(message: FromLeader) -> FromStandby | None:
        match message:
            case HeadHello():
                return StandbyHello("0.3.0", "", 0, 0, 0)
            case JournalEvents(after=after, events=events):
                number[0] = after + len(events)
            case JournalPiece():
                number[0] = 1
            case RowsBetween() | RowsChanged() if hangs:
                liar.ended.wait(TIMEOUT)
                return None
            case RowsBetween() | RowsChanged():
                return StandbyAnswer(number[0], row_problem="no room")
        return StandbyAnswer(number[0])

    number = [0]
    with real_head(tmp_path, nodes=0, listen=free_address()) as head:
        liar = LyingStandby(head.state / "authority", lie)
        liar.join(head, tmp_path / "liar")
        until(lambda: any(isinstance(one, RowsBetween) for one in liar.received), "it gets rows")
        began = time.monotonic()
        for _ in range(20):
            head.submit("true")
        keep(head, "one")
        assert time.monotonic() - began < 6.0
        if hangs:
            assert standby_state(head) != "InStep"
        else:
            until(lambda: "no room" in problem(head), "the head says so")
            assert standby_state(head) == "InStep"
        liar.close()


def test_a_head_that_hands_over_stores_no_credential_that_the_next_one_would_not_have(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        standby.stop(signal.SIGKILL)
        standby.start("-c", DIES_WHEN_IT_HAS_ASKED)
        until(lambda: standby.status()["connected"], "the head is there again")
        keep(head, "before")
        assert hn("standby", "takeover", state=standby.state).returncode != 0
        until(lambda: "hands over to its standby" in head.log(), "the head hands over")
        for change in (lambda: keep(head, "late"), lambda: head.ask("forget_delegation", name="before")):
            with pytest.raises(HeadnodeError, match="handed-over"):
                change()


def test_a_file_beside_the_journal_that_cannot_be_used_keeps_nobody_from_taking_over(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        keep(head, "one")
        (standby.state / "notices.db").unlink()
        (standby.state / "notices.db").symlink_to(tmp_path / "nowhere")
        (standby.state / "webhooks.db").write_bytes(b"no database" * 1000)
        kill_and_take_over(head, standby)
        assert credential(standby.state, "one")["values"]["token"] == SECRET.decode()
