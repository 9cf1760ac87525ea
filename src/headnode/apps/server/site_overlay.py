"""The queue and nodes of a site over which the head runs, and when jobs will start there."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping

from headnode.apps.server.predicted_starts import PredictorProcess
from headnode.core.batch.site import SiteJob, SiteSnapshot, past_snapshots
from headnode.core.model.errors import Unavailable
from headnode.core.model.resource import BatchResource
from headnode.core.state.resources import overlay_of
from headnode.engine.site_prediction import SiteForecast

log = logging.getLogger("headnode.site")

LOOKS_BACK = 20  # into the history of a site
SHORT_PREDICTION = 2.0  # seconds of work for one of these
MAX_PREDICTION = 8.0  # seconds of work for one look
REST_FACTOR = 3  # times as long as a look took, nothing is done


class SiteOverlay:
    """What a site shows, kept with what follows from it."""

    def __init__(self) -> None:
        self.forecast = SiteForecast()
        self._others: dict[str, SiteForecast] = {}  # by resource, where jobs with a choice may go
        self._changed = asyncio.Event()
        self._looked = asyncio.Event()
        self._problem = ""
        self._arrived: list[SiteSnapshot] = []  # while a thread reads the forecast; it must not change then
        self._is_read = False
        self._has_learned = False  # from the history of the site

    def of(self, resource: str) -> SiteForecast | None:
        """Return what is known of the queue of a resource; None if it was not seen."""
        own = self.forecast.snapshot
        return self.forecast if own is not None and own.resource == resource else self._others.get(resource)

    def notice(self, snapshot: SiteSnapshot, resources: Mapping[str, BatchResource]) -> None:
        """Take in what the hand-off process has seen, of the site or of another resource."""
        over = overlay_of(resources)
        if over is not None and over.key == snapshot.resource:
            self.observe(snapshot)
            return
        self._others.setdefault(snapshot.resource, SiteForecast()).observe(snapshot)
        for gone in self._others.keys() - resources.keys():
            del self._others[gone]

    def observe(self, snapshot: SiteSnapshot) -> None:
        """Take in what was seen of the site."""
        if snapshot.problem != self._problem:
            self._problem = snapshot.problem
            log.warning("the site %s: %s", snapshot.resource, snapshot.problem or "it answers again")
        self._arrived.append(snapshot)
        if not self._is_read:
            self._take_in()

    def _take_in(self) -> None:
        arrived, self._arrived = self._arrived, []
        for snapshot in arrived:
            self.forecast.observe(snapshot)
            if not snapshot.problem:
                self._changed.set()

    def job(self, number: str) -> SiteJob | None:
        """Return a job of the site by its id there."""
        snapshot = self.forecast.snapshot
        jobs = () if snapshot is None else snapshot.jobs
        return next((job for job in jobs if job.id == number), None)

    async def keep(self) -> None:
        """Look ahead whenever the site was asked."""
        predictor = PredictorProcess()
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                began = time.monotonic()
                try:
                    await self._learn_from_history(predictor)
                    await self._look(predictor)
                except Unavailable as error:
                    log.error("the starts of jobs at the site cannot be predicted: %s", error)
                await asyncio.sleep(REST_FACTOR * (time.monotonic() - began))
        finally:
            await predictor.end()

    async def _learn_from_history(self, predictor: PredictorProcess) -> None:
        """Predict the starts of the past once, and learn how far each was wrong, as an older head."""
        snapshot = self.forecast.snapshot
        if self._has_learned or snapshot is None or not snapshot.ended:
            return
        self._has_learned, past = True, SiteForecast()
        for seen in past_snapshots(snapshot, LOOKS_BACK):
            past.observe(seen)
            situation = past.situation() if seen is not snapshot else None
            if situation is not None:
                past.accept(situation, await predictor.predict(situation, SHORT_PREDICTION))
        if past.judged > self.forecast.judged:
            self.forecast.calibration, self.forecast.judged = past.calibration, past.judged

    async def _look(self, predictor: PredictorProcess) -> None:
        self._is_read = True
        try:
            situation = await asyncio.to_thread(self.forecast.situation)
        finally:
            self._is_read = False
            self._take_in()
        if situation is None:
            return
        outlook = await predictor.predict(situation, MAX_PREDICTION)
        self.forecast.accept(situation, outlook)
        self._looked.set()
        self._looked.clear()

    async def looked(self, within: float) -> None:
        """Wait for the next look ahead, not for long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._looked.wait(), within)
