"""Services of the head: how they are kept running, and those that start when they are needed first.

A plain head has no resources, elastic pools, webhooks for events, bank, delegations, program that counts
licences, event logs of HTCondor, and limits on the age of output and records; it does without their code.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from headnode.adapters.files.copied_tables import CURSORS, DELEGATIONS, EVENT_LOGS
from headnode.apps.server.filtering.filter_documents import FilterCaller
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.job_checks import is_allocation
from headnode.core.model.quantities import JobId
from headnode.core.state.bank_ledger import BANK
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, RequestCarriedOut
from headnode.core.state.job_end import PURGE_JOBS_AFTER, TTL_COMPLETED_JOBS
from headnode.core.state.job_events import (
    InstancesDispatched,
    InstancesEnded,
    InstancesStarted,
    JobCreated,
    JobEnded,
    JobStarted,
    JobSubmitted,
)
from headnode.core.state.job_record import JobRecord
from headnode.engine.engine import Effects
from headnode.engine.ports import EventSource, Past

if TYPE_CHECKING:
    from headnode.apps.server.abandoned_allocations import AbandonedAllocations
    from headnode.apps.server.api.delegations import DelegationCleaner
    from headnode.apps.server.bank_desk import BankDesk
    from headnode.apps.server.elastic import ElasticNodes
    from headnode.apps.server.event_logs import EventLogs
    from headnode.apps.server.event_webhooks import EventWebhooks
    from headnode.apps.server.hand_off import HandOff
    from headnode.apps.server.licence_counts import LicenceCounts
    from headnode.apps.server.place_desk import PlaceDesk
    from headnode.apps.server.recurring_jobs import RecurringJobs
    from headnode.apps.server.retention import JobPurge, OutputRetention
    from headnode.apps.server.site_overlay import SiteOverlay
    from headnode.apps.server.standbys import StandbyHeads

log = logging.getLogger("headnode.server")

FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds until failed work begins again; each pause is twice the last
STEADY: Final = 60.0  # seconds that work has to run until its last failure is forgotten

Work = Callable[[], Coroutine[Any, Any, None]]
"""Begins work that goes on until it is cancelled."""


class LastingWork:
    """Work beside the requests, which goes on until the head ends.  If some fails, it begins again.

    The head does not end for that: the failure would often come again in the next head, and requests would
    not be served meanwhile.
    """

    def __init__(self, failed: dict[str, str], *, first: float = FIRST_PAUSE, steady: float = STEADY) -> None:
        """`failed` gets a sentence for each work that failed, until it has run for `steady` seconds."""
        self._failed, self._first, self._steady = failed, first, steady
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, name: str, work: Work) -> None:
        """Keep work going."""
        self._tasks.append(asyncio.create_task(self._keep(name, work)))

    def cancel(self) -> None:
        """Let all work end."""
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """Wait until all work has ended that was cancelled."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, name: str, work: Work) -> None:
        loop, pause = asyncio.get_running_loop(), self._first
        while True:
            began = loop.time()
            recovery = loop.call_later(self._steady, self._failed.pop, name, None)
            try:
                await work()
                why = "has ended"
            except asyncio.CancelledError:
                if (task := asyncio.current_task()) is None or task.cancelling():
                    raise
                why = "was cancelled"  # as by something that it waited for
            except Exception as error:
                why = f"failed with {type(error).__name__}"
                log.critical("a part of the head has failed: %s", name, exc_info=error)
            finally:
                recovery.cancel()
            if loop.time() - began >= self._steady:
                pause = self._first
            log.error("the part %s of the head %s; it begins again in %g s", name, why, pause)
            self._failed[name] = f"it {why}, and begins again after a pause; see the log of the head"
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE)


LOOK: Final = 60.0  # seconds
SOON: Final = 5.0  # seconds


class Service(Protocol):
    """A part of the head that runs beside the answers to requests."""

    async def keep(self) -> None:
        """Run until the head ends."""


class EventService(Service, Effects, Protocol):
    """A service that also gets the events."""


ServiceType = TypeVar("ServiceType", bound=Service)
EventServiceType = TypeVar("EventServiceType", bound=EventService)


