"""What is offered to jobs with activation filters: who is asked, who waits, and what the answers do."""

import pytest
from asked_filters import FilteredWorld
from worlds import ADA, ROOT

from headnode.core.filtering import ActivationVerdict
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds, SortKey
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.policies import POLICIES, OrderedPolicy
from headnode.core.scheduling.view import View
from headnode.core.state.filters import TakeVerdict
from headnode.core.state.hold import HoldJob
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import JobState
from headnode.engine.activation_gate import constrained_view

V = ActivationVerdict
HOUR = Seconds(3600.0)


def one(world: FilteredWorld, size: int = 1, most: int = 0, **options: object) -> JobId:
    """Submit a job of one task."""
    task = TaskSpec(command="x", minimum=size, maximum=most or size)
    return world.submit(task, minimum=size, maximum=most or size, **options)


def state(world: FilteredWorld, job: JobId) -> JobState:
    """Return where a job is."""
    return world.record(job).state


def test_a_job_starts_when_its_filter_lets_it() -> None:
    world = FilteredWorld(4)
    job = one(world, 2)
    question = world.asked(job)
    assert (question.scheduler_pass, question.job_index, question.resource_count) == (1, 1, 2)
    assert not question.backfill
    assert not question.running
    assert state(world, job) is JobState.QUEUED
    world.answer(job, V.START)
    assert state(world, job) is JobState.RUNNING
    assert (world.filters.undone, world.filters.kept) == ([], [question.offer])
    world.check_replay()


def test_the_offer_is_as_large_as_what_is_free_up_to_the_maximum() -> None:
    world = FilteredWorld(4)
    job = one(world, 2, 9)
    assert world.asked(job).resource_count == 4


def test_places_in_the_queue_count_from_one_and_passes_go_up() -> None:
    world = FilteredWorld(2)
    first, second = one(world), one(world)
    assert [world.asked(job).job_index for job in (first, second)] == [1, 2]
    assert world.asked(first).scheduler_pass < world.asked(second).scheduler_pass


def test_one_blocks_equal_and_lower_priorities_until_it_passes() -> None:
    world = FilteredWorld(4, everybody=False)
    blocker = one(world, template="asked")
    world.answer(blocker, V.BLOCK_QUEUE)
    equal, lower = one(world), one(world, priority=Priority(1000))
    higher = one(world, priority=Priority(3000))
    assert state(world, higher) is JobState.RUNNING
    assert [state(world, job) for job in (blocker, equal, lower)] == [JobState.QUEUED] * 3
    world.wait(10)
    world.answer(blocker, V.START)
    assert [state(world, job) for job in (blocker, equal, lower)] == [JobState.RUNNING] * 3


def test_a_blocked_queue_goes_on_when_the_blocker_is_canceled() -> None:
    world = FilteredWorld(4, everybody=False)
    blocker = one(world, template="asked")
    world.answer(blocker, V.BLOCK_QUEUE)
    other = one(world)
    assert state(world, other) is JobState.QUEUED
    world.do(StopJob(by=ROOT, job=blocker, outcome="canceled"))
    assert state(world, other) is JobState.RUNNING


def test_a_blocked_queue_stays_blocked_over_a_restart_and_the_blocker_is_asked_again() -> None:
    world = FilteredWorld(4, everybody=False)
    blocker = one(world, template="asked")
    world.answer(blocker, V.BLOCK_QUEUE)
    other = one(world)
    world.engine.recover()
    world.wait(1)
    assert state(world, other) is JobState.QUEUED
    assert len([q for q in world.filters.questions if q.job == blocker]) == 2


def test_of_two_that_block_the_first_passes_and_then_the_other() -> None:
    world = FilteredWorld(4)
    first, second = one(world), one(world)
    world.answer(first, V.BLOCK_QUEUE)
    world.answer(second, V.BLOCK_QUEUE)
    world.wait(10)
    world.answer(first, V.START)
    assert state(world, first) is JobState.RUNNING
    world.wait(10)
    world.answer(second, V.START)
    assert state(world, second) is JobState.RUNNING


