"""A pass in balanced mode: minimums first, then shares; it comes to rest, and takes nothing it may not."""

import random

import pytest

from depth import seeds
from headnode.core.model.job import UnitType
from headnode.core.scheduling.balanced.shares import ShareClaim, share_out, weight_of
from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import Bias
from headnode.testing import asks, node, turn_of

from .balanced_world import Job, World

NODES = "abcd"


def test_a_job_that_waits_starts_with_its_minimum_alone() -> None:
    world = World([node("a", 8)], [Job(1, asks(2, 8))])
    (start,) = world.do_pass().starts
    assert start.allocation == (("a", 2),)


def test_who_waits_is_told_who_gives_up_how_much() -> None:
    world = World([node("a", 8)], [Job(1, asks(1, 8))])
    world.settle()
    world.jobs.append(Job(2, asks(3, 8)))
    made = world.do_pass()
    assert made.starts == ()
    assert made.claims[0].why.why is Why.SHARE
    assert made.claims[0].why.text == "it waits for its minimum of 3 processors: job 1 releases 3"


def test_who_has_most_for_its_priority_gives_first() -> None:
    world = World([node("a", 8)], [Job(1, asks(1, 8)), Job(2, asks(1, 8), 3000)], bias=Bias.NONE)
    world.settle()
    world.jobs[0].request = asks(1, 3)  # as if it had been given less
    world.jobs[0].holds, world.jobs[0].runs = {"a": 3}, {"a": 3}
    world.jobs[1].holds, world.jobs[1].runs = {"a": 5}, {"a": 5}
    world.jobs.append(Job(3, asks(1)))
    assert [(recall.job, recall.allocation) for recall in world.do_pass().recalls] == [(2, (("a", 1),))]


def test_free_processors_are_taken_before_anybody_gives_any() -> None:
    world = World([node("a", 4), node("b", 4)], [Job(1, asks(1, 4))])
    world.settle()
    world.jobs.append(Job(2, asks(3)))
    made = world.do_pass()
    assert [start.allocation for start in made.starts] == [(("b", 3),)]
    assert made.recalls == ()


def test_nobody_is_taken_from_for_a_share_before_it_is_due() -> None:
    world = World([node("a", 4)], [Job(1, asks(1, 4), tasks=100), Job(2, asks(1, 4), tasks=1)])
    world.settle()
    world.jobs[1].tasks = 100
    assert world.do_pass(due=False).recalls == ()
    assert world.do_pass(due=True).recalls != ()


def test_nothing_is_given_up_that_the_other_could_not_use() -> None:
    there = asks(1, 8, requested_nodes=("a",))
    world = World([node("a", 2), node("b", 6)], [Job(1, asks(1, 8, requested_nodes=("b",))), Job(2, there)])
    world.settle()
    assert world.held() == {1: 6, 2: 2}
    assert world.stopped == 0


def test_a_job_grows_for_tasks_that_wait_not_for_those_that_run_on_what_it_gives_up() -> None:
    """Else it would have idle processors, give them back, and grow again, without end."""
    wide = Job(1, asks(1, 6), tasks=3, holds={"b": 1, "a": 2}, runs={"b": 1, "a": 2})
    alone = Job(2, asks(1, 2, exclusive=True, requested_nodes=("a",)), tasks=2)
    world = World([node("a", 2), node("b", 2)], [wide, alone], immediate=False)
    world.do_pass()
    assert wide.leaving == {"a": 2}
    assert world.do_pass().grows == ()
    world.end_task(wide, "a")
    world.end_task(wide, "a")
    world.settle()
    assert world.held() == {1: 1, 2: 2}


def random_world(dice: random.Random, *, plain: bool) -> World:
    names = NODES[: dice.randint(1, len(NODES))]
    nodes = [
        node(name, dice.choice((1, 2, 4)), gpus=0 if plain else dice.choice((0, 1, 2))) for name in names
    ]
    world = World(
        nodes,
        [],
        policy=POLICIES[dice.choice(sorted(POLICIES))],
        bias=dice.choice(list(Bias)),
        immediate=plain or dice.random() < 0.7,
    )
    for number in range(1, dice.randint(3, 14)):
        if dice.random() < 0.6:
            world.jobs.append(random_job(dice, number, plain=plain))
        else:
            end_something(dice, world)
        if dice.random() < 0.7:
            world.settle(due=dice.random() < 0.5)
    return world


def random_job(dice: random.Random, number: int, *, plain: bool) -> Job:
    least = dice.randint(1, 3)
    kinds: list[dict[str, object]] = [{}]
    if not plain:
        kinds += [{"exclusive": True}, {"single_node": True}, {"requested_nodes": ("a",)}]
        kinds += [{"unit": UnitType.NODE}]
        kinds += [{"unit": UnitType.GPU, "processors_per_gpu": dice.choice((1, 2))}]
    request = asks(least, least + dice.randint(0, 8), **dice.choice(kinds))
    tasks = 10**6 if plain else dice.choice((1, 3, 10, 1000))
    return Job(number, request, dice.choice((1000, 2000, 2500, 3000)), tasks, plain or dice.random() < 0.75)


def end_something(dice: random.Random, world: World) -> None:
    there = [(job, name) for job in world.jobs for name, count in job.runs.items() if count]
    if there:
        world.end_task(*dice.choice(there))


@pytest.mark.parametrize("seed", seeds(40))
def test_whatever_comes_and_goes_it_comes_to_rest_and_keeps_every_bound(seed: int) -> None:
    """The world itself checks minimums, maximums, whole nodes, and who is stopped."""
    world = random_world(random.Random(seed), plain=False)
    world.settle()
    assert world.settle() == 0


@pytest.mark.parametrize("seed", seeds(40))
def test_jobs_that_can_run_anywhere_have_exactly_their_shares(seed: int) -> None:
    world = random_world(random.Random(seed), plain=True)
    world.settle()
    running = [job for job in world.jobs if job.holds]
    claims = [
        ShareClaim(
            turn_of(job.number, job.priority),
            job.request.maximum - job.request.minimum,
            1,
            weight_of(turn_of(job.number, job.priority), world.bias),
        )
        for job in running
    ]
    rest = sum(world.sizes().values()) - sum(job.request.minimum for job in running)
    extra = share_out(claims, rest)
    assert world.held() == {
        job.number: job.request.minimum + more for job, more in zip(running, extra, strict=True)
    }
    waiting = sorted((-job.priority, job.number) for job in world.jobs if not job.holds and job.tasks)
    first = [job for job in world.jobs if (-job.priority, job.number) in waiting[:1]]
    assert all(job.request.minimum > rest for job in first), "the first could have had its minimum"
