"""What running jobs have beyond their minimum: shared out, grown into, and taken from others.

Jobs that could use the same nodes share what is beyond the minimum of them all.  Where nodes are not all
alike, a job may not reach its share: then others have what is left over, and no job releases what that job
could not use.  So a pass over a balanced cluster changes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from headnode.core.model.owner_limits import is_of_one_job
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.balanced.reclaim import ReclaimState
from headnode.core.scheduling.balanced.shares import Ease, Lender, Spare, areas, share_out
from headnode.core.scheduling.free_resources import Placement
from headnode.core.scheduling.node_table import NodeOrder
from headnode.core.scheduling.placement import find_placement, shares
from headnode.core.scheduling.plan import Grow, Reservation
from headnode.core.scheduling.request import ResolvedRequest, resolve_growth
from headnode.core.scheduling.view import Balancing


class ShareGrowth:
    """One distribution of shares: `shares` is how many processors beyond its minimum each job should have."""

    def __init__(
        self, reclaim: ReclaimState, balancing: Balancing, reservations: Sequence[Reservation]
    ) -> None:
        self._reclaim, self._balancing = reclaim, balancing
        self._reservations = reservations
        self._lenders = sorted(reclaim.lenders.values(), key=lambda lender: lender.running.turn)
        self._claims = {lender.job: lender.claim() for lender in self._lenders}
        self._areas = areas(self._lenders, len(reclaim.resources.free))
        self._unused = [0] * len(reclaim.resources.free)  # processors of each node that no job can use
        self._useful: dict[int, tuple[NodeOrder, int]] = {}  # by rules, and for how many still to ask
        self._granted: dict[JobId, dict[int, int]] = {}
        self._goals: dict[JobId, int] = {}
        self._more = dict.fromkeys(reclaim.lenders, 0)  # units that this pass has given jobs
        self._got: dict[JobId, int] = {}  # processors more that jobs get in this pass
        self._share_out({})
        self._onto_free()
        if self._leave_out_unused():
            self._share_out({})
        self.shares = dict(self._goals)
        self._keep_own()
        self._onto_given_up()
        self._onto_rest()

    @property
    def lacking(self) -> bool:
        """Return whether any job has less than its share."""
        extra = self._reclaim.lenders
        return any(self.shares[job] - extra[job].extra >= extra[job].size for job in self.shares)

    def grows(self) -> Iterator[Grow]:
        """Yield the growth of jobs onto free processors, without recalls."""
        for job, got in self._granted.items():
            yield Grow(job, shares(tuple(got.items()), self._reclaim.resources.node_table))

    def _share_out(self, most: Mapping[JobId, int]) -> None:
        """Share out what is free and what jobs have beyond their minimum; `most` caps some, in processors."""
        for area in self._areas:
            claims = [self._claims[lender.job] for lender in area.jobs]
            capped = [
                claim if lender.job not in most else claim._replace(most=most[lender.job] // claim.size)
                for lender, claim in zip(area.jobs, claims, strict=True)
            ]
            there = area.free(self._reclaim.resources, self._unused)
            there += sum(
                self._reclaim.extra[each.job] + self._reclaim.leaving[each.job] for each in area.jobs
            )
            for lender, units in zip(area.jobs, share_out(capped, there), strict=True):
                self._goals[lender.job] = units * lender.size

    def _lacks(self, lender: Lender) -> int:
        """Return how many units a job lacks to its share, and has tasks for that wait: others do not move."""
        short = self._goals[lender.job] - self._reclaim.extra[lender.job]
        if short < lender.size:
            return 0
        waits = lender.sharer.waits - self._more[lender.job]
        return max(0, min(short // lender.size * lender.step, waits))

    def _in_need(self) -> list[Lender]:
        """Return the jobs below their share, the one with the least for its weight first."""
        extra = self._reclaim.extra
        lacking = [lender for lender in self._lenders if self._lacks(lender)]
        return sorted(lacking, key=lambda each: (extra[each.job] + each.size) / each.weight)

    def _keep_own(self) -> None:
        """Let jobs below their share keep recalled processors, once no job waits for them."""
        if self._reclaim.requests:
            return
        for lender in self._lenders:
            short = self._goals[lender.job] - self._reclaim.extra[lender.job]
            if short > 0 and any(part.leaving or part.awaited for part in lender.sharer.held):
                self._reclaim.keep(lender.job, short)

    def _onto_free(self) -> None:
        """Grow jobs to their shares on free processors."""
        refused: set[tuple[object, ...]] = set()
        self._useful.clear()
        for lender in self._in_need():
            if not any(self._reclaim.resources.free):
                return
            kind = _growth_kind(lender)
            if kind in refused:
                continue
            need = self._growth(lender)
            kept = self._keep_promised(lender)
            found = None if need is None else find_placement(need, self._reclaim.resources)
            self._free_again(kept)
            if need is None or found is None:
                refused.add(kind)
                continue
            self._reclaim.claim(need, found, (), lender.job)
            self._grown(lender, found)

    def _growth(self, lender: Lender) -> ResolvedRequest | None:
        most = lender.running.request.maximum - lender.units - self._more[lender.job]
        wants = min(self._lacks(lender), most)
        need = resolve_growth(replace(lender.running, wants=wants), self._reclaim.resources.node_table)
        if need is None:
            return None
        if need.fixed:  # its limits for one job; what it has got in this pass counts too
            got = self._got.get(lender.job, 0)
            fixed = {key: need.timed[key].held(got) + n for key, n in need.fixed.items()}
            need = need._replace(fixed=fixed)
        if lender.need.single or len(lender.need.alternatives) != 1:
            return need
        return need._replace(alternatives=(self._of_use(lender.need.rules, need.alternatives[0]),))

    def _of_use(self, rules: int, order: NodeOrder) -> NodeOrder:
        """Return the nodes with free processors, as of a recent call with these rules.

        Within a stage what is free only shrinks, and most nodes of a busy cluster have nothing.
        """
        known, times = self._useful.get(rules, ((), 0))
        if not times:
            free = self._reclaim.resources.free
            known = tuple([node for node in order if free[node] > 0])
            times = len(known) // 8 + 1
        self._useful[rules] = known, times - 1
        return known

    def _grown(self, lender: Lender, placement: Placement) -> None:
        got = self._granted.setdefault(lender.job, {})
        for node, count in placement:
            got[node] = got.get(node, 0) + count
        self._has_more(lender, placement)

    def _has_more(self, lender: Lender, placement: Placement) -> None:
        size = sum(count for _, count in placement)
        self._reclaim.extra[lender.job] += size
        self._got[lender.job] = self._got.get(lender.job, 0) + size
        self._more[lender.job] += lender.units_of(placement)

    def _keep_promised(self, lender: Lender) -> list[tuple[int, int]]:
        """Keep what is reserved from a job that would not give it back in time; return what it is."""
        resources, numbers = self._reclaim.resources, self._reclaim.resources.node_table.numbers
        kept: list[tuple[int, int]] = []
        if lender.sharer.lasting or not self._balancing.immediate:
            for each in self._reservations:
                for name, count in each.allocation if lender.running.end > each.at else ():
                    node = numbers[name.casefold()]
                    less = min(resources.free[node], count)
                    resources.free[node] -= less
                    kept.append((node, less))
        return kept

    def _free_again(self, units: list[tuple[int, int]]) -> None:
        for node, less in units:
            self._reclaim.resources.free[node] += less

    def _leave_out_unused(self) -> bool:
        """Exclude free processors that no job below its share can use from the shared ones."""
        if not any(self._lacks(lender) for lender in self._lenders):
            return False
        self._unused = [max(0, count) for count in self._reclaim.resources.free]
        return any(self._unused)

    def _onto_given_up(self) -> None:
        """Grow jobs onto recalled processors, and recall processors beyond the shares of others."""
        if not self._in_need():
            return
        self._onto(self._reclaim.above(self.shares, None))
        if self._balancing.due and self._in_need():
            if self._balancing.immediate:
                self._onto(self._reclaim.above(self.shares, Ease.STOP))
            self._onto(self._reclaim.above(self.shares, Ease.WAIT), patient=True)

    def _onto(self, spares: Sequence[Spare], *, patient: bool = False) -> None:
        """Claim these spares for jobs below their share; the jobs grow once the processors are free."""
        lacking = self._in_need()
        if not spares or not lacking:
            return
        reclaim = self._reclaim
        on: dict[int, list[Spare]] = {}
        for spare in spares:
            on.setdefault(spare.node, []).append(spare)
        reclaim.lift(spares)
        refused: set[tuple[object, ...]] = set()
        self._useful.clear()
        for lender in lacking:
            kind = _growth_kind(lender)
            need = None if kind in refused else self._growth(lender)
            found = None if need is None else find_placement(need, reclaim.resources)
            if need is None or found is None:
                refused.add(kind)
                continue
            there = [spare for node, _ in found for spare in on.get(node, ())]
            reclaim.lower(there)
            others = [spare for spare in there if spare.job != lender.job]
            taken = reclaim.claim(need, found, others, lender.job, patient=patient)
            if taken is not None:
                self._has_more(lender, found)
            gone = {spare.number for spare in taken or ()}
            for node, _ in found:
                on[node] = [spare for spare in on.get(node, ()) if spare.number not in gone]
            reclaim.lift(spare for node, _ in found for spare in on[node])
        reclaim.lower(spare for some in on.values() for spare in some)

    def _onto_rest(self) -> None:
        """Give processors that a job cannot use for its share to other jobs, beyond their own shares."""
        self._unused = [0] * len(self._unused)
        stuck: dict[JobId, int] = {}
        while any(self._reclaim.resources.free):
            self._share_out(stuck)
            self._onto_free()
            more = [each.job for each in self._lenders if each.job not in stuck and self._lacks(each)]
            if not more:
                return
            stuck |= {job: self._reclaim.extra[job] for job in more}


def _growth_kind(lender: Lender) -> tuple[object, ...]:
    """Return a key of jobs that can grow on the same nodes: if one cannot grow, none can."""
    need = lender.need
    if need.single or len(need.alternatives) != 1 or any(map(is_of_one_job, need.timed)):
        return (lender.job,)
    return (
        need.rules,
        need.unit,
        need.whole,
        need.memory,
        need.processors_per_gpu,
        need.held,
        tuple(sorted(need.each)),
        tuple(need.timed.items()),
        lender.sharer.lasting,
    )
