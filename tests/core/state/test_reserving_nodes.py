"""Reservations of nodes: who makes them, which nodes they get, who runs inside, and how they end."""

from typing import Any

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, Refused, WrongState
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state import events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import ChangeNode, SetParameter
from headnode.core.state.reservations import CancelReservation, ChangeReservation, MakeReservation
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x")
HOUR = 3600.0
ALL = sorted(POLICIES)


def wish(world: World, begins: float = HOUR, lasts: float = HOUR, **more: Any) -> NodeReservation:
    """Return a reservation that begins in so many seconds."""
    at = Instant(world.clock.now() + begins)
    named = {} if "count" in more else {"nodes": ("node1",)}
    return NodeReservation(name="upgrade", start=at, end=Instant(at + lasts), **{**named, **more})


def reserve(world: World, begins: float = HOUR, lasts: float = HOUR, **more: Any) -> NodeReservation:
    """Reserve nodes, whatever runs there; return the reservation as it was made."""
    regardless = more.pop("regardless", True)
    asked = wish(world, begins, lasts, **more)
    made = next(
        event
        for event in world.do(MakeReservation(by=ROOT, reservation=asked, regardless=regardless))
        if isinstance(event, e.ReservationCreated)
    )
    return made.reservation


def lasting(world: World, seconds: float, by: User = ADA, **more: Any) -> JobId:
    return world.submit(TASK, by=by, run_time=Seconds(seconds), **more)


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def under(policy: str, *processors: int) -> World:
    world = World(*processors)
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    return world


@pytest.mark.parametrize("policy", ALL)
def test_before_maintenance_start_only_jobs_that_are_over_by_then_and_the_others_after_it(
    policy: str,
) -> None:
    world = under(policy, 1)
    reserve(world)
    short, after = lasting(world, HOUR), lasting(world, HOUR + 1)
    assert (state(world, short), state(world, after)) == (JobState.RUNNING, JobState.QUEUED)
    world.end(short, 1)
    world.wait(HOUR)
    assert state(world, after) is JobState.QUEUED
    world.wait(HOUR)
    assert state(world, after) is JobState.RUNNING
    assert not world.cluster.reservation_index.named
    world.check_replay()


@pytest.mark.parametrize("policy", ALL)
def test_a_job_of_a_reservation_starts_when_it_begins_though_others_wait_before_it(policy: str) -> None:
    world = under(policy, 1, 1)
    reserve(world, users=("ada",))
    blocks = lasting(world, 5 * HOUR, BOB, minimum=1)
    waits = lasting(world, 5 * HOUR, BOB)
    inside = lasting(world, HOUR, reservation="UPGRADE")
    assert [state(world, job) for job in (blocks, waits, inside)] == [
        JobState.RUNNING,
        JobState.QUEUED,
        JobState.QUEUED,
    ]
    world.wait(HOUR)
    assert (state(world, waits), state(world, inside)) == (JobState.QUEUED, JobState.RUNNING)
    assert list(world.cluster.graph(inside).run.allocation) == ["node1"]
    world.check_replay()


def test_only_administrators_make_change_and_cancel_reservations() -> None:
    world = World(1)
    reserve(world)
    for command in (
        MakeReservation(by=ADA, reservation=replace(wish(world), name="other")),
        ChangeReservation(by=ADA, name="upgrade", reservation=wish(world), fields=("reason",)),
        CancelReservation(by=ADA, name="upgrade"),
    ):
        with pytest.raises(NotAllowed, match="'ada' may not"):
            world.do(command)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"name": "a b"}, "reservation-name"),
        ({"end": Instant(5.0)}, "reservation-time"),
        ({"nodes": ()}, "reservation-nodes"),
        ({"count": 1}, "reservation-nodes"),
        ({"nodes": ("nowhere",)}, "no-such-node"),
        ({"nodes": (), "count": 3}, "too-few-nodes"),
        ({"nodes": (), "count": 1, "features": ("gpu",)}, "too-few-nodes"),
        ({"reason": "x" * 501}, "reservation-reason"),
        ({"name": "Upgrade"}, "reservation-exists"),
        ({"name": "other"}, "reservation-overlaps"),
    ],
)
def test_what_cannot_be_reserved_is_refused_and_says_why(changed: dict[str, Any], code: str) -> None:
    world = World(1, 1)
    reserve(world)
    asked = replace(replace(wish(world), name="more"), **changed)
    with pytest.raises(Refused) as refused:
        world.do(MakeReservation(by=ROOT, reservation=asked))
    assert refused.value.code == code
    assert refused.value.fix


def test_a_reservation_over_jobs_that_may_still_run_is_refused_by_their_names_unless_they_do_not_matter() -> (
    None
):
    world = World(4)
    over = lasting(world, HOUR)
    late, endless = lasting(world, HOUR + 60), world.submit(TASK)
    with pytest.raises(WrongState, match=rf"node1 .*: job {late} \(until .*Z\), job {endless} \(no run"):
        reserve(world, regardless=False)
    assert over not in (late, endless)
    reserve(world)
    world.wait(HOUR)
    assert state(world, late) is JobState.RUNNING


def test_any_nodes_are_chosen_so_that_no_job_need_run_into_the_reservation() -> None:
    world = World(1, 1, 1)
    lasting(world, 3 * HOUR, requested_nodes=("node1",))
    lasting(world, HOUR, requested_nodes=("node3",))
    assert reserve(world, count=2, regardless=False).nodes == ("node2", "node3")


