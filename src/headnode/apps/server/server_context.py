"""What every verb may use: the engine behind its batcher, the jobs, why they wait, and counters."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from headnode.adapters.files.copied_tables import RowChanges
from headnode.adapters.identity.audit_log import AuditLog
from headnode.adapters.nodes.link import Contact, NodeLink
from headnode.adapters.nodes.streams import Sessions
from headnode.adapters.notify.outbox import DeliverySettings, delivery_settings
from headnode.apps.server.api.streams import EventFeed, JobWatchers, RunOnNodes
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.apps.server.doors.user_shares import Roles, UserShares
from headnode.apps.server.filtering.filter_documents import FilterCaller
from headnode.apps.server.job_lookup import Briefs, JobLookup
from headnode.apps.server.job_notices import JobNotices
from headnode.apps.server.predicted_starts import PredictedStarts, PredictionCoverage
from headnode.apps.server.waiting_reasons import (
    TransfersAt,
    awaits_files,
    filter_reasons,
    hold_reasons,
    preemption_reasons,
    staging_reason,
)
from headnode.core.model.errors import Refused
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import LIFE_BOUNDS, DurationHistogram, Instant, JobId, instant_text
from headnode.core.model.resource import BatchResource, is_elsewhere
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.state import command as c
from headnode.core.state import job_events as e
from headnode.core.state.bank_ledger import BankKey
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.depend import (
    DependencyState,
    dependency_state,
    dependency_words,
    elements_of,
    every_dependency,
    outcome_of,
)
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord
from headnode.core.state.job_request import suspension_of
from headnode.core.state.place_choice import places_in_words
from headnode.core.state.templates import groups_matter
from headnode.core.state.transitions import JobState
from headnode.engine.engine import Engine
from headnode.engine.ports import HeadStore, Past, PredictionStore

MAX_TEMPLATES = 100  # by which waits and runs are counted apart
OTHER_TEMPLATES = "(other)"


_WAITING = frozenset({JobState.HANDED, JobState.SUSPENDED, JobState.VALIDATING})
"""States in which a job waits, but not in the queue."""


class JobCounters:
    """What happened since the head started."""

    def __init__(self) -> None:
        self.submitted = self.started = self.backfilled = 0
        self.ended: Counter[str] = Counter()  # by outcome
        self.tasks_ended: Counter[str] = Counter()
        self.waits: dict[str, DurationHistogram] = {}  # by job template
        self.runs: dict[str, DurationHistogram] = {}
        self._running: dict[JobId, tuple[str, float]] = {}  # template and start
        self._requeued: dict[JobId, float] = {}  # when they came back into the queue

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Count the events."""
        for event in events:
            match event:
                case e.InstancesEnded(ended=ended):
                    for one in ended:
                        self.tasks_ended[one.state] += 1
                case e.JobSubmitted():
                    self.submitted += 1
                case e.JobStarted():
                    self._start(event, cluster)
                case e.JobEnded(job=job, outcome=outcome, at=at):
                    self.ended[outcome] += 1
                    self._requeued.pop(job, None)
                    template, started = self._running.pop(job, ("", None))
                    if started is not None:
                        self._count(self.runs, template, at - started)
                case e.JobAutoRequeued(job=job, at=at) | e.JobRequeued(job=job, at=at):
                    self._running.pop(job, None)
                    self._requeued[job] = at

    def _start(self, event: e.JobStarted, cluster: ClusterState) -> None:
        self.started += 1
        self.backfilled += event.backfilled
        record = cluster.jobs.get(event.job)
        template = ""
        if record is not None:
            template = cluster.graph(event.job).spec.template if event.job in cluster.graphs else ""
            since = self._requeued.pop(event.job, record.submitted or event.at)
            self._count(self.waits, template, event.at - since)
        self._running[event.job] = template, event.at

    def _count(self, histograms: dict[str, DurationHistogram], template: str, seconds: float) -> None:
        template = template or "Default"
        if template not in histograms and len(histograms) >= MAX_TEMPLATES:
            template = OTHER_TEMPLATES
        if template not in histograms:
            histograms[template] = DurationHistogram(LIFE_BOUNDS)
        histograms[template].add(seconds)


if TYPE_CHECKING:
    from headnode.apps.server.doors.network import NetworkListener
    from headnode.apps.server.elastic import ElasticNodes
    from headnode.apps.server.hand_off import HandOff
    from headnode.apps.server.priority_list import PriorityList
    from headnode.apps.server.standbys import StandbyHeads


