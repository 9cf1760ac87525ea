"""Elastic pools: what the head decides about their allocations, in every small world, and each pathology.

Source of the pathologies: issues of HyperQueue (numbers in the names of tests), Dask-jobqueue and Parsl.
"""

from itertools import product

import pytest
from msgspec.structs import replace
from test_resources import PEER, end, hand, start
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, WrongState
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome, Ending
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.resource import ElasticPool
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.elastic_demand import ElasticDemand, IdleNodes, elastic_demand
from headnode.core.state.elastic import (
    GiveBackNode,
    MakeElasticNode,
    PauseElasticPool,
    RemoveElasticPool,
    ResumeElasticPool,
    SetElasticPool,
    SettleElasticNode,
    node_of_allocation,
)
from headnode.core.state.elastic_record import (
    MAX_FAILURES,
    ElasticAllocation,
    ElasticRecord,
    next_step,
    obstacle,
)
from headnode.core.state.join import AdmitNode, RegisterNode
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished
from headnode.core.state.resources import RemoveResource, SetResource
from headnode.core.state.stop import StopJob
from headnode.engine.view_builder import with_all_wants

POOL = ElasticPool(
    name="burst", resource="peer", owner="root", uid=0, gid=0, most_nodes=3, most_queued=2, processors=2
)
ONE = TaskSpec(command="x", minimum=1, maximum=1)


def with_pool(*processors: int, **fields: object) -> World:
    world = World(*processors)
    world.do(SetResource(by=ROOT, resource=replace(PEER, most_jobs=10)))
    world.do(SetElasticPool(by=ROOT, pool=replace(POOL, **fields)))
    return world


def pool(world: World) -> ElasticRecord:
    return world.cluster.elastic.named["burst"]


def make(world: World) -> JobId:
    job = JobId(world.cluster.next_job)
    world.do(MakeElasticNode(name="burst", agent=("agent",), job=job, digest=f"digest {job}"))
    return job


def join(world: World, job: JobId) -> str:
    """Let the job of an allocation begin, and its agent join."""
    hand(world, job, id_=str(job))
    start(world, job)
    facts = NodeFacts(name=f"burst-{job}", processors=2)
    world.do(AdmitNode(digest=f"digest {job}", facts=facts, key=f"key {job}"))
    world.do(RegisterNode(facts=facts, key=f"key {job}"))
    return facts.name


def over(world: World, job: JobId, kind: Ending = "exited", **fields: object) -> None:
    """Let the job of an allocation end, and what follows."""
    started = world.clock.now() if "started" not in fields else fields.pop("started")
    outcome = AttemptOutcome(kind, started=started, ended=world.clock.now(), **fields)
    end(world, job, outcome)
    if f"burst-{job}" in world.cluster.nodes:
        world.do(NodeVanished(node=f"burst-{job}"))
    settle(world, job)


def settle(world: World, job: JobId) -> None:
    world.do(SettleElasticNode(name="burst", job=job))


def demand(world: World, most: int = 10, coming: int = 0) -> ElasticDemand:
    """Return the demand for nodes of the pool; another pool makes `coming` nodes of one processor."""
    now, engine = world.clock.now(), world.engine
    shape = pool(world).pool
    facts = node_of_allocation(shape)
    view = with_all_wants(world.cluster, engine.view(now), most * shape.processors + coming)
    others = [IdleNodes(NodeFacts(name="other", processors=1), shape.usable_time, coming)] if coming else []
    return elastic_demand(view, engine.policy(), IdleNodes(facts, shape.usable_time, most), others)


