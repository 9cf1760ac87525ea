"""What a filter keeps for a job (exit code 2): over a restart of the head, and in what others are told."""

from collections.abc import Iterable, Mapping, Sequence

import pytest
from asked_filters import FilteredWorld
from worlds import ROOT

from headnode.core.filtering import ActivationVerdict
from headnode.core.model.errors import Unavailable
from headnode.core.model.job import JobSpec, Licence
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import View
from headnode.core.state.events import Event
from headnode.core.state.filters import TakeVerdict
from headnode.core.state.hold import HoldJob, ReleaseJob
from headnode.core.state.job_record import started_run
from headnode.core.state.modify import ModifyJob
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState
from headnode.engine.activation_gate import constrained_view, explanation_view, look_ahead_view
from headnode.engine.activation_offer import OfferStage
from headnode.engine.ports import EndedJob
from headnode.engine.simulate_ahead import simulate_ahead, to_the_limits
from journal_model import ModelJournal

KEEP = ActivationVerdict.KEEP_RESOURCES
HOUR = Seconds(3600.0)


def one(world: FilteredWorld, size: int = 1, most: int = 0, **options: object) -> JobId:
    """Submit a job of one task."""
    task = TaskSpec(command="x", minimum=size, maximum=most or size)
    return world.submit(task, minimum=size, maximum=most or size, **options)


def kept(size: int = 2, most: int = 0, **options: object) -> tuple[FilteredWorld, JobId]:
    """Return a world of four processors, and a job for which a filter keeps some of them."""
    world = FilteredWorld(4, everybody=False)
    keeper = one(world, size, most, template="asked", **options)
    world.answer(keeper, KEEP)
    return world, keeper


def restart(world: FilteredWorld) -> None:
    """Let another head read the journal; what the one before asked is never answered."""
    world.engine.recover()
    world.filters.questions.clear()
    world.cluster.agenda.pass_needed = True
    world.wait(0.1)


def test_what_is_kept_is_kept_over_a_restart_and_its_filter_is_asked_first() -> None:
    world, keeper = kept()
    restart(world)
    others = [one(world, priority=Priority(4000)) for _ in range(3)]
    states = [world.record(job).state for job in others]
    assert states == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED]
    question = world.asked(keeper)
    assert (question.resource_count, question.backfill) == (2, False)
    world.answer(keeper, ActivationVerdict.START)
    assert world.record(keeper).state is JobState.RUNNING
    assert world.record(others[2]).state is JobState.QUEUED
    world.check_replay()


def test_what_was_added_up_to_the_maximum_is_kept_too_once_the_filter_has_been_asked_again() -> None:
    world = FilteredWorld(4, everybody=False)
    running = one(world, 3, run_time=Seconds(3600.0))
    keeper = one(world, 1, 3, template="asked")
    world.answer(keeper, KEEP)
    world.end(running, 1)
    world.wait(10)
    world.answer(keeper, KEEP)
    restart(world)
    assert world.asked(keeper).resource_count == 3
    world.check_replay()


def test_of_several_each_has_what_it_had() -> None:
    world = FilteredWorld(2, 4)
    jobs = [one(world, size) for size in (1, 2, 3)]
    for job in jobs:
        world.answer(job, KEEP)
    before = {job: dict(offer.giving.shares) for job, offer in world.engine.offers.of.items()}
    assert set(before) == set(jobs)
    restart(world)
    assert {job: dict(offer.giving.shares) for job, offer in world.engine.offers.of.items()} == before


def test_what_has_another_by_now_is_not_taken_from_him() -> None:
    world, keeper = kept(3)
    world.do(HoldJob(by=ROOT, job=keeper, name="User"))
    other = one(world, 2)
    assert world.record(other).state is JobState.RUNNING
    world.do(ReleaseJob(by=ROOT, job=keeper, name="User"))
    restart(world)
    assert world.engine.offers.of == {}
    assert world.record(other).state is JobState.RUNNING