class SiteFeatures(msgspec.Struct, frozen=True):
    """What a cluster is to job files: its name, how it tells people, and whether it has job templates."""

    name: str = ""
    ways: DeliverySettings = DeliverySettings()
    templates: bool = False
    licences: frozenset[str] | None = None  # those that are counted; None: not known
    resources: tuple[BatchResource, ...] = ()


ABOUT_SUSPENSION = "suspended"
"""The `what` of the reason for a suspended job, which waits for its resume."""


class SubmissionChain(Protocol):
    """The way of jobs into the queue, past submission filters if there are any."""

    async def wait(self, jobs: Collection[int]) -> None:
        """Wait until these jobs have come into the queue.

        Raises:  NotAllowed ``submission-filter`` when some of them did not; the others have.
        """

    async def messages(self, jobs: Collection[int]) -> list[str]:
        """Return, of each job, why it did not come into the queue; empty if it has."""

    def changing(self, record: JobRecord, spec: JobSpec) -> AbstractAsyncContextManager[JobSpec]:
        """Give what filters make of a change to a job that was submitted; undo it if it is refused inside.

        Raises:  NotAllowed ``submission-filter`` when one of them refuses it.
        """


class NoSubmissionFilters(SubmissionChain):
    """The submission chain without filters."""

    async def wait(self, jobs: Collection[int]) -> None:
        """Wait for nothing."""

    async def messages(self, jobs: Collection[int]) -> list[str]:
        """Return nothing against any of them."""
        return [""] * len(jobs)

    @asynccontextmanager
    async def changing(self, record: JobRecord, spec: JobSpec) -> AsyncIterator[JobSpec]:  # noqa: ARG002
        """Give the change as it is."""
        yield spec


class ContextParts(NamedTuple):
    """What a head adds to its context; without it there are no nodes, no network and no filters.

    given_up_in: the seconds until a node that is away is given up
    """

    watchers: JobWatchers
    sessions: Sessions  # what clients run on nodes
    links: Mapping[str, NodeLink] = MappingProxyType({})  # the nodes that are here
    contacts: Mapping[str, Contact] = MappingProxyType({})  # when nodes said something last
    given_up_in: Callable[[str], float | None] = lambda _: None
    shut_down: Callable[[], None] = lambda: None
    store: HeadStore | None = None  # what the head keeps; None: nothing that lasts
    submission_chain: SubmissionChain = NoSubmissionFilters()  # how jobs come into the queue
    asker: FilterCaller | None = None  # calls filters; None: no filters are called
    notices: JobNotices | None = None  # sends notifications; None: none are sent
    hand_off: "Callable[[], HandOff | None]" = lambda: None  # what hands jobs over to other schedulers
    elastic: "Callable[[], ElasticNodes | None]" = lambda: None  # makes nodes of allocations
    standbys: "Callable[[], StandbyHeads | None]" = lambda: None  # sends events to standby heads
    network: "NetworkListener | None" = None  # where nodes of other machines join; None: nowhere


def _no_parts(_context: "ServerContext") -> ContextParts:
    return ContextParts(JobWatchers(), Sessions(lambda *_: None))


