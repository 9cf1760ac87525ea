"""Resources offered to jobs that activation filters must let start: who is asked, and what the answers do.

A pass never waits: a job that a filter is asked about is left out of the queue, and others go on.  Its answer
counts if the next pass would offer as much again.  If not, because others were faster, what the filters did
is undone, and the next offer to the job is firm: policies see it as held until the answer is there.

Nothing of it is recorded but what the answers do to jobs.  After a restart the filters are asked again.
Source: HPC filters, "Job activation filters and their return values".
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import Enum
from heapq import nsmallest

import msgspec

from headnode.core.filtering.activation import Verdict
from headnode.core.filtering.registration import Chain
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.allocating import Shares
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.filters import activation_filters, activation_rules
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.lifecycle.units import units_in
from headnode.core.model.job import JobRequest
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.decision import Plan
from headnode.engine.passes import Giving, commands_of
from headnode.engine.ports import Filters, Question
from headnode.engine.settings import Settings

NO_ROOM_TO_ASK = 1.0  # seconds until a filter that should be asked again is, when too many are asked now


class Stage(Enum):
    """Where an offer is."""

    ASKED = 1  # the filters have not answered
    CLEARED = 2  # they let the job have it
    KEPT = 3  # they do not, and it is kept for the job


class Offer(msgspec.Struct):
    """What a job was offered.  `firm`: policies see it as held."""

    number: int
    job: JobId
    giving: Giving
    units: int
    request: JobRequest  # of the job, when it was offered: a job that was changed is asked about again
    firm: bool = False
    stage: Stage = Stage.ASKED
    again: Instant = NEVER  # when its filters are asked again

    @property
    def grows(self) -> bool:
        """Whether it is for a running job."""
        return isinstance(self.giving, c.GrowJob)

    @property
    def backfilled(self) -> bool:
        """Whether the job would start before one that goes first."""
        return isinstance(self.giving, c.StartJob) and self.giving.backfilled


class Offers:
    """Who is asked about now.  Kept in memory beside the cluster, by the engine only.

    `restless`: the pass has to be made again, without those that it may not start yet.
    """

    def __init__(self, filters: Filters | None = None) -> None:
        self.filters = filters  # None: there is nobody to ask, and nothing is offered to who would have to
        self.restless = False
        self.of: dict[JobId, Offer] = {}
        self.aside: set[JobId] = set()  # nobody can be asked about them yet
        self.crowded: set[JobId] = set()  # what they would get is offered to others
        self.resting: dict[JobId, Instant] = {}  # they were refused what they were offered, until then
        self._asked: dict[int, Offer] = {}  # outstanding, also those that have fallen
        self._lost: set[JobId] = set()  # others were faster once; their next offer is firm
        self.rules: tuple[tuple[str, str], ...] = ()  # what says which filters there are, as of this pass
        self._known: dict[JobId, tuple[bytes, tuple[tuple[str, str], ...], Chain]] = {}
        self._questions: list[Question] = []
        self._left_out: Mapping[JobRequest, set[int]] | None = None
        self._undone: list[int] = []
        self._done: list[int] = []
        self._blocker: JobId | None = None  # as of late
        self._number = self._passes = self._most = 0

    def forget(self) -> None:
        """Forget everything but what is asked now: memory was read from the journal again."""
        for offer in list(self.of.values()):
            self._drop(offer)
        self.aside.clear()
        self.crowded.clear()
        self.resting.clear()
        self._left_out = None
        self._questions.clear()

    @property
    def are_in_play(self) -> bool:
        """Whether policies see less than there is because of offers."""
        return bool(self.of or self.aside or self.crowded or self.resting)

    def left_out(self, cluster: Cluster) -> Mapping[JobRequest, set[int]]:
        """Return who is not in the line now, by what they ask for; worked out when that has changed."""
        if self._left_out is None:
            found: dict[JobRequest, set[int]] = {}
            asked = {
                job for job, each in self.of.items() if not each.grows and each.stage is not Stage.CLEARED
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

    def rest(self, job: JobId, until: Instant) -> None:
        """Offer a job nothing more until then."""
        self._left_out = None
        self.resting[job] = until

    def wake(self) -> Instant:
        """Return when somebody is to be asked again."""
        if not self.of and not self.resting:
            return NEVER
        kept = (offer.again for offer in self.of.values() if offer.stage is Stage.KEPT)
        return min((*kept, *self.resting.values()), default=NEVER)

    def begin(self, cluster: Cluster, now: Instant) -> list[Giving]:
        """Prepare a pass; return what is given without asking the policy: firm offers that are cleared."""
        self.restless = False
        rules = activation_rules(cluster)
        if rules != self.rules:
            self.rules = rules
        if not self.of and not self.resting and not self.aside:
            return []
        settings = Settings(cluster.parameters)
        self._most = int(settings.number("FiltersAtOnce"))
        if any(until <= now for until in self.resting.values()):
            self.resting = {job: until for job, until in self.resting.items() if until > now}
            self._left_out = None
        blocker = self.blocker(cluster)
        given: list[Giving] = []
        for offer in list(self.of.values()):
            if not _stands(cluster, offer) or (
                offer.stage is Stage.CLEARED and _behind(cluster, offer, blocker)
            ):
                self._drop(offer)
            elif offer.stage is Stage.CLEARED and offer.firm:
                given.append(offer.giving)
            elif offer.stage is Stage.KEPT and offer.again <= now:
                self._ask_again(cluster, offer, now)
        self._let_some_in(cluster)
        return given

    def _let_some_in(self, cluster: Cluster) -> None:
        """Let as many of those aside into the line as can be asked about, the first of them."""
        room = self._most - len(self._asked)
        if room <= 0 or not self.aside:
            return
        self._left_out = None
        self.aside = {job for job in self.aside if job in cluster.jobs}
        if self.aside:
            turns = (cluster.turn(cluster.jobs[job]) for job in self.aside)
            self.aside.difference_update(JobId(turn[2]) for turn in nsmallest(room, turns))

    def _ask_again(self, cluster: Cluster, offer: Offer, now: Instant) -> None:
        record = cluster.jobs[offer.job]
        if len(self._asked) >= self._most:
            offer.again = Instant(now + NO_ROOM_TO_ASK)
        else:
            self._ask(cluster, record, offer)

    def blocker(self, cluster: Cluster) -> JobRecord | None:
        """Return the job behind which others of its priority and below must wait; of several the first."""
        if not cluster.filtered or not self.rules:
            return None
        blocking = [
            record
            for job in cluster.filtered
            if (record := cluster.jobs[job]).filtered is not None
            and record.filtered.verdict == Verdict.BLOCK_QUEUE.value
            and _in_line(cluster, record)
            and self.chain(cluster, record)
        ]
        first = min(blocking, key=cluster.turn, default=None)
        self._blocker = None if first is None else first.id
        return first

    def chain(self, cluster: Cluster, record: JobRecord) -> Chain:
        """Return the activation filters of a job, worked out once for each description."""
        if not self.rules:
            return ()
        known = self._known.get(record.id)
        if known is None or known[0] is not record.spec or known[1] is not self.rules:
            if len(self._known) > 2 * len(cluster.jobs) + 64:
                self._known = {job: kept for job, kept in self._known.items() if job in cluster.jobs}
            chain = activation_filters(cluster, record)
            known = self._known[record.id] = (record.spec, self.rules, chain)
        return known[2]

    def sift(self, plan: Plan, cluster: Cluster, now: Instant) -> list[Giving]:
        """Return what of a plan is given now; about the rest filters are asked."""
        wished = commands_of(plan)
        if not self.rules and not self.of:
            return wished
        self._most = int(Settings(cluster.parameters).number("FiltersAtOnce"))
        sieve = _Sieve(self, cluster, now)
        given = [each for each in wished if sieve.passes(each)]
        taken = {each.job for each in given}
        for offer in list(self.of.values()):
            if offer.stage is Stage.CLEARED and not offer.firm and offer.job not in taken:
                self.lose(offer)
        if not sieve.asked and self.aside and len(self._asked) < self._most:
            self.aside.clear()  # those before them did not fit
            self._left_out = None
            self.restless = True
        return given

    def settled(self, given: Giving, answer: object) -> None:
        """Take note of what became of something given: `answer` is the engine's."""
        offer = self.of.get(given.job)
        if offer is None or offer.giving is not given:
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

    def take(self, command: c.TakeVerdict, cluster: Cluster, now: Instant) -> bool:
        """Take an answer; return whether it does something to the job.  One about a fallen offer does not."""
        offer = self._asked.pop(command.offer, None)
        self._left_out = None
        self._uncrowd()
        cluster.pass_needed = True
        if offer is None or self.of.get(command.job) is not offer or not _stands(cluster, offer):
            if offer is not None and self.of.get(command.job) is offer:
                del self.of[command.job]
            if command.verdict is Verdict.START:
                self._undone.append(command.offer)
            return False
        if command.verdict is Verdict.START:
            offer.stage = Stage.CLEARED
            return False
        again = Instant(now + Settings(cluster.parameters).number("ActivationFilterInterval"))
        if command.verdict is Verdict.KEEP_RESOURCES:
            offer.stage, offer.firm, offer.again = Stage.KEPT, True, again
            return True
        del self.of[offer.job]
        if command.verdict in (Verdict.BLOCK_QUEUE, Verdict.WAIT):
            self.rest(offer.job, again)
        return True

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

    def can_ask(self) -> bool:
        """Whether one more may be asked about."""
        return self.filters is not None and len(self._asked) < self._most

    def offer(self, cluster: Cluster, record: JobRecord, giving: Giving, units: int, index: int) -> None:
        """Offer something to a job, and ask its filters."""
        self._number += 1
        offer = Offer(
            number=self._number,
            job=record.id,
            giving=giving,
            units=units,
            request=cluster.request(record),
            firm=record.id in self._lost,
        )
        self.of[record.id] = offer
        self._ask(cluster, record, offer, index)

    def new_pass(self) -> None:
        """Count one more pass in which somebody is asked."""
        self._passes += 1

    def _ask(self, cluster: Cluster, record: JobRecord, offer: Offer, index: int = 0) -> None:
        if not index:  # asked again about what is kept for it
            self._number += 1
            offer.number, index = self._number, place_in(cluster, record)
            self.new_pass()
        self._left_out = None
        offer.stage, offer.again = Stage.ASKED, NEVER
        self._asked[offer.number] = offer
        self._questions.append(
            Question(
                offer=offer.number,
                job=record.id,
                filters=self.chain(cluster, record),
                running=offer.grows,
                scheduler_pass=self._passes,
                job_index=index,
                backfill=offer.backfilled,
                resource_count=offer.units,
            )
        )

    def lose(self, offer: Offer) -> None:
        """Others were faster: undo, and hold fast to what the job is offered next."""
        self._drop(offer)
        self._lost.add(offer.job)

    def _uncrowd(self) -> None:
        """What is offered to others is less than it was."""
        self.aside |= self.crowded
        self.crowded.clear()

    def _drop(self, offer: Offer) -> None:
        self._left_out = None
        self._uncrowd()
        self.of.pop(offer.job, None)
        if offer.stage is Stage.CLEARED:
            self._undone.append(offer.number)