@pytest.mark.parametrize("fields", [{"maximum": 3}, {"name": "other"}])
def test_a_job_that_was_changed_is_offered_anew(fields: dict[str, object]) -> None:
    world, keeper = kept(2, 3)
    spec = world.cluster.written(world.record(keeper))
    values = {name: getattr(spec, name) for name in spec.__struct_fields__} | fields
    world.do(ModifyJob(by=ROOT, job=keeper, spec=type(spec)(**values), fields=tuple(fields)))
    word = world.record(keeper).filter_reply
    assert word is not None
    assert word.reserved == ()
    restart(world)
    assert all(offer.stage is not OfferStage.KEPT for offer in world.engine.offers.of.values())


def test_what_a_job_holds_is_forgotten_when_it_starts_or_another_answer_comes() -> None:
    world, keeper = kept()
    world.wait(10)
    world.answer(keeper, ActivationVerdict.BLOCK_QUEUE)
    word = world.record(keeper).filter_reply
    assert word is not None
    assert word.reserved == ()
    restart(world)
    assert all(offer.stage is not OfferStage.KEPT for offer in world.engine.offers.of.values())


def test_an_exclusive_job_gets_its_node_back_whole_or_not_at_all() -> None:
    world, keeper = kept(4, exclusive=True)
    restart(world)
    other = one(world)
    assert world.record(other).state is JobState.QUEUED
    world.answer(keeper, ActivationVerdict.START)
    assert world.record(keeper).state is JobState.RUNNING


def view_of(world: FilteredWorld, job: JobId) -> View:
    """Return the view in which a job is explained."""
    return explanation_view(world.engine.view(world.clock.now()), world.engine.offers, world.cluster, job)


def seen_ahead(world: FilteredWorld) -> Mapping[JobId, Instant]:
    """Return when jobs are expected to start if all run to their limits."""
    view = look_ahead_view(world.engine.view(world.clock.now()), world.engine.offers, world.cluster)
    return simulate_ahead(view, POLICIES["easy"], {}, to_the_limits(view), lambda: False).starts


def test_what_is_kept_for_one_is_not_free_where_another_is_explained() -> None:
    world, keeper = kept(3)
    other = one(world, 2)
    assert view_of(world, other).nodes["node1"].free == 1
    assert keeper not in {turn.job for each in view_of(world, other).queue for turn in each.turns}
    plan = POLICIES["easy"](view_of(world, other))
    assert [start.job for start in plan.starts] == []
    world.wait(10)
    world.answer(keeper, ActivationVerdict.START)
    assert view_of(world, other).nodes["node1"].free == 1


def test_what_is_kept_for_a_job_itself_is_free_where_that_is_explained() -> None:
    world, keeper = kept(3)
    view = view_of(world, keeper)
    assert view.nodes["node1"].free == 4
    assert [start.job for start in POLICIES["easy"](view).starts] == [keeper]


@pytest.mark.parametrize(("mode", "wants"), [("Queued", 2), ("Balanced", 0)])
def test_what_is_kept_grows_to_the_maximum_in_queued_mode_and_not_in_balanced_mode(
    mode: str, wants: int
) -> None:
    world = FilteredWorld(4, everybody=False)
    busy = one(world, 3)
    keeper = one(world, 1, 3, template="asked")
    world.answer(keeper, KEEP)
    world.set(SchedulingMode=mode)
    view = constrained_view(world.engine.view(world.clock.now()), world.engine.offers, world.cluster)
    assert {job.job: job.wants for job in view.running} == {busy: 0, keeper: wants}


