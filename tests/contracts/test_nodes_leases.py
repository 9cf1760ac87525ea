"""Leases: how long a node may believe that nobody has its tasks, and how long the head must let it."""

import itertools
import math

import pytest

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.memory import MemoryJournal
from headnode.adapters.nodes.link import MAX_UNREAD, NodeLink
from headnode.adapters.processes.agent_link import FOR_EVER, Lease, boot_time
from headnode.adapters.wire import messages as m
from headnode.apps.agent.agent import MAX_UNANSWERED, HeldLease
from headnode.apps.agent.job_table import MAX_JOBS, SeenDispatches
from headnode.apps.server.agent_supervisor import TO_STAND_STILL, Absences, NodeLimits
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.drain import DrainNode
from headnode.core.state.join import RegisterNode
from headnode.engine.engine import Engine
from headnode.engine.settings import Settings
from testbed.in_process import InProcessNodes

READY, AWAY, PAUSED_AWAY = NodeState.READY, NodeState.UNREACHABLE, NodeState.LOST_PAUSED
LEASE = Seconds(45.0)


def test_in_every_setting_the_head_waits_longer_than_a_node_goes_on() -> None:
    for interval, count, share in itertools.product((1, 30, 3600), (1, 3, 1000), (0, 1, 50, 80)):
        values = {"HeartbeatInterval": str(interval), "InactivityCount": str(count), "NodeLease": str(share)}
        settings = Settings(values)
        assert settings.lease() * TO_STAND_STILL <= settings.node_timeout()


@pytest.mark.parametrize("state", [AWAY, PAUSED_AWAY])
def test_an_absence_counts_from_when_it_was_first_seen_and_ends_with_it(state: NodeState) -> None:
    absences, timeout = Absences(), {"red": 10.0, "green": 20.0}.__getitem__
    both = {"red": state, "green": state}
    assert absences.too_long(both, timeout, 100.0) == []
    assert absences.too_long(both, timeout, 110.0) == []
    assert absences.too_long(both, timeout, 110.1) == ["red"]
    assert absences.too_long(both, timeout, 121.0) == ["red", "green"]
    assert absences.too_long({"red": READY, "green": state}, timeout, 122.0) == ["green"]
    assert absences.too_long(both, timeout, 123.0) == ["green"], "it was back meanwhile"


def test_the_time_in_which_the_head_stood_still_is_not_counted() -> None:
    absences, timeout = Absences(), {"red": 10.0}.__getitem__
    assert absences.too_long({"red": AWAY}, timeout, 100.0) == []
    absences.forgive(50.0)
    assert absences.too_long({"red": AWAY}, timeout, 160.0) == []
    assert absences.too_long({"red": AWAY}, timeout, 160.1) == ["red"]


def test_nodes_may_be_silent_and_away_longer_than_their_leases_and_a_node_taken_by_force_less_long() -> None:
    engine = Engine(MemoryJournal(), VirtualClock(Instant(5.0)), dict(POLICIES), InProcessNodes())
    for name in ("red", "green"):
        engine.handle([RegisterNode(facts=NodeFacts(name=name, processors=1), approved=True)])
    root = User(name="root", uid=0, gid=0, administrator=True)
    engine.handle([DrainNode(by=root, node="green", reason="on fire", force=True)])
    assert [any(each.force for each in node.drains) for node in engine.cluster.nodes.values()] == [
        False,
        True,
    ]
    for lease in (0.0, 45.0, 1_000.0):
        limits = NodeLimits(engine, dict.fromkeys(("red", "green"), lease))
        stands_still = TO_STAND_STILL * max(lease, engine.settings.lease())
        for name in ("red", "green"):
            assert limits.least <= limits.silence(name) >= stands_still <= limits.absence(name)
        assert limits.silence("green") <= limits.silence("red")
        assert limits.absence("green") == stands_still <= limits.absence("red") == limits.silence("red")
        assert limits.silence("nobody") == math.inf


def held() -> tuple[HeldLease, list[float | None]]:
    messages: list[float | None] = []
    return HeldLease(messages.append), messages