def tour_of_an_elastic_pool(world: World) -> None:
    """Take each arrow of a pool and its allocations."""
    world.do(SetResource(by=ROOT, resource=PEER))
    world.do(SetElasticPool(by=ROOT, pool=POOL))
    world.do(PauseElasticPool(by=ROOT, name="burst", reason="x"))
    world.do(ResumeElasticPool(by=ROOT, name="burst"))
    first, second = make(world), make(world)
    join(world, first)
    world.do(GiveBackNode(name="burst", job=first, reason="idle"))
    over(world, first, "stopped")
    over(world, second, message="its program ended with exit code 1")
    third = World.submit(world, ONE)
    world.do(StopJob(by=ROOT, job=third, outcome="canceled"))
    world.do(ResumeElasticPool(by=ROOT, name="burst"))
    last = make(world)
    world.do(RemoveElasticPool(by=ROOT, name="burst"))
    over(world, last, "never-ran")


def test_a_restart_remembers_pools_and_allocations() -> None:
    world = with_pool()
    join(world, make(world))
    make(world)
    world.check_replay()
    tour = World()
    tour_of_an_elastic_pool(tour)
    assert not tour.cluster.elastic.named
    assert not tour.cluster.invitations
    tour.check_replay()


LIMITS = ((None, None), (1.0, None), (3.0, None), (None, 0.1), (None, 0.3), (3.0, 0.1))
"""Node-hours and cost; an allocation lasts an hour and costs 0.1."""


def records() -> list[tuple[ElasticRecord, Instant]]:
    """Return every pool with small limits, and every number of allocations of each kind."""
    now, found = Instant(10_000.0), []
    for nodes, queued, (hours, cost), joined, pending, leaving, failures in product(
        (1, 3), (1, 2), LIMITS, range(3), range(3), range(2), (0, 1)
    ):
        one = replace(POOL, most_nodes=nodes, most_queued=queued, most_node_hours=hours)
        one = replace(one, node_price=0.1, most_cost=cost)
        record = ElasticRecord(
            pool=one, failures=failures, failed_at=Instant(now - 100) if failures else None
        )
        for number in range(joined + pending + leaving):
            record.allocations.append(
                ElasticAllocation(
                    job=JobId(number + 1),
                    node=f"burst-{number}",
                    made=now,
                    digest=str(number),
                    joined=now if number < joined else None,
                    leaving="x" if number >= joined + pending else "",
                )
            )
        found.append((record, now))
    return found


def test_in_every_small_world_no_limit_is_exceeded_and_demand_is_met_up_to_them() -> None:
    for (record, now), wanted in product(records(), range(5)):
        step = next_step(record, wanted, 0.0, now)
        there, pending, limits = len(record.allocations), len(record.pending), record.pool
        most = 1 if record.failures else limits.most_queued
        room = [wanted - pending, limits.most_nodes - there, most - pending]
        if limits.most_node_hours is not None:
            room.append(int(limits.most_node_hours) - there)
        if limits.most_cost is not None:
            room.append(round(limits.most_cost * 10) - there)
        assert step.make == max(0, min(room)), (record, wanted)
        assert not step.give_back
        assert step.reason
        if wanted - pending > 0 and not step.make:
            assert step.reason == obstacle(record, now)


def test_in_every_small_world_what_nobody_wants_any_more_is_given_back_after_a_while() -> None:
    for (record, now), wanted in product(records(), range(3)):
        surplus = max(0, len(record.pending) - wanted)
        assert not next_step(record, wanted, POOL.idle_time - 1, now).give_back
        back = next_step(record, wanted, POOL.idle_time, now).give_back
        assert back == tuple(each.job for each in record.pending)[len(record.pending) - surplus :]


def test_no_more_is_made_than_the_limits_allow_however_often_it_is_asked() -> None:
    """Parsl 868, 2255: more blocks than `max_blocks`."""
    world = with_pool(most_nodes=3, most_queued=2, most_node_hours=2.0)
    make(world)
    make(world)
    with pytest.raises(WrongState, match="have not become nodes"):
        make(world)
    join(world, JobId(1))
    with pytest.raises(WrongState, match="node-hours are not enough"):
        make(world)
    assert len(pool(world).allocations) == len(world.cluster.jobs) == 2


