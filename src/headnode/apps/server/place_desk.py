"""Jobs that name several places: asks when each is expected to start them, and lets the engine choose."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from headnode.adapters.batch.orders import ResourceStatus
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.apps.server.predicted_starts import PredictedStarts, PredictorProcess
from headnode.core.batch.dialect import ForeignState
from headnode.core.batch.resource_waits import ResourceWaits
from headnode.core.batch.site import SiteJob
from headnode.core.model.errors import Refused, Unavailable
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.resource import HERE, BatchResource, PlaceEstimate, StartBasis
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.scheduling.reasons import never_with_any
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord, decode_record
from headnode.core.state.place_choice import PlaceJob, choose_place, expected_by_waits, places_of
from headnode.core.state.resources import spec_at, why_not_there
from headnode.engine.engine import Engine
from headnode.engine.ports import Past
from headnode.engine.site_prediction import SiteForecast

log = logging.getLogger("headnode.places")

LOOK = 5.0  # seconds between two looks
REST = 5  # a look rests so many times as long as it took, at least
MAX_LOOKED_AT = 50  # jobs of one look: those that were looked at longest ago, then the first of the queue
LOOKED_BACK, MAX_PAST = 1000, 50  # ended jobs that a new head looks at; those at resources that it reads
EVENTS_OF_ONE = 200  # that it reads of each, the first
MAX_PREDICTION = 4.0  # seconds of work for one look at one resource
OLD_POLLS, OLD = 4, 60.0  # a queue that was seen so many polls and seconds ago says nothing any more
OLD_STATUS = 600.0  # seconds; a resource that did not answer then may answer now


class SeenPlaces(NamedTuple):
    """What the hand-off has seen of resources.

    queue: the queue of a resource; None if it was not seen
    want:  asks for it to be seen
    """

    statuses: Mapping[str, ResourceStatus]
    queue: Callable[[str], SiteForecast | None]
    want: Callable[[str], None]


class PlaceDesk:
    """What is known of the places for jobs with a choice.  All of it may be lost: the journal has it, too."""

    def __init__(
        self,
        engine: Engine,
        batcher: CommandBatcher,
        starts: Callable[[], PredictedStarts],
        seen: "SeenPlaces",
        past: Past,
    ) -> None:
        self._engine, self._batcher, self._starts, self._seen = engine, batcher, starts, seen
        self.estimates: dict[JobId, tuple[PlaceEstimate, ...]] = {}  # of jobs that have no place yet
        self._looks = 0
        self._looked: dict[JobId, int] = {}  # in which look each of these jobs was
        self._waits = ResourceWaits()
        self._wakes = asyncio.Event()
        if engine.cluster.resource_index.choosing:
            self._wakes.set()
        try:
            self._learn_from_the_past(past)
        except Unavailable as error:
            log.error("how long jobs waited at resources is not known: %s", error)

    def _learn_from_the_past(self, past: Past) -> None:
        """Read how long the newest jobs waited, and since when those wait that are there now."""
        index, found = self._engine.cluster.resource_index, list[JobId]()
        for ended in past.ended_jobs(owner=None, states=(), before=None, limit=LOOKED_BACK):
            record = decode_record(ended.record)
            if record.run is not None and record.run.resource in index.named and len(found) < MAX_PAST:
                found.append(ended.id)
        for job in sorted([*found, *index.elsewhere]):
            self._waits.learn(event for _, event in past.job_events(job, 0, EVENTS_OF_ONE))

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Learn from the waits of tasks at resources; look soon when a job is to get a place."""
        self._waits.learn(events)
        for job in self.estimates.keys() - cluster.resource_index.choosing:
            del self.estimates[job]
        if cluster.resource_index.choosing - self.estimates.keys():
            self._wakes.set()

    async def keep(self) -> None:
        """Look for ever while jobs have a choice."""
        predictor = PredictorProcess()
        self._wakes.set()  # some jobs may have no place yet: a look may have failed
        try:
            while True:
                await self._wakes.wait()
                self._wakes.clear()
                while self._engine.cluster.resource_index.choosing:
                    began = time.monotonic()
                    await self._look(predictor)
                    await asyncio.sleep(max(LOOK, REST * (time.monotonic() - began)))
        finally:
            await predictor.end()

    async def _look(self, predictor: PredictorProcess) -> None:
        """Ask what is known for some jobs with a choice, and let each get its place."""
        if self._engine.closing:
            return
        await self._starts().fresh()
        cluster, now = self._engine.cluster, self._engine.clock.now()
        records = self._next_to_look_at(cluster)
        choices = {
            record.id: places_of(cluster.resource_index.named, cluster.spec(record)) for record in records
        }
        for place in sorted({each for places in choices.values() for each in places} - {HERE}):
            self._seen.want(place)
        ahead = {
            place: await self._predicted_there(
                predictor, known, [r for r in records if place in choices[r.id]], now
            )
            for place, known in list(cluster.resource_index.named.items())
            if known.system is ResourceSystem.SLURM
        }
        for record in records:
            if record.id not in cluster.resource_index.choosing:
                continue
            found = tuple(
                self._estimate(record, place, ahead.get(place, {}), now) for place in choices[record.id]
            )
            self.estimates[record.id] = found
            if choose_place(found) and record.filter_reply is None:
                await self._place(PlaceJob(job=record.id, estimates=found))

    def _next_to_look_at(self, cluster: ClusterState) -> list[JobRecord]:
        """Return the jobs whose turn it is, in the order of the queue: those that stay keep none waiting."""
        choosing = cluster.resource_index.choosing
        self._looks += 1
        self._looked = {job: look for job, look in self._looked.items() if job in choosing}
        records = sorted((cluster.jobs[job] for job in choosing), key=lambda record: record.turn)
        chosen = sorted(records, key=lambda record: self._looked.get(record.id, 0))[:MAX_LOOKED_AT]
        self._looked |= dict.fromkeys((record.id for record in chosen), self._looks)
        return sorted(chosen, key=lambda record: record.turn)

    async def _place(self, command: PlaceJob) -> None:
        try:
            await self._batcher.ask(command)
        except (Refused, Unavailable) as error:
            log.warning("job %d gets no place now: %s", command.job, error)

    def _estimate(
        self, record: JobRecord, place: str, ahead: dict[JobId, PlaceEstimate], now: Instant
    ) -> PlaceEstimate:
        if place == HERE:
            return self._here(record, now)
        index = self._engine.cluster.resource_index
        known = index.named.get(place)
        if known is None:
            return PlaceEstimate(place, problem="there is no such resource")
        problem = why_not_there(self._engine.cluster.spec(record), known) or self._problem(known, now)
        if problem:
            return PlaceEstimate(place, problem=problem)
        if known.system is ResourceSystem.SLURM:
            return ahead.get(record.id, PlaceEstimate(place))
        return expected_by_waits(place, now, self._waits.waited(place), self._waits.waiting(place))

    def _problem(self, resource: BatchResource, now: Instant) -> str:
        """Return why a resource takes no job now; empty if it does."""
        index = self._engine.cluster.resource_index
        if not index.room(resource.key):
            tasks = index.handed.get(resource.key, 0)
            return f"it has {tasks} tasks of Headnode; its limit is {resource.most_jobs}"
        status = self._seen.statuses.get(resource.key)
        if status is not None and status.problem and now - status.polled < OLD_STATUS:
            return f"it does not answer: {status.problem}"
        if resource.system is not ResourceSystem.SLURM:
            return ""
        forecast = self._seen.queue(resource.key)
        snapshot = None if forecast is None else forecast.snapshot
        if snapshot is None:
            return "its queue has not been seen yet"
        if snapshot.problem:
            return f"it does not answer: {snapshot.problem}"
        old = now - snapshot.at > OLD_POLLS * resource.poll + OLD
        return "its queue was not seen lately" if old else ""

    def _here(self, record: JobRecord, now: Instant) -> PlaceEstimate:
        view = self._engine.nodes_alone(now)
        request = self._engine.cluster.request(record)
        if not view.nodes or never_with_any(request, view):
            return PlaceEstimate(HERE, None, StartBasis.NEVER)
        expected = self._starts().foreseer.expected(record.id)
        if expected is None:
            return PlaceEstimate(HERE)
        start = expected.p50 or expected.promise
        if start is None:
            return PlaceEstimate(HERE, None, StartBasis.ENDLESS)
        return PlaceEstimate(HERE, max(start, now), StartBasis.PREDICTED)

    async def _predicted_there(
        self, predictor: PredictorProcess, resource: BatchResource, records: Sequence[JobRecord], now: Instant
    ) -> dict[JobId, PlaceEstimate]:
        """Return when a Slurm would start each job, all of them last in its queue."""
        forecast = self._seen.queue(resource.key)
        if forecast is None or not records:
            return {}
        probes = {f"{PROBE}{record.id}": record for record in records}
        situation = forecast.with_jobs(list(self._probes(resource, probes)))
        if situation is None:
            return {}
        try:
            outlook = await predictor.predict(situation.ahead, MAX_PREDICTION)
        except Unavailable as error:
            log.error("the starts of jobs at %s cannot be predicted: %s", resource.name, error)
            return {}
        starts = forecast.starts_of(situation, outlook)
        return {
            record.id: PlaceEstimate(resource.key, max(starts[probe], now), StartBasis.QUEUE)
            for probe, record in probes.items()
            if probe in starts
        }

    def _probes(self, resource: BatchResource, records: dict[str, JobRecord]) -> Iterator[SiteJob]:
        """Yield each job as the site would show it."""
        for number, record in records.items():
            spec = spec_at(self._engine.cluster.spec(record), resource.key)
            yield SiteJob(
                id=number,
                user=record.owner,
                name=spec.name,
                state=ForeignState.WAITING,
                word="PENDING",
                priority=LAST,
                partitions=(resource.queue,) if resource.queue else (),
                submitted=self._engine.clock.now(),
                limit=min([spec.run_time, *(task.run_time for task in spec.tasks)], default=Seconds(inf)),
                processors=max((task.minimum for task in spec.tasks), default=1),
                exclusive=spec.exclusive,
                features=spec.needs.features,
            )


PROBE = "job "
"""Before the number of a job of ours that is not there; no id begins with it."""
LAST = -1
"""Below all priorities: a new job is taken to be the last."""
