"""What is expected of queued jobs, what is kept of it, and what is learned from it."""

from typing import Any

import msgspec
import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.job import Alternative, Licence
from headnode.core.model.quantities import FOREVER, Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.prediction.run_times import JobTraits
from headnode.core.state.hold import HoldTask, ReleaseTask
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.nodes import SetParameter
from headnode.core.state.stop import StopJob
from headnode.engine import prediction
from headnode.engine.prediction import (
    MIN_JOBS,
    ExpectedStart,
    PredictionInput,
    PredictionResult,
    RunTimeLearner,
    StartPredictor,
    look_ahead,
)

HOUR = Seconds(3600.0)


class Foreseen(World):
    """A world that is looked ahead in, and whose head may be started again."""

    def __init__(self, *processors: int) -> None:
        super().__init__(*processors)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all that only memory knows, as a head does that is started again."""
        self.foreseer = StartPredictor(self.cluster, self.journal)
        pages = list(self.foreseer.learner.read(self.journal))
        for page in reversed(pages):
            self.foreseer.learner.teach(page)

    def do(self, *commands: Any) -> Any:
        known = len(list(self.journal.replay()))
        try:
            return super().do(*commands)
        finally:
            if hasattr(self, "foreseer"):
                events = [event for _, event in self.journal.replay(known)]
                self.foreseer.perform(events, self.cluster)

    def add(self, name: str = "", hours: float = 1.0, by: Any = ADA, **options: Any) -> JobId:
        """Submit a job of one task for the whole first node, unless told otherwise."""
        size = options.setdefault("minimum", 1)
        options.setdefault("maximum", size)
        limit = Seconds(hours * HOUR) if hours < FOREVER else FOREVER
        task = TaskSpec(command="x", minimum=size, maximum=size, rerunnable=True)
        return self.submit(task, by=by, name=name, run_time=limit, **options)

    def situation(self) -> PredictionInput:
        policy, view = self.engine.settings.text("SchedulingPolicy"), self.engine.view(self.clock.now())
        return self.foreseer.situation(self.cluster, view, self.engine.last_plan, policy)

    def look(self, *, plans: int = 1_000_000, easily: bool = True) -> bool:
        """Look ahead and accept what is seen; return whether it was whole."""
        situation, left = self.situation(), iter(range(plans))
        outlook = look_ahead(situation, POLICIES[situation.policy], lambda: next(left, None) is None)
        self.foreseer.accept(situation, outlook, self.cluster, easily=easily)
        return outlook.whole

    def run_for(self, seconds: float) -> None:
        """Let time go by; then whatever runs comes to its end."""
        self.wait(seconds)
        for held in self.nodes.running():
            self.end(held.job, held.task)

    def expected_waits(self, job: JobId) -> tuple[float | None, float | None, float | None]:
        """Return promise, P50 and P90 as waits from now."""
        found, now = self.foreseer.expected(job), self.clock.now()
        assert found is not None
        return tuple(None if at is None else at - now for at in (found.promise, found.p50, found.p90))


def taught(world: Foreseen, name: str, used: float, times: int = 4, by: Any = ADA) -> None:
    """Let some jobs of this name run for so many seconds each, one after the other."""
    for _ in range(times):
        world.add(name, by=by)
        world.run_for(used)


def test_without_a_past_the_limits_are_all_there_is_to_go_by() -> None:
    world = Foreseen(1)
    world.add()
    second, third = world.add(), world.add()
    world.look()
    assert world.expected_waits(second) == (HOUR, HOUR, HOUR)
    assert world.expected_waits(third) == (2 * HOUR, 2 * HOUR, 2 * HOUR)


def test_the_past_of_the_same_user_and_name_makes_the_expectation_earlier_and_leaves_the_promise() -> None:
    world = Foreseen(1)
    taught(world, "solve-1", used=360)
    world.add("solve-2")
    waiting = world.add("solve-3")
    world.look()
    promise, p50, _ = world.expected_waits(waiting)
    assert (promise, p50) == (HOUR, pytest.approx(360))


def test_each_request_of_a_job_is_foreseen_with_a_run_time_of_its_own() -> None:
    world = Foreseen(2)
    taught(world, "solve", used=360)
    world.add("long", hours=2)
    short = Alternative(exclusive=True, run_time=Seconds(0.05 * HOUR))
    world.add("first", minimum=2, hours=8)
    waiting = world.add("solve", minimum=2, alternatives=(short,))
    situation = world.situation()
    assert set(situation.lasts[waiting]) == {360}
    assert [set(lasts) for lasts in situation.otherwise[waiting]] == [{18}], (
        "such jobs use a tenth of their limit"
    )
    assert set(situation.otherwise) == {waiting}, "others have no alternatives"
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(situation), type=PredictionInput)
    assert again.run_times(0)(waiting, 1) == 18
    world.look()
    assert world.foreseer.expected(waiting) is not None


def test_a_job_that_has_outlived_its_like_is_expected_to_go_on() -> None:
    world = Foreseen(1)
    taught(world, "solve", used=360)
    world.add("solve")
    waiting = world.add("solve")
    world.wait(1800)
    world.look()
    _, p50, _ = world.expected_waits(waiting)
    assert p50 is not None
    assert p50 > 0


def test_a_job_without_limit_is_expected_by_the_past_but_nothing_is_promised_behind_it() -> None:
    world = Foreseen(1)
    for _ in range(4):
        world.add("endless", hours=FOREVER)
        world.run_for(600)
    world.add("endless", hours=FOREVER)
    waiting = world.add()
    world.look()
    assert world.expected_waits(waiting) == (None, pytest.approx(600), None)


def test_behind_a_job_without_limit_and_without_a_past_nothing_is_known_nor_kept() -> None:
    world = Foreseen(1)
    world.add(hours=FOREVER)
    waiting = world.add()
    world.look()
    assert world.foreseer.expected(waiting) == ExpectedStart()
    assert world.journal.prediction(waiting) is None


@pytest.mark.parametrize("policy", ["conservative", "conservative-replan"])
def test_where_the_policy_gives_reservations_they_are_the_promises(policy: str) -> None:
    world = Foreseen(2)
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    world.add(minimum=2)
    waiting = [world.add(minimum=2), world.add(minimum=1)]
    world.look()
    plan = world.engine.last_plan
    assert plan is not None
    assert {r.job for r in plan.reservations} == set(waiting)
    for reservation in plan.reservations:
        found = world.foreseer.expected(reservation.job)
        assert found is not None
        assert found.promise == reservation.at
        assert found.p90 is not None
        assert found.p90 <= reservation.at


def test_a_reservation_is_promised_to_the_second_though_the_way_there_is_looked_at_coarsely() -> None:
    world = Foreseen(2)
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value="conservative"))
    world.add(hours=1000 / HOUR)
    world.add(hours=1010 / HOUR)
    waiting = world.add()
    world.look()
    assert world.expected_waits(waiting)[0] == pytest.approx(1000)


def test_the_first_prediction_of_a_job_is_kept_and_judged_when_it_starts() -> None:
    world = Foreseen(1)
    taught(world, "solve", used=360)
    world.add("solve")
    waiting = world.add("solve")
    begin = world.clock.now()
    world.look()
    world.wait(100)
    world.add("solve")
    world.look()
    first = world.journal.prediction(waiting)
    assert first is not None
    assert (first.made, first.policy, first.started) == (begin, "easy", None)
    assert (first.promise, first.p50) == (begin + HOUR, pytest.approx(begin + 360))
    world.run_for(200)
    (judged,) = world.journal.judged_predictions(Instant(0.0), 9)
    assert (judged.job, judged.started) == (waiting, begin + 300)


def test_a_job_that_started_while_somebody_looked_is_not_predicted_afterwards() -> None:
    world = Foreseen(1)
    world.add()
    waiting = world.add()
    situation = world.situation()
    outlook = look_ahead(situation, POLICIES["easy"], lambda: False)
    world.run_for(10)
    world.foreseer.accept(situation, outlook, world.cluster)
    assert world.journal.prediction(waiting) is None
    assert world.foreseer.expected(waiting) is None


def test_predictions_that_came_too_soon_make_later_ones_later() -> None:
    """Every job is overtaken: the plan says one run, and it always becomes two."""
    world = Foreseen(1)
    taught(world, "solve", used=600)
    for _ in range(25):
        world.add("solve")
        waiting = world.add("solve")
        world.look()
        other = world.add("solve")
        world.do(ModifyJob(by=ROOT, job=other, spec=_urgent(world, other), fields=("priority",)))
        world.run_for(600)
        world.run_for(600)
        assert waiting in world.cluster.running
        world.run_for(600)
    world.add("solve")
    waiting = world.add("solve")
    world.look()
    _, p50, p90 = world.expected_waits(waiting)
    assert p50 == pytest.approx(1200, rel=0.05)
    assert p90 == pytest.approx(1200, rel=0.05)
    world.begin_anew()
    world.look()
    assert world.expected_waits(waiting)[1:] == (p50, p90)  # what was learned is learned again from the disk


def _urgent(world: World, job: JobId) -> Any:
    return msgspec.structs.replace(world.cluster.spec(world.cluster.job(job)), priority=4000)


def test_a_head_that_starts_again_knows_the_run_times_of_the_past_and_of_what_runs() -> None:
    world = Foreseen(1)
    taught(world, "solve", used=360)
    world.add("solve")
    waiting = world.add("solve")
    world.wait(60)
    world.look()
    before = world.foreseer.expected(waiting)
    world.begin_anew()
    world.look()
    assert world.foreseer.expected(waiting) == before
    prediction = world.journal.prediction(waiting)
    assert prediction is not None
    assert prediction.made == world.clock.now()


def test_a_job_that_is_modified_loses_what_was_expected_of_it() -> None:
    world = Foreseen(1)
    world.add()
    waiting = world.add()
    world.look()
    world.do(ModifyJob(by=ROOT, job=waiting, spec=_urgent(world, waiting), fields=("priority",)))
    assert world.foreseer.expected(waiting) is None
    assert world.foreseer.changed


def test_only_what_matters_to_the_queue_asks_for_another_look() -> None:
    world = Foreseen(1)
    job = world.add()
    world.add()
    world.look()
    (held,) = world.nodes.running()
    world.do(world.nodes.started(held, world.clock.now()))
    assert not world.foreseer.changed
    world.end(job, 1)
    assert world.foreseer.changed


def test_when_time_runs_out_fewer_jobs_are_looked_at_and_more_when_it_was_easy() -> None:
    world = Foreseen(1)
    for _ in range(101):
        world.add()
    assert not world.look(plans=60)
    assert world.foreseer.most_jobs == 50
    for most in (75, 112):
        assert world.look()
        assert world.foreseer.most_jobs == most
    for _ in range(5):
        world.look(plans=1)
    assert world.foreseer.most_jobs == MIN_JOBS
    world.look(easily=False)
    assert world.foreseer.most_jobs == MIN_JOBS


def test_a_situation_says_the_same_where_it_was_sent() -> None:
    world = Foreseen(2, 4)
    world.do(
        SetParameter(by=ROOT, name="SchedulingPolicy", value="conservative"),
        SetParameter(by=ROOT, name="Licences", value="solver:2"),
    )
    taught(world, "solve", used=360)
    for size in (4, 2, 3, 1, 2, 4):
        world.add("solve", minimum=size, maximum=size + 1, licences=(Licence("solver", 1),))
    world.add(hours=FOREVER, exclusive=True)
    world.look()
    situation = world.situation()
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(situation), type=PredictionInput)
    assert sent == situation
    outlook = look_ahead(sent, POLICIES["conservative"], lambda: False)
    assert outlook == look_ahead(situation, POLICIES["conservative"], lambda: False)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(outlook), type=PredictionResult) == outlook


# Learning


def forecast(known: RunTimeLearner, name: str = "n", by: str = "ada") -> float:
    return known.history.forecast(JobTraits(by, name, HOUR)).at(0.5)


def test_whoever_is_canceled_teaches_nothing_but_the_limit_does() -> None:
    world = Foreseen(1)
    for _ in range(3):
        job = world.add("n")
        world.wait(60)
        world.do(StopJob(by=ADA, job=job, outcome="canceled", force=True))
        world.run_for(0)
    assert forecast(world.foreseer.learner) == HOUR
    taught(world, "n", used=60, times=1)
    for _ in range(3):
        world.add("n")
        world.wait(HOUR)
        world.run_for(1)
    assert forecast(world.foreseer.learner) == pytest.approx(HOUR)
    again = RunTimeLearner(world.cluster)
    for page in again.read(world.journal):
        again.teach(page)
    assert again.history.state() == world.foreseer.learner.history.state()


def test_only_the_newest_jobs_of_the_archive_teach_and_the_newest_teach_last() -> None:
    world = Foreseen(1)
    for used in (100, 200, 300):
        taught(world, "n", used=used, times=1)
    taught(world, "n", used=900, times=1, by=BOB)
    again = RunTimeLearner(world.cluster)
    (page,) = again.read(world.journal, most=3)
    assert [round(used) for _, _, used in page] == [900, 300, 200]
    again.teach(page)
    kinds = {(k.user, k.family): k.used for k in again.history.state()}
    assert kinds["ada", "n"] == pytest.approx((200 / HOUR, 300 / HOUR))


def test_the_archive_is_read_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "_SLICE", 2)
    world = Foreseen(1)
    taught(world, "n", used=100, times=5)
    pages = RunTimeLearner(world.cluster).read(world.journal, most=4)
    assert [len(page) for page in pages] == [2, 2]


def test_a_job_that_is_canceled_after_it_went_back_to_the_queue_teaches_nothing() -> None:
    world = Foreseen(1)
    job = world.add("n")
    world.wait(50)
    blocker = world.add("other", by=ROOT, priority=4000)
    world.do(RequeueJob(by=ADA, job=job))
    for held in list(world.nodes.stopping()):
        world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))
    assert blocker in world.cluster.running
    world.wait(2 * HOUR)
    world.do(StopJob(by=ADA, job=job, outcome="canceled"))
    assert job not in world.cluster.jobs
    assert forecast(world.foreseer.learner) == HOUR
    assert [kind.family for kind in world.foreseer.learner.history.state() if kind.user == "ada"] == []


def test_a_job_that_goes_back_to_the_queue_teaches_only_its_last_run() -> None:
    world = Foreseen(1)
    taught(world, "n", used=100, times=1)
    job = world.add("n")
    world.wait(50)
    world.do(RequeueJob(by=ADA, job=job))
    for held in list(world.nodes.stopping()):
        world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))
    assert world.cluster.job(job).run is not None
    world.run_for(300)
    state = {(k.user, k.family): k.used for k in world.foreseer.learner.history.state()}
    assert state["ada", "n"] == pytest.approx((100 / HOUR, 300 / HOUR))


def array(world: Foreseen, last: int, *parents: JobId) -> JobId:
    """Submit an array for one processor, whose elements wait for those of the parents."""
    task = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=last, rerunnable=True)
    options = {"minimum": 1, "maximum": 1, "run_time": HOUR, "after_corresponding": parents}
    return world.submit(task, by=ADA, **options)


def test_the_start_of_a_job_with_some_held_elements_is_that_of_the_others() -> None:
    """What is held wholly has no predicted start, and nothing behind it waits for it."""
    world = Foreseen(1)
    world.add()
    job = array(world, 3)
    behind = world.add()
    for held in (1, 2):
        world.do(HoldTask(by=ROOT, job=job, task=1, instance=held))
        world.look()
        assert world.expected_waits(job) == (HOUR, HOUR, HOUR)
        assert world.expected_waits(behind) == (2 * HOUR, 2 * HOUR, 2 * HOUR)
    world.do(HoldTask(by=ROOT, job=job, task=1, instance=3))
    world.look()
    assert world.foreseer.expected(job) is None
    assert world.expected_waits(behind) == (HOUR, HOUR, HOUR)
    world.do(ReleaseTask(by=ROOT, job=job, task=1, instance=2))
    world.look()
    assert world.expected_waits(job) == (HOUR, HOUR, HOUR)
    world.run_for(HOUR)
    assert world.dispatched(job) == [(1, 2)]


def test_a_job_whose_elements_wait_has_a_predicted_start_once_the_first_of_them_may_start() -> None:
    world = Foreseen(1)
    first = array(world, 2)
    second = array(world, 2, first)
    world.look()
    assert world.foreseer.expected(second) is None
    world.end(first, 1, 1)
    world.look()
    assert world.expected_waits(second) == (HOUR, HOUR, HOUR)
    world.end(first, 1, 2)
    assert world.dispatched(second) == [(1, 1)]
