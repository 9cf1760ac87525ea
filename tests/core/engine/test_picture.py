"""What the engine keeps from pass to pass is what a fresh look would show, and changes no plan."""

import contextlib
import gc
import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from worlds import ADA, ROOT, World

from depth import seeds
from headnode.core.model.errors import Refused
from headnode.core.model.job import NOTHING_HELD, HeldAmounts, Licence
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.scheduling.conservative import ConservativePass
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import ReservedTime
from headnode.core.scheduling.pass_state import PassState
from headnode.core.scheduling.plan import Plan, Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.shadow_reservation import ReleaseCache
from headnode.core.scheduling.view import View
from headnode.core.state.drain import DrainNode
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import ChangeNode, SetParameter
from headnode.core.state.reservations import MakeReservation
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import JobState
from headnode.engine.policy_registry import starts_nothing
from headnode.engine.view_builder import ViewBuilder

DEEDS = 120


def looked_at_twice(world: World, plan: Callable[[View], Plan], passes: list[Plan]) -> Callable[[View], Plan]:
    """Return the policy, which holds each plan against that of a fresh look at the cluster."""

    def held(view: View) -> Plan:
        fresh = ViewBuilder(world.cluster, keeps=False).view(view.now)
        assert dict(view.nodes) == dict(fresh.nodes)
        assert sorted(view.running, key=lambda job: job.job) == list(fresh.running)
        assert view.licences == fresh.licences
        alone = msgspec.structs.replace(fresh, depth=view.depth, before=view.before, freed=view.freed)
        cold = plan(msgspec.structs.replace(alone, ground=None))
        made = plan(view)
        assert (made.starts, made.grows, made.reservations) == (cold.starts, cold.grows, cold.reservations)
        assert made.waits == cold.waits
        passes.append(made)
        return made

    return held


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("seed", seeds(6))
def test_plans_on_the_kept_picture_are_those_of_a_fresh_one(policy: str, seed: int) -> None:
    dice, world = random.Random(f"{policy} {seed}"), World(4, 4, 2, 8)
    passes: list[Plan] = []
    world.engine.policies = {policy: looked_at_twice(world, POLICIES[policy], passes)}
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    world.do(SetParameter(by=ROOT, name="Licences", value="x:3"))
    world.do(SetParameter(by=ROOT, name="SchedulingDepth", value=str(dice.choice((1, 3, 100)))))
    jobs: list[JobId] = []
    for _ in range(DEEDS):
        with contextlib.suppress(Refused):  # such as to cancel what is over
            deed(dice, world, jobs)
    assert len(passes) > DEEDS / 4
    assert any(plan.starts for plan in passes)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("seed", seeds(3))
def test_the_kept_picture_of_nodes_that_close_or_are_reserved_is_a_fresh_one(policy: str, seed: int) -> None:
    dice, world = random.Random(f"closing {policy} {seed}"), World(4, 4, 2, 8)
    open_for: set[float] = set()
    reserved: set[tuple[ReservedTime, ...]] = set()
    tables: list[tuple[NodeTable, ReleaseCache]] = []

    def held(view: View) -> Plan:
        fresh = ViewBuilder(world.cluster, keeps=False).view(view.now)
        assert dict(view.nodes) == dict(fresh.nodes)
        open_for.update(node.open_for for node in view.nodes.values())
        reserved.update(node.reserved for node in view.nodes.values())
        tables.append((view.node_table(), view.node_table().cache.of(ReleaseCache)))
        made, cold = POLICIES[policy](view), POLICIES[policy](msgspec.structs.replace(view, ground=None))
        assert (made.starts, made.grows, made.reservations) == (cold.starts, cold.grows, cold.reservations)
        assert made.waits == cold.waits
        return made

    world.engine.policies = {policy: held}
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    jobs: list[JobId] = []
    for _ in range(DEEDS):
        if dice.random() < 0.25:
            after = dice.choice((None, 60, 130))
            closes = None if after is None else Instant(world.clock.now() + after)
            world.do(DrainNode(by=ROOT, node=f"node{dice.randint(1, 4)}", closes=closes))
        if dice.random() < 0.1:
            with contextlib.suppress(Refused):  # such as where another is
                world.do(reservation(dice, world.clock.now()))
        with contextlib.suppress(Refused):
            deed(dice, world, jobs)
    assert len(open_for) > 3
    assert len(reserved) > 3
    assert len({id(cache) for _, cache in tables}) < len({id(table) for table, _ in tables})


