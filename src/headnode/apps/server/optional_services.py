"""Services of the head that are imported and started when they are needed for the first time.

A plain head has no resources, elastic pools, webhooks for events, bank, delegations, program that counts
licences, and limit on the age of output; it does without their code.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from headnode.apps.server.filtering.filter_documents import FilterCaller
from headnode.apps.server.server_context import ServerContext
from headnode.core.state.bank_ledger import BANK
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord
from headnode.engine.engine import Effects
from headnode.engine.ports import Past

if TYPE_CHECKING:
    from headnode.apps.server.api.delegations import DelegationCleaner
    from headnode.apps.server.api.task_output import OutputRetention
    from headnode.apps.server.bank_desk import BankDesk
    from headnode.apps.server.elastic import ElasticNodes
    from headnode.apps.server.event_webhooks import EventWebhooks
    from headnode.apps.server.hand_off import HandOff
    from headnode.apps.server.licence_counts import LicenceCounts


DELEGATIONS: Final = "delegations.db"
LOOK: Final = 60.0  # seconds


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
        self.made: ServiceType | None = None
        self._is_made = asyncio.Event()

    def look(self) -> None:
        """Make the service if it is needed now."""
        if self.made is None and self._needed():
            self.made = self._make()
            self._is_made.set()

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Make the service if these events show that it is needed."""
        self.look()

    async def keep(self) -> None:
        """Wait until the service is made, then run it until the head ends."""
        while self.made is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every):
                    await self._is_made.wait()
            self.look()
        await self.made.keep()


class OptionalEventService(OptionalService[EventServiceType]):
    """A service that gets the events, from those on that show that it is needed."""

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Pass the events on."""
        self.look()
        if self.made is not None:
            self.made.perform(events, cluster)


class OptionalServices:
    """All optional services of a head; none is made before `look` or the first events."""

    def __init__(self, context: ServerContext, asker: FilterCaller, past: Past) -> None:
        self._context, self._asker, self._past = context, asker, past
        engine, state = context.engine, context.state
        self._cursors = state / "webhooks.db"
        has_cursors = self._cursors.exists()  # those of former hooks are to be forgotten

        def is_set(parameter: str) -> bool:
            return bool(engine.settings.text(parameter))

        self.bank = OptionalEventService(self._bank, lambda: is_set(BANK) or bool(engine.cluster.bank.due))
        self.hand_off = OptionalEventService(
            self._hand_off, lambda: bool(engine.cluster.resource_index.named)
        )
        self.webhooks = OptionalEventService(self._webhooks, lambda: has_cursors or is_set("EventWebhooks"))
        self.delegations = OptionalEventService(self._delegations, (state / DELEGATIONS).exists, LOOK)
        self.elastic = OptionalEventService(self._elastic, lambda: bool(engine.cluster.elastic.named))
        self.licences = OptionalService(self._licences, lambda: is_set("LicenceProgram"))
        self.output = OptionalService(self._output, lambda: engine.settings.number("TTLCompletedJobs") > 0)
        self.all: tuple[OptionalService[Any], ...] = (
            self.bank, self.hand_off, self.webhooks, self.delegations, self.elastic, self.licences,
            self.output,
        )  # fmt: skip
        """In the order in which they get events."""

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
        )

    def _secret_of(self, record: JobRecord) -> str:
        """Return what the agent of an elastic allocation joins with; empty for any other job."""
        return self.elastic.made.secret_of(record) if self.elastic.made is not None else ""

    def _webhooks(self) -> "EventWebhooks":
        from headnode.apps.server.event_webhooks import EventWebhooks

        return EventWebhooks(self._context, self._cursors)

    def _delegations(self) -> "DelegationCleaner":
        from headnode.apps.server.api.delegations import DelegationCleaner

        return DelegationCleaner(self._context)

    def _elastic(self) -> "ElasticNodes":
        from headnode.apps.server.elastic import ElasticNodes

        return ElasticNodes(self._context.engine, self._context.batcher, lambda: self._context.network)

    def _licences(self) -> "LicenceCounts":
        from headnode.apps.server.licence_counts import LicenceCounts

        return LicenceCounts(self._context)

    def _output(self) -> "OutputRetention":
        from headnode.apps.server.api.task_output import OutputRetention

        context = self._context
        return OutputRetention(context.engine, context.lookups, context.links)