def test_another_node_takes_the_place_of_one_that_leaves() -> None:
    world = World(1, 1, 1)
    made = reserve(world, count=2)
    assert made.nodes == ("node1", "node2")
    world.do(ChangeNode(by=ROOT, node="node2", action="pause"))
    assert world.cluster.reservation_index.named["upgrade"].nodes == ("node1", "node3")
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    assert world.cluster.reservation_index.named["upgrade"].nodes == ("node1", "node3")
    world.check_replay()


@pytest.mark.parametrize(
    ("at_end", "seconds", "becomes"),
    [("limit", HOUR, JobState.RUNNING), ("run-on", 9 * HOUR, JobState.RUNNING), ("cancel", 9 * HOUR, None)],
)
def test_at_its_end_jobs_inside_were_limited_or_go_on_or_are_canceled(
    at_end: Any, seconds: float, becomes: JobState | None
) -> None:
    world = World(1)
    reserve(world, users=("ada",), at_end=at_end)
    job = lasting(world, seconds, reservation="upgrade")
    world.wait(HOUR)
    assert state(world, job) is JobState.RUNNING
    world.wait(HOUR - 1)
    assert state(world, job) is JobState.RUNNING
    world.wait(1)
    if at_end == "limit":  # its limit is over in the same instant
        assert world.record(job).message == "run time expired"
    elif becomes is None:
        assert world.record(job).message == "reservation upgrade has ended"
    else:
        assert state(world, job) is becomes
    world.check_replay()


def test_a_job_that_could_never_run_in_its_reservation_is_refused() -> None:
    world = World(1)
    reserve(world, users=("ada",), projects=("heat",))
    with pytest.raises(NotFound, match="no reservation 'other'"):
        lasting(world, HOUR, reservation="other")
    with pytest.raises(NotAllowed, match="does not accept jobs of 'bob'"):
        lasting(world, HOUR, BOB, reservation="upgrade")
    with pytest.raises(BadRequest, match="longer than reservation 'upgrade' lasts"):
        lasting(world, HOUR + 60, reservation="upgrade")
    with pytest.raises(BadRequest, match="longer"):
        world.submit(TASK, by=ADA, reservation="upgrade")
    assert lasting(world, HOUR, BOB, reservation="upgrade", project="heat")


def test_who_may_use_an_automatic_reservation_need_not_name_it() -> None:
    world = World(1)
    first = lasting(world, 60)
    mine, theirs = lasting(world, 9 * HOUR), lasting(world, 9 * HOUR, BOB)
    reserve(world, users=("ada",), automatic=True)
    world.end(first, 1)
    assert (state(world, mine), state(world, theirs)) == (JobState.RUNNING, JobState.QUEUED)
    world.check_replay()


def test_whoever_is_no_longer_let_in_waits_and_whoever_is_goes_in() -> None:
    world = World(1)
    reserve(world, users=("ada",))
    job = lasting(world, HOUR, reservation="upgrade")
    change = ChangeReservation(
        by=ROOT, name="Upgrade", reservation=wish(world, users=("bob",)), fields=("users",)
    )
    world.do(change)
    world.wait(HOUR)
    assert state(world, job) is JobState.QUEUED
    world.do(replace(change, reservation=wish(world, users=("ada",))))
    assert state(world, job) is JobState.RUNNING
    world.check_replay()


def test_a_canceled_reservation_lets_everybody_in_and_leaves_its_jobs_alone() -> None:
    world = World(2)
    reserve(world, begins=0, users=("ada",))
    inside, waits = lasting(world, HOUR, reservation="upgrade"), lasting(world, HOUR, BOB)
    assert (state(world, inside), state(world, waits)) == (JobState.RUNNING, JobState.QUEUED)
    world.do(CancelReservation(by=ROOT, name="upgrade"))
    assert (state(world, inside), state(world, waits)) == (JobState.RUNNING, JobState.RUNNING)
    world.check_replay()


def test_a_running_job_gets_no_limit_by_which_its_node_is_reserved() -> None:
    world = World(1)
    job = lasting(world, 60)
    reserve(world)
    spec = world.cluster.written(world.record(job))
    longer = replace(spec, run_time=Seconds(HOUR))
    world.do(ModifyJob(by=ROOT, job=job, spec=longer, fields=("run_time",)))
    too_long = replace(spec, run_time=Seconds(HOUR + 1))
    with pytest.raises(WrongState, match="'node1' is reserved for maintenance"):
        world.do(ModifyJob(by=ROOT, job=job, spec=too_long, fields=("run_time",)))


def test_reservations_outlast_a_restart_from_a_snapshot_and_turn_with_the_time() -> None:
    world = World(1)
    made = reserve(world)
    restored = ClusterState(world.cluster.snapshot())
    assert restored.reservation_index.named == {"upgrade": made}
    agenda = restored.agenda
    assert agenda.edges.next() == made.start
    agenda.dirty_reservations.clear()
    agenda.begin_and_end_reservations(restored.reservation_index.named, made.end)
    assert (agenda.edges.next(), agenda.dirty_reservations) == (None, {"upgrade"})


def test_a_head_that_was_away_when_a_reservation_ended_ends_it() -> None:
    world = World(1)
    reserve(world)
    world.clock.advance(Seconds(3 * HOUR))
    world.engine.recover()
    world.engine.tick()
    assert not world.cluster.reservation_index.named
    assert state(world, world.submit(TASK)) is JobState.RUNNING
