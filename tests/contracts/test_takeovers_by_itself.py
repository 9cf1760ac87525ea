"""A head, its standby and three nodes, whose network and power fail at random: there is never a second head.

The fence of the head and the votes of the standby are the real ones; the network and the clock are made up.
"""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.adapters.clock import WallClock
from headnode.adapters.files.copied_tables import RowChanges
from headnode.adapters.journal.memory import MemoryJournal
from headnode.adapters.nodes.link import Contact
from headnode.adapters.standby.followed import Followers
from headnode.adapters.standby.sender import SenderParts, StandbySender
from headnode.apps.server.standby_fence import FRESH, ISOLATED, StandbyFence
from headnode.apps.standby.door import Votes
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.join import AdmitNode, InviteNode, RegisterNode
from headnode.core.state.standby_votes import voters
from headnode.engine.engine import Engine

ROOT = User(name="root", uid=0, gid=0, administrator=True)
NODES = ("a", "b", "c")
LINKS = ("standby", *(f"{end} {node}" for end in ("head", "standby") for node in NODES))
WAIT = 2  # seconds that a write waits for the standby
DEAF = 30  # seconds until an agent notices a silent head
KNOCKS = 4  # seconds between two questions of a node at the standby
WINDOW = WAIT + FRESH + ISOLATED + 2  # seconds in which a head that is cut off goes on
STEPS = 200  # seconds


class Silence:
    """An `Effects` that does nothing."""

    def perform(self, events: object, cluster: object) -> None:
        return


def engine_with_nodes() -> Engine:
    engine = Engine(MemoryJournal(), WallClock(), dict(POLICIES), Silence())
    for name in NODES:
        until = Instant(engine.clock.now() + 60)
        facts = NodeFacts(name=name, processors=1, version="0.3.0")
        invite = InviteNode(by=ROOT, digest=name, expires=until, approve=True)
        admit = AdmitNode(digest=name, facts=facts, key=f"key of {name}")
        register = RegisterNode(facts=facts, key=f"key of {name}")
        for answer in (engine.handle([command])[0] for command in (invite, admit, register)):
            assert isinstance(answer, tuple)
    assert voters(engine.cluster) == set(NODES)
    return engine


@dataclass
class FarNode:
    """What the agent of a node remembers."""

    received: int = 0  # when a head said something last
    mark: int = 0  # of the last welcome
    knows_standby: bool = False


@dataclass
class Play:
    """One head, its standby and the nodes, a second at a time."""

    now: int = 0
    down: set[str] = field(default_factory=set)  # links without a network
    head_dead: int | None = None  # since when it has no power
    taken_over: int | None = None
    fenced: list[int] = field(default_factory=list)
    alone: list[int] = field(default_factory=list)  # when something was acknowledged that the standby has not

    def __post_init__(self) -> None:
        self.engine = engine_with_nodes()
        self.contacts: dict[str, Contact] = {}
        self.followers, self.votes = Followers(0), Votes()
        nowhere = Path("/nonexistent")
        parts = SenderParts(
            MemoryJournal(),
            self.followers,
            lambda name: None,
            nowhere,
            nowhere,
            RowChanges(),
            nowhere,
            print,
            print,
        )  # it is never started
        self.sender = StandbySender("s", ("h", 1), parts)
        self.followers.followers["s"] = self.sender.follower
        self.fence = StandbyFence(self.engine, self.contacts, self.followers, lambda: None, 0.0)
        self.nodes = {name: FarNode() for name in NODES}
        self.cut_since: int | None = None
        self.standby_heard, self.standby_in_step = 0, False

    def second(self) -> None:
        """Let a second pass."""
        self.now += 1
        if self.head_dead is None:
            self._head_and_standby()
            self._head_and_nodes()
            self._acknowledge()
            self.fence.look(self.sender, float(self.now))
            if self.followers.fenced:
                self.fenced.append(self.now)
        self._nodes_and_standby()
        if self.taken_over is None and self.standby_in_step:
            of = voters(self.engine.cluster)
            if self.votes.head_is_lost(self.standby_heard, of, 0.0, self.now):
                self.taken_over = self.now

    def _head_and_standby(self) -> None:
        follower = self.sender.follower
        if "standby" not in self.down and self.taken_over is None:
            self.cut_since = None
            self.sender.received = float(self.now)
            self.standby_heard, self.standby_in_step = self.now, follower.in_step
            follower.connected = follower.waited_for = True
            return
        self.cut_since = self.now if self.cut_since is None else self.cut_since
        if self.now - self.cut_since >= WAIT:
            follower.connected = follower.waited_for = False

    def _head_and_nodes(self) -> None:
        for name, node in self.nodes.items():
            if f"head {name}" in self.down or self.taken_over is not None:
                continue
            node.received, node.mark, node.knows_standby = self.now, self.fence.mark, self.fence.is_offered
            self.contacts[name] = Contact(Instant(float(self.now)), mark=node.mark)

    def _acknowledge(self) -> None:
        if not self.followers.fenced and not self.sender.follower.in_step:
            self.alone.append(self.now)

    def _nodes_and_standby(self) -> None:
        for name, node in self.nodes.items():
            silent = self.now - node.received
            knocks = node.knows_standby and silent >= DEAF and self.now % KNOCKS == 0
            if knocks and f"standby {name}" not in self.down:
                self.votes.knock(name, float(silent), float(self.now))


