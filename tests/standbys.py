"""A head in the process of the test whose events standbys follow, and standby heads as real processes."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from headnode import __version__
from headnode.adapters.clock import WallClock
from headnode.adapters.files.copied_tables import RowChanges
from headnode.adapters.files.standby_place import StandbyPlace, write_place
from headnode.adapters.journal.sqlite import JOURNAL, SqliteJournal, write_cluster_id
from headnode.adapters.nodes.membership import read_address, read_invitation
from headnode.adapters.standby.followed import FollowedJournal, Followers, FollowingStandby
from headnode.adapters.standby.sender import SenderParts, StandbySender
from headnode.adapters.wire.standby_messages import STANDBY_PROTOCOL, STANDBY_PURPOSE, HeadHello, IsHead
from headnode.adapters.wire.tls import Authority
from headnode.apps.cli.standby_daemon import ask_standby
from headnode.apps.client.client import Client
from headnode.apps.standby.following import AUDIT_LOG
from headnode.apps.standby.join import join
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.submit import CreateJob
from headnode.engine.engine import Engine
from headnode.engine.ports import EventSource
from replica_histories import History
from testbed.in_process import InProcessNodes
from testbed.processes import free_address, until

ROOT = User(name="root", uid=0, gid=0, administrator=True)
CLUSTER = "lab"


class Standby:
    """A standby head: a process of its own, and its state directory."""

    def __init__(self, directory: Path, name: str = "spare", address: str = "") -> None:
        self.state, self.name = directory / "state", name
        self.address = address or free_address()
        self._log = directory.parent / f"{name}.log"  # not on a disk that a test fills
        self.state.mkdir(parents=True, exist_ok=True)
        self.process: subprocess.Popen[bytes] | None = None

    def settle(self, leader: "Leader") -> None:
        """Get what `hn standby join` gets."""
        shutil.copytree(leader.state / "authority", self.state / "authority")
        write_cluster_id(self.state, leader.store.cluster_id)
        (self.state / "name").write_text(CLUSTER + "\n")
        (self.state / "nodes-here").write_text("0\n")
        write_place(self.state, StandbyPlace(self.name, self.address, "head:1", CLUSTER))

    def join(self, invitation: str) -> None:
        """Join a head, as `hn standby join` does before it starts the standby."""
        join(self.state, read_invitation(invitation), self.name, self.address)

    def start(self, *program: str, environment: Mapping[str, str] | None = None) -> None:
        """Start the process, of another program if one is given; return when it answers."""
        words = program or ("-m", "headnode.apps.standby")
        command = [sys.executable, *words, "--state", str(self.state)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        until(self.answers, f"the standby answers: {self.log()}")

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            self.status()
        except HeadnodeError:
            return False
        return True

    def status(self) -> dict[str, Any]:
        return ask_standby(str(self.state), "status")

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None and self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(number)
        if self.process is not None:
            self.process.wait(30)

    @property
    def audit(self) -> bytes:
        file = self.state / AUDIT_LOG
        return file.read_bytes() if file.exists() else b""

    def on_disk(self, scratch: Path) -> SqliteJournal:
        """Return what its journal has on the disk, though the process has it open; it should stand still."""
        scratch.mkdir()
        for ending in ("", "-wal"):
            if (file := self.state / f"{JOURNAL}{ending}").exists():
                shutil.copy(file, scratch / file.name)
        return SqliteJournal(scratch / JOURNAL)


class ChangedEvents:
    """The events of a head, for tests in which a standby gets them otherwise."""

    def __init__(self, source: EventSource) -> None:
        self.source, self.cluster_id = source, source.cluster_id
        self.checksum_of, self.copy_to = source.checksum_of, source.copy_to

    @property
    def last_number(self) -> int:
        return self.source.last_number

    def rows(self, after: int, limit: int) -> list[tuple[int, bytes]]:
        return self.source.rows(after, limit)

    def purged_after(self, number: int) -> bool:
        return self.source.purged_after(number)


class Leader:
    """A real engine with a followed journal; a thread for each standby sends it the events."""

    def __init__(self, directory: Path, wait: float = 2.0, history: History | None = None) -> None:
        """`history` has a store and an engine already."""
        self.state, self.wait = directory, wait
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = Authority(directory / "authority")
        self.store = history.journal.store if history is not None else SqliteJournal(directory / JOURNAL)
        self.followers = Followers(self.store.last_number)
        below = history.journal if history is not None else self.store
        self.journal = FollowedJournal(below, self.followers, lambda: self.wait)
        if history is not None:
            self.engine = history.world.engine
            self.engine.journal = self.journal
        else:
            self.engine = Engine(self.journal, WallClock(), dict(POLICIES), InProcessNodes())
        self.rows = RowChanges()
        self.senders: dict[str, StandbySender] = {}
        self.replaced: list[IsHead] = []
        self.asked_to_hand_over: list[str] = []

    def follow(
        self,
        standby: Standby,
        source: EventSource | None = None,
        hello: Callable[[str], HeadHello] | None = None,
    ) -> StandbySender:
        parts = SenderParts(
            source or self.store, self.followers, hello or self.hello, self.authority.file, self.state,
            self.rows, self.state / AUDIT_LOG, self.replaced.append, self.asked_to_hand_over.append,
        )  # fmt: skip
        sender = StandbySender(standby.name, read_address(standby.address, "listen"), parts)
        self.senders[standby.name] = sender
        sender.start()
        return sender

    def hello(self, name: str) -> HeadHello:
        secret = self.authority.derived_secret(STANDBY_PURPOSE)
        return HeadHello(
            STANDBY_PROTOCOL, __version__, CLUSTER, self.store.cluster_id, name, "head:1", secret,
            self.engine.cluster.term,
        )  # fmt: skip

    def submit(self, jobs: int = 1) -> float:
        """Create so many jobs in one batch; return the seconds until that was acknowledged."""
        began = time.monotonic()
        spec = JobSpec(tasks=(TaskSpec(command="x"),))
        for answer in self.engine.handle([CreateJob(by=ROOT, spec=spec, submit=True)] * jobs):
            assert isinstance(answer, tuple), answer
        return time.monotonic() - began

    def follower(self, standby: Standby) -> FollowingStandby:
        return self.senders[standby.name].follower

    def until_in_step(self, standby: Standby) -> None:
        """Wait until a standby has everything and is waited for."""
        follower = self.follower(standby)
        until(
            lambda: follower.in_step and follower.confirmed == self.store.last_number,
            f"{standby.name} is in step: {self.senders[standby.name].problem}\n{standby.log()}",
        )

    def until_problem(self, standby: Standby, words: str) -> None:
        sender = self.senders[standby.name]
        until(lambda: words in sender.problem, f"{words!r} is its problem: {sender.problem}\n{standby.log()}")

    def close(self) -> None:
        for sender in self.senders.values():
            sender.stop()
        for sender in self.senders.values():
            sender.join(30)
            assert not sender.is_alive()
        self.store.close()


def is_head(state: Path) -> bool:
    """Whether the head of a state directory answers, and has taken over."""
    with closing(Client(str(state))) as client:
        try:
            return bool(client.ask("standbys")["term"])
        except HeadnodeError:
            return False


@contextmanager
def leader_and_standby(directory: Path, wait: float = 2.0) -> Iterator[tuple[Leader, Standby]]:
    """Start a standby that follows a head in this process, and is in step."""
    leader, standby = Leader(directory / "head", wait), Standby(directory / "standby")
    try:
        leader.submit()
        standby.settle(leader)
        standby.start()
        leader.follow(standby)
        leader.until_in_step(standby)
        yield leader, standby
    finally:
        leader.close()
        standby.stop()
