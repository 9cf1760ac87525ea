"""A plan, looked through: what it gives to jobs with activation filters is offered to them instead.

Jobs with filters are never offered the same: what one is asked about is not there for the next.
"""

import msgspec

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.allocating import Shares
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.decision import Plan
from headnode.engine.offer import Offer, Stage, place_in, units_of
from headnode.engine.offers import NO_ROOM_TO_ASK, Offers
from headnode.engine.passes import Giving, commands_of


def sift(offers: Offers, plan: Plan, cluster: Cluster, now: Instant) -> list[Giving]:
    """Return what of a plan is given now; about the rest filters are asked."""
    wished = commands_of(plan)
    if not offers.chains.rules and not offers.of:
        return wished
    offers.read_limit(cluster)
    sieve = _Sieve(offers, cluster, now)
    given = [each for each in wished if sieve.passes(each)]
    offers.lose_untaken({each.job for each in given})
    if not sieve.asked:
        offers.let_all_in()
    return given


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
        if record.state not in (JobState.QUEUED, JobState.RUNNING) or not offers.chains.of(cluster, record):
            for node, count in wished.shares:
                self._given[node] = self._given.get(node, 0) + count
            return True
        units = units_of(cluster, record, wished)
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
            count + self._promised.get(node, 0) + self._given.get(node, 0) <= len(self._cluster.free_on(node))
            and not (alone and self._promised.get(node))
            for node, count in shares
        )

    def _put_aside(self, record: JobRecord) -> None:
        """Put a job aside, and all that ask for the same and would have to be asked about, too."""
        offers, cluster = self._offers, self._cluster
        request = cluster.request(record)
        others = (cluster.jobs[JobId(job)] for _, _, job in cluster.queue.get(request, ()))
        alike = [each.id for each in others if each.id not in offers.of and offers.chains.of(cluster, each)]
        offers.put_aside([record.id, *alike])


def _extend(cluster: Cluster, offer: Offer, wished: Giving) -> None:
    """Keep more for a job for which something is kept: up to its maximum."""
    both = dict(offer.giving.shares)
    for node, count in wished.shares:
        both[node] = both.get(node, 0) + count
    offer.giving = msgspec.structs.replace(offer.giving, shares=tuple(both.items()))
    offer.units = units_of(cluster, cluster.jobs[offer.job], offer.giving)
