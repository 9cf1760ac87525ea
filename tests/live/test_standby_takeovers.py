"""A standby becomes the head under load: what was acknowledged is there, once, and the old head is none."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gateways import real_gateway

from headnode.adapters.clock import WallClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.apps.cli.standby_daemon import ask_standby
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
from headnode.core.state.join import TakeOver
from headnode.engine.replica import Replica
from heads import TIMEOUT, RealHead
from standbys import ROOT, Standby, is_head
from testbed.processes import free_address, until

HN = str(Path(sys.executable).with_name("hn"))
SUBMITTERS = 4


def hn(*words: str, state: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "HEADNODE_STATE": str(state)}
    return subprocess.run(
        [HN, *words], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


@contextmanager
def head_with_standby(directory: Path, gateway_user: str = "") -> Iterator[tuple[RealHead, Standby]]:
    """Start a head and its standby, in step; end what is left of them."""
    head = RealHead(directory / "first" / "state", nodes=0, listen=free_address(), gateway_user=gateway_user)
    standby = Standby(directory / "second")
    try:
        head.wait_until_ready()
        standby.join(head.ask("invite_standby")["invitation"])
        standby.start()
        until(lambda: standby_state(head) == "InStep", "the standby is in step")
        yield head, standby
    finally:
        head.process.send_signal(signal.SIGCONT)
        head.kill()
        standby.stop(signal.SIGTERM)


def standby_state(head: RealHead) -> str:
    return "".join(each["state"] for each in head.ask("standbys")["standbys"])


class Submitter(threading.Thread):
    """Submits one job after the other, each with a key; asks again, or at the other head, until it knows."""

    def __init__(self, number: int, *heads: Path) -> None:
        super().__init__(daemon=True)
        self._number, self._heads = number, [str(state) for state in heads]
        self.acknowledged: dict[str, int] = {}
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            name = f"job-{self._number}-{len(self.acknowledged)}"
            self.acknowledged[name] = self._submitted(name)

    def _submitted(self, name: str) -> int:
        while True:
            client = Client(self._heads[0])
            try:
                found = client.ask(
                    "submit_job", tasks=[{"command": "true"}], terms={"jobname": name}, idempotency=name
                )
                return int(found["job"])
            except HeadnodeError:
                self._heads.reverse()
            finally:
                client.close()


@contextmanager
def load(head: RealHead, standby: Standby) -> Iterator[list[Submitter]]:
    submitters = [Submitter(number, head.state, standby.state) for number in range(SUBMITTERS)]
    for each in submitters:
        each.start()
    try:
        until(lambda: all(len(each.acknowledged) > 5 for each in submitters), "jobs are submitted")
        yield submitters
    finally:
        for each in submitters:
            each.ending.set()
        for each in submitters:
            each.join(TIMEOUT)
            assert not each.is_alive()


def until_more(submitters: list[Submitter]) -> None:
    """Wait until all have jobs at the new head."""
    before = {each: len(each.acknowledged) for each in submitters}
    until(lambda: all(len(each.acknowledged) > before[each] + 5 for each in submitters), "it goes on")


def jobs_at(state: Path) -> dict[str, list[int]]:
    """Return the ids of all jobs of each name."""
    client, found, before = Client(str(state)), dict[str, list[int]](), None
    while True:
        page: list[dict[str, Any]] = client.ask("jobs", before=before, limit=500)["jobs"]
        for job in page:
            found.setdefault(job["name"], []).append(job["id"])
        if not page:
            client.close()
            return found
        before = page[-1]["id"]


def see_that_all_are_there_once(standby: Standby, submitters: list[Submitter]) -> None:
    there = jobs_at(standby.state)
    for submitter in submitters:
        for name, job in submitter.acknowledged.items():
            assert there.get(name) == [job]
    assert all(len(ids) == 1 for ids in there.values())


def test_no_acknowledged_job_is_lost_or_there_twice_after_a_hand_over_under_load(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        with load(head, standby) as submitters:
            done = hn("standby", "takeover", state=standby.state)
            assert done.returncode == 0, done.stderr + head.log() + standby.log()
            until_more(submitters)
        see_that_all_are_there_once(standby, submitters)
        assert head.process.wait(TIMEOUT) == 0
        refused = hn("up", state=head.state)
        assert refused.returncode == 1
        assert f"{standby.address} took over from the head in" in refused.stderr
        theirs = set(standby.audit.splitlines())
        late = [line for line in (head.state / "audit.log").read_bytes().splitlines() if line not in theirs]
        assert [line for line in late if b"handed-over" not in line] == []


def test_no_acknowledged_job_is_lost_or_there_twice_after_the_head_was_killed_under_load(
    tmp_path: Path,
) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        with load(head, standby) as submitters:
            head.process.kill()
            head.process.wait()
            until(lambda: not standby.status()["connected"], "the standby sees that")
            refused = hn("standby", "takeover", state=standby.state)
            assert refused.returncode == 1
            assert "--force" in refused.stderr
            done = hn("standby", "takeover", "--force", state=standby.state)
            assert done.returncode == 0, done.stderr + standby.log()
            until_more(submitters)
        see_that_all_are_there_once(standby, submitters)


def test_a_standby_that_is_stopped_in_the_moment_of_its_takeover_ends_and_is_the_head_at_its_next_start(
    tmp_path: Path,
) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        job = head.submit("true")
        head.kill()
        until(lambda: not standby.status()["connected"], "the standby sees that")
        ask_standby(str(standby.state), "take over", force=True)
        standby.stop(signal.SIGTERM)
        up = hn("up", "--nodes", "0", state=standby.state)
        assert up.returncode == 0, up.stderr
        assert is_head(standby.state)
        assert jobs_at(standby.state) == {"": [job]}
        assert hn("down", state=standby.state).returncode == 0


def test_an_old_head_that_comes_back_finds_the_new_one_and_refuses_to_start(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        head.kill()
        until(lambda: not standby.status()["connected"], "the standby sees that")
        assert hn("standby", "takeover", "--force", state=standby.state).returncode == 0
        for _ in range(2):  # it remembers
            refused = hn("up", state=head.state)
            assert refused.returncode == 1
            assert f"{standby.address} took over from" in refused.stderr.replace("\n", " ")


def test_an_old_head_that_stood_still_during_a_takeover_ends_and_says_where_the_head_is(
    tmp_path: Path,
) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        head.process.send_signal(signal.SIGSTOP)
        done = hn("standby", "takeover", "--force", state=standby.state)
        assert done.returncode == 0, done.stderr + standby.log()
        head.process.send_signal(signal.SIGCONT)
        head.process.wait(15.0)
        assert f"{standby.address} took over from this head" in head.log()
        refused = hn("up", state=head.state)
        assert refused.returncode == 1
        assert f"{standby.address} took over from" in refused.stderr


def test_a_hand_over_that_the_head_cannot_note_does_not_begin(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        (head.state / "replaced.json").mkdir()
        with subprocess.Popen(
            [HN, "standby", "takeover"], env={**os.environ, "HEADNODE_STATE": str(standby.state)}
        ) as asked:
            until(lambda: "does not hand over" in head.log(), "the head says so")
            head.submit("true")  # it serves
            assert standby_state(head) == "InStep"
            (head.state / "replaced.json").rmdir()
            assert asked.wait(TIMEOUT) == 0
        assert head.process.wait(TIMEOUT) == 0


KILLED = """
import os, signal, sys
from headnode.apps.standby import main