def lowest_first(view: View) -> dict[JobId, SortKey]:
    """Return keys by which jobs of low priority go first."""
    return {turn.job: (0.0, turn.priority) for each in view.queue for turn in each.turns}


def lowest_first_world(*processors: int, **settings: str) -> FilteredWorld:
    """Return a world whose policy orders the queue; jobs of the template ``asked`` pass a filter."""
    policies = {name: OrderedPolicy(lowest_first, plan) for name, plan in POLICIES.items()}
    return FilteredWorld(*processors, everybody=False, policies=policies, **settings)


def test_one_blocks_those_behind_it_in_the_order_of_the_policy() -> None:
    world = lowest_first_world(4)
    blocker = one(world, template="asked")
    world.answer(blocker, V.BLOCK_QUEUE)
    equal, behind, ahead = (one(world, priority=Priority(level)) for level in (2000, 3000, 1000))
    assert [state(world, job) for job in (equal, behind, ahead)] == [*[JobState.QUEUED] * 2, JobState.RUNNING]
    found = [world.engine.offers.blocker_of(world.cluster, world.record(job)) for job in (behind, blocker)]
    assert [each.id if each else None for each in found] == [blocker, None]
    world.wait(10)
    world.answer(blocker, V.START)
    assert [state(world, job) for job in (blocker, equal, behind)] == [JobState.RUNNING] * 3


def test_of_two_that_block_the_first_in_the_order_of_the_policy_counts() -> None:
    world = lowest_first_world(4)
    last, first = (one(world, template="asked", priority=Priority(level)) for level in (3000, 1000))
    world.answer(last, V.BLOCK_QUEUE)
    world.answer(first, V.BLOCK_QUEUE)
    between = one(world)
    assert state(world, between) is JobState.QUEUED
    world.wait(10)
    assert world.asked(first).job_index == 1
    world.answer(first, V.START)
    assert [state(world, job) for job in (between, last)] == [JobState.RUNNING, JobState.QUEUED]


def test_an_offer_that_was_accepted_waits_if_a_job_ahead_of_it_in_the_order_of_the_policy_blocks() -> None:
    world = lowest_first_world(4)
    behind, ahead = (one(world, template="asked", priority=Priority(level)) for level in (3000, 1000))
    world.answer(ahead, V.BLOCK_QUEUE)
    world.answer(behind, V.START)
    assert state(world, behind) is JobState.QUEUED


def test_filters_are_called_in_the_order_of_the_policy() -> None:
    world = lowest_first_world(8, FiltersAtOnce="1")
    before = one(world, 8)
    asked = [
        one(world, size, template="asked", priority=Priority(level))
        for size, level in ((1, 3000), (2, 2000), (3, 1000))
    ]
    world.end(before, 1)
    order = []
    for _ in asked:
        question = world.filters.questions[-1]
        order.append(question.job)
        world.answer(JobId(question.job), V.START)
    assert order == asked[::-1]


def test_no_filter_no_block() -> None:
    world = FilteredWorld(4, everybody=False)
    blocker = one(world, template="asked")
    world.answer(blocker, V.BLOCK_QUEUE)
    world.set(ActivationFilterProgram="")
    assert state(world, blocker) is JobState.RUNNING
    assert state(world, one(world)) is JobState.RUNNING


def test_a_blocker_is_asked_again_once_in_every_interval() -> None:
    world = FilteredWorld(2, ActivationFilterInterval="30")
    job = one(world)
    world.answer(job, V.BLOCK_QUEUE)
    world.wait(29)
    assert len(world.filters.questions) == 1
    world.wait(1)
    assert len(world.filters.questions) == 2


