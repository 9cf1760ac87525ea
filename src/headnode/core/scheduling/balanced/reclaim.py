"""Which jobs release what so that another fits: the fewest pieces, most from the jobs above their share.

Pieces are lifted from the free resources for a look, and put back; what is claimed stays lifted, and its
claimant holds it there, though its processors are free only once the jobs have released them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from math import inf

from headnode.core.model.job import gpus_with
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.balanced.shares import Ease, Lender, Spare
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.placement import find_placement
from headnode.core.scheduling.request import ResolvedRequest

MAX_CLAIMED = 32  # pieces that are gone through in vain, and a part of all, before they are taken out


class ReclaimRequest:
    """The processors that one running job must give up, by node, and the jobs that will get them."""

    def __init__(self) -> None:
        self.soon: dict[int, int] = {}  # what it is asked for already, what is idle, and what is stopped
        self.some_day: dict[int, int] = {}  # as its tasks end
        self.stops = False  # tasks are stopped for it
        self.for_jobs: dict[JobId, None] = {}

    def add(self, spare: Spare, for_job: JobId, *, patient: bool) -> None:
        """Add one spare to the request; if `patient`, no task is stopped for it."""
        later = patient and spare.ease is not Ease.READY and not spare.asked_before
        counts = self.some_day if later else self.soon
        counts[spare.node] = counts.get(spare.node, 0) + spare.processors
        self.stops = self.stops or (spare.ease is Ease.STOP and not patient)
        self.for_jobs[for_job] = None

    def counts(self) -> dict[int, int]:
        """Return the processors to recall now; if tasks are stopped, the others follow at a later pass."""
        if self.stops:
            return dict(self.soon)
        return {n: self.soon.get(n, 0) + self.some_day.get(n, 0) for n in {**self.soon, **self.some_day}}


class ReclaimState:
    """Free resources, those of them that this pass has promised, and those that running jobs can give up.

    `extra` is how many processors each job has beyond its minimum, without recalled ones; `leaving`, how many
    were recalled before and are not claimed yet.
    """

    def __init__(self, resources: FreeResources, lenders: Mapping[JobId, Lender]) -> None:
        self.resources, self.lenders = resources, lenders
        self.extra = {job: lender.extra for job, lender in lenders.items()}
        self.leaving = {job: lender.leaving for job, lender in lenders.items()}
        self.requests: dict[JobId, ReclaimRequest] = {}
        self._given: dict[tuple[JobId, int], int] = {}  # how much of what a job holds of a node is lifted
        numbers = count()
        spares = (spare for lender in lenders.values() for spare in lender.spares(numbers))
        self._spares = sorted(spares, key=self._turn_to_give)
        self._claimed: set[int] = set()  # numbers of those among them

    def _turn_to_give(self, spare: Spare) -> tuple[bool, float, int, int]:
        """Order spares: recalled or idle first; then of the job with most; of equals, the newest."""
        turn = self.lenders[spare.job].running.turn
        return (
            spare.ease is not Ease.READY and not spare.asked_before,
            -spare.level,
            turn.priority,
            -turn.order,
        )

    def unclaimed_spares(self, hardest: Ease) -> Iterator[Spare]:
        """Return the unclaimed spares up to this ease, in the order in which they are reclaimed."""
        if len(self._claimed) > MAX_CLAIMED + len(self._spares) // MAX_CLAIMED:
            self._spares = [spare for spare in self._spares if spare.number not in self._claimed]
            self._claimed.clear()
        return (each for each in self._spares if each.ease <= hardest and each.number not in self._claimed)

    def above(self, shares: Mapping[JobId, int], hardest: Ease | None) -> list[Spare]:
        """Return what jobs can give and keep their share, in processors; None: what they were asked for."""
        left = dict(self.extra)
        found = []
        for spare in self.unclaimed_spares(Ease.WAIT if hardest is None else hardest):
            if spare.asked_before:
                found.append(spare)
            elif hardest is None:
                continue
            elif left[spare.job] - spare.processors >= shares.get(spare.job, 0):
                left[spare.job] -= spare.processors
                found.append(spare)
        return found

    def unclaimed(self) -> dict[JobId, dict[int, int]]:
        """Return the processors recalled from each job before and not yet claimed, by node."""
        found: dict[JobId, dict[int, int]] = {}
        for spare in self.unclaimed_spares(Ease.WAIT):
            if spare.asked_before:
                mine = found.setdefault(spare.job, {})
                mine[spare.node] = mine.get(spare.node, 0) + spare.processors
        return found

    def lifted(self, spares: Iterable[Spare]) -> FreeResources:
        """Return what is free when jobs have given these pieces, for a look."""
        before, given = self.resources, self._given
        self.resources, self._given = before.copy(), given.copy()
        self.lift(spares)
        seen, self.resources, self._given = self.resources, before, given
        return seen

    def lift(self, spares: Iterable[Spare]) -> None:
        """Let jobs give these pieces."""
        for spare in spares:
            self._move(spare, 1)

    def lower(self, spares: Iterable[Spare]) -> None:
        """Let jobs have them back."""
        for spare in spares:
            self._move(spare, -1)

    def _move(self, spare: Spare, sign: int) -> None:
        lender, resources, node = self.lenders[spare.job], self.resources, spare.node
        before = self._given.get((spare.job, node), 0)
        after = self._given[spare.job, node] = before + sign * spare.processors
        resources.free[node] += sign * spare.processors
        if not lender.need.whole:
            resources.memory[node] += sign * spare.processors * lender.need.memory
            resources.gpus[node] += sign * gpus_with(spare.processors, lender.need.processors_per_gpu)
        for feature, size in lender.need.each.items():
            if feature in resources.licences:
                resources.licences[feature] += sign * (spare.processors // size)
        if (before >= lender.holds[node]) != (after >= lender.holds[node]):
            resources.jobs[node] -= sign
            if lender.need.held and not lender.need.whole:
                resources.give(node, lender.need.held, sign)
            if lender.need.exclusive:
                resources.owned[node] = sign < 0

    def find(
        self, need: ResolvedRequest, spares: Iterable[Spare]
    ) -> tuple[Placement, Sequence[Spare]] | None:
        """Return a placement of the request with the fewest of these spares, in their order, and those.

        A request that fits still fits if more is free, so this is a binary search.
        Cost:  O(log(pieces needed)) placements.
        """
        waiting = iter(spares)
        tried = list(_with_processors(waiting, self._missing(need)))
        self.lift(tried)
        failed, found = len(tried) - 1, find_placement(need, self.resources)
        while found is None:
            more = list(islice(waiting, max(1, len(tried))))
            if not more:
                self.lower(tried)
                return None
            self.lift(more)
            failed = len(tried)
            tried += more
            found = find_placement(need, self.resources)
        lifted = enough = len(tried)
        while enough - failed > 1:
            middle = (failed + enough) // 2
            lifted = self._go_to(tried, lifted, middle)
            fits = find_placement(need, self.resources)
            if fits is None:
                failed = middle
            else:
                enough, found = middle, fits
        self._go_to(tried, lifted, 0)
        return found, tried[:enough]

    def _missing(self, need: ResolvedRequest) -> int:
        """Return how many processors more there must be at least; a unit has one at least."""
        free = self.resources.free
        most = max((sum([free[node] for node in order]) for order in need.alternatives), default=0)
        return max(0, need.minimum - most)

    def _go_to(self, spares: Sequence[Spare], lifted: int, needed: int) -> int:
        """Let so many of the pieces be lifted, the first ones."""
        if needed > lifted:
            self.lift(spares[lifted:needed])
        else:
            self.lower(spares[needed:lifted])
        return needed

    def claim(
        self,
        need: ResolvedRequest,
        placement: Placement,
        spares: Iterable[Spare],
        for_job: JobId,
        *,
        patient: bool = False,
    ) -> list[Spare] | None:
        """Grant this placement; jobs give up as many of these spares as it takes.

        Returns what they are asked for: nothing if it is all free.  None if it cannot be had with them.
        """
        on: dict[int, list[Spare]] = {}
        for spare in spares:
            on.setdefault(spare.node, []).append(spare)
        taken: list[Spare] = []
        free_now = {node: self.resources.free[node] for node, _ in placement}
        licences_now = self._licences_of(each for some in on.values() for each in some)
        for node, processors in placement:
            taken += self._lift_on(need, node, processors, on.get(node, ()))
        taken += self._lift_for_licences(
            need, placement, (each for some in on.values() for each in some), taken
        )
        if not self._has(need, placement):
            self.lower(taken)
            return None
        self.resources.put(need.piece(placement))
        for spare in taken:  # the unused rest of a large spare is not free
            left = max(0, free_now.get(spare.node, 0) - dict(placement).get(spare.node, 0))
            self.resources.free[spare.node] = min(self.resources.free[spare.node], left)
        self._keep_licences(need.licences(placement), licences_now, taken)
        for spare in taken:
            self._claimed.add(spare.number)
            self.requests.setdefault(spare.job, ReclaimRequest()).add(spare, for_job, patient=patient)
            counted = self.leaving if spare.asked_before else self.extra
            counted[spare.job] -= spare.processors
        return taken

    def _keep_licences(
        self, used: Mapping[str, int], before: Mapping[str, int], taken: Iterable[Spare]
    ) -> None:
        """Keep from others the licences of these spares: their jobs have them until they release them."""
        licences = self.resources.licences
        for feature in self._licences_of(taken):
            left = max(0, before[feature] - used.get(feature, 0))
            licences[feature] = min(licences[feature], left)

    def _licences_of(self, spares: Iterable[Spare]) -> dict[str, int]:
        """Return what is free of the licences that go with the processors of these spares."""
        licences = self.resources.licences
        jobs = {spare.job for spare in spares}
        features = {each for job in jobs for each in self.lenders[job].need.each}
        return {feature: licences[feature] for feature in features if feature in licences}

    def keep(self, job: JobId, processors: int) -> None:
        """Let a job keep processors recalled before, up to so many."""
        for spare in list(self.unclaimed_spares(Ease.WAIT)):
            if spare.job == job and spare.asked_before and spare.processors <= processors:
                self._claimed.add(spare.number)
                self.extra[job] += spare.processors
                self.leaving[job] -= spare.processors
                processors -= spare.processors

    def _lift_on(
        self, need: ResolvedRequest, node: int, processors: int, spares: Iterable[Spare]
    ) -> Iterator[Spare]:
        for spare in spares:
            if self._has_on(need, node, processors):
                return
            self._move(spare, 1)
            yield spare

    def _lift_for_licences(
        self, need: ResolvedRequest, placement: Placement, spares: Iterable[Spare], taken: Sequence[Spare]
    ) -> list[Spare]:
        """Lift pieces of jobs that hold the licences that are missing, one for each processor."""
        known, lifted = {spare.number for spare in taken}, []
        missing = {
            feature: amount - self.resources.licences[feature]
            for feature, amount in need.licences(placement).items()
            if amount > self.resources.licences.get(feature, inf)
        }
        for spare in spares if missing else ():
            useful = [feature for feature in self.lenders[spare.job].need.each if missing.get(feature, 0) > 0]
            if useful and spare.number not in known:
                self._move(spare, 1)
                lifted.append(spare)
                for feature in useful:
                    missing[feature] -= spare.processors // self.lenders[spare.job].need.each[feature]
        return lifted

    def _has(self, need: ResolvedRequest, placement: Placement) -> bool:
        licences = self.resources.licences
        return all(self._has_on(need, node, processors) for node, processors in placement) and all(
            amount <= licences.get(feature, inf) for feature, amount in need.licences(placement).items()
        )

    def _has_on(self, need: ResolvedRequest, node: int, processors: int) -> bool:
        """Return whether so many free processors of a node can be used by the request."""
        resources = self.resources
        if need.whole and not resources.is_idle(node):
            return False
        memory, each = (0, 0) if need.whole else (need.memory, need.processors_per_gpu)
        return (
            resources.free[node] >= processors
            and resources.has(node, need.held)
            and resources.memory[node] - need.held.memory >= processors * memory
            and not resources.owned[node]
            and (not each or resources.gpus[node] >= processors // each)
        )


def _with_processors(spares: Iterator[Spare], processors: int) -> Iterator[Spare]:
    """Yield the first pieces that have so many processors together."""
    while processors > 0 and (spare := next(spares, None)) is not None:
        processors -= spare.processors
        yield spare