def test_no_more_is_spent_than_the_limit_of_cost_allows() -> None:
    """An allocation of an hour at 2 an hour: 5 allow two, and what an early end saves is left for others."""
    world = with_pool(most_nodes=9, most_queued=9, node_price=2.0, most_cost=5.0)
    first, _ = make(world), make(world)
    with pytest.raises(WrongState, match=r"its cost of 5 is not enough .* may cost 2: 0 is spent, and 2"):
        make(world)
    join(world, first)
    world.wait(1800.0)
    over(world, first, "timed-out", started=Instant(world.clock.now() - 1800))
    assert pool(world).spent == pytest.approx(1.0)
    make(world)
    with pytest.raises(WrongState, match="1 is spent"):
        make(world)
    assert world.replayed().elastic.named["burst"].spent == pool(world).spent


def test_a_price_counts_for_allocations_that_end_after_it_was_set() -> None:
    world = with_pool(most_queued=9, most_nodes=9)
    for price in (0.0, 4.0):
        world.do(SetElasticPool(by=ROOT, pool=replace(pool(world).pool, node_price=price)))
        job = make(world)
        join(world, job)
        world.wait(900.0)
        over(world, job, "timed-out", started=Instant(world.clock.now() - 900))
    assert pool(world).spent == pytest.approx(1.0)


def test_an_allocation_is_a_job_at_the_resource_and_its_intention_is_in_the_same_batch() -> None:
    world = with_pool()
    job = make(world)
    spec = world.cluster.spec(world.record(job))
    assert (spec.resource, spec.run_time, spec.tasks[0].minimum) == ("peer", 3600.0, 2)
    assert not spec.tasks[0].rerunnable
    assert "digest" not in spec.tasks[0].script  # nor the secret, which the head does not know here
    assert world.replayed().elastic.named["burst"].allocations[0].job == job


def test_a_job_that_counts_gpus_makes_a_node_of_a_pool_that_has_some() -> None:
    plain, with_gpus = with_pool(), with_pool(gpus=2, processors=8)
    found = []
    for world in (plain, with_gpus):
        world.submit(ONE, unit=UnitType.GPU, run_time=Seconds(600.0))
        idle = IdleNodes(node_of_allocation(pool(world).pool), 3540.0, 1)
        view = world.engine.view(world.clock.now())
        found.append(elastic_demand(view, world.engine.policy(), idle).nodes)
    assert found == [0, 1]


def test_an_allocation_asks_for_the_gpus_of_its_pool_and_its_agent_counts_no_others() -> None:
    world = with_pool(gpus=2, processors=8)
    spec = world.cluster.spec(world.record(make(world)))
    assert (spec.unit, spec.tasks[0].minimum, spec.processors_per_gpu) == (UnitType.GPU, 2, 4)
    assert "--gpus" not in spec.tasks[0].script  # it finds those that the allocation lets it see
    assert 'CUDA_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES"' in spec.tasks[0].script
    plain = with_pool()
    spec = plain.cluster.spec(plain.record(make(plain)))
    assert "--gpus 0" in spec.tasks[0].script
    with pytest.raises(BadRequest, match="divided"):
        with_pool(gpus=3, processors=8)


def test_an_allocation_joins_once_and_only_as_its_own_node() -> None:
    world = with_pool()
    job = make(world)
    for name in ("burst-99", "other"):
        with pytest.raises(NotAllowed):
            world.do(AdmitNode(digest=f"digest {job}", facts=NodeFacts(name=name, processors=2), key="k"))
    join(world, job)
    with pytest.raises(NotAllowed):
        world.do(
            AdmitNode(digest=f"digest {job}", facts=NodeFacts(name=f"burst-{job}", processors=2), key="thief")
        )


def test_the_secret_of_an_allocation_that_is_given_back_is_worthless() -> None:
    world = with_pool()
    job = make(world)
    world.do(GiveBackNode(name="burst", job=job, reason="x"))
    with pytest.raises(NotAllowed):
        world.do(
            AdmitNode(digest=f"digest {job}", facts=NodeFacts(name=f"burst-{job}", processors=2), key="k")
        )