def test_two_keeps_what_was_offered_and_others_go_on_elsewhere() -> None:
    world = FilteredWorld(4, everybody=False)
    keeper = one(world, 2, template="asked")
    world.answer(keeper, V.KEEP_RESOURCES)
    others = [one(world, priority=Priority(4000)) for _ in range(3)]
    assert [state(world, job) for job in others] == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    world.wait(10)
    question = world.asked(keeper)
    assert question.resource_count == 2
    world.answer(keeper, V.START)
    assert state(world, keeper) is JobState.RUNNING
    assert state(world, others[2]) is JobState.QUEUED


def test_what_is_kept_grows_up_to_the_maximum() -> None:
    world = FilteredWorld(4, everybody=False)
    running = one(world, 3, run_time=HOUR)
    keeper = one(world, 1, 3, template="asked")
    assert world.asked(keeper).resource_count == 1
    world.answer(keeper, V.KEEP_RESOURCES)
    world.end(running, 1)
    late = one(world, 2)
    assert state(world, late) is JobState.QUEUED
    world.wait(10)
    assert world.asked(keeper).resource_count == 3
    world.answer(keeper, V.START)
    assert sum(map(len, world.cluster.graph(keeper).run.allocation.values())) == 3


def test_what_is_kept_is_free_again_when_the_job_is_canceled_or_its_node_is_gone() -> None:
    for leave in (
        lambda world, job: StopJob(by=ROOT, job=job, outcome="canceled"),
        lambda world, job: HoldJob(by=ROOT, job=job, name="User"),
    ):
        world = FilteredWorld(2, everybody=False)
        keeper = one(world, 2, template="asked")
        world.answer(keeper, V.KEEP_RESOURCES)
        other = one(world)
        assert state(world, other) is JobState.QUEUED
        world.do(leave(world, keeper))
        assert state(world, other) is JobState.RUNNING
    world = FilteredWorld(2, everybody=False)
    keeper = one(world, 2, template="asked")
    world.answer(keeper, V.KEEP_RESOURCES)
    world.do(NodeVanished(node="node1"))
    world.wait(10)
    assert world.engine.offers.of == {}


def test_three_holds_until_the_date_of_the_job_or_the_default_and_asks_again() -> None:
    world = FilteredWorld(2, everybody=False)
    job = one(world, template="asked")
    world.answer(job, V.HOLD)
    assert world.cluster.queue.held[job] == world.clock.now() + 900
    other = one(world, 2)
    assert state(world, other) is JobState.RUNNING
    world.end(other, 1)
    world.wait(900)
    assert len([q for q in world.filters.questions if q.job == job]) == 2
    world.answer(job, V.START)
    assert state(world, job) is JobState.RUNNING


def test_a_date_of_the_job_that_is_still_to_come_is_until_when_it_is_held() -> None:
    world = FilteredWorld(2)
    job = one(world)
    until = Instant(world.clock.now() + 5000)
    spec = world.cluster.written(world.record(job))
    changed = ModifyJob(
        by=ROOT, job=job, spec=type(spec)(tasks=spec.tasks, hold_until=until), fields=("hold_until",)
    )
    offer = world.asked(job).offer
    world.do(
        TakeVerdict(job=job, offer=offer, verdict=V.BLOCK_QUEUE, filter="pool"),
    )
    world.do(changed)
    assert world.cluster.queue.held[job] == until
    world.wait(5000)
    world.answer(job, V.HOLD)
    assert world.cluster.queue.held[job] == world.clock.now() + 900
    world.wait(900)
    world.answer(job, V.START)
    assert world.cluster.written(world.record(job)).hold_until is None
    world.check_replay()


def test_four_fails_the_job_and_says_which_filter_did() -> None:
    world = FilteredWorld(2)
    job = one(world)
    world.answer(job, V.FAIL, "activation filter 'pool' failed it (exit code 4: no such licence)")
    assert state(world, job) is JobState.FAILED
    assert "'pool'" in world.record(job).message
    assert "no such licence" in world.record(job).message


def growing(**settings: str) -> tuple[FilteredWorld, JobId]:
    """Return a world in which a job runs on one of four processors and is about to grow by three."""
    world = FilteredWorld(4, everybody=False, **settings)
    other = one(world, 3)
    job = world.submit(*[TaskSpec(command="x")] * 6, minimum=1, maximum=4, template="asked")
    world.answer(job, V.START)
    world.end(other, 1)
    return world, job


