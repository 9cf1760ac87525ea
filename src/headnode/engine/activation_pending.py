"""The pending offers to jobs with activation filters: which filters are asked, and what answers do.

A pass never waits: a job that a filter is asked about is left out of the queue, and others go on.  Its answer
counts if the next pass would offer as much again.  If not, because others were faster, what the filters did
is undone, and the next offer to the job is firm: policies see it as held until the answer is there.

Nothing of it is recorded but what the answers do to jobs, and what is kept for them.  After a restart the
filters are asked again; about what is kept first.

Source: HPC filters, "Job activation filters and their return values".
"""

from collections.abc import Collection, Iterable, Mapping
from heapq import nsmallest

from msgspec.structs import replace

from headnode.core.filtering import ActivationVerdict
from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.filters import TakeVerdict
from headnode.core.state.job_record import JobRecord
from headnode.core.state.start import StartJob
from headnode.engine.activation_offer import (
    ActivationChains,
    ActivationOffer,
    Grant,
    OfferStage,
    QueueOrder,
    is_still_valid,
    limits_have_room,
    restored_offers,
)
from headnode.engine.ports import FilterQuestion, FilterRunner
from headnode.engine.settings import Settings

NO_ROOM_TO_ASK = 1.0  # seconds until a filter that should be asked again is, when too many are asked now