class OptionalService(Generic[ServiceType]):
    """A service that is started when it is needed for the first time, and stays."""

    def __init__(
        self, make: Callable[[], ServiceType], needed: Callable[[], bool], every: float | None = None
    ) -> None:
        """`every`: seconds between two looks, where no event shows that the service is needed."""
        self._make, self._needed, self._every = make, needed, every
        self.service: ServiceType | None = None
        self._is_made = asyncio.Event()

    def look(self) -> None:
        """Make the service if it is needed now."""
        if self.service is None and self._needed():
            self.service = self._make()
            self._is_made.set()

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Make the service if these events show that it is needed."""
        self.look()

    async def keep(self) -> None:
        """Wait until the service is made, then run it until the head ends."""
        while self.service is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._is_made.wait()
            self.look()
        await self.service.keep()


class SoughtService(OptionalService[ServiceType]):
    """A service of which no event shows that it is needed, and a look costs too much for each."""

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Look now and then, and not at each event."""


class OptionalEventService(OptionalService[EventServiceType]):
    """A service that gets the events, from those on that show that it is needed."""

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Pass the events on."""
        self.look()
        if self.service is not None:
            self.service.perform(events, cluster)


_LOGGED: Final = b"UserLog"  # in the description of a job that has an event log


class LogService(OptionalEventService["EventLogs"]):
    """The service that writes event logs, which begins with the first job that has one."""

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Pass the events on; begin with a job that has a log."""
        if self.service is None and any(type(one) is JobCreated and _LOGGED in one.spec for one in events):
            self.service = self._make()
            self.service.begin_afresh()
            self._is_made.set()
        if self.service is not None:
            self.service.perform(events, cluster)