def held(world: FilteredWorld, job: JobId) -> int:
    """Return how many processors a job holds."""
    return sum(map(len, world.cluster.graph(job).run.allocation.values()))


def test_a_running_job_grows_only_when_its_filter_lets_it() -> None:
    world, job = growing()
    question = world.asked(job)
    assert (question.running, question.resource_count, held(world, job)) == (True, 3, 1)
    world.answer(job, V.START)
    assert held(world, job) == 4


def test_what_a_running_job_is_refused_others_may_have_and_it_is_asked_again() -> None:
    world, job = growing()
    world.answer(job, V.WAIT)
    assert held(world, job) == 1
    assert world.record(job).filter_reply is not None
    other = one(world, 3)
    assert state(world, other) is JobState.RUNNING
    world.end(other, 1)
    asked = len(world.filters.questions)
    world.wait(10)
    assert len(world.filters.questions) == asked + 1
    world.answer(job, V.START)
    assert held(world, job) == 4
    assert world.record(job).filter_reply is None


def test_a_backfilled_job_is_asked_as_such_and_waits_on_anything_but_zero() -> None:
    world = FilteredWorld(4, everybody=False)
    one(world, 2, run_time=HOUR)
    head = one(world, 4)
    small = one(world, 1, template="asked", run_time=Seconds(60.0))
    assert world.asked(small).backfill
    world.answer(small, V.WAIT)
    other = one(world, 2, run_time=Seconds(60.0))
    assert state(world, other) is JobState.RUNNING  # nothing is kept for it, and nobody waits behind it
    assert state(world, head) is JobState.QUEUED
    world.end(other, 1)
    world.wait(10)
    world.answer(small, V.START)
    assert state(world, small) is JobState.RUNNING


def test_who_has_no_filter_takes_what_is_offered_to_one_that_is_asked_and_that_is_undone() -> None:
    world = FilteredWorld(2, everybody=False)
    slow = one(world, 2, template="asked")
    quick = one(world)
    assert state(world, quick) is JobState.RUNNING
    offer = world.asked(slow).offer
    world.answer(slow, V.START)
    assert state(world, slow) is JobState.QUEUED
    assert world.filters.undone == [offer]


def test_who_lost_an_offer_once_does_not_lose_the_next() -> None:
    world = FilteredWorld(2, everybody=False)
    slow = one(world, 2, template="asked")
    quick = one(world)
    world.answer(slow, V.START)
    world.end(quick, 1)
    late = one(world, priority=Priority(4000))
    assert state(world, late) is JobState.QUEUED
    world.answer(slow, V.START)
    assert state(world, slow) is JobState.RUNNING


def test_two_with_filters_are_not_offered_the_same() -> None:
    world = FilteredWorld(2)
    first, second = one(world, 2), one(world, 1)
    assert [q.job for q in world.filters.questions] == [first]
    world.answer(first, V.HOLD)
    assert [q.job for q in world.filters.questions] == [first, second]


def test_no_more_are_asked_about_at_once_than_configured_and_nobody_is_forgotten() -> None:
    world = FilteredWorld(50, FiltersAtOnce="3")
    jobs = [one(world) for _ in range(40)]
    started: list[JobId] = []
    while len(started) < len(jobs):
        open_ones = [q.job for q in world.filters.questions if q.job not in started]
        assert 1 <= len(open_ones) <= 3
        world.answer(open_ones[0], V.START)
        started.append(open_ones[0])
    assert started == jobs
    assert all(state(world, job) is JobState.RUNNING for job in jobs)


def test_a_thousand_behind_a_slow_filter_do_not_delay_one_without() -> None:
    world = FilteredWorld(4, everybody=False, FiltersAtOnce="4")
    for _ in range(1000):
        one(world, template="asked")
    job = one(world, 4)
    assert state(world, job) is JobState.RUNNING
    assert len(world.filters.questions) == 4


