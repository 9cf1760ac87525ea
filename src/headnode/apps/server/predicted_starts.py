"""When queued jobs will start, predicted now and then in a process beside the head, and what became of it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Final

import msgspec

from headnode.adapters.nodes.link import NodeLink
from headnode.adapters.wire.child_service import ChildProgram, ChildService
from headnode.apps.server.waiting_reasons import arrivals, files_arrive
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.prediction.calibration import (
    JudgedPrediction,
    PredictionScore,
    by_predicted_wait,
    score,
)
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord
from headnode.core.state.transitions import JobState
from headnode.engine.activation_gate import look_ahead_view
from headnode.engine.engine import Engine
from headnode.engine.ports import Past, Prediction, PredictionStore
from headnode.engine.prediction import (
    ExpectedStart,
    PredictionInput,
    PredictionRequest,
    PredictionResult,
    StartPredictor,
    look_ahead,
)
from headnode.protocol.answers import ExpectedStartObject
from headnode.protocol.cluster_answers import CoverageObject, ScoreObject, ScoresOfPredictions

PREDICTOR_GRACE = 10.0  # seconds beyond those it was given, after which it is taken for stuck
MAX_PREDICTION_BYTES = 64 * 1024 * 1024  # bytes


class PredictorProcess:
    """Looks ahead in a process beside this one, which is started again when it was lost."""

    def __init__(self) -> None:
        results = msgspec.msgpack.Decoder(PredictionResult)
        program = ChildProgram("headnode.apps.predict")
        self._service = ChildService(
            program, lambda message: (None, results.decode(message)), MAX_PREDICTION_BYTES
        )

    async def predict(self, situation: PredictionInput, seconds: float) -> PredictionResult:
        """Return what is seen ahead within so many seconds.

        Raises:  Unavailable, code lookout, when the process cannot be started, was lost or is stuck.
        """
        question = msgspec.msgpack.encode(PredictionRequest(situation, seconds))
        try:
            async with asyncio.timeout(seconds + PREDICTOR_GRACE):
                return await (await self._service.ask(None, question))
        except OSError as trouble:
            await self.end()
            raise Unavailable(
                code="lookout",
                what=f"the process that predicts starts has ended: {str(trouble) or type(trouble).__name__}",
                fix="another one starts for the next prediction; see the log of the head",
            ) from trouble

    async def end(self) -> None:
        """End the process, whatever it does."""
        await self._service.end()


log = logging.getLogger("headnode.server")

BETWEEN_PREDICTIONS = 3.0  # seconds at least, while things change
MAX_PAUSE_BETWEEN = 60.0  # seconds, while nothing changes: predictions age
MAX_PREDICTION = 8.0  # seconds of work for one look
SHORT_PREDICTION = 4.0  # seconds; after one this short more jobs are looked at
REST_FACTOR = 3  # times as long as a look took, nothing is done
TIMEOUT = 1.5  # seconds that a question waits for a fresh answer


class PredictedStarts:
    """Keeps what is expected of queued jobs fresh while there are any.

    Without `keep`, a prediction is computed at once in a thread.
    """

    def __init__(self, engine: Engine, past: Past, links: Callable[[], Mapping[str, NodeLink]]) -> None:
        """`links` know how far the files of jobs are."""
        self._links = links
        self.foreseer = StartPredictor(engine.cluster, past)
        self._engine, self._archive = engine, past
        self._predictor: PredictorProcess | None = None  # from the first `keep` on
        self.has_learned = False  # from the jobs that ended before
        self._changed, self._question = asyncio.Event(), asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []  # for a look that begins after now

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Take note of what has happened."""
        self.foreseer.perform(events, cluster)
        if self.foreseer.changed:
            self._changed.set()

    async def keep(self) -> None:
        """Learn from the newest ended jobs, then look ahead for ever."""
        self._predictor = PredictorProcess()
        try:
            if not self.has_learned:  # nothing is counted twice, also where this begins again
                await self._learn()
            while True:
                self._changed.clear()
                spent = await self._look() if self._can_look() else 0.0
                await asyncio.sleep(REST_FACTOR * spent)
                if not await _is_set_within(self._question, BETWEEN_PREDICTIONS):
                    await _is_set_within(self._changed, MAX_PAUSE_BETWEEN)
                self._question.clear()
        finally:
            await self._predictor.end()

    def _can_look(self) -> bool:
        """Return whether jobs wait for processors or files, and all of them are on the disk."""
        cluster = self._engine.cluster
        return bool(cluster.queue.by_request or cluster.detached) and not self._engine.unwritten

    async def fresh(self, job: JobId | None = None) -> None:
        """Wait until a look has been made that knows of all that has happened by now; not for long.

        job:  whose expected start must not have passed
        """
        if self.foreseer.computed is not None and not self.foreseer.changed and not self._has_passed(job):
            return
        if self._predictor is None:
            await self._look()
            return
        looked = asyncio.get_running_loop().create_future()
        self._waiting.append(looked)
        self._question.set()
        self._changed.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(looked, TIMEOUT)

    def _has_passed(self, job: JobId | None) -> bool:
        """Return whether a queued job was expected to have started by now."""
        expected = None if job is None else self.foreseer.expected(job)
        return expected is not None and (expected.p50 or NEVER) < self._engine.clock.now()

    def with_files(self, record: JobRecord) -> ExpectedStartObject:
        """Return when a job goes on whose files come: with its processors, or when it has them again."""
        first, whole = files_arrive(self._links(), record, self._engine.clock.now())
        after = ExpectedStart(p50=first, p90=first)
        reason = "there is no promise: the transfer rate of its remaining files is not known"
        if record.state is JobState.SUSPENDED:
            after = self.foreseer.expected(record.id) or ExpectedStart()
        if first is None:
            reason = "the size or the transfer rate of its files is not known yet"
        elif self.foreseer.expected(record.id) is None and record.state is JobState.SUSPENDED:
            reason = "its wait for processors after that is not predicted yet"
            self.foreseer.changed = True  # the rate is known now
            self._changed.set()
        elif after.p50 is None:
            reason = "then it waits for jobs without a run time limit, and no similar job has ended yet"
        middle, late = (
            None if at is None or first is None else max(first, at) for at in (after.p50, after.p90)
        )
        policy = self._engine.settings.text("SchedulingPolicy")
        return ExpectedStartObject(None, middle, late, self.foreseer.computed, policy, reason, whole)

    async def _learn(self) -> None:
        experience = self.foreseer.learner
        try:
            pages = await asyncio.to_thread(lambda: list(experience.read(self._archive)))
        except Unavailable as error:
            log.error("the run times of the past are not known: %s", error)
            return
        self.has_learned = True
        for page in reversed(pages):
            experience.teach(page)
            await asyncio.sleep(0)

    async def _look(self) -> float:
        """Look ahead once; return how long it took, in seconds."""
        engine, began, waiting = self._engine, time.monotonic(), self._waiting
        self._waiting = []
        policy = engine.settings.text("SchedulingPolicy")
        view = look_ahead_view(engine.view(engine.clock.now()), engine.offers, engine.cluster)
        if view.balancing is not None:
            from headnode.core.scheduling.balanced.balanced_pass import minimums_only

            view = minimums_only(view)
        come = arrivals(self._links(), engine.cluster, engine.clock.now())
        situation = self.foreseer.situation(engine.cluster, view, engine.last_plan, policy, come)
        try:
            outlook = await self._see(situation)
            easily = time.monotonic() - began < SHORT_PREDICTION
            self.foreseer.accept(situation, outlook, engine.cluster, easily=easily)
        except Unavailable as error:
            log.error("the starts of jobs cannot be predicted: %s", error)
        for looked in waiting:
            if not looked.done():
                looked.set_result(None)
        return time.monotonic() - began

    async def _see(self, situation: PredictionInput) -> PredictionResult:
        if self._predictor is not None and situation.policy in POLICIES:
            return await self._predictor.predict(situation, MAX_PREDICTION)
        until = time.monotonic() + MAX_PREDICTION
        policy = self._engine.policies[situation.policy]
        return await asyncio.to_thread(look_ahead, situation, policy, lambda: time.monotonic() > until)