class PendingOffers:
    """The open offers to jobs.  Kept in memory beside the cluster, by the engine only.

    `restless`: the pass has to be made again, without those that it may not start yet.
    """

    def __init__(self, filters: FilterRunner | None = None) -> None:
        self.filters = filters  # None: jobs with activation filters get no offers
        self.restless = False
        self.of: dict[JobId, ActivationOffer] = {}
        self.aside: set[JobId] = set()  # jobs whose filters cannot be called yet
        self.crowded: set[JobId] = set()  # jobs whose resources are offered to other jobs
        self.resting: dict[JobId, Instant] = {}  # refused by a filter: no new offer until then
        self._asked: dict[int, ActivationOffer] = {}  # outstanding, also those that have fallen
        self._lost: set[JobId] = set()  # others were faster once; their next offer is firm
        self.chains = ActivationChains()
        self.order = QueueOrder()
        self._questions: list[FilterQuestion] = []
        self._left_out: Mapping[JobRequest, set[int]] | None = None
        self._undone: list[int] = []
        self._done: list[int] = []
        self._blocker: JobId | None = None  # as of late
        self._number = self._passes = self._most = 0

    def recover(self, cluster: ClusterState, now: Instant) -> None:
        """Forget everything but what is asked now, and keep for jobs what the journal says is kept for them.

        Their filters are called again at the next pass; no other job gets the resources before.
        """
        for offer in list(self.of.values()):
            self._drop(offer)
        self.aside.clear()
        self.crowded.clear()
        self.resting.clear()
        self._left_out = None
        for question in self._questions:  # these are not asked: what led to them was not recorded
            del self._asked[question.offer]
        self._questions.clear()
        self._undone += self._done  # nor were these starts
        self._done.clear()
        self._blocker = None
        for offer in restored_offers(cluster, now):
            self._number += 1
            offer.number = self._number
            self.of[offer.job] = offer

    @property
    def are_in_play(self) -> bool:
        """Return whether policies see fewer resources because of offers."""
        return bool(self.of or self.aside or self.crowded or self.resting)

    def left_out(self, cluster: ClusterState) -> Mapping[JobRequest, set[int]]:
        """Return the jobs that are out of the queue for now, by request; computed when that has changed."""
        if self._left_out is None:
            found: dict[JobRequest, set[int]] = {}
            asked = {
                job
                for job, each in self.of.items()
                if not each.grows and each.stage is not OfferStage.CLEARED
            }
            for job in asked | self.aside | self.crowded | self.resting.keys():
                record = cluster.jobs.get(job)
                if record is not None:
                    found.setdefault(cluster.request(record), set()).add(job)
            self._left_out = found
        return self._left_out

    def put_aside(self, jobs: Iterable[JobId], *, crowded: bool = False) -> None:
        """Leave jobs out of the line until others are through."""
        self._left_out = None
        (self.crowded if crowded else self.aside).update(jobs)

    def postpone(self, job: JobId, until: Instant) -> None:
        """Offer a job nothing more until then."""
        self._left_out = None
        self.resting[job] = until

    @property
    def are_timed(self) -> bool:
        """Whether a filter may have to be called again at some time."""
        return bool(self.of or self.resting)

    def wake(self) -> Instant:
        """Return when a filter is to be called again."""
        kept = (offer.again for offer in self.of.values() if offer.stage is OfferStage.KEPT)
        return min((*kept, *self.resting.values()), default=NEVER)

    def begin(self, cluster: ClusterState, now: Instant) -> list[Grant]:
        """Prepare a pass; return what is given without asking the policy: firm offers that are cleared."""
        self.restless = False
        self.chains.refresh(cluster)
        if not self.of and not self.resting and not self.aside:
            return []
        self.read_limit(cluster)
        if any(until <= now for until in self.resting.values()):
            self.resting = {job: until for job, until in self.resting.items() if until > now}
            self._left_out = None
        blocker = self.blocker(cluster)
        given: list[Grant] = []
        for offer in list(self.of.values()):
            if not is_still_valid(cluster, offer) or (
                offer.stage is OfferStage.CLEARED and self._is_blocked(cluster, offer, blocker)
            ):
                self._drop(offer)
            elif offer.stage is OfferStage.CLEARED and offer.firm:
                given.append(offer.giving)
            elif offer.stage is OfferStage.KEPT and offer.again <= now:
                self._ask_again(cluster, offer, now)
        self._admit_next(cluster)
        return given

    def _is_blocked(self, cluster: ClusterState, offer: ActivationOffer, blocker: JobRecord | None) -> bool:
        if blocker is None or offer.grows or offer.job == blocker.id:
            return False
        return self.order.is_behind(cluster.jobs[offer.job], blocker)

    def _admit_next(self, cluster: ClusterState) -> None:
        """Put the first jobs set aside back into the queue, as many as filters can be called for."""
        room = self._most - len(self._asked)
        if room <= 0 or not self.aside:
            return
        self._left_out = None
        self.aside = {job for job in self.aside if job in cluster.jobs}
        if self.aside:
            keys = (self.order.key(cluster.jobs[job]) for job in self.aside)
            self.aside.difference_update(turn.job for _, turn in nsmallest(room, keys))

    def _ask_again(self, cluster: ClusterState, offer: ActivationOffer, now: Instant) -> None:
        record = cluster.jobs[offer.job]
        if not self.can_ask():
            offer.again = Instant(now + NO_ROOM_TO_ASK)
        else:
            self._ask(cluster, record, offer)

    def settled(self, grant: Grant, answer: object) -> None:
        """Take note of what became of something given: `answer` is the engine's."""
        offer = self.of.get(grant.job)
        if offer is None or offer.giving is not grant:
            return
        if isinstance(answer, tuple) and answer:
            del self.of[offer.job]
            self._left_out = None
            self._done.append(offer.number)
            self._lost.discard(offer.job)
            self._uncrowd()
            self.restless = self.restless or offer.job == self._blocker  # others waited behind it
        else:
            self.lose(offer)

    def take(self, command: TakeVerdict, cluster: ClusterState, now: Instant) -> TakeVerdict | None:
        """Take an answer; return what it does to the job.  One about a fallen offer does nothing."""
        offer = self._asked.pop(command.offer, None)
        self._left_out = None
        self._uncrowd()
        cluster.agenda.pass_needed = True
        if offer is None or self.of.get(command.job) is not offer or not is_still_valid(cluster, offer):
            if offer is not None and self.of.get(command.job) is offer:
                del self.of[command.job]
            if command.verdict is ActivationVerdict.START:
                self._undone.append(command.offer)
            return None
        if command.verdict is ActivationVerdict.START:
            offer.stage = OfferStage.CLEARED
            return None
        again = Instant(now + Settings(cluster.parameters).number("ActivationFilterInterval"))
        keeps = command.verdict is ActivationVerdict.KEEP_RESOURCES
        if keeps and not limits_have_room(cluster, offer, self.of.values(), now):
            command, keeps = replace(command, verdict=ActivationVerdict.WAIT), False
        if keeps:
            offer.stage, offer.firm, offer.again = OfferStage.KEPT, True, again
            return replace(command, kept=offer.giving) if isinstance(offer.giving, StartJob) else command
        del self.of[offer.job]
        if command.verdict in (ActivationVerdict.BLOCK_QUEUE, ActivationVerdict.WAIT):
            self.postpone(offer.job, again)
        return command

    def perform(self) -> None:
        """Ask and undo what was left to be, once everything before is durable."""
        if not self._questions and not self._undone and not self._done:
            return
        questions, self._questions = self._questions, []
        undone, self._undone = self._undone, []
        done, self._done = self._done, []
        if self.filters is not None:
            for offer in done:
                self.filters.done(offer)
            for offer in undone:
                self.filters.undo(offer)
            for question in questions:
                self.filters.ask(question)

    def read_limit(self, cluster: ClusterState) -> None:
        """Update how many offers filters can be called for at once."""
        self._most = int(Settings(cluster.parameters).number("FiltersAtOnce"))

    def lose_untaken(self, taken: Collection[JobId]) -> None:
        """Drop cleared offers whose resources the plan gives to other jobs; jobs in `taken` get theirs."""
        for offer in list(self.of.values()):
            if offer.stage is OfferStage.CLEARED and not offer.firm and offer.job not in taken:
                self.lose(offer)

    def admit_all(self) -> None:
        """Put all jobs set aside into the queue if more filters can be called: earlier jobs did not fit."""
        if self.aside and len(self._asked) < self._most:
            self.aside.clear()
            self._left_out = None
            self.restless = True

    def blocker(self, cluster: ClusterState) -> JobRecord | None:
        """Return the job that blocks the queue for its priority and below, and record it."""
        found = self.chains.blocker(cluster, self.order)
        self._blocker = None if found is None else found.id
        return found

    def blocker_of(self, cluster: ClusterState, record: JobRecord) -> JobRecord | None:
        """Return the job behind which a job waits because a filter blocks the queue, if there is one."""
        found = self.blocker(cluster)
        if found is None or found.id == record.id or not self.order.is_behind(record, found):
            return None
        return found

    def can_ask(self) -> bool:
        """Return whether filters can be called for one more offer."""
        return self.filters is not None and len(self._asked) < self._most

    def offer(self, cluster: ClusterState, record: JobRecord, giving: Grant, units: int) -> None:
        """Offer resources to a job, and call its filters."""
        self._number += 1
        offer = ActivationOffer(
            number=self._number,
            job=record.id,
            giving=giving,
            units=units,
            request=cluster.request(record),
            firm=record.id in self._lost,
        )
        self.of[record.id] = offer
        self._ask(cluster, record, offer, self.order.place(cluster, record))

    def make_next_firm(self, jobs: Iterable[JobId]) -> None:
        """Make the next offers to these jobs firm: other jobs gave up resources for them."""
        if self.chains.rules:
            self._lost.update(jobs)

    def new_pass(self) -> None:
        """Count one more pass that calls filters."""
        self._passes += 1

    def _ask(self, cluster: ClusterState, record: JobRecord, offer: ActivationOffer, index: int = 0) -> None:
        if not index:  # asked again about what is kept for it
            self._number += 1
            offer.number, index = self._number, self.order.place(cluster, record)
            self.new_pass()
        self._left_out = None
        offer.stage, offer.again = OfferStage.ASKED, NEVER
        self._asked[offer.number] = offer
        self._questions.append(
            FilterQuestion(
                offer=offer.number,
                job=record.id,
                filters=self.chains.of(cluster, record),
                running=offer.grows,
                scheduler_pass=self._passes,
                job_index=index,
                backfill=offer.backfilled,
                resource_count=offer.units,
            )
        )

    def lose(self, offer: ActivationOffer) -> None:
        """Drop an offer that lost its resources to other jobs; the next offer to the job is firm."""
        self._drop(offer)
        self._lost.add(offer.job)

    def _uncrowd(self) -> None:
        """Record that offers to other jobs have become smaller."""
        self.aside |= self.crowded
        self.crowded.clear()

    def _drop(self, offer: ActivationOffer) -> None:
        self._left_out = None
        self._uncrowd()
        self.of.pop(offer.job, None)
        if offer.stage is OfferStage.CLEARED:
            self._undone.append(offer.number)
