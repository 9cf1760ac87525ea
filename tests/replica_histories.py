"""What a real engine did, in a file, for a replica to follow; and everything that a journal has."""

import contextlib
import hashlib
import random
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from worlds import ROOT, World

from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event
from headnode.core.state.nodes import SetParameter, SetUserGroups
from headnode.engine.ports import EndedJob, StandbyStore
from headnode.engine.recovery import save
from headnode.engine.replica import Replica
from journal_model import ModelJournal

if TYPE_CHECKING:
    from test_histories import Player

STEPS = 220
NOT_FOLLOWED = {"cluster", "snapshots", "predictions", "sqlite_sequence"}
OPEN: list[SqliteJournal] = []


def opened(path: Path) -> SqliteJournal:
    """Open a store until the end of the test."""
    OPEN.append(SqliteJournal(path))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def closed_at_the_end() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


class Source(ModelJournal):
    """A journal that also writes what it gets into a file, and notes where batches end."""

    def __init__(self, path: Path, before: ModelJournal) -> None:
        super().__init__()
        self.store = opened(path)
        self.ends: list[int] = []
        events = [event for _, event in before.replay()]
        if events:
            self.append(events)

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        over = list(ended)
        number = super().append(events, over, revived)
        assert self.store.append(events, over, revived) == number
        self.ends.append(number)
        return number


class History:
    """What a real engine did: its journal in a file, and the digest of its live state now and then."""

    def __init__(self, path: Path, world: World) -> None:
        self.world = world
        self.journal = Source(path, world.journal)
        world.journal = world.engine.journal = self.journal
        self.digests: dict[int, str] = {}

    def note(self) -> None:
        """Note how the live state is now, not only a replayed one."""
        state = save(self.world.cluster)
        self.digests[self.world.engine.number] = hashlib.sha256(state).hexdigest()

    def play(self, player: "Player", dice: random.Random, copy: Path) -> None:
        """Let chance make history, in which the head begins again now and then, and a copy may be made."""
        for _ in range(STEPS):
            player.step()
            self.note()
            if dice.random() < 0.05:
                self.world.engine.snapshot_if_due(at_least=1)
            if dice.random() < 0.02:
                self.world.engine.recover()
                self.note()
            if dice.random() < 0.004 and not copy.exists():
                self.journal.store.copy_to(copy)
        with_limits = SetParameter(by=ROOT, name="UserLimits", value="ada: jobs=1")
        with_none = SetParameter(by=ROOT, name="UserLimits", value=None)
        of_groups = SetParameter(by=ROOT, name="GroupLimits", value="staff: jobs=1")
        groups = SetUserGroups(groups={"ada": ("staff",), "bob": ("staff",)})
        left = SetUserGroups(groups={"ada": ()})
        for command in (with_limits, of_groups, groups, with_none, left):
            self.world.do(command)
            self.note()

    def bodies(self, after: int, last: int) -> list[bytes]:
        return [body for _, body in self.journal.store.rows(after, last - after)]

    @property
    def last(self) -> int:
        return self.journal.store.last_number


def compare(history: History, replica: Replica) -> None:
    """See that the state is the same to the last byte, if it was noted there."""
    digest = history.digests.get(replica.number)
    if digest is not None and replica.is_settled:
        assert replica.is_same(replica.number, digest), f"the state after event {replica.number} differs"


def rows(store: StandbyStore, scratch: Path) -> dict[str, list[str]]:
    """Return everything that a journal has but what belongs to one machine."""
    store.copy_to(scratch)
    with contextlib.closing(sqlite3.connect(scratch)) as database:
        names = [name for (name,) in database.execute("select name from sqlite_master where type = 'table'")]
        found = {
            name: sorted(map(repr, database.execute(f"select * from {name}")))
            for name in names
            if name not in NOT_FOLLOWED
        }
    scratch.unlink()
    found["ended_counts"] = [row for row in found["ended_counts"] if not row.endswith(", 0)")]  # as none
    return found