def reservation(dice: random.Random, now: Instant) -> MakeReservation:
    """Return a reservation of a node, for maintenance or for a user."""
    begins = Instant(now + dice.choice((1, 60, 200)))
    named = NodeReservation(
        name=f"r{dice.randrange(1000)}",
        start=begins,
        end=Instant(begins + dice.choice((30, 90))),
        nodes=(f"node{dice.randint(1, 4)}",),
        users=dice.choice(((), (ADA.name,))),
        automatic=dice.random() < 0.5,
    )
    return MakeReservation(by=ROOT, reservation=named, regardless=True)


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
@pytest.mark.parametrize("preemption", ["None", "Graceful"])
def test_a_pass_whose_plan_may_be_made_later_would_start_and_take_nothing(
    policy: str, preemption: str
) -> None:
    found: Counter[bool] = Counter()
    for seed in seeds(8):
        dice, world = random.Random(f"later {policy} {seed}"), World(4, 2, 2)
        world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
        world.do(SetParameter(by=ROOT, name="PreemptionType", value=preemption))

        def held(view: View, world: World = world) -> Plan:
            engine = world.engine
            later = starts_nothing(world.cluster, POLICIES, engine.rules, engine.offers)
            made = POLICIES[policy](view)
            assert not later or made == Plan((), (), made.waits, made.reservations)
            found[later] += 1
            return made

        world.engine.policies = {policy: held}
        for number in range(DEEDS):
            held_now = list(world.nodes.running())
            if held_now and dice.random() < 0.5:
                one = dice.choice(held_now)
                world.do(world.nodes.ended(one, world.clock.now(), kind="exited", exit_code=0))
            elif number % 20:
                size, more = dice.randint(1, 3), dice.choice((0, 0, 0, 1))
                task = TaskSpec(command="x", minimum=size, maximum=size)
                priority = dice.choice((2000, 2000, 3000))
                world.submit(
                    task, minimum=size, maximum=size + more, priority=priority, run_time=Seconds(90.0)
                )
            else:
                world.wait(dice.choice((1, 20, 70)))
    assert found[False] > DEEDS
    assert (found[True] > 20) is (preemption == "None")


def test_why_a_job_waits_is_told_though_nobody_needed_the_plan_before() -> None:
    world = World(2)
    first = world.submit(TaskSpec(command="x", minimum=2, maximum=2), minimum=2, maximum=2)
    assert world.record(first).state is JobState.RUNNING
    behind = [world.submit(TaskSpec(command="x")) for _ in range(2)]
    plan = world.engine.last_plan
    assert plan is world.engine.last_plan is not None
    (wait,) = plan.waits.values()
    assert [reason.why for reason in wait.reasons] == [Why.PROCESSORS]
    assert [each.job for each in plan.reservations] == behind[:1]
    (held,) = world.nodes.running()
    world.do(world.nodes.ended(held, world.clock.now(), kind="exited", exit_code=0))
    assert all(world.record(job).state is JobState.RUNNING for job in behind)


def deed(dice: random.Random, world: World, jobs: list[JobId]) -> None:
    """Do something that users, nodes, administrators or time do."""
    what = dice.random()
    if what < 0.45:
        jobs.append(submitted(dice, world))
    elif what < 0.8 and (held := list(world.nodes.running())):
        world.do(world.nodes.ended(dice.choice(held), world.clock.now(), kind="exited", exit_code=0))
    elif what < 0.85 and jobs:
        world.do(StopJob(by=ROOT, job=dice.choice(jobs), outcome="canceled", force=True))
    elif what < 0.9:
        wish = dice.choice(("pause", "resume"))
        world.do(ChangeNode(by=ROOT, node=f"node{dice.randint(1, 4)}", action=wish))
    elif what < 0.92:
        facts = NodeFacts(name="node4", processors=8, memory=dice.choice((1024, 2048)))
        world.do(RegisterNode(facts=facts, approved=True))
    else:
        world.wait(dice.choice((1, 20, 70)))


def submitted(dice: random.Random, world: World) -> JobId:
    """Submit a job of some kind."""
    size = dice.choice((1, 1, 2, 3, 6))
    sweep = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=dice.randint(1, 5))
    task = sweep if dice.random() < 0.3 else TaskSpec(command="x", minimum=size, maximum=size)
    return world.submit(
        task,
        by=dice.choice((ROOT, ADA)),
        priority=dice.choice((1000, 2000, 2000, 3000)),
        minimum=task.minimum,
        maximum=task.maximum + dice.choice((0, 0, 2)),
        exclusive=dice.random() < 0.2,
        run_time=dice.choice((Seconds(60.0), Seconds(120.0), Seconds(float("inf")))),
        process_memory=dice.choice((None, None, None, 300)),
        held=HeldAmounts(memory=700) if size == 2 else NOTHING_HELD,
        licences=dice.choice(((), (), (Licence("x", 1),))),
    )


def test_a_reservation_wakes_the_engine_when_its_time_has_come_though_nothing_ends() -> None:
    world = World(2)
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value="conservative"))
    short = TaskSpec(command="x", minimum=1, maximum=1)
    world.submit(short, run_time=Seconds(60.0))
    waits = world.submit(TaskSpec(command="x", minimum=2, maximum=2), run_time=Seconds(60.0))
    plan = world.engine.last_plan
    assert plan is not None
    assert [each.job for each in plan.reservations] == [waits]
    due = world.engine.next_wake()
    assert due is not None
    assert due <= Instant(world.clock.now() + 60)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_plans_of_long_ago_are_let_go_though_the_queue_never_empties(policy: str) -> None:
    world = World(1)
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    for _ in range(40):
        world.submit(TaskSpec(command="x"), run_time=Seconds(60.0))
    for _ in range(30):
        held = next(iter(world.nodes.running()))
        world.do(world.nodes.ended(held, world.clock.now(), kind="exited", exit_code=0))
    gc.collect()
    kept = [each for each in gc.get_objects() if isinstance(each, PassState | ConservativePass)]
    node_table = world.engine.view(world.clock.now()).node_table()
    assert world.cluster.queue.by_request
    assert sum(each._node_table is node_table for each in kept) <= 2