class _Sieve:
    """One plan, looked through."""

    def __init__(self, offers: Offers, cluster: Cluster, now: Instant) -> None:
        self._offers, self._cluster, self._now = offers, cluster, now
        self.asked = False
        self._promised: dict[str, int] = {}  # processors offered to those asked about, which others may take
        self._given: dict[str, int] = {}  # processors that this plan gives
        for offer in offers.of.values():
            self._note(offer.giving.shares)

    def _note(self, shares: Shares) -> None:
        for node, count in shares:
            self._promised[node] = self._promised.get(node, 0) + count

    def passes(self, wished: Giving) -> bool:
        """Whether this is given at once; if not, its filters are asked if they can be."""
        offers, cluster = self._offers, self._cluster
        record = cluster.jobs[wished.job]
        offer = offers.of.get(record.id)
        if offer is not None and offer.stage is Stage.KEPT:
            _extend(cluster, offer, wished)
            return False
        if record.state not in (JobState.QUEUED, JobState.RUNNING) or not offers.chain(cluster, record):
            for node, count in wished.shares:
                self._given[node] = self._given.get(node, 0) + count
            return True
        units = _units(cluster, record, wished)
        if offer is not None and offer.stage is Stage.CLEARED:
            if offer.grows == isinstance(wished, c.GrowJob) and offer.units == units:
                offer.giving = wished
                return True
            offers.lose(offer)
        self._ask_or_put_aside(record, wished, units)
        return False

    def _ask_or_put_aside(self, record: JobRecord, wished: Giving, units: int) -> None:
        offers = self._offers
        if isinstance(wished, c.GrowJob):
            if not offers.can_ask() or not self._is_beside(record, wished.shares):
                offers.rest(record.id, Instant(self._now + NO_ROOM_TO_ASK))
            else:
                self._ask(record, wished, units)
        elif not offers.can_ask():
            self._put_aside(record)
        elif not self._is_beside(record, wished.shares):
            offers.put_aside([record.id], crowded=True)
        else:
            self._ask(record, wished, units)
        offers.restless = True

    def _ask(self, record: JobRecord, wished: Giving, units: int) -> None:
        if not self.asked:
            self._offers.new_pass()
        self.asked = True
        self._offers.offer(self._cluster, record, wished, units, place_in(self._cluster, record))
        self._note(wished.shares)

    def _is_beside(self, record: JobRecord, shares: Shares) -> bool:
        """Whether it takes nothing of what is offered to those asked about before."""
        alone = self._cluster.request(record).exclusive
        return all(
            count + self._promised.get(node, 0) + self._given.get(node, 0)
            <= len(self._cluster.free.get(node, ()))
            and not (alone and self._promised.get(node))
            for node, count in shares
        )

    def _put_aside(self, record: JobRecord) -> None:
        """Put a job aside, and all that ask for the same and would have to be asked about, too."""
        offers, cluster = self._offers, self._cluster
        request = cluster.request(record)
        others = (cluster.jobs[JobId(job)] for _, _, job in cluster.queue.get(request, ()))
        alike = [each.id for each in others if each.id not in offers.of and offers.chain(cluster, each)]
        offers.put_aside([record.id, *alike])