def test_what_is_kept_for_the_growth_of_a_job_is_not_taken_for_its_own_in_balanced_mode(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = FilteredWorld(2, 2, everybody=False, SchedulingMode="Balanced")
    busy = one(world, 2)
    tasks = [TaskSpec(command="x", rerunnable=True)] * 4
    grower = world.submit(*tasks, minimum=2, maximum=4, template="asked")
    world.answer(grower, ActivationVerdict.START)
    world.end(busy, 1)
    assert world.asked(grower).running
    world.answer(grower, KEEP)
    waiting = one(world)
    assert world.record(waiting).state is JobState.QUEUED
    assert not started_run(world.record(grower)).recalled
    assert [record.message for record in caplog.records if "stale" in record.message] == []


def test_licences_that_are_kept_are_not_free_for_others() -> None:
    world = FilteredWorld(4, everybody=False, Licences="solver:3")
    wish = (Licence(feature="solver", amount=2),)
    keeper = one(world, template="asked", licences=wish)
    world.answer(keeper, KEEP)
    other = one(world, licences=wish)
    assert world.record(other).state is JobState.QUEUED
    assert view_of(world, other).licences["solver"] == (3, 1)
    assert view_of(world, keeper).licences["solver"] == (3, 3)


def test_expected_starts_of_others_count_what_is_kept_as_if_that_job_started_now() -> None:
    world, keeper = kept(3, run_time=HOUR)
    other = one(world, 2, run_time=HOUR)
    starts = seen_ahead(world)
    assert starts == {other: world.clock.now() + HOUR}
    assert keeper not in starts


def test_nobody_expects_anything_of_those_behind_a_job_that_blocks_the_queue() -> None:
    world = FilteredWorld(4, everybody=False)
    blocker = one(world, template="asked")
    world.answer(blocker, ActivationVerdict.BLOCK_QUEUE)
    one(world, 2)
    running = one(world, 4, priority=Priority(3000), run_time=HOUR)
    higher = one(world, 4, priority=Priority(3000), run_time=HOUR)
    assert world.record(running).state is JobState.RUNNING
    assert seen_ahead(world) == {higher: world.clock.now() + HOUR}


def test_a_job_that_is_only_asked_about_is_expected_in_its_turn() -> None:
    world = FilteredWorld(2)
    job = one(world, 2)
    assert seen_ahead(world) == {job: world.clock.now()}
    assert view_of(world, job).nodes["node1"].free == 2


class DiskThatFillsUp(ModelJournal):
    """A journal whose next appends find no room."""

    failures = 0

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        if self.failures:
            self.failures -= 1
            raise Unavailable(code="journal-full", what="the disk is full", fix="make room")
        return super().append(events, ended, revived)


def on_a_disk_that_fills_up(world: FilteredWorld) -> DiskThatFillsUp:
    """Give a world another disk, with all that is recorded."""
    disk = DiskThatFillsUp()
    disk.append([event for _, event in world.engine.journal.replay()])
    world.engine.journal = disk
    return disk


def test_a_question_that_was_not_asked_because_the_disk_was_full_takes_no_place_from_the_next() -> None:
    """Else no activation filter would be called any more once as many as may be at once were lost so."""
    world = FilteredWorld(4, FiltersAtOnce="1")
    on_a_disk_that_fills_up(world).failures = 1
    lost = CreateJob(by=ROOT, spec=JobSpec(tasks=(TaskSpec(command="x"),)), submit=True)
    assert isinstance(world.engine.handle([lost])[0], Unavailable)
    assert world.filters.questions == []
    job = one(world)
    assert [question.job for question in world.filters.questions] == [job]
    world.answer(job, ActivationVerdict.START)
    assert world.record(job).state is JobState.RUNNING


def test_what_filters_did_for_a_start_that_could_not_be_recorded_is_undone_and_they_are_asked_again() -> None:
    world = FilteredWorld(4)
    disk = on_a_disk_that_fills_up(world)
    job = one(world)
    offer = world.asked(job).offer
    world.engine.close(closing=True)
    world.answer(job, ActivationVerdict.START)
    world.engine.close(closing=False)
    disk.failures = 1
    world.engine.handle([])
    assert disk.failures == 0
    world.engine.close(closing=False)
    world.engine.handle([])
    assert (world.filters.undone, world.filters.kept) == ([offer], [])
    assert world.asked(job).offer != offer
    world.answer(job, ActivationVerdict.START)
    assert world.record(job).state is JobState.RUNNING
    assert world.filters.kept == [world.asked(job).offer]


@pytest.mark.parametrize("again", [False, True])
def test_what_is_kept_is_no_way_past_a_limit_that_was_lowered_meanwhile(again: bool) -> None:
    world, keeper = kept()
    running = one(world)
    world.set(UserLimits="*:processors=2")
    if again:
        restart(world)
    for question in list(world.filters.questions):
        world.do(TakeVerdict(job=question.job, offer=question.offer, verdict=ActivationVerdict.START))
    assert world.record(running).state is JobState.RUNNING
    assert world.record(keeper).state is JobState.QUEUED
    world.end(running, 1)
    world.answer(keeper, ActivationVerdict.START)
    assert world.record(keeper).state is JobState.RUNNING