def killed(self, real=main.StandbyHead._handed_over):
    real(self)
    os.kill(os.getpid(), signal.SIGKILL)

main.StandbyHead._handed_over = killed
sys.exit(main.main(sys.argv[1:]))
"""


DIES_WHEN_IT_HAS_ASKED = """
import os, signal, sys
from headnode.apps.standby import following, main

def asked(writer, message, real=following._send):
    real(writer, message)
    if getattr(message, "hand_over", False):
        os.kill(os.getpid(), signal.SIGKILL)

following._send = asked
sys.exit(main.main(sys.argv[1:]))
"""


def test_a_head_whose_standby_died_when_it_was_told_hands_over_once_that_is_back(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        job = head.submit("true")
        standby.stop(signal.SIGKILL)
        standby.start("-c", DIES_WHEN_IT_HAS_ASKED)
        until(lambda: standby.status()["connected"], "the head is there again")
        assert hn("standby", "takeover", state=standby.state).returncode != 0
        until(lambda: "hands over to its standby" in head.log(), "the head hands over")
        with pytest.raises(HeadnodeError, match="handed-over"):
            head.submit("true")
        standby.stop()
        standby.start()
        assert head.process.wait(TIMEOUT) == 0
        until(lambda: is_head(standby.state), "the standby is the head")
        assert jobs_at(standby.state).popitem()[1] == [job]


def test_a_head_whose_standby_died_before_it_could_answer_ends_once_that_is_the_head(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        job = head.submit("true")
        standby.stop(signal.SIGKILL)
        standby.start("-c", KILLED)
        until(lambda: standby.status()["connected"], "the head is there again")
        assert hn("standby", "takeover", state=standby.state).returncode != 0
        assert standby.process is not None
        standby.process.wait(TIMEOUT)
        assert head.process.poll() is None  # it waits, and takes nothing
        with pytest.raises(HeadnodeError, match="handed-over"):
            head.submit("true")
        assert hn("up", state=standby.state).returncode == 0
        assert head.process.wait(TIMEOUT) == 0
        assert jobs_at(standby.state).popitem()[1] == [job]
        assert hn("down", state=standby.state).returncode == 0


def test_a_takeover_that_was_cut_short_is_finished_at_the_next_start(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        job = head.submit("true")
        head.kill()
        standby.stop(signal.SIGKILL)
        replica = Replica(SqliteJournal(standby.state / "journal.db"))
        replica.carry_out(TakeOver(by=ROOT, name=standby.name, address=standby.address), WallClock().now())
        replica.store.close()  # and it was killed before the directory was that of a head
        started = hn("up", state=standby.state)
        assert "The takeover begun here is finished" in started.stdout.replace("\n", " "), started
        assert [job] in jobs_at(standby.state).values()
        assert hn("down", state=standby.state).returncode == 0


@pytest.mark.parametrize(("force", "knows"), [((), True), (("--force",), True), (("--force",), False)])
def test_the_former_head_becomes_a_standby_and_the_head_again(
    tmp_path: Path, force: tuple[str, ...], *, knows: bool
) -> None:
    with head_with_standby(tmp_path) as (head, standby):
        job = head.submit("true")
        if force:
            head.kill()
            until(lambda: not standby.status()["connected"], "the standby sees that")
        assert hn("standby", "takeover", *force, state=standby.state).returncode == 0
        head.process.wait(TIMEOUT)
        if knows:
            refused = hn("up", state=head.state)  # from then on it knows
            assert "hn standby join" in refused.stderr.replace("\n", " ")
        back = Standby(head.state.parent, "first", free_address())
        invited = hn("standby", "invite", state=standby.state)
        line = invited.stdout.split()[3]
        joined = hn("standby", "join", line, "--name", "first", "--listen", back.address, state=head.state)
        assert joined.returncode == 0, joined.stderr
        until(lambda: "in step" in hn("standby", "list", state=standby.state).stdout, "it is in step")
        (kept,) = head.state.glob("former-head-*")
        assert (kept / "journal.db").exists()
        assert hn("job", "submit", "true", state=standby.state).returncode == 0
        done = hn("standby", "takeover", state=head.state)
        assert done.returncode == 0, done.stderr
        ids = [each for ids in jobs_at(head.state).values() for each in ids]
        assert sorted(ids) == [job, job + 1]
        with contextlib.closing(Client(str(head.state))) as client:
            assert client.ask("standbys")["term"] == 2
        assert hn("down", state=head.state).returncode == 0


def test_the_page_of_heads_shows_how_long_changes_wait(tmp_path: Path) -> None:
    with head_with_standby(tmp_path) as (head, _):
        head.submit("true")
        with real_gateway(head) as gateway, gateway.browser() as browser:
            page = browser.get("/heads").text
        assert re.search(r'data-title="changes wait">[0-9.]+/[0-9.]+ ms<', page), page