async def _is_set_within(signal: asyncio.Event, within: float) -> bool:
    """Wait for a signal; return whether it rang in time."""
    try:
        async with asyncio.timeout(within):
            return await signal.wait()
    except TimeoutError:
        return False


PREDICTIONS_PAGE: Final = 1000  # predictions
COVERAGE_LIFETIME: Final = 60.0  # seconds


def judged_predictions(predictions: PredictionStore, since: Instant) -> Iterator[Prediction]:
    """Yield the judged predictions, page by page: writes wait while a page is read."""
    before = None
    while page := predictions.judged_predictions(since, PREDICTIONS_PAGE, before):
        yield from page
        last = page[-1]
        before = (NEVER if last.started is None else last.started, last.job)


def prediction_scores(predictions: Sequence[Prediction]) -> ScoresOfPredictions:
    """Return the scores of judged predictions: of all, by predicted wait, and by policy; spans in seconds.

    Cost:  half a second for the 100,000 that are kept at most: beside the event loop, please.
    """
    by_policy: dict[str, list[JudgedPrediction]] = {}
    for each in predictions:
        if each.started is not None and each.p50 is not None:
            promise = NEVER if each.promise is None else each.promise
            p90 = NEVER if each.p90 is None else each.p90
            judged = JudgedPrediction(each.made, promise, each.p50, p90, each.started)
            by_policy.setdefault(each.policy, []).append(judged)
    everything = [judged for some in by_policy.values() for judged in some]
    return ScoresOfPredictions(
        everything=_scores_of(everything),
        by_predicted_wait=_by_wait(everything),
        by_policy={policy: _scores_of(some) for policy, some in sorted(by_policy.items())},
    )