def test_hyperqueue_248_a_task_longer_than_the_allocation_makes_no_allocation() -> None:
    world = with_pool()
    usable = POOL.allocation_time - POOL.margin
    world.submit(ONE, run_time=Seconds(POOL.allocation_time))
    world.submit(ONE, run_time=Seconds(usable + 1))
    world.submit(ONE)  # without a limit
    assert demand(world).nodes == 0
    fits = world.submit(ONE, run_time=Seconds(usable))
    assert demand(world) == ElasticDemand(1, frozenset({fits}))


def test_a_node_takes_no_job_longer_than_what_is_left_of_its_allocation() -> None:
    world = with_pool()
    node = join(world, make(world))
    assert world.cluster.nodes[node].closes == world.clock.now() + POOL.allocation_time - POOL.margin
    world.wait(1800.0)
    long = world.submit(ONE, run_time=Seconds(1800.0))
    short = world.submit(ONE, run_time=Seconds(1740.0))
    assert world.dispatched(long) == []
    assert world.dispatched(short) == [(1, 1)]
    assert demand(world) == ElasticDemand(1, frozenset({long}))  # a fresh node would do
    world.wait(1740.0)
    late = world.submit(ONE, run_time=Seconds(1.0))
    assert world.dispatched(late) == []  # it drains before its end


def test_hyperqueue_857_jobs_that_wait_for_others_or_are_held_make_no_allocation() -> None:
    world = with_pool(1)
    parent = world.submit(ONE, run_time=Seconds(60))
    world.submit(ONE, run_time=Seconds(60), parents=(parent,))
    world.submit(ONE, run_time=Seconds(60), holds=("user",))
    world.submit(ONE, run_time=Seconds(60), hold_until=Instant(world.clock.now() + 60))
    assert demand(world).nodes == 0


def test_hyperqueue_488_many_submissions_share_the_nodes_that_are_coming() -> None:
    world = with_pool()
    for count in range(1, 5):
        world.submit(ONE, run_time=Seconds(60))
        assert demand(world).nodes == (count + 1) // 2  # of two processors each
    make(world)
    make(world)
    assert next_step(pool(world), demand(world).nodes, 0.0, world.clock.now()).make == 0


def test_what_another_pool_makes_a_node_for_makes_no_second_one() -> None:
    world = with_pool()
    first = world.submit(ONE, run_time=Seconds(60))
    assert demand(world, coming=1).nodes == 0
    wide = world.submit(ONE, run_time=Seconds(60), minimum=2, maximum=2)
    assert demand(world, coming=1) == ElasticDemand(1, frozenset({wide}))
    assert demand(world, coming=3) == ElasticDemand(0, frozenset())
    assert demand(world).jobs == {first, wide}


def test_a_sweep_that_is_wider_than_what_another_pool_makes_gets_the_rest() -> None:
    world = with_pool()
    job = world.submit(*[ONE] * 20, run_time=Seconds(60), minimum=1, maximum=20)
    join(world, make(world))  # it runs on two processors, and wants to grow
    assert demand(world, most=64, coming=10) == ElasticDemand(4, frozenset({job}))
    assert demand(world, most=64, coming=18).nodes == 0


def test_jobs_that_fit_on_idle_nodes_make_no_allocation() -> None:
    world = with_pool()
    join(world, make(world))
    world.submit(ONE, run_time=Seconds(60))
    world.submit(ONE, run_time=Seconds(60))
    assert demand(world).nodes == 0


def test_hyperqueue_937_a_sweep_gets_as_many_nodes_as_it_can_use() -> None:
    world = with_pool()
    world.submit(*[ONE] * 20, run_time=Seconds(60), minimum=1, maximum=20)
    assert demand(world, most=3).nodes == 3
    assert demand(world, most=64).nodes == 10
    join(world, make(world))  # the job begins, and wants to grow
    assert demand(world, most=64).nodes == 9


