"""What a site shows is taken in when nobody reads what is known of it."""

import asyncio
import threading

from headnode.apps.server.site_overlay import SiteOverlay
from headnode.core.batch.site import SiteFacts, SiteSnapshot
from headnode.core.model.quantities import Instant
from headnode.engine.prediction import PredictionInput
from headnode.engine.site_prediction import SiteForecast


class _ReadSlowly(SiteForecast):
    """A forecast that is read until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read, self.gate = threading.Event(), threading.Event()

    def situation(self) -> PredictionInput | None:
        self.is_read.set()
        self.gate.wait()
        return super().situation()


def test_a_forecast_does_not_change_while_a_thread_reads_it() -> None:
    asyncio.run(_observed_while_read())


async def _observed_while_read() -> None:
    overlay, forecast = SiteOverlay(), _ReadSlowly()
    overlay.forecast = forecast
    first, second = (SiteSnapshot("site", Instant(at), SiteFacts()) for at in (1.0, 2.0))
    overlay.observe(first)
    looking = asyncio.create_task(overlay.keep())
    await asyncio.to_thread(forecast.is_read.wait)
    overlay.observe(second)
    assert forecast.snapshot is first
    forecast.gate.set()
    while forecast.snapshot is first:
        await asyncio.sleep(0)
    assert forecast.snapshot is second
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)