class CleaningService(OptionalEventService["DelegationCleaner"]):
    """The service that forgets delegations of jobs that are over: a look is a question to the file system."""

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Pass the events on; begin with the end of a job."""
        if self.service is not None or any(type(one) is JobEnded for one in events):
            super().perform(events, cluster)


_OF_JOBS: Final = frozenset(
    {
        *(JobCreated, JobSubmitted, RequestCarriedOut),
        *(JobStarted, InstancesDispatched, InstancesStarted, InstancesEnded, JobEnded),
    }
)
"""What happens to jobs all the time, and shows the need of few services."""


def _looks_for(path: Path) -> Callable[[], bool]:
    """Return what tells whether a file is there: as text, since a Path takes as long as the question."""
    return partial(os.path.exists, str(path))


class OptionalServices:
    """All optional services of a head; none is made before `look` or the first events.

    They get events in the order of `named`.
    """

    def __init__(
        self,
        context: ServerContext,
        asker: FilterCaller,
        past: Past,
        source: EventSource,
        welcome_nodes: Callable[[], None],
    ) -> None:
        self._context, self._asker, self._past = context, asker, past
        self._source, self._welcome_nodes = source, welcome_nodes
        engine, state = context.engine, context.state
        self._cursors = state / CURSORS.file
        has_cursors = self._cursors.exists()  # those of former hooks are to be forgotten
        is_set = self._is_set
        self.bank = OptionalEventService(self._bank, lambda: is_set(BANK) or bool(engine.cluster.bank.due))
        self.hand_off = OptionalEventService(
            self._hand_off, lambda: bool(engine.cluster.resource_index.named)
        )
        # Prediction for resources must not stop the hand-off if it fails, so each is kept for itself.
        self.site = OptionalService(self._site, lambda: self.hand_off.service is not None)
        self.places = OptionalService(self._places, lambda: self.hand_off.service is not None)
        self.webhooks = OptionalEventService(self._webhooks, lambda: has_cursors or is_set("EventWebhooks"))
        self.event_logs = LogService(self._event_logs, self._has_event_logs)
        self.delegations = CleaningService(self._delegations, _looks_for(state / DELEGATIONS.file), LOOK)
        self.elastic = OptionalEventService(self._elastic, lambda: bool(engine.cluster.elastic.named))
        self.licences = OptionalService(self._licences, lambda: is_set("LicenceProgram"))
        self.output = OptionalService(self._output, lambda: self._sets(TTL_COMPLETED_JOBS, PURGE_JOBS_AFTER))
        self.records = OptionalService(self._records, lambda: self._sets(PURGE_JOBS_AFTER))
        self.allocations = SoughtService(self._allocations, self._has_allocations, SOON)
        self.standbys = OptionalEventService(self._standbys, lambda: bool(engine.cluster.standbys))
        self.recurring = OptionalEventService(self._recurring, self._has_recurring)
        self.named: dict[str, OptionalService[Any]] = {
            "bank": self.bank, "hand-off": self.hand_off, "predictions for sites": self.site,
            "choice of places": self.places, "webhooks": self.webhooks, "event logs": self.event_logs,
            "delegations": self.delegations, "elastic pools": self.elastic, "licence counts": self.licences,
            "old output": self.output, "old records": self.records, "standby heads": self.standbys,
            "abandoned allocations": self.allocations, "recurring jobs": self.recurring,
        }  # fmt: skip
        self.all = tuple(self.named.values())
        self._of_jobs = (self.bank, self.event_logs, self.delegations)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Pass the events on, to each service that is made or that they may show to be needed."""
        only_jobs = _OF_JOBS.issuperset(map(type, events))
        for service in self.all:
            if service.service is not None or not only_jobs or service in self._of_jobs:
                service.perform(events, cluster)

    def _is_set(self, parameter: str) -> bool:
        return bool(self._context.engine.settings.text(parameter))

    def _sets(self, *parameters: str) -> bool:
        """Whether one of these parameters is above 0."""
        return any(self._context.engine.settings.number(parameter) > 0 for parameter in parameters)

    async def is_replaced(self) -> bool:
        """Whether a standby has taken over from this head while it was away; the log and a file say so."""
        standbys = self.standbys.service
        return standbys is not None and await standbys.is_replaced()

    def _standbys(self) -> "StandbyHeads":
        from headnode.apps.server.standbys import HeadParts, StandbyHeads

        context = self._context
        head = HeadParts(
            context.state,
            context.name,
            context.row_changes,
            context.contacts,
            lambda: context.network.address() if context.network is not None else "",
            self._welcome_nodes,
            context.shut_down,
            lambda: context.audit.is_writing,
        )
        return StandbyHeads(context.engine, context.batcher, self._source, head)

    def _bank(self) -> "BankDesk":
        from headnode.apps.server.bank_desk import BankDesk

        return BankDesk(self._context, self._asker)

    def _hand_off(self) -> "HandOff":
        from headnode.apps.server.hand_off import HandOff

        context = self._context
        return HandOff(
            context.engine,
            context.batcher,
            context.name,
            self._secret_of,
            lambda: context.predicted_starts,
            self._past,
            context.state,
        )

    def _secret_of(self, record: JobRecord) -> str:
        """Return what the agent of an elastic allocation joins with; empty for any other job."""
        return self.elastic.service.secret_of(record) if self.elastic.service is not None else ""

    def _site(self) -> "SiteOverlay":
        assert self.hand_off.service is not None
        return self.hand_off.service.site

    def _places(self) -> "PlaceDesk":
        assert self.hand_off.service is not None
        return self.hand_off.service.places

    def _webhooks(self) -> "EventWebhooks":
        from headnode.apps.server.event_webhooks import EventWebhooks

        return EventWebhooks(self._context, self._cursors)

    def _has_event_logs(self) -> bool:
        """Return whether logs were written before, or a job has one: of a cluster that was restored."""
        if (self._context.state / EVENT_LOGS.file).exists():
            return True
        return any(_LOGGED in record.spec for record in self._context.cluster.jobs.values())

    def _event_logs(self) -> "EventLogs":
        from headnode.apps.server.event_logs import EventLogs

        return EventLogs(self._context)

    def _delegations(self) -> "DelegationCleaner":
        from headnode.apps.server.api.delegations import DelegationCleaner

        return DelegationCleaner(self._context)

    def _elastic(self) -> "ElasticNodes":
        from headnode.apps.server.elastic import ElasticNodes

        return ElasticNodes(self._context.engine, self._context.batcher, lambda: self._context.network)

    def _licences(self) -> "LicenceCounts":
        from headnode.apps.server.licence_counts import LicenceCounts

        return LicenceCounts(self._context)

    def _has_recurring(self) -> bool:
        return bool(self._context.cluster.recurring.numbered)

    def _recurring(self) -> "RecurringJobs":
        from headnode.apps.server.recurring_jobs import RecurringJobs

        return RecurringJobs(self._context)

    def _allocations(self) -> "AbandonedAllocations":
        from headnode.apps.server.abandoned_allocations import AbandonedAllocations

        return AbandonedAllocations(self._context, self._held_jobs)

    def _has_allocations(self) -> bool:
        return bool(self._context.deserted or self._held_jobs())

    def _held_jobs(self) -> list[JobId]:
        """Return the running jobs that end with their client."""
        cluster = self._context.cluster
        return [job for job in cluster.running if is_allocation(cluster.graph(job).spec)]

    def _records(self) -> "JobPurge":
        from headnode.apps.server.retention import JobPurge

        return JobPurge(self._context.engine, self._context.batcher, self._past)

    def _output(self) -> "OutputRetention":
        from headnode.apps.server.retention import OutputRetention

        context = self._context
        return OutputRetention(context.engine, context.lookups, context.links)
