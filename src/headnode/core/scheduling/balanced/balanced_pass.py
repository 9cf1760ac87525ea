"""A pass in balanced mode: every job that can run has the minimum first, then the rest is shared out.

The pass knows nothing of passes before it: the view shows what jobs were asked for already, and it asks again
as long as a job needs it.  What no job needs any more is not asked for, and its jobs keep it.
The policy of the queue decides which jobs may start, as if running jobs had released already what they have
beyond their minimum, and as if no waiting job asked for more than that.  Where they start is decided here.
Source: HPC Pack scheduling mode Balanced, with its parameters PriorityBias, RebalancingInterval and
PreemptionBalancedMode; preemption type and automatic growth and shrinkage have no effect.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.balanced.growth import ShareGrowth
from headnode.core.scheduling.balanced.reclaim import ReclaimRequest, ReclaimState
from headnode.core.scheduling.balanced.shares import Ease, Lender, Spare, lenders_of
from headnode.core.scheduling.candidates import resolve_now
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.placement import find_placement, part_shares, shares
from headnode.core.scheduling.plan import Claim, LazyReasons, LazyWait, Plan, Reason, Recall, Start, Wait, Why
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.request import resolve
from headnode.core.scheduling.view import Balancing, RunningJob, View, WaitingClass


def minimum_request(request: JobRequest) -> JobRequest:
    """Return the request of a job reduced to its minimum."""
    if request.together or request.start_at_maximum:
        own = request
    else:
        least = max(1, request.minimum, request.node_share, len(request.required_nodes))
        least = max(least, sum(part.units for part in request.parts))
        own = request if least >= request.maximum else replace(request, maximum=least)
    return (
        replace(own, alternatives=tuple(map(minimum_request, request.alternatives)))
        if request.alternatives
        else own
    )


def minimum_classes(view: View) -> list[WaitingClass]:
    """Return the queue by minimum requests: jobs that differ only beyond their minimum are one class."""
    found: dict[JobRequest, WaitingClass] = {}
    for each in view.queue:
        asks = minimum_request(each.request)
        known = found.get(asks)
        turns = each.turns if known is None else sorted(chain(known.turns, each.turns))
        found[asks] = WaitingClass(asks, turns)
    return list(found.values())


def as_if_given_up(view: View, classes: list[WaitingClass], reclaim: ReclaimState, hardest: Ease) -> View:
    """Return the view as if jobs had given up their spares up to this ease, with these waiting classes."""
    spares = list(reclaim.unclaimed_spares(hardest))
    running = [replace(job, wants=0) if job.wants else job for job in view.running]
    plain = replace(view, balancing=None, queue=classes, running=running)
    if not spares:
        return plain
    node_table = reclaim.resources.node_table
    given: dict[JobId, dict[int, int]] = {}
    for spare in spares:
        mine = given.setdefault(spare.job, {})
        mine[spare.node] = mine.get(spare.node, 0) + spare.processors
    resources = reclaim.lifted(spares)
    nodes = _with_board(view, resources, {spare.node for spare in spares})
    licences = {
        feature: (total, resources.licences[feature]) for feature, (total, _) in view.licences.items()
    }
    return replace(
        plain,
        nodes=nodes,
        running=[_without(job, given.get(job.job), node_table) for job in running],
        licences=licences,
        ground=KnownNodes(nodes, node_table),
    )


class MinimumStarts:
    """One pass over the queued jobs.  `inner` is the plan of the queue's policy."""

    def __init__(self, view: View, policy: Policy, reclaim: ReclaimState, *, immediate: bool) -> None:
        self._view, self._reclaim, self._node_table = view, reclaim, reclaim.resources.node_table
        self._hardest = Ease.STOP if immediate else Ease.READY
        self._asks = {each.request: minimum_request(each.request) for each in view.queue}
        self._classes = minimum_classes(view)
        self._policy = policy
        nobody = Plan((), (), {})
        as_if = partial(as_if_given_up, view, self._classes, reclaim)
        self.inner = policy(as_if(self._hardest)) if view.queue else nobody
        self.starts: list[Start] = []
        self.claims: list[Claim] = []
        self._late: dict[JobRequest, Reason] = {}  # of those who wait until tasks end, by what they ask for
        self._put_off: set[JobRequest] = set()
        self._some_day = self._plan_for_some_day()
        self._place_all()
        self._ask_patiently()

    def _place_all(self) -> None:
        asks = self._asks_of(self.inner)
        for start in self.inner.starts:
            self._place(start, asks[start.job])

    def _asks_of(self, plan: Plan) -> dict[int, JobRequest]:
        """Return the requests of the jobs that start."""
        started = {start.job for start in plan.starts}
        return {
            turn.job: each.request for each in self._classes for turn in each.turns if turn.job in started
        }

    def _place(self, start: Start, request: JobRequest) -> None:
        """Start a job on free processors, or claim those that must be given up.

        A backfilled job has its placement from the policy: elsewhere it might delay another job.
        """
        reclaim = self._reclaim
        need = resolve_now(start.taken(request), self._node_table, self._view.now)
        spares: Iterable[Spare] = ()
        placement: Placement | None = None if start.ahead_of else find_placement(need, reclaim.resources)
        if placement is None and start.ahead_of is None:
            there = reclaim.find(need, reclaim.unclaimed_spares(self._hardest))
            placement, spares = there if there is not None else (None, ())
        if placement is None:
            numbers = self._node_table.numbers
            placement = tuple((numbers[name.casefold()], count) for name, count in start.allocation)
            spares = list(reclaim.unclaimed_spares(self._hardest))
        taken = reclaim.claim(need, placement, spares, start.job)
        if taken is None:
            self._put_off.add(request)
            return
        named = shares(placement, self._node_table) if placement else start.allocation
        if taken:
            self.claims.append(Claim(start.job, named, _for_minimum(named, taken), start.option))
        else:
            parts = part_shares(placement, self._node_table) or start.parts
            self.starts.append(replace(start, allocation=named, parts=parts))

    def _plan_for_some_day(self) -> Plan | None:
        """Return the policy's plan once running tasks have ended; None if no job waits for that."""
        harder = (spare for spare in self._reclaim.unclaimed_spares(Ease.WAIT) if spare.ease > self._hardest)
        if not self.inner.waits or next(harder, None) is None:
            return None
        return self._policy(as_if_given_up(self._view, self._classes, self._reclaim, Ease.WAIT))

    def _ask_patiently(self) -> None:
        """Recall processors as their tasks end, for jobs that can start then.

        Free processors are kept for them meanwhile: no job grows onto them.
        """
        if self._some_day is None:
            return
        reclaim, some_day = self._reclaim, self._some_day
        asks, now = self._asks_of(some_day), {start.job for start in self.inner.starts}
        for start in some_day.starts:
            if start.job in now:
                continue
            need = resolve(start.taken(asks[start.job]), self._node_table)
            there = reclaim.find(need, reclaim.unclaimed_spares(Ease.WAIT))
            taken = None if there is None else reclaim.claim(need, *there, start.job, patient=True)
            if there is not None and taken:
                named = shares(there[0], self._node_table)
                self._late.setdefault(asks[start.job], _for_minimum(named, taken, " as their tasks end"))

    def waits(self) -> Mapping[JobRequest, Wait]:
        """Return why the jobs of each request wait, except jobs with a claim."""
        tellings: dict[JobRequest, LazyWait] = {}
        for request, asks in self._asks.items():
            if asks in self.inner.waits or asks in self._put_off:
                tellings[request] = self._lazy_wait(asks)
        return LazyReasons(tellings)

    def _lazy_wait(self, request: JobRequest) -> LazyWait:
        def told() -> Wait:
            wait = self.inner.waits.get(request)
            late = self._late.get(request)
            if wait is None:
                what = "jobs ahead in the queue are placed first; the next pass tries again"
                wait = Wait((Reason(Why.PRIORITY, what),))
            return wait if late is None else replace(wait, reasons=(late, *wait.reasons))

        return told