def test_a_wide_job_without_filter_keeps_its_place_before_those_who_are_aside() -> None:
    world = FilteredWorld(4, everybody=False, FiltersAtOnce="1")
    running = one(world, 2, run_time=HOUR)
    wide = one(world, 4, priority=Priority(3000))
    asked = [one(world, template="asked", run_time=Seconds(2 * HOUR)) for _ in range(3)]
    assert state(world, wide) is JobState.QUEUED
    assert world.filters.questions == []  # they would delay the one that goes first
    world.end(running, 1)
    assert state(world, wide) is JobState.RUNNING
    assert all(state(world, job) is JobState.QUEUED for job in asked)


def test_an_answer_about_a_job_that_is_gone_is_undone_and_does_nothing() -> None:
    world = FilteredWorld(2)
    job = one(world)
    offer = world.asked(job).offer
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.answer(job, V.START)
    assert world.filters.undone == [offer]
    assert state(world, job) is JobState.CANCELED


def test_a_job_that_was_changed_meanwhile_is_asked_about_again() -> None:
    world = FilteredWorld(4)
    job = world.submit(TaskSpec(command="x"), minimum=1, maximum=4)
    spec = world.cluster.written(world.record(job))
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__} | {"maximum": 2}
    world.do(ModifyJob(by=ROOT, job=job, spec=type(spec)(**fields), fields=("maximum",)))
    first = world.filters.questions[0].offer
    world.do(TakeVerdict(job=job, offer=first, verdict=V.START))
    assert world.filters.undone == [first]
    assert world.asked(job).resource_count == 2
    world.answer(job, V.START)
    assert state(world, job) is JobState.RUNNING


def test_without_filters_a_view_is_not_touched() -> None:
    world = FilteredWorld(4)
    world.set(ActivationFilterProgram="")
    view = world.engine.view(world.clock.now())
    assert constrained_view(view, world.engine.offers, world.cluster) is view


def test_what_a_filter_said_is_recorded_once_though_it_says_so_again_and_again() -> None:
    world = FilteredWorld(2)
    job = one(world)
    world.answer(job, V.BLOCK_QUEUE, "no licence")
    before = world.engine.number
    world.wait(10)
    world.answer(job, V.BLOCK_QUEUE, "no licence")
    assert world.engine.number == before
    word = world.record(job).filter_reply
    assert word is not None
    assert (word.filter, word.message) == ("pool", "no licence")
    world.check_replay()


@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative", "conservative-replan"])
def test_every_policy_lets_all_start_in_the_end_whatever_the_filters_say_before(policy: str) -> None:
    world = FilteredWorld(2, 3, everybody=False, FiltersAtOnce="2", SchedulingPolicy=policy)
    jobs = [
        one(world, 1 + n % 3, template="asked" if n % 4 else "", run_time=Seconds(60.0 * (1 + n % 5)), by=ADA)
        for n in range(24)
    ]
    verdicts = [V.BLOCK_QUEUE, V.KEEP_RESOURCES, V.HOLD, V.START, V.START, V.WAIT]
    answered: set[int] = set()
    for step in range(2000):
        for question in world.filters.questions:
            if question.offer not in answered:
                answered.add(question.offer)
                calm = step > 200
                found = V.START if calm else verdicts[(question.offer + step) % len(verdicts)]
                if question.backfill and found in (V.BLOCK_QUEUE, V.KEEP_RESOURCES):
                    found = V.WAIT
                world.do(
                    TakeVerdict(
                        job=question.job,
                        offer=question.offer,
                        verdict=found,
                        filter="pool",
                        hold=Seconds(60.0),
                    )
                )
                break
        for held_now in world.nodes.running()[:1]:
            world.end(held_now.job, held_now.task)
        world.wait(5)
        if not world.cluster.jobs:
            break
    assert not world.cluster.jobs
    assert all(state(world, job) is JobState.FINISHED for job in jobs)
    world.check_replay()
