"""First of all everybody who waits has the minimum, in the order of the queue: of what is free, or given up.

The policy of the queue decides who may start, as if running jobs had given up already what they have beyond
their minimum, and as if nobody who waits asked for more than that.  Where they start is looked for here.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.balanced.lenders import Ease, Spare
from headnode.core.scheduling.balanced.lending import Lending
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.decision import Claim, Plan, Reason, Start, Wait, Why
from headnode.core.scheduling.need import need_of
from headnode.core.scheduling.placement import fit, part_shares, shares
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.terrain import Ground, Terrain
from headnode.core.scheduling.view import NodeView, RunningJob, View, WaitingClass
from headnode.core.scheduling.waits import Telling, Waits


def modest(request: JobRequest) -> JobRequest:
    """Return the request of a job that asks for no more than it must have to run."""
    if request.together or request.start_at_maximum:
        own = request
    else:
        least = max(1, request.minimum, request.node_share, len(request.required_nodes))
        least = max(least, sum(part.units for part in request.parts))
        own = request if least >= request.maximum else replace(request, maximum=least)
    return replace(own, others=tuple(map(modest, request.others))) if request.others else own


def modest_classes(view: View) -> list[WaitingClass]:
    """Return the queue; those who differ only in what they would like to have are one class."""
    found: dict[JobRequest, WaitingClass] = {}
    for each in view.queue:
        asks = modest(each.request)
        known = found.get(asks)
        turns = each.turns if known is None else sorted(chain(known.turns, each.turns))
        found[asks] = WaitingClass(asks, turns)
    return list(found.values())


def as_if_given_up(view: View, classes: list[WaitingClass], lending: Lending, hardest: Ease) -> View:
    """Return the view as if jobs had given up what takes no more than this, with these waiting."""
    spares = list(lending.left(hardest))
    running = [replace(job, wants=0) if job.wants else job for job in view.running]
    plain = replace(view, balancing=None, queue=classes, running=running)
    if not spares:
        return plain
    terrain = lending.board.terrain
    given: dict[JobId, dict[int, int]] = {}
    for spare in spares:
        mine = given.setdefault(spare.job, {})
        mine[spare.node] = mine.get(spare.node, 0) + spare.processors
    board = lending.lifted(spares)
    nodes = _with_board(view, board, {spare.node for spare in spares})
    licences = {feature: (total, board.licences[feature]) for feature, (total, _) in view.licences.items()}
    return replace(
        plain,
        nodes=nodes,
        running=[_without(job, given.get(job.job), terrain) for job in running],
        licences=licences,
        ground=Ground(nodes, terrain),
    )


class Minimums:
    """One pass over those who wait.  `inner` is the plan of the policy of the queue."""

    def __init__(self, view: View, policy: Policy, lending: Lending, *, immediate: bool) -> None:
        self._view, self._lending, self._terrain = view, lending, lending.board.terrain
        self._hardest = Ease.STOP if immediate else Ease.READY
        self._asks = {each.request: modest(each.request) for each in view.queue}
        self._classes = modest_classes(view)
        self._policy = policy
        nobody = Plan((), (), {})
        as_if = partial(as_if_given_up, view, self._classes, lending)
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
        """Return what those ask for who start."""
        started = {start.job for start in plan.starts}
        return {turn[2]: each.request for each in self._classes for turn in each.turns if turn[2] in started}

    def _place(self, start: Start, asks: JobRequest) -> None:
        """Let a job start where it is free, or claim what must be given up.

        Who overtakes has its place from the policy: elsewhere it might be in somebody's way.
        """
        need, lending = need_of(asks.option(start.option), self._terrain), self._lending
        spares: Iterable[Spare] = ()
        found: Fit | None = None if start.ahead_of else fit(need, lending.board)
        if found is None and start.ahead_of is None:
            there = lending.find(need, lending.left(self._hardest))
            found, spares = there if there is not None else (None, ())
        if found is None:
            numbers = self._terrain.numbers
            found = tuple((numbers[name.casefold()], count) for name, count in start.allocation)
            spares = list(lending.left(self._hardest))
        taken = lending.claim(need, found, spares, start.job)
        if taken is None:
            self._put_off.add(asks)
            return
        named = shares(found, self._terrain) if found else start.allocation
        if taken:
            self.claims.append(Claim(start.job, named, _for_minimum(named, taken), start.option))
        else:
            parts = part_shares(found, self._terrain) or start.parts
            self.starts.append(Start(start.job, named, start.ahead_of, start.option, parts))

    def _plan_for_some_day(self) -> Plan | None:
        """Return what the policy would do once running tasks have ended; None: nobody waits for that."""
        harder = (spare for spare in self._lending.left(Ease.WAIT) if spare.ease > self._hardest)
        if not self.inner.waits or next(harder, None) is None:
            return None
        return self._policy(as_if_given_up(self._view, self._classes, self._lending, Ease.WAIT))

    def _ask_patiently(self) -> None:
        """Let jobs give up what their tasks use as these end, for those who may start then.

        What is free is kept for them meanwhile: nobody grows into it.
        """
        if self._some_day is None:
            return
        lending, some_day = self._lending, self._some_day
        asks, now = self._asks_of(some_day), {start.job for start in self.inner.starts}
        for start in some_day.starts:
            if start.job in now:
                continue
            need = need_of(asks[start.job].option(start.option), self._terrain)
            there = lending.find(need, lending.left(Ease.WAIT))
            taken = None if there is None else lending.claim(need, *there, start.job, patient=True)
            if there is not None and taken:
                named = shares(there[0], self._terrain)
                self._late.setdefault(asks[start.job], _for_minimum(named, taken, " as their tasks end"))

    def waits(self) -> Mapping[JobRequest, Wait]:
        """Return why the jobs of each request wait, but for those who have a claim."""
        tellings: dict[JobRequest, Telling] = {}
        for request, asks in self._asks.items():
            if asks in self.inner.waits or asks in self._put_off:
                tellings[request] = self._telling(asks)
        return Waits(tellings)

    def _telling(self, asks: JobRequest) -> Telling:
        def told() -> Wait:
            wait = self.inner.waits.get(asks)
            late = self._late.get(asks)
            if wait is None:
                what = "jobs ahead in the queue are placed first; the next pass tries again"
                wait = Wait((Reason(Why.PRIORITY, what),))
            return wait if late is None else replace(wait, reasons=(late, *wait.reasons))

        return told


def _for_minimum(named: Iterable[tuple[str, int]], taken: Iterable[Spare], how: str = "") -> Reason:
    """Say who gives up how much, so that somebody has the minimum."""
    by_job: dict[JobId, int] = {}
    for spare in taken:
        by_job[spare.job] = by_job.get(spare.job, 0) + spare.processors
    who = ", ".join(f"job {job} gives up {count}" for job, count in sorted(by_job.items())[:5])
    more = f" and {len(by_job) - 5} more jobs" if len(by_job) > 5 else ""
    wanted = sum(count for _, count in named)
    counted = f"{wanted} processor{'s' if wanted > 1 else ''}"
    return Reason(Why.SHARE, f"it waits for its minimum of {counted}: {who}{more}{how}")


def _with_board(view: View, board: Board, changed: Iterable[int]) -> dict[str, NodeView]:
    """Return the nodes with what is free, held and owned of these as on the board."""
    nodes = dict(view.nodes)
    for number in changed:
        name = board.terrain.names[number]
        seen = nodes[name]
        nodes[name] = replace(
            seen,
            free=board.free[number],
            jobs=board.jobs[number],
            exclusive_to=seen.exclusive_to if board.owned[number] else None,
            memory_held=seen.facts.memory - board.memory[number],
            disk_held=seen.facts.disk - board.disk[number],
            swap_held=seen.facts.swap - board.swap[number],
        )
    return nodes


def _without(running: RunningJob, given: Mapping[int, int] | None, terrain: Terrain) -> RunningJob:
    """Return a running job with what is left of it once it has given this up, by number of node."""
    if not given:
        return running
    numbers = terrain.numbers
    rest = (
        (name, count - given.get(numbers.get(name.casefold(), -1), 0)) for name, count in running.allocation
    )
    return replace(running, allocation=tuple(part for part in rest if part[1] > 0))