def _scores_of(judged: Sequence[JudgedPrediction]) -> ScoreObject:
    return _score_object(score(judged), score(_promised(judged)), score(_bounded(judged)))


def _by_wait(judged: Sequence[JudgedPrediction]) -> dict[str, ScoreObject]:
    promised, bounded = by_predicted_wait(_promised(judged)), by_predicted_wait(_bounded(judged))
    return {
        name: _score_object(all_of_it, promised[name], bounded[name])
        for name, all_of_it in by_predicted_wait(judged).items()
    }


def _promised(judged: Sequence[JudgedPrediction]) -> list[JudgedPrediction]:
    return [one for one in judged if one.promise < NEVER]


def _bounded(judged: Sequence[JudgedPrediction]) -> list[JudgedPrediction]:
    return [one for one in judged if one.p90 < NEVER]


def _score_object(
    all_of_it: PredictionScore, promised: PredictionScore, bounded: PredictionScore
) -> ScoreObject:
    """Return a score; promises and bounds count only where there were some."""
    return ScoreObject(
        jobs=all_of_it.jobs,
        p50_held=all_of_it.p50_held,
        p50_error=_finite(all_of_it.p50_error),
        p90_held=bounded.p90_held,
        spread=_finite(bounded.spread),
        promised=promised.jobs,
        promise_held=promised.promise_held,
        promise_error=_finite(promised.promise_error),
    )


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and isfinite(seconds) else None


class PredictionCoverage:
    """How often the newest predictions held, looked up once a minute at most."""

    def __init__(self, predictions: PredictionStore) -> None:
        self._predictions = predictions
        self._found = CoverageObject(0, None, None, None)
        self._until = 0.0  # monotonic
        self._looking = asyncio.Lock()

    async def newest(self) -> CoverageObject:
        """Return the coverage of the newest predictions."""
        async with self._looking:
            if time.monotonic() >= self._until:
                self._found = await asyncio.to_thread(self._look)
                self._until = time.monotonic() + COVERAGE_LIFETIME
        return self._found

    def _look(self) -> CoverageObject:
        judged = self._predictions.judged_predictions(Instant(0.0), PREDICTIONS_PAGE)
        scores = prediction_scores(judged).everything
        return CoverageObject(scores.jobs, scores.p50_held, scores.p90_held, scores.promise_held)