def _for_minimum(named: Iterable[tuple[str, int]], taken: Iterable[Spare], how: str = "") -> Reason:
    """Return the reason that names which jobs give up how much for the minimum of another."""
    by_job: dict[JobId, int] = {}
    for spare in taken:
        by_job[spare.job] = by_job.get(spare.job, 0) + spare.processors
    who = ", ".join(f"job {job} releases {count}" for job, count in sorted(by_job.items())[:5])
    more = f" and {len(by_job) - 5} more jobs" if len(by_job) > 5 else ""
    wanted = sum(count for _, count in named)
    counted = f"{wanted} processor{'s' if wanted > 1 else ''}"
    return Reason(Why.SHARE, f"it waits for its minimum of {counted}: {who}{more}{how}")


def _with_board(view: View, resources: FreeResources, changed: Iterable[int]) -> dict[str, NodeView]:
    """Return the nodes with what is free, held and owned of these as in `resources`."""
    nodes = dict(view.nodes)
    for number in changed:
        name = resources.node_table.names[number]
        seen = nodes[name]
        nodes[name] = replace(
            seen,
            free=resources.free[number],
            jobs=resources.jobs[number],
            exclusive_to=seen.exclusive_to if resources.owned[number] else None,
            memory_held=seen.facts.memory - resources.memory[number],
            disk_held=seen.facts.disk - resources.disk[number],
            swap_held=seen.facts.swap - resources.swap[number],
            gpus_held=seen.facts.gpus - resources.gpus[number],
        )
    return nodes


