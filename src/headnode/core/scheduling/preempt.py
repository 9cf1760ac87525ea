"""Preemption: which jobs release what so that a job of higher priority can start, by the policy itself.

Strictly higher priority only, so no job preempts one that may preempt it.  Jobs are preempted for another
only if the policy then starts it: with memory, licences, sole ownership, reservations and all jobs before it
counted.  Until it starts, what it is to have is kept for it: a claim.

Source: HPC Pack cluster parameter PreemptionType, queued scheduling mode.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.candidates import resolve_now
from headnode.core.scheduling.free_resources import Allocation, FreeResources
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.plan import Claim, Plan, Preempt, Reason, Recall, Shares, Start, Why
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.shadow_reservation import release_of
from headnode.core.scheduling.view import RunningJob, View
from headnode.core.scheduling.what_if_view import (
    in_turn,
    joined_shares,
    least,
    only_what_is_free,
    queue_up_to,
    with_given_up,
    with_least,
    with_started,
    without_growth,
)

MAX_PLANS = 100  # asked of the policy in one pass; who comes later in the queue waits for the next
MAX_ALONE = 64  # running jobs of which one may do in place of several


class PendingRelease(NamedTuple):
    """The resources that a job is already giving up, and the jobs that will get them; `ends` if it ends."""

    job: JobId
    allocation: Shares
    for_jobs: tuple[JobId, ...]
    ends: bool


class PreemptionCandidate(NamedTuple):
    """A running job that may be preempted, and the start of its run."""

    job: JobId
    since: Instant


class _LowerJob(NamedTuple):
    """A candidate with what it holds, beside what it is giving up already."""

    job: RunningJob
    since: Instant


class PreemptionState(NamedTuple):
    """The facts for preemption beyond the view: jobs that give up processors or end, and the mode.

    `candidates` are the jobs that may be preempted for a job of this priority; `graceful`: they release
    processors as their tasks end; `in_parts`: only as many as needed, if `can_lend` allows it.
    No job is preempted for a job in `barred`.
    """

    giving: Sequence[PendingRelease]
    ending: Mapping[JobId, Shares]
    candidates: Callable[[int], Sequence[PreemptionCandidate]] | None = None
    graceful: bool = False
    in_parts: bool = False
    can_lend: Callable[[JobId, Shares], bool] = lambda _job, _shares: False
    barred: Callable[[JobId], bool] = lambda _job: False


def preempting_plan(view: View, policy: Policy, scene: PreemptionState) -> Plan:
    """Return the policy's plan, with the jobs to preempt and the jobs that get their processors.

    Cost:  one plan of the policy if no job gives anything up or could; else a few more of a shorter queue.
    """
    state = _PreemptionPass(view, policy, scene)
    found = policy(state.now)
    if scene.candidates is not None and state.preempt_for(found):
        found = policy(state.now)
    return replace(
        found,
        starts=(*state.starts, *found.starts),
        preempts=tuple(state.preempts),
        recalls=tuple(state.recalls),
        claims=tuple(state.claims),
    )


class _PreemptionPass:
    """What is claimed, and what is left for others: `now` is what the policy may plan with.

    `then` is the view with everything free that is being given up, and those running that are to have it.
    """

    def __init__(self, view: View, policy: Policy, scene: PreemptionState) -> None:
        self.now = self.then = view
        self.starts: list[Start] = []
        self.claims: list[Claim] = []
        self.preempts: list[Preempt] = []
        self.recalls: list[Recall] = []
        self._lifted: dict[JobId, PendingRelease] = {}  # what is free in `then`
        self._policy, self._scene = policy, scene
        self._plans = 0
        self._settle(view)

    def _settle(self, view: View) -> None:
        """Start jobs that others gave up processors for; claim processors still to come for the rest."""
        wanted = {job for each in self._scene.giving for job in each.for_jobs}
        turns = [turn for each in view.queue for turn in each.turns if turn.job in wanted] if wanted else []
        if not turns:
            return
        short = without_growth(replace(view, queue=queue_up_to(view, max(turns)), freed=True))
        self.starts = list(self._policy(short).starts)
        after = with_started(view, self.starts)
        waiting = {turn.job for turn in turns}
        self._lifted = {each.job: each for each in self._scene.giving if waiting & set(each.for_jobs)}
        then = with_given_up(after, {job: each.allocation for job, each in self._lifted.items()})
        ahead = with_least(queue_up_to(then, max(turns)), wanted)
        found = self._policy(without_growth(replace(then, queue=ahead, freed=True))).starts
        for start in found:
            self.claims.append(
                Claim(start.job, start.allocation, self._preempted_for(start.job), start.option)
            )
        self._take(after, then, found)

    def _take(self, now: View, then: View, claimed: Sequence[Start]) -> None:
        """Keep what these are to have."""
        self.then = with_started(then, claimed)
        self.now = only_what_is_free(self.then, now) if self.claims else now

    def _preempted_for(self, job: JobId) -> Reason:
        lifted = list(self._lifted.values())
        givers = [each for each in lifted if job in each.for_jobs] or lifted
        ends = all(each.ends for each in givers)
        return preemption_reason([each.job for each in givers], graceful=not ends)

    def preempt_for(self, plan: Plan) -> bool:
        """Preempt jobs for those that do not start; return whether any job is preempted."""
        starting = {start.job for start in plan.starts}
        others_ending = self._others_ending()
        base = with_given_up(without_growth(self.then), others_ending)
        alike = not others_ending and not any(job.wants for job in self.then.running)
        refused: set[JobRequest] = set()
        everybody = list(self._candidates())
        for turn, request in in_turn(self.now):
            lower = [each for each in everybody if each.job.turn.minus_priority > turn.minus_priority]
            if not lower or self._plans >= MAX_PLANS:
                break
            if request in refused or turn.job in starting or self._scene.barred(turn.job):
                continue
            search = _PreemptionSearch(base, turn, request, lower, self._asked)
            chosen = search.chosen()
            if not chosen:
                refused.add(request)
                continue
            gifts, start = self._gifts(search, chosen)
            self._decide(turn, gifts, start)
            taken = {each.job.job for each in chosen}
            everybody = [each for each in everybody if each.job.job not in taken]
            base = with_started(with_given_up(base, gifts), [start])
            self.then = base if alike else with_started(with_given_up(self.then, gifts), [start])
        if not self.preempts and not self.recalls:
            return False
        self.now = only_what_is_free(self.then, self.now)
        return True

    def _others_ending(self) -> dict[JobId, Shares]:
        known = {job.job for job in self.then.running}
        return {job: held for job, held in self._scene.ending.items() if job in known}

    def _candidates(self) -> Sequence[_LowerJob]:
        ordered = self.now.positions is not None  # then the first of a class may have a lower priority
        turns = (turn for each in self.now.queue for turn in (each.turns if ordered else each.turns[:1]))
        highest = min((turn.minus_priority for turn in turns), default=None)
        if highest is None or self._scene.candidates is None:
            return ()
        running = {job.job: job for job in self.then.running}
        found = [
            _LowerJob(running[each.job], each.since)
            for each in self._scene.candidates(-highest)
            if each.job in running
        ]
        return sorted(found, key=lambda each: (each.job.turn.priority, -each.since, -each.job.job))

    def _asked(self, view: View) -> Sequence[Start]:
        self._plans += 1
        return self._policy(view).starts

    def _gifts(
        self, search: "_PreemptionSearch", chosen: Sequence[_LowerJob]
    ) -> tuple[dict[JobId, Shares], Start]:
        """Return the processors that each job gives up: only as many as needed, if parts suffice."""
        whole = {each.job.job: each.job.allocation for each in chosen}
        start = search.start
        if self._scene.graceful or self._scene.in_parts:
            parts = _parts_to_give(search.base, start, chosen)
            if not self._scene.graceful:
                parts = {
                    job: part if self._scene.can_lend(job, part) else whole[job]
                    for job, part in parts.items()
                }
            again = search.start_without(parts)
            if again is not None:
                return parts, again
        return whole, start

    def _decide(self, turn: QueuePosition, gifts: Mapping[JobId, Shares], start: Start) -> None:
        wanted = turn.job
        graceful = self._scene.graceful
        running = {job.job: job for job in self.then.running}
        for job, share in gifts.items():
            why = Reason(Why.PREEMPTION, f"it is preempted by job {wanted}", str(wanted))
            if graceful or share != running[job].allocation:
                before = self._lifted.get(job)
                self.recalls.append(
                    Recall(
                        job,
                        joined_shares(before.allocation if before else (), share),
                        why,
                        immediate=not graceful,
                        for_jobs=(*(before.for_jobs if before else ()), wanted),
                    )
                )
            else:
                self.preempts.append(Preempt(job, wanted, why))
        self.claims.append(
            Claim(wanted, start.allocation, preemption_reason(list(gifts), graceful=graceful), start.option)
        )


class _PreemptionSearch:
    """Who must go so that one job can start; `start` is how it then does."""

    def __init__(
        self,
        base: View,
        turn: QueuePosition,
        request: JobRequest,
        lower: Sequence[_LowerJob],
        ask: Callable[[View], Sequence[Start]],
    ) -> None:
        self.base = base
        self._turn, self._lower, self._ask = turn, lower, ask
        self._queue = with_least(queue_up_to(base, turn), {turn.job})
        node_table = base.node_table()
        request = least(request)
        options = [request.option(number) for number in range(len(request.alternatives) + 1)]
        self._needs = [at_minimum(resolve_now(option, node_table, base.now)) for option in options]
        self._units = min(option.minimum for option in options)
        self._node_table = node_table
        free = {feature: free for feature, (_, free) in base.licences.items()}
        self._resources = FreeResources.now(node_table, base.nodes, free)
        self.start: Start

    def chosen(self) -> list[_LowerJob]:
        """Return the jobs to preempt: lowest priority first, then the youngest, and no more than needed.

        Empty if the job starts without preemption, or not at all.
        """
        lower = self._lower
        if self._fits_on(self._resources) and self.start_without({}) is not None:
            return []
        found = self._few(lower)
        if not found:
            return []
        if self._starts(found):
            return found
        if not self._starts(lower):
            return []
        counts = range(1, len(lower))
        enough = bisect_left(counts, True, key=lambda count: self._starts(lower[:count]))
        found = list(lower[: counts[enough] if enough < len(counts) else len(lower)])
        for each in found[::-1]:
            fewer = [other for other in found if other is not each]
            if fewer and self._starts(fewer):
                found = fewer
        return found if self._starts(found) else []

    def _few(self, lower: Sequence[_LowerJob]) -> list[_LowerJob]:
        """Return a minimal set of jobs whose processors suffice, by counts; none if all are too few.

        Cost:  as many placements as there are of them, and a few more.
        """
        resources = self._resources
        prefix = self._enough(lower)
        if not prefix:
            return []
        level = prefix[-1].job.turn.minus_priority
        if len(prefix) > 1:
            missing = self._missing()
            for each in [each for each in lower if each.job.turn.minus_priority >= level][:MAX_ALONE]:
                if sum(count for _, count in each.job.allocation) < missing:
                    continue
                resources.lift(self._piece(each))
                alone = self._fits_on(resources)
                resources.put(self._piece(each))
                if alone:
                    return [each]
        resources = resources.copy()
        for each in prefix:
            resources.lift(self._piece(each))
        kept: list[_LowerJob] = []
        for each in reversed(prefix):
            resources.put(self._piece(each))
            if not self._fits_on(resources) or (each is prefix[0] and not kept):
                resources.lift(self._piece(each))
                kept.append(each)
        return kept[::-1]

    def _missing(self) -> int:
        """Return how many processors must be given up at the least: every unit has one."""
        return self._units - sum(node.free for node in self.base.nodes.values())

    def _enough(self, lower: Sequence[_LowerJob]) -> Sequence[_LowerJob]:
        """Return the fewest of the first jobs whose processors suffice; empty if all do not suffice."""
        resources, count, step = self._resources.copy(), 0, 1
        boards = [(0, resources.copy())]
        while count < len(lower):
            for each in lower[count : count + step]:
                resources.lift(self._piece(each))
            count, step = min(len(lower), count + step), 2 * step
            if self._fits_on(resources):
                break
            boards.append((count, resources.copy()))
        else:
            return ()
        short, resources = boards[-1]
        for each in lower[short:count]:
            resources.lift(self._piece(each))
            short += 1
            if self._fits_on(resources):
                break
        return lower[:short]

    def _piece(self, each: _LowerJob) -> Allocation:
        return release_of(each.job, self.base.now, self._node_table).piece

    def _fits_on(self, resources: FreeResources) -> bool:
        return any(find_placement(need, resources) is not None for need in self._needs)

    def _starts(self, lower: Sequence[_LowerJob]) -> bool:
        return self.start_without({each.job.job: each.job.allocation for each in lower}) is not None

    def start_without(self, gifts: Mapping[JobId, Shares]) -> Start | None:
        """Return how the policy starts the job when these have given that up; None if it does not."""
        view = replace(with_given_up(self.base, gifts), queue=self._queue, freed=True)
        found = next((start for start in self._ask(view) if start.job == self._turn.job), None)
        if found is not None:
            self.start = found
        return found


def _parts_to_give(base: View, start: Start, chosen: Sequence[_LowerJob]) -> dict[JobId, Shares]:
    """Return what each must give of the nodes where the job would start; the first of them give first."""
    missing = {node: count - base.nodes[node].free for node, count in start.allocation}
    found: dict[JobId, Shares] = {}
    for each in chosen:
        share = []
        for node, held in each.job.allocation:
            alone = base.nodes[node].exclusive_to is not None
            given = held if alone and node in missing else min(held, max(0, missing.get(node, 0)))
            if given:
                share.append((node, given))
                missing[node] -= given
        if share:
            found[each.job.job] = tuple(share)
    return found


def preemption_reason(jobs: Sequence[JobId], *, graceful: bool) -> Reason:
    """Return why a job waits for which these give something up."""
    names = ", ".join(map(str, jobs[:5])) + (" and others" if len(jobs) > 5 else "")
    who = f"job{'s' if len(jobs) > 1 else ''} {names}"
    if graceful:
        text = f"{who} release{'s' if len(jobs) == 1 else ''} processors for it as tasks end"
    else:
        text = f"{who} {'is' if len(jobs) == 1 else 'are'} being preempted for it"
    return Reason(Why.PREEMPTION, text, str(jobs[0]) if jobs else "")