class ServerContext:
    """Where clients' verbs meet the engine."""

    def __init__(
        self,
        engine: Engine,
        past: Past,
        batcher: CommandBatcher,
        state: Path,
        name: str,
        parts: Callable[["ServerContext"], ContextParts] = _no_parts,
    ) -> None:
        """`parts` is called at the end: some parts need the context themselves."""
        self.engine, self.batcher, self.lookups = engine, batcher, JobLookup(engine, past)
        self.briefs = Briefs(lambda: engine.cluster)
        self.predictions: PredictionStore = past
        self.predicted_starts = PredictedStarts(engine, past, lambda: self.links)
        self.state, self.name, self.started = state, name, engine.clock.now()
        self.going_down = False  # it goes down: a client has the promise
        self.attended: Counter[JobId] = Counter()  # interactive jobs, and how many clients each has
        self.deserted: set[JobId] = set()  # queued allocations whose client has gone
        self.feed = EventFeed(engine)
        self.webhook_problems: dict[str, str] = {}  # by hook: why the last post was not taken
        self.failed_parts: dict[str, str] = {}  # by part of the head: what happened to it
        self.bank_problems: dict[BankKey, str] = {}  # by run: why the bank has not confirmed what is due
        self.job_counters = JobCounters()
        self.coverage = PredictionCoverage(past)
        self.runs: dict[JobId, RunOnNodes] = {}  # commands on many nodes, by the job outside the queue
        self.open_on_nodes: set[tuple[str, JobId]] = set()  # the nodes that are ready for one of them
        self.licence_problem = ""  # why the program that counts licences failed
        self.roles = Roles(lambda: engine.settings, lambda: groups_matter(engine.cluster))
        self.audit, self.row_changes, self.shares = AuditLog(state / "audit.log"), RowChanges(), UserShares()
        self.priority_list: PriorityList | None = None  # of which a client has not read all pages
        # Held by the one large job file that is read; by the one question that asks the policy many times
        self.reading, self.searching = asyncio.Lock(), asyncio.Lock()
        (
            self.watchers, self.sessions, self.links, self.contacts, self.given_up_in, self.shut_down,
            self.store, self.submission_chain, self.asker, self.notices, self._hand_off, self._elastic,
            self._standbys, self.network,
        ) = parts(self)  # fmt: skip

    @property
    def hand_off(self) -> "HandOff | None":
        """What hands jobs over to other schedulers; None where there is no resource."""
        return self._hand_off()

    @property
    def elastic(self) -> "ElasticNodes | None":
        """What makes nodes of allocations; None where there is no elastic pool."""
        return self._elastic()

    @property
    def standbys(self) -> "StandbyHeads | None":
        """What sends the events to standby heads; None where there is none."""
        return self._standbys()

    @property
    def cluster(self) -> ClusterState:
        """Return the cluster as it is now."""
        return self.engine.cluster

    @property
    def site(self) -> SiteFeatures:
        """Return what this cluster is to job files."""
        settings, there = self.engine.settings, tuple(self.cluster.resource_index.named.values())
        licences = settings.licences()
        unknown = not licences and settings.text("LicenceProgram")  # it has not run yet
        counted = None if unknown else frozenset(licences)
        return SiteFeatures(
            self.name, delivery_settings(settings), bool(self.cluster.templates), counted, there
        )

    def now(self) -> Instant:
        """Return the present instant."""
        return self.engine.clock.now()

    async def ask(self, command: c.Command) -> tuple[Event, ...]:
        """Return the events that a command causes, once they are durable; raise what refuses it."""
        return await self.batcher.ask(command)

    async def ask_together(self, commands: Sequence[c.Command]) -> list[tuple[Event, ...] | Refused]:
        """Return what becomes of each command; nothing happens between them, such as a start.

        Raises:  Unavailable.
        """
        answers = await asyncio.gather(*map(self.batcher.ask, commands), return_exceptions=True)
        results: list[tuple[Event, ...] | Refused] = []
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, Refused):
                raise answer
            results.append(answer)
        return results

    def pending_reason(self, record: JobRecord) -> str:
        """Return in one sentence why a job waits; nothing when it does not."""
        reason = self.reason_to_wait(record)
        return reason.text if reason else ""

    def reason_to_wait(self, record: JobRecord) -> Reason | None:
        """Return the first reason why a job waits; None when it does not."""
        if not (record.state.is_queued or record.state in _WAITING):
            return None
        plan = self.engine.last_plan
        reasons = self.reasons_elsewhere(record) or self.reasons_outside_queue(record)
        reasons = reasons or self.missing_to_resume(record) or preemption_reasons(plan, record)
        if reasons:
            return reasons[0]
        wait = plan.waits.get(self.cluster.request(record)) if plan is not None else None
        if wait is None or not wait.reasons:
            return Reason(Why.POLICY, "waits for the next scheduling pass")
        return wait.reasons[0]

    def reasons_outside_queue(self, record: JobRecord) -> list[Reason]:
        """Return why a job is not even considered: suspended, held, or its parents have not finished."""
        reasons: list[Reason] = []
        if awaits_files(record):
            reasons.append(staging_reason(self.links, record, self.cluster.spec(record), self.now()))
        elif record.state is JobState.SUSPENDED:
            text = f"it has been suspended since {instant_text(suspension_of(record.run).since)}"
            reasons.append(Reason(Why.HOLD, text, ABOUT_SUSPENSION))
        if record.id in self.cluster.queue.held:
            until = self.cluster.queue.held[record.id]
            why = "for the delay after the start of its parent, " if until == record.start_after else ""
            reasons.append(Reason(Why.HOLD, f"{why}it is held until {instant_text(until)}"))
        reasons += hold_reasons(record)
        reasons += filter_reasons(self.cluster, self.engine.offers, record)
        if not record.waits_for:
            return reasons
        spec = self.cluster.written(record)
        any_of = "any of its dependencies is enough: " if spec.any_dependency else ""
        return reasons + [
            Reason(Why.DEPENDENCY, f"{any_of}it waits for {text}", str(parent))
            for parent, text in self.awaited_jobs(spec, record.waits_for)
        ]

    def reasons_of_pools(self, record: JobRecord) -> list[Reason]:
        """Return what elastic pools and other places do for a job that waits for nodes."""
        reasons = self.elastic.reasons(record.id) if self.elastic is not None else []
        return [*self.reasons_of_places(record), *(Reason(Why.RESOURCE, text) for text in reasons)]

    def reasons_of_places(self, record: JobRecord) -> list[Reason]:
        """Return what is known of the places of a job that has a choice, or was known when it had one."""
        if record.placement is not None:
            made = instant_text(record.placement.at)
            sentence = places_in_words(record.placement.estimates, record.placement.at)
            text = f"{record.placement.resource} was chosen at {made}; expected starts then: {sentence}"
            return [Reason(Why.RESOURCE, text, record.placement.resource)]
        if record.id not in self.cluster.resource_index.choosing:
            return []
        known = self.hand_off.places.estimates.get(record.id, ()) if self.hand_off is not None else ()
        sentence = places_in_words(known, self.now()) if known else "they are being asked"
        return [Reason(Why.RESOURCE, f"it goes where it is expected to start first: {sentence}")]

    def goes_elsewhere(self, record: JobRecord) -> bool:
        """Return whether a job is at a resource or waits to go to one, and not for own nodes."""
        index = self.cluster.resource_index
        chooses = record.id in index.choosing and is_elsewhere(self.cluster.spec(record).resource)
        return chooses or record.is_elsewhere or record.id in index.outbound

    def reasons_elsewhere(self, record: JobRecord) -> list[Reason]:
        """Return why a job does not run that is at a resource, or goes to one."""
        if record.state is JobState.HANDED:
            there = self.hand_off.reasons_to_wait(record) if self.hand_off is not None else []
            return [*hold_reasons(record), *there, *self.reasons_of_places(record)]
        wanted = self.cluster.resource_index.outbound.get(record.id)
        known = self.cluster.resource_index.named.get(wanted or "")
        if wanted is not None and known is None:
            return [Reason(Why.RESOURCE, f"there is no resource {wanted!r} any more")]
        if wanted is None or known is None:
            return self.reasons_of_places(record) if self.goes_elsewhere(record) else []
        handed = self.cluster.resource_index.handed.get(wanted, 0)
        sentence = f"{known.name} has {handed} tasks of Headnode; its limit is {known.most_jobs}"
        return [Reason(Why.RESOURCE, sentence, known.name), *self.reasons_of_places(record)]

    def transferring(self, record: JobRecord) -> Mapping[str, TransfersAt]:
        """Return the places of a job, which know how far its files are."""
        return self.hand_off.transfers if record.is_elsewhere and self.hand_off is not None else self.links

    def missing_to_resume(self, record: JobRecord) -> list[Reason]:
        """Return what others have now of the processors that a suspended job waits for, node by node."""
        if record.state is not JobState.RESUMING:
            return []
        reasons: list[Reason] = []
        for node, numbers in suspension_of(record.run).allocation.items():
            free = len(self.cluster.cores.free_on(node))
            if free < len(numbers):
                needs = f"{len(numbers)} processor{'s' if len(numbers) > 1 else ''}"
                text = f"to resume, it needs {needs} on {node}; {free or 'none'} free now"
                reasons.append(Reason(Why.PROCESSORS, text))
        return reasons

    def awaited_jobs(self, spec: JobSpec, waits_for: Collection[int]) -> Iterator[tuple[int, str]]:
        """Yield each job that such a job still waits for, and what it must do and does instead, in words."""
        for one in every_dependency(spec, waits_for):
            other = self.lookups.record(one.job) if one.job in waits_for else None
            outcome = outcome_of(other, elements_of(spec, one.job)) if other is not None else None
            if outcome is not None and dependency_state(one, outcome) is not DependencyState.MET:
                yield one.job, dependency_words(one, outcome)