def test_hyperqueue_465_nodes_that_fail_at_the_same_time_are_one_failure() -> None:
    world = with_pool(most_queued=3)
    jobs = [make(world) for _ in range(3)]
    for job in jobs:
        over(world, job, exit_code=1)
    assert pool(world).failures == 1
    assert not pool(world).paused


def test_failures_one_after_the_other_make_pauses_that_double_and_then_stop_the_pool() -> None:
    world = with_pool()
    pauses = []
    for _ in range(MAX_FAILURES):
        job = make(world)
        over(world, job, "not-started", message="Slurm refused it: no money")
        record = pool(world)
        pauses.append(record.not_before - world.clock.now())
        if not record.paused:
            with pytest.raises(WrongState, match="no money"):
                make(world)
            world.wait(pauses[-1])
    assert pauses == [60.0 * 2**number for number in range(MAX_FAILURES)]
    assert "no money" in pool(world).paused
    world.wait(100_000.0)
    with pytest.raises(WrongState, match="paused"):
        make(world)
    assert "no money" in next_step(pool(world), 1, 0.0, world.clock.now()).reason
    world.do(ResumeElasticPool(by=ROOT, name="burst"))
    make(world)


def test_after_a_failure_one_allocation_is_tried_at_a_time_until_one_was_good() -> None:
    world = with_pool()
    over(world, make(world))
    world.wait(60.0)
    first = make(world)
    with pytest.raises(WrongState, match="have not become nodes"):
        make(world)
    join(world, first)
    world.wait(120.0)
    over(world, first, "timed-out", started=Instant(world.clock.now() - 120))
    assert pool(world).failures == 0
    make(world)
    make(world)


def test_an_agent_that_joins_and_dies_at_once_is_a_failure() -> None:
    world = with_pool()
    job = make(world)
    join(world, job)
    over(world, job, exit_code=1, message="it ended with exit code 1")
    assert "ended at once" in pool(world).trouble


def test_hyperqueue_501_what_was_preempted_is_no_failure_and_comes_again() -> None:
    world = with_pool()
    job = make(world)
    join(world, job)
    wish = world.submit(replace(ONE, rerunnable=True), run_time=Seconds(60))
    over(world, job, "lost", message="ended there as PREEMPTED")
    assert pool(world).failures == 0
    assert f"burst-{job}" in world.cluster.nodes  # until its jobs are given up, as on every lost node
    world.do(GiveUpNode(node=f"burst-{job}"))
    settle(world, job)
    assert not world.cluster.nodes
    assert demand(world).jobs == {wish}
    make(world)


def test_hyperqueue_958_the_size_of_nodes_and_the_hours_used_are_known_after_a_restart() -> None:
    world = with_pool(memory=512, most_node_hours=1.5)
    job = make(world)
    join(world, job)
    world.wait(1000.0)
    over(world, job, "timed-out", started=Instant(world.clock.now() - 1000))
    again = world.replayed().elastic.named["burst"]
    assert again.used == 1000.0
    assert (again.pool.memory, again.pool.processors) == (512, 2)


def test_a_node_that_got_a_job_meanwhile_is_not_given_back() -> None:
    world = with_pool()
    job = make(world)
    join(world, job)
    busy = world.submit(ONE, run_time=Seconds(60))
    assert world.do(GiveBackNode(name="burst", job=job, reason="idle")) == ()
    world.end(busy, 1)
    world.do(GiveBackNode(name="burst", job=job, reason="idle"))
    assert world.dispatched(world.submit(ONE, run_time=Seconds(60))) == []
    assert pool(world).allocations[0].leaving == "idle"


def test_dask_190_an_allocation_is_not_canceled_because_demand_fell_for_a_moment() -> None:
    world = with_pool()
    make(world)
    now = world.clock.now()
    assert next_step(pool(world), 0, POOL.idle_time - 1, now).give_back == ()
    assert next_step(pool(world), 0, POOL.idle_time, now).give_back == (JobId(1),)