Fault = tuple[int, str]
faults = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([*LINKS, *LINKS, "power"])), min_size=1, max_size=14
)


def play(happens: list[Fault]) -> Play:
    """Play faults: after so many seconds a link goes down or up again, or the head loses its power."""
    one = Play()
    for _ in range(5):
        one.second()
    for seconds, what in happens:
        for _ in range(seconds):
            one.second()
        if what == "power":
            one.head_dead = one.now if one.head_dead is None else one.head_dead
        else:
            one.down ^= {what}
    for _ in range(STEPS):
        one.second()
    return one


@given(happens=faults)
@settings(max_examples=share_of(2000), deadline=None)
def test_when_a_standby_takes_over_the_head_has_stopped_and_stays_so(happens: list[Fault]) -> None:
    one = play(happens)
    if one.taken_over is None or (one.head_dead is not None and one.head_dead <= one.taken_over):
        return
    assert one.taken_over in one.fenced or one.taken_over - 1 in one.fenced
    until = one.now if one.head_dead is None else one.head_dead
    assert set(range(one.taken_over, until)) <= set(one.fenced)


@given(happens=faults)
@settings(max_examples=share_of(2000), deadline=None)
def test_a_standby_that_takes_over_misses_no_more_than_a_head_acknowledged_in_its_last_seconds(
    happens: list[Fault],
) -> None:
    one = play(happens)
    if one.taken_over is None:
        return
    stops = [] if one.head_dead is None else [one.head_dead]
    ended = min([each for each in (*stops, *one.fenced) if each >= one.standby_heard])
    missed = [when for when in one.alone if when > one.standby_heard]
    assert all(ended - when <= WINDOW for when in missed)


@pytest.mark.parametrize(
    ("version", "votes"), [("", 0), ("0.2.0", 0), ("0.3.0", 1), ("0.10.1", 1), ("1.0", 1)]
)
def test_only_agents_that_know_standbys_can_tell_where_the_head_is(version: str, votes: int) -> None:
    engine = engine_with_nodes()
    facts = NodeFacts(name="a", processors=1, version=version)
    (answer,) = engine.handle([RegisterNode(facts=facts, key="key of a")])
    assert isinstance(answer, tuple)
    assert len(voters(engine.cluster)) == 2 + votes


def test_a_head_that_loses_its_power_is_followed() -> None:
    one = play([(10, "power")])
    assert one.taken_over is not None
    assert not one.alone


def test_a_head_that_only_loses_its_standby_goes_on() -> None:
    one = play([(10, "standby")])
    assert one.taken_over is None
    assert not one.fenced


def test_a_head_that_is_cut_off_stops_and_is_followed() -> None:
    one = play([(10, "standby"), (0, "head a"), (0, "head b"), (0, "head c")])
    assert one.taken_over is not None
    assert one.fenced


def test_a_head_that_is_cut_off_after_its_nodes_have_forgotten_the_standby_is_not_followed() -> None:
    one = play([(10, "standby"), (20, "head a"), (0, "head b"), (0, "head c")])
    assert one.taken_over is None
    assert not one.fenced


def test_a_standby_that_is_cut_off_takes_nothing_over_when_it_is_back_after_the_head_is_lost() -> None:
    one = play([(10, "standby"), (20, "power"), (1, "standby")])
    assert one.taken_over is None
