"""How it will go on: what is foreseen is what comes, when jobs run as long as was said and none is added."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest
from worlds import ADA, ROOT, World

from depth import seeds
from headnode.core.model.job import Alternative, Licence
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import QueueArrival, View, first_in_queue
from headnode.core.state import nodes as c
from headnode.core.state.job_events import JobStarted
from headnode.engine.simulate_ahead import SimulatedStarts, simulate_ahead


def random_world(random: Random, policy: str) -> tuple[World, dict[int, float]]:
    """Return a world with jobs of all kinds in its queue, and how long each will run."""
    world = World(*random.choices((1, 2, 4), k=random.randint(1, 4)))
    world.do(
        c.SetParameter(by=ROOT, name="SchedulingPolicy", value=policy),
        c.SetParameter(by=ROOT, name="Licences", value="solver:2"),
    )
    lasts = {}
    for _ in range(random.randint(3, 14)):
        limit, size = random.randint(1, 9) * 60, random.randint(1, 4)
        least = min(size, sum(node.facts.processors for node in world.cluster.nodes.values()))
        most = least + random.randint(0, 2)
        job = world.submit(
            TaskSpec(command="x", minimum=least, maximum=most),
            by=ADA,
            minimum=least,
            maximum=most,
            run_time=Seconds(limit),
            exclusive=random.random() < 0.2,
            licences=random.choice(((), (), (Licence("solver", 1),), (Licence("solver", 2),))),
        )  # fmt: skip
        lasts[job] = random.randint(1, limit)
        if random.random() < 0.3:
            world.wait(random.randint(0, 50))
            let_end(world, lasts)
    return world, lasts


def world_of_choices(random: Random, policy: str) -> tuple[World, dict[int, float]]:
    """Return a world with gangs and with jobs that would do with several requests, and how long each runs."""
    world = World(*random.choices((1, 2, 3), k=random.randint(1, 3)))
    world.do(c.SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    there = sum(node.facts.processors for node in world.cluster.nodes.values())
    lasts = {}
    for _ in range(random.randint(6, 18)):
        limit, size = random.randint(1, 9) * 60, random.randint(1, there)
        one = TaskSpec(command="x", minimum=1, maximum=1)
        together = random.random() < 0.3
        others = tuple(
            Alternative(
                minimum=less,
                maximum=less,
                run_time=Seconds(limit * random.randint(1, 5)),
                exclusive=random.random() < 0.4,
            )
            for less in random.sample(range(1, size + 1), random.randint(0, min(2, size)))
        )
        job = world.submit(
            *((one,) * size if together else (one,)),
            by=ADA,
            minimum=None if together else size,
            maximum=None if together else size,
            together=together,
            run_time=Seconds(limit),
            alternatives=() if together else others,
        )
        lasts[job] = random.randint(1, limit)
        if random.random() < 0.3:
            world.wait(random.randint(0, 50))
            let_end(world, lasts)
    return world, lasts


def starts(world: World) -> dict[JobId, Instant]:
    events = (event for _, event in world.journal.replay())
    return {event.job: event.at for event in events if isinstance(event, JobStarted)}


def let_end(world: World, lasts: dict[int, float]) -> None:
    """End whatever has run for as long as it was to."""
    began, now = starts(world), world.clock.now()
    due = [held for held in world.nodes.running() if began[held.job] + lasts[held.job] <= now]
    if due:
        world.do(*[world.nodes.ended(held, now) for held in due])


def lived(world: World, lasts: dict[int, float]) -> dict[JobId, Instant]:
    """Let everything run to its end; return when each job started."""
    while world.nodes.running():
        began = starts(world)
        then = min(began[held.job] + lasts[held.job] for held in world.nodes.running())
        wake = world.engine.next_wake()
        world.wait(max(0.0, min(then, wake if wake is not None else then) - world.clock.now()))
        let_end(world, lasts)
    return starts(world)


def course(world: World, lasts: dict[int, float], most: int = 1000, plans: int = 10_000) -> SimulatedStarts:
    """Foresee how the world goes on."""
    began, left = starts(world), iter(range(plans))
    ends = {job: Instant(began[job] + lasts[job]) for job in world.cluster.running}
    view = first_in_queue(world.engine.view(world.clock.now()), most)
    policy = POLICIES[world.engine.settings.text("SchedulingPolicy")]
    return simulate_ahead(view, policy, ends, lambda job, _: lasts[job], lambda: next(left, None) is None)


@pytest.mark.parametrize("policy", list(POLICIES))
@pytest.mark.parametrize("seed", seeds(25))
@pytest.mark.parametrize("made", [random_world, world_of_choices])
def test_what_is_foreseen_is_what_comes(
    made: Callable[[Random, str], tuple[World, dict[int, float]]], policy: str, seed: int
) -> None:
    world, lasts = made(Random(seed), policy)
    waiting = set(world.cluster.jobs) - world.cluster.running
    foreseen = course(world, lasts)
    came = lived(world, lasts)
    assert foreseen == SimulatedStarts({job: came[job] for job in waiting}, whole=True)


def scene(*limits: float) -> World:
    """Return a world of one processor with a running job and waiting ones, with these limits in seconds."""
    world = World(1)
    for limit in limits:
        world.submit(TaskSpec(command="x"), by=ADA, run_time=Seconds(limit))
    return world


def test_behind_a_job_that_nobody_knows_the_end_of_nothing_is_foreseen() -> None:
    world = scene(60, float("inf"), 60)
    begin = world.clock.now()
    assert course(world, {1: 30, 2: NEVER, 3: 1}) == SimulatedStarts(
        {JobId(2): Instant(begin + 30)}, whole=True
    )


def test_what_is_cut_short_says_so_and_keeps_what_it_has() -> None:
    world = scene(60, 60, 60, 60)
    begin = world.clock.now()
    lasts = dict.fromkeys(range(1, 5), 10.0)
    assert course(world, lasts, plans=2) == SimulatedStarts({JobId(2): Instant(begin + 10)}, whole=False)


def test_only_the_first_jobs_of_the_queue_are_looked_at() -> None:
    world = scene(60, 60, 120, 60)
    found = course(world, dict.fromkeys(range(1, 5), 10.0), most=2)
    assert sorted(found.starts) == [2, 3]


def test_a_job_that_should_have_ended_is_expected_to_end_now() -> None:
    world = scene(60, 60)
    world.clock.advance(Seconds(50))
    now = world.clock.now()
    assert course(world, {1: 30, 2: 1}).starts == {2: now}


@pytest.mark.parametrize("policy", list(POLICIES))
def test_a_job_that_arrives_later_keeps_its_place_and_holds_up_nobody_before(policy: str) -> None:
    """The first of the queue arrives after 100 s; until then those behind it start, then it goes first."""
    world = World(1)
    for _ in range(5):
        world.submit(TaskSpec(command="x"), by=ADA, run_time=Seconds(60))
    now, view = world.clock.now(), world.engine.view(world.clock.now())
    (queued,) = view.queue
    first, *others = queued.turns
    view = msgspec.structs.replace(view, queue=[msgspec.structs.replace(queued, turns=tuple(others))])
    come = [QueueArrival(Instant(now + 100), first, queued.request)]
    ends = {JobId(1): Instant(now + 60)}
    found = simulate_ahead(view, POLICIES[policy], ends, lambda *_: 60.0, lambda: False, arrivals=come).starts
    expected = [3, 4, 5, first.job] if policy == "conservative" else [3, first.job, 4, 5]  # or promises break
    assert found == {job: now + 60 * turn for turn, job in enumerate(expected, 1)}
    alone = msgspec.structs.replace(view, queue=[])
    assert simulate_ahead(
        alone, POLICIES[policy], ends, lambda *_: 60.0, lambda: False, arrivals=come
    ).starts == {first.job: now + 100}


def test_the_view_is_left_as_it_was() -> None:
    world = scene(60, 60, 60)
    view = world.engine.view(world.clock.now())
    before = repr(view)
    simulate_ahead(view, POLICIES["easy"], {}, lambda *_: 10.0, lambda: False)
    assert repr(view) == before


def test_ends_close_to_each_other_count_as_one_if_that_is_wanted() -> None:
    world = World(1, 1, 1)
    for _ in range(5):
        world.submit(TaskSpec(command="x"), by=ADA, run_time=Seconds(1000))
    now, view = world.clock.now(), world.engine.view(world.clock.now())
    ends = {JobId(1): Instant(now + 100), JobId(2): Instant(now + 101), JobId(3): Instant(now + 110)}
    plans = 0

    def stop() -> bool:
        nonlocal plans
        plans += 1
        return False

    found = simulate_ahead(view, POLICIES["easy"], ends, lambda *_: 10.0, stop, coarse=0.02)
    assert found.starts == {4: now + 101, 5: now + 101}
    assert plans == 2


def test_a_policy_that_wants_to_be_asked_again_is_asked_then() -> None:
    world = scene(60, 60)
    late = Instant(world.clock.now() + 500)

    def not_before(view: View) -> Plan:
        plan = POLICIES["easy"](view)
        return plan if view.now >= late else msgspec.structs.replace(plan, starts=(), wake=late)

    view = world.engine.view(world.clock.now())
    found = simulate_ahead(
        view, not_before, {JobId(1): Instant(view.now + 10)}, lambda *_: 1.0, lambda: False
    )
    assert found == SimulatedStarts({JobId(2): late}, whole=True)