def _without(running: RunningJob, shares: Mapping[int, int] | None, node_table: NodeTable) -> RunningJob:
    """Return a running job with what is left of it once it has given this up, by number of node."""
    if not shares:
        return running
    numbers = node_table.numbers
    rest = (
        (name, count - shares.get(numbers.get(name.casefold(), -1), 0)) for name, count in running.allocation
    )
    return replace(running, allocation=tuple(part for part in rest if part[1] > 0))


def balanced_plan(view: View, policy: Policy, balancing: Balancing) -> Plan:
    """Decide about every queued job and every running job.  `policy` decides which jobs may overtake.

    Cost:  a plan of the policy, and O(log(pieces)) placements for each job for which others give up some.
    """
    node_table = view.node_table()
    lenders = lenders_of(view, node_table, balancing)
    free = {feature: left for feature, (_, left) in view.licences.items()}
    reclaim = ReclaimState(FreeResources.now(node_table, view.nodes, free), lenders)
    minimums = MinimumStarts(view, policy, reclaim, immediate=balancing.immediate)
    growing = ShareGrowth(reclaim, balancing, minimums.inner.reservations)
    return Plan(
        starts=tuple(minimums.starts),
        grows=tuple(growing.grows()),
        waits=minimums.waits(),
        reservations=minimums.inner.reservations,
        wake=min(minimums.inner.wake, _wake(balancing, growing)),
        recalls=tuple(_recalls(reclaim, node_table)),
        claims=tuple(minimums.claims),
        shares={job: _in_all(lenders[job], extra) for job, extra in growing.shares.items()},
    )


def minimums_only(view: View) -> View:
    """Return the view for predictions: every job starts with its minimum, and none has more.

    In queued mode the view itself.
    """
    if view.balancing is None:
        return view
    node_table = view.node_table()
    free = {feature: left for feature, (_, left) in view.licences.items()}
    reclaim = ReclaimState(
        FreeResources.now(node_table, view.nodes, free), lenders_of(view, node_table, view.balancing)
    )
    return as_if_given_up(view, minimum_classes(view), reclaim, Ease.WAIT)


def _wake(balancing: Balancing, growing: ShareGrowth) -> Instant:
    return balancing.next_due if growing.lacking else NEVER


def _in_all(lender: Lender, extra: int) -> int:
    """Return how many processors a job should have, its minimum included."""
    return lender.least + extra


def _recalls(reclaim: ReclaimState, node_table: NodeTable) -> Iterator[Recall]:
    """Yield what jobs are asked for, where that is not what they were asked for before.

    As long as anybody waits for what is given up, all that was asked for is: else who waits for one thing
    today and for another tomorrow would be the cause of endless asking.
    """
    still = reclaim.unclaimed() if reclaim.requests else {}
    for job, lender in sorted(reclaim.lenders.items()):
        asked = reclaim.requests.get(job, ReclaimRequest())
        counts = asked.counts()
        for node, count in still.get(job, {}).items():
            counts[node] = counts.get(node, 0) + count
        wanted = {node_table.names[node]: count for node, count in sorted(counts.items()) if count}
        before = {
            part.node: part.leaving + part.awaited
            for part in lender.sharer.held
            if part.leaving or part.awaited
        }
        if wanted != before:
            for_jobs = tuple(asked.for_jobs)
            yield Recall(job, tuple(wanted.items()), _why(for_jobs), asked.stops, for_jobs)


def _why(for_jobs: Mapping[JobId, None] | tuple[JobId, ...]) -> Reason:
    """Return the reason of a recall, which names the jobs that get the processors."""
    if not for_jobs:
        return Reason(Why.SHARE, "other jobs no longer need its processors")
    first = ", ".join(map(str, tuple(for_jobs)[:5]))
    named = f"job{'s' if len(for_jobs) > 1 else ''} {first}{' and others' if len(for_jobs) > 5 else ''}"
    hold = "hold" if len(for_jobs) > 1 else "holds"
    return Reason(Why.SHARE, f"it holds more than its share, or {named} {hold} less than the minimum", first)