def place_in(cluster: Cluster, record: JobRecord) -> int:
    """Return the place of a job in the queue, from 1; of a running one, where it would be."""
    turn = cluster.turn(record)
    return 1 + sum(bisect_left(turns, turn) for turns in cluster.queue.values())


def _units(cluster: Cluster, record: JobRecord, wished: Giving) -> int:
    """Return how many of its units a job is offered."""
    option = wished.option if isinstance(wished, c.StartJob) else 0
    unit = cluster.request(record).option(option).unit
    return sum(units_in(unit, count, cluster.nodes[node].facts) for node, count in wished.shares)


def _extend(cluster: Cluster, offer: Offer, wished: Giving) -> None:
    """Keep more for a job for which something is kept: up to its maximum."""
    both = dict(offer.giving.shares)
    for node, count in wished.shares:
        both[node] = both.get(node, 0) + count
    offer.giving = msgspec.structs.replace(offer.giving, shares=tuple(both.items()))
    offer.units = _units(cluster, cluster.jobs[offer.job], offer.giving)


def _in_line(cluster: Cluster, record: JobRecord) -> bool:
    return (
        record.state is JobState.QUEUED
        and record.id not in cluster.held
        and not record.holds
        and not record.waits_for
    )


def _stands(cluster: Cluster, offer: Offer) -> bool:
    """Whether a job may still have what it was offered, as far as the job and the nodes are concerned."""
    record = cluster.jobs.get(offer.job)
    if record is None or cluster.request(record) != offer.request:
        return False
    if not (record.state is JobState.RUNNING if offer.grows else _in_line(cluster, record)):
        return False
    if not offer.firm:
        return True
    nodes = (cluster.nodes.get(node) for node, _ in offer.giving.shares)
    return all(node is not None and node.state is NodeState.READY for node in nodes)


def _behind(cluster: Cluster, offer: Offer, blocker: JobRecord | None) -> bool:
    """Whether a job must wait behind another that blocks the queue."""
    if blocker is None or offer.grows or offer.job == blocker.id:
        return False
    return cluster.jobs[offer.job].priority <= blocker.priority