def test_removing_a_pool_cancels_all_of_it_and_nothing_is_left() -> None:
    world = with_pool()
    first, second = make(world), make(world)
    join(world, first)
    wish = world.submit(replace(ONE, rerunnable=True), run_time=Seconds(60))
    world.do(RemoveElasticPool(by=ROOT, name="burst"))
    assert all(each.leaving for each in pool(world).allocations)
    with pytest.raises(WrongState, match="removed"):
        make(world)
    world.end(wish, 1, kind="stopped")
    over(world, first, "stopped")
    over(world, second, "never-ran")
    assert not world.cluster.elastic.named
    assert not world.cluster.nodes
    assert not world.cluster.invitations
    assert set(world.cluster.jobs) == {wish}
    world.do(RemoveResource(by=ROOT, name="peer"))
    world.check_replay()


def test_a_resource_with_an_elastic_pool_stays() -> None:
    world = with_pool()
    with pytest.raises(WrongState, match="elastic pool 'burst'"):
        world.do(RemoveResource(by=ROOT, name="peer"))


def test_nodes_of_a_user_run_jobs_of_that_user_only() -> None:
    world = with_pool(owner="ada", uid=ADA.uid, gid=ADA.gid)
    world.submit(ONE, run_time=Seconds(60))
    hers = world.submit(ONE, run_time=Seconds(60), by=ADA)
    assert demand(world).jobs == {hers}


def test_only_administrators_change_pools() -> None:
    world = with_pool()
    for wish in (
        SetElasticPool(by=ADA, pool=POOL),
        PauseElasticPool(by=ADA, name="burst"),
        ResumeElasticPool(by=ADA, name="burst"),
        RemoveElasticPool(by=ADA, name="burst"),
    ):
        with pytest.raises(NotAllowed):
            world.do(wish)
    with pytest.raises(NotFound):
        world.do(PauseElasticPool(by=ROOT, name="nosuch"))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a b"}, {"name": ""}, {"most_nodes": 0}, {"most_queued": 1001}, {"allocation_time": 30.0},
        {"allocation_time": 100.0, "margin": 60.0}, {"python": "hn"}, {"processors": 0}, {"memory": -1},
        {"most_node_hours": 0.0}, {"most_node_hours": float("nan")}, {"idle_time": float("nan")},
        {"node_price": -1.0}, {"node_price": float("nan")}, {"most_cost": 1.0},
        {"node_price": 1.0, "most_cost": 0.0}, {"node_price": 1.0, "most_cost": float("nan")},
    ],
)  # fmt: skip
def test_what_is_no_pool_is_refused(fields: dict[str, object]) -> None:
    world = with_pool()
    with pytest.raises(BadRequest):
        world.do(SetElasticPool(by=ROOT, pool=replace(POOL, **fields)))


def test_an_allocation_that_a_user_canceled_is_a_failure() -> None:
    world = with_pool()
    job = make(world)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    over(world, job, "never-ran")
    assert pool(world).failures == 1


def test_a_node_whose_allocation_is_over_but_that_still_answers_is_emptied() -> None:
    world = with_pool()
    job = make(world)
    node = join(world, job)
    busy = world.submit(ONE, run_time=Seconds(60))
    end(world, job, AttemptOutcome("lost", message="Slurm has not listed it"))
    settle(world, job)
    assert node in world.cluster.nodes
    world.end(busy, 1, kind="stopped")
    settle(world, job)
    assert node not in world.cluster.nodes


def test_changing_a_node_by_hand_does_not_keep_its_allocation_from_leaving() -> None:
    world = with_pool()
    job = make(world)
    node = join(world, job)
    world.do(ChangeNode(by=ROOT, node=node, action="remove"))
    over(world, job, "stopped")
    assert not pool(world).allocations
