"""When queued jobs will start: the plan run ahead over users' limits, and over run times of the past.

Nothing of it happens in a pass.  The input is taken from the cluster, which is quick; the work on it may be
done anywhere, for it touches nothing; the result is accepted, and the first prediction of each job kept.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headnode.core.model.job import JobSpec, with_option
from headnode.core.model.quantities import FOREVER, NEVER, Instant, JobId, Seconds
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.prediction.calibration import (
    Calibration,
    PredictedWait,
    predicted_wait,
    replay_quantile,
)
from headnode.core.scheduling.prediction.run_times import JobTraits, RunTimeForecast, RunTimeHistory
from headnode.core.scheduling.view import QueueArrival, View, first_in_queue
from headnode.core.state import job_events as e
from headnode.core.state import suspension_events as sj
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, RequestCarriedOut
from headnode.core.state.job_record import JobRecord, decode_record, spec_of
from headnode.core.state.transitions import JobState
from headnode.engine.ports import Archive, EndedJob, Prediction, PredictionStore

if TYPE_CHECKING:
    from headnode.engine.simulate_ahead import SimulatedRunTime

TAUGHT = 5_000  # of the newest ended jobs, at the start of a head
_SLICE = 500  # of them at a time

PastRun = tuple[JobTraits, str, Seconds]
"""A job that is over: its properties, its state, and how long it ran."""


class OngoingRun(NamedTuple):
    """A running job: its properties, and its start, moved by the time it was suspended."""

    traits: JobTraits
    since: Instant


class RunTimeLearner:
    """The run time history, and the running jobs that will extend it when they end."""

    def __init__(self, cluster: ClusterState) -> None:
        self.history = RunTimeHistory()
        self.running: dict[JobId, OngoingRun] = {}
        for job in cluster.running:
            self._began(job, cluster)

    def note(self, events: Iterable[Event], cluster: ClusterState) -> None:
        """Learn from the jobs that have ended by now."""
        for event in events:
            match event:
                case e.JobStarted(job=job) | e.JobModified(job=job) | sj.JobResumed(job=job):
                    self._began(job, cluster)
                case e.JobRequeued(job=job) | e.JobAutoRequeued(job=job) | sj.JobSuspended(job=job):
                    self.running.pop(job, None)
                case e.JobEnded(job=job, outcome=outcome, at=at):
                    ran = self.running.pop(job, None)
                    if ran is not None:
                        self._learn(ran.traits, outcome, Seconds(at - ran.since))

    def read(self, archive: Archive, most: int = TAUGHT) -> Iterator[list[PastRun]]:
        """Yield the runs of the newest ended jobs, some at a time, the newest first; `teach` takes them back.

        The descriptions of the jobs do not stay in memory.
        """
        before: int | None = None
        while most > 0:
            page = archive.ended_jobs(owner=None, states=(), before=before, limit=min(_SLICE, most))
            if not page:
                return
            yield [run for run in map(_past_run, page) if run is not None]
            before, most = page[-1].id, most - len(page)

    def teach(self, runs: Sequence[PastRun]) -> None:
        """Learn from runs of jobs of the archive, newest first."""
        for run in reversed(runs):
            self._learn(*run)

    def _began(self, job: JobId, cluster: ClusterState) -> None:
        record, graph = cluster.jobs.get(job), cluster.graphs.get(job)
        if record is None or record.is_detached or graph is None or graph.run.started is None:
            return
        since = Instant(graph.run.started + graph.run.not_run)
        self.running[job] = OngoingRun(traits_of(record.owner, graph.spec), since)

    def _learn(self, traits: JobTraits, outcome: str, used: Seconds) -> None:
        """Learn from a job that ended by itself or at its limit; canceled jobs are ignored."""
        if used > 0 and (outcome != "canceled" or used >= traits.limit):
            self.history.learn(traits, used)


def _past_run(job: EndedJob) -> PastRun | None:
    """Return what a predictor learns from an ended job; None if it never started."""
    record = decode_record(job.record)
    if record.run is None or record.run.started is None:
        return None
    used = Seconds(job.ended - record.run.started - record.run.not_run)
    return traits_of(job.owner, spec_of(record)), job.state, used


def ran_for(record: JobRecord) -> Seconds:
    """Return how long a suspended job ran before it stood still."""
    run = record.run
    if run is None or run.started is None or run.suspension is None:
        return Seconds(0.0)
    return Seconds(max(0.0, run.suspension.since - run.started - run.not_run))


def traits_of(owner: str, spec: JobSpec) -> JobTraits:
    """Return what is known of a job before it runs."""
    return JobTraits(owner, spec.name, spec.run_time)


REPLAYS = 3  # over predicted run times; the first takes the median of each
MAX_JOBS, MIN_JOBS = 300, 10  # of the queue that are looked at: fewer where plans are slow
COARSE = 0.02  # ends this close to each other, as a part of their distance from now, count as one
CALIBRATED_BY = 2_000  # of the newest predictions that were judged, at the start of a head
_NO_NEWS = frozenset((
    e.InstancesDispatched, e.InstancesStaging, e.InstancesStarted, e.InstancesEnded, e.InstancesStopping,
    e.ProgressSet, RequestCarriedOut,
))  # fmt: skip


class ExpectedStart(msgspec.Struct, frozen=True):
    """The expected start of a job.  None: unknown.

    `promise` follows from users' limits; half of such jobs start by `p50`, nine of ten by `p90`.
    """

    promise: Instant | None = None
    p50: Instant | None = None
    p90: Instant | None = None


class PredictionInput(msgspec.Struct, frozen=True):
    """The complete, immutable input of a prediction; it can be sent to another process.

    `reserved`: what the policy has promised.  `ends` has the end of each running job, `lasts` the run time of
    each waiting one, in every replay; `otherwise` has those under each alternative of jobs with such.
    `arrivals` come into the queue when files are there.
    """

    view: View
    policy: str
    reserved: Mapping[JobId, Instant]
    ends: Mapping[JobId, Sequence[Instant]]
    lasts: Mapping[JobId, Sequence[Seconds]]
    otherwise: Mapping[JobId, Sequence[Sequence[Seconds]]] = {}
    arrivals: tuple[QueueArrival, ...] = ()

    def run_times(self, replay: int) -> "SimulatedRunTime":
        """Return the run times of a replay."""

        def lasts(job: JobId, option: int) -> float:
            return (self.otherwise[job][option - 1] if option else self.lasts[job])[replay]

        return lasts


class PredictionRequest(msgspec.Struct, frozen=True):
    """Predict starts, for at most `seconds` seconds."""

    situation: PredictionInput
    seconds: float


class PredictionResult(msgspec.Struct, frozen=True):
    """The predicted waits of jobs.  `whole` is False if the prediction ran out of time."""

    foreseen: Mapping[JobId, PredictedWait]
    whole: bool


def look_ahead(situation: PredictionInput, policy: Policy, stop: Callable[[], bool]) -> PredictionResult:
    """Run the plan ahead, once with the limits and `REPLAYS` times with predicted run times.

    Touches nothing: it may be called beside everything else.
    Cost:  so many times that of `simulate_ahead`; at most one plan more once `stop` says so.
    """
    from headnode.engine.simulate_ahead import simulate_ahead, to_the_limits

    view, now, come = situation.view, situation.view.now, situation.arrivals
    by_limits = simulate_ahead(view, policy, {}, to_the_limits(view, come), stop, COARSE, come)
    futures = [by_limits]
    for replay in range(REPLAYS):
        ends = {job: of_each[replay] for job, of_each in situation.ends.items()}
        futures.append(simulate_ahead(view, policy, ends, situation.run_times(replay), stop, COARSE, come))
    whole = all(future.whole for future in futures)
    foreseen = {}
    for job in situation.lasts:
        waits = [future.starts.get(job, NEVER) - now for future in futures]
        if whole or max(waits) < inf:
            foreseen[job] = predicted_wait(waits[1:], waits[0])
    return PredictionResult(foreseen, whole)


class StartPredictor:
    """The expected starts of queued jobs, and the corrections learned from actual starts."""

    def __init__(self, cluster: ClusterState, kept: PredictionStore) -> None:
        self.learner = RunTimeLearner(cluster)
        self.changed = True  # something has happened since the last situation
        self.most_jobs = MAX_JOBS
        self.computed: Instant | None = None  # when the last situation was taken that was accepted
        self._kept = kept
        self._expected: dict[JobId, ExpectedStart] = {}
        self._asked: dict[JobId, tuple[JobTraits, ...]] = {}  # of queued jobs, under each of their options
        self._predicted: dict[JobId, Prediction] = {}  # of jobs that have not started
        self._calibrations: dict[str, Calibration] = {}
        for prediction in reversed(kept.judged_predictions(Instant(0.0), CALIBRATED_BY)):
            self._calibrate(prediction)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Take note of what has happened; called with everything that is durable."""
        self.learner.note(news := [event for event in events if type(event) not in _NO_NEWS], cluster)
        for event in news:
            self.changed = True
            if isinstance(event, e.JobStarted):
                self._started(event)
            if isinstance(event, (e.JobStarted, e.JobModified, e.JobEnded, sj.JobSuspended, sj.JobResumed)):
                self._asked.pop(event.job, None)
                self._expected.pop(event.job, None)
                if isinstance(event, (e.JobStarted, e.JobEnded)):
                    self._predicted.pop(event.job, None)

    def expected(self, job: JobId) -> ExpectedStart | None:
        """Return the expected start of a queued job; None if not computed, or too far back in the queue."""
        return self._expected.get(job)

    def situation(
        self,
        cluster: ClusterState,
        view: View,
        plan: Plan | None,
        policy: str,
        arrivals: Sequence[QueueArrival] = (),
    ) -> PredictionInput:
        """Return a situation of the cluster; `plan` is that of its last pass."""
        self.changed = False
        view = first_in_queue(view, self.most_jobs)
        waiting = [turn.job for each in view.queue for turn in each.turns]
        waiting += [each.turn.job for each in arrivals]
        reserved = {each.job: each.at for each in (plan.reservations if plan is not None else ())}
        lasts, otherwise = {}, {}
        for job in waiting:
            drawn = self._run_times(job, cluster)
            lasts[job] = drawn[0]
            if len(drawn) > 1:
                otherwise[job] = drawn[1:]
        ends = self._ends(view.now)
        return PredictionInput(_bare(view), policy, reserved, ends, lasts, otherwise, tuple(arrivals))

    def _run_times(self, job: JobId, cluster: ClusterState) -> list[Sequence[Seconds]]:
        """Return how long a waiting job runs in each replay, under each of its options.

        One that was suspended runs for what is left of it.
        """
        forecast = self.learner.history.forecast
        record = cluster.job(job)
        if record.state is JobState.QUEUED:
            return [drawn(job, forecast(asked)) for asked in self._asked_of(job, cluster)]
        ran = ran_for(record)
        whole = drawn(job, forecast(traits_of(record.owner, cluster.spec(record)), ran))
        return [[Seconds(max(0.0, lasts - ran)) for lasts in whole]]

    def _ends(self, now: Instant) -> dict[JobId, Sequence[Instant]]:
        forecast = self.learner.history.forecast
        return {
            job: [
                Instant(ran.since + lasts)
                for lasts in drawn(job, forecast(ran.traits, Seconds(max(0.0, now - ran.since))))
            ]
            for job, ran in self.learner.running.items()
        }

    def accept(
        self,
        situation: PredictionInput,
        outlook: PredictionResult,
        cluster: ClusterState,
        *,
        easily: bool = True,
    ) -> None:
        """Take over what was seen; jobs that have started meanwhile are passed over.

        After one that was cut short fewer jobs are looked at; after one that came `easily`, more.
        """
        self._adapt(len(situation.lasts), whole=outlook.whole, easily=easily)
        self.computed = situation.view.now
        waiting = [job for job in {**situation.lasts, **situation.reserved} if _waits(job, cluster)]
        come = {each.turn.job for each in situation.arrivals}
        self._expected = {job: self._expectation(job, situation, outlook, come) for job in waiting}
        fresh = [job for job in waiting if job not in self._predicted]
        self._keep([job for job in fresh if cluster.jobs[job].state is JobState.QUEUED], situation, outlook)

    def _adapt(self, looked_at: int, *, whole: bool, easily: bool) -> None:
        if not whole:
            self.most_jobs = max(MIN_JOBS, looked_at // 2)
        elif easily and looked_at == self.most_jobs:
            self.most_jobs = min(MAX_JOBS, looked_at + looked_at // 2)

    def _keep(self, jobs: Iterable[JobId], situation: PredictionInput, outlook: PredictionResult) -> None:
        """Keep the first prediction of each of the jobs, unless a head before this one did."""
        fresh = []
        for job in jobs:
            known = self._kept.prediction(job)
            made = known or self._prediction(job, situation, outlook)
            if made is not None:
                self._predicted[job] = made
            if made is not None and known is None:
                fresh.append(made)
        self._kept.keep_predictions(fresh)

    def _expectation(
        self, job: JobId, situation: PredictionInput, outlook: PredictionResult, come: Collection[JobId]
    ) -> ExpectedStart:
        foreseen = outlook.foreseen.get(job)
        now, reserved = situation.view.now, situation.reserved.get(job, NEVER)
        if foreseen is None:
            return ExpectedStart(promise=_known(reserved))
        if job in come:  # no policy promises or corrects the rate of a storage
            return ExpectedStart(None, _known(now + foreseen.middle), _known(now + foreseen.longest))
        by_limits = Instant(now + foreseen.by_limits)
        at_most = min(reserved, by_limits) if situation.policy == "fcfs" else reserved
        calibration = self._calibrations.setdefault(situation.policy, Calibration())
        p50, p90 = calibration.expected(foreseen, Seconds(max(0.0, at_most - now)))
        promise = by_limits if reserved == NEVER else reserved
        return ExpectedStart(_known(promise), _known(now + p50), _known(now + p90))

    def _prediction(
        self, job: JobId, situation: PredictionInput, outlook: PredictionResult
    ) -> Prediction | None:
        expected, foreseen = self._expected[job], outlook.foreseen.get(job)
        if foreseen is None or expected.p50 is None:
            return None
        now = situation.view.now
        return Prediction(
            job=job,
            made=now,
            policy=situation.policy,
            promise=expected.promise,
            p50=expected.p50,
            p90=expected.p90,
            middle=_known(now + foreseen.middle),
            longest=_known(now + foreseen.longest),
        )

    def _asked_of(self, job: JobId, cluster: ClusterState) -> tuple[JobTraits, ...]:
        asked = self._asked.get(job)
        if asked is None:
            record = cluster.job(job)
            spec = cluster.written(record)
            options = range(len(spec.alternatives) + 1)
            asked = self._asked[job] = tuple(traits_of(record.owner, with_option(spec, n)) for n in options)
        return asked

    def _started(self, event: e.JobStarted) -> None:
        made = self._predicted.get(event.job)
        if made is not None and made.started is None:
            self._calibrate(msgspec.structs.replace(made, started=event.at))

    def _calibrate(self, judged: Prediction) -> None:
        if judged.middle is None or judged.started is None or judged.started <= judged.made:
            return
        longest = NEVER if judged.longest is None else judged.longest
        promise = NEVER if judged.promise is None else judged.promise
        foreseen = PredictedWait(*(Seconds(at - judged.made) for at in (judged.middle, longest, promise)))
        calibration = self._calibrations.setdefault(judged.policy, Calibration())
        calibration.learn(foreseen, Seconds(judged.started - judged.made), judged.started)


def _bare(view: View) -> View:
    """Return the view without what only explains, or saves work, where it was made."""
    before = None if view.before is None else msgspec.structs.replace(view.before, waits={})
    return msgspec.structs.replace(view, before=before, ground=None)


def drawn(job: JobId, forecast: RunTimeForecast) -> Sequence[Seconds]:
    """Return how long a job runs in each replay."""
    return [forecast.at(replay_quantile(job, replay)) for replay in range(REPLAYS)]


def _known(at: float) -> Instant | None:
    return None if at == FOREVER else Instant(at)


def _waits(job: JobId, cluster: ClusterState) -> bool:
    record = cluster.jobs.get(job)
    return record is not None and (record.state.is_queued or record.state is JobState.SUSPENDED)