def test_a_lease_counts_from_when_the_heartbeat_was_said_and_an_answer_counts_once() -> None:
    lease, found = held()
    before = boot_time()
    number = lease.next_heartbeat()
    after = boot_time()
    lease.received(number, LEASE)
    assert found[0] is not None
    assert before + LEASE <= found[0] <= after + LEASE
    lease.received(number, LEASE)
    lease.received(number + 7, LEASE)
    assert len(found) == 1
    assert lease.length == LEASE


def test_heartbeats_that_nobody_answers_are_forgotten() -> None:
    lease, found = held()
    first = lease.next_heartbeat()
    for _ in range(MAX_UNANSWERED):
        lease.next_heartbeat()
    lease.received(first, LEASE)
    assert found == []


def test_a_head_that_is_off_begins_the_lease_anew_once_its_length_is_known() -> None:
    lease, found = held()
    lease.head_is_off(1000.0)
    assert found == []
    lease.received(lease.next_heartbeat(), LEASE)
    dialed = boot_time() + LEASE / 2
    lease.head_is_off(dialed)
    lease.head_is_off(dialed + LEASE / 2)
    assert found[1:] == [dialed + LEASE, dialed + LEASE / 2 + LEASE]
    lease.let_go()
    assert found[-1] is None


def test_a_lease_that_was_over_before_the_head_was_off_stays_over_until_a_head_renews_it() -> None:
    """The head may have given the tasks to others, and gone only then."""
    lease, found = held()
    lease.received(lease.next_heartbeat(), LEASE)
    lease.head_is_off(boot_time() + LEASE + 1)
    assert found[1:] == []
    lease.received(lease.next_heartbeat(), LEASE)
    lease.head_is_off(boot_time() + LEASE / 2)
    assert len(found) == 3


def test_a_head_that_grants_none_lets_tasks_go_on_for_ever() -> None:
    lease, found = held()
    lease.received(lease.next_heartbeat(), Seconds(0.0))
    lease.head_is_off(1000.0)
    assert found == [None]


def test_the_lease_of_a_shepherd_is_over_when_its_time_has_come_and_not_when_it_was_renewed() -> None:
    lease = Lease()
    assert (lease.left, lease.is_over) == (FOR_EVER, False)
    lease.renew(boot_time() - 1)
    assert lease.is_over
    lease.renew(boot_time() + 1000)
    assert not lease.is_over
    assert 0 < lease.left <= 1000
    lease.renew(None)
    assert lease.left == FOR_EVER


def test_an_order_that_comes_again_on_a_connection_is_known_and_forgotten_with_it() -> None:
    taken = SeenDispatches()
    assert taken.add(JobId(1), 1, 1, 1)
    assert not taken.add(JobId(1), 1, 1, 1)
    others = [(JobId(2), 1, 1, 1), (JobId(1), 2, 1, 1), (JobId(1), 1, 2, 1), (JobId(1), 1, 1, 2)]
    assert all(taken.add(*other) for other in others)
    taken.forget()
    assert taken.add(JobId(1), 1, 1, 1)


def test_of_very_many_jobs_the_orders_of_the_first_are_forgotten() -> None:
    taken = SeenDispatches()
    for job in range(1, MAX_JOBS + 2):
        taken.add(JobId(job), 1, 1, 1)
    assert taken.add(JobId(1), 1, 1, 1)
    assert not taken.add(JobId(MAX_JOBS), 1, 1, 1)


class SlowReader:
    """A connection whose other end reads nothing."""

    def __init__(self) -> None:
        self.transport, self.waits, self.aborted = self, 0, False

    def write(self, data: bytes) -> None:
        self.waits += len(data)

    def get_write_buffer_size(self) -> int:
        return self.waits

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True


def test_a_node_that_reads_nothing_loses_its_connection_before_it_costs_the_head_its_memory() -> None:
    reader = SlowReader()
    link = NodeLink("deaf", reader)
    piece = m.Goodbye(reason="x" * (MAX_UNREAD // 8))
    for _ in range(7):
        link.send(piece)
    assert not reader.aborted
    for _ in range(3):
        link.send(piece)
    assert reader.aborted
    assert reader.waits < 1.2 * MAX_UNREAD
