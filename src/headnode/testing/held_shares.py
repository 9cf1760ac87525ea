"""What jobs hold, and what is left when exactly this is held; promises about limits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from headnode.core.model.job import NOTHING_HELD, JobRequest
from headnode.core.model.owner_limits import is_of_one_job, is_spent
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.core.scheduling.plan import Plan, Shares
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing.histories import Policy
from headnode.testing.specification import (
    FreeNode,
    World,
    broken_unless,
    gpus_with,
    held_of_each_node,
    limits_with,
    memory_with_each,
    ways,
)


class HeldShares(NamedTuple):
    """What a job holds, and until when.  Sorted by end, then the smaller, then the earlier job."""

    end: Instant
    processors: int
    job: JobId
    request: JobRequest
    shares: Shares


class ResourceDemand(NamedTuple):
    """One demand, as the queue and the running jobs say it.  Sorted by turn, growth first."""

    turn: QueuePosition
    starts: bool
    request: JobRequest
    end: Instant

    @property
    def job(self) -> JobId:
        """The job whose demand it is."""
        return self.turn.job

    def under(self, option: int, now: float, limit: Seconds | None = None) -> "ResourceDemand":
        """Return the demand under one of its options, as if it asked for nothing else.

        limit:   its run time limit, if it is lowered
        Raises:  PromiseBroken when it has no such.
        """
        there = 0 <= option <= len(self.request.alternatives)
        broken_unless(there, f"job {self.job} gets option {option}, which does not exist")
        lowered = limit is None or self.request.option(option).allows_limit(limit)
        broken_unless(lowered, f"the limit of job {self.job} is lowered to {limit}, which it does not allow")
        taken = msgspec.structs.replace(self.request.option(option, limit), alternatives=())
        return self._replace(request=taken, end=Instant(now + taken.run_time) if self.starts else self.end)

    def options(self, now: float) -> "list[ResourceDemand]":
        """Return the demand under each of its options, best first."""
        return [self.under(option, now) for option in range(len(self.request.alternatives) + 1)]

    def lowest(self, now: float) -> "list[ResourceDemand]":
        """Return the demand under each of its options with the lowest limit that it may start with."""
        options = (self.request, *self.request.alternatives) if self.starts else ()
        lowered = [(n, o.least_run_time) for n, o in enumerate(options) if o.least_run_time < o.run_time]
        return [self.under(option, now, least) for option, least in lowered]

    def held(self, shares: Shares) -> HeldShares:
        """Return what the job holds if it is given these."""
        return HeldShares(self.end, sum(n for _, n in shares), self.job, self.request, shares)


def spent_by(over: Sequence[HeldShares]) -> list[HeldShares]:
    """Return what jobs that are over do not give back: processor-minutes of limits, for ever."""
    found = []
    for each in over:
        kept = tuple(share for share in each.request.limits if is_spent(share.key))
        if kept:
            request = msgspec.structs.replace(each.request, licences=(), limits=kept)
            found.append(each._replace(end=NEVER, request=request, shares=()))
    return found


def demands(view: View) -> list[ResourceDemand]:
    """Return every demand in turn order."""
    found = [
        ResourceDemand(turn, True, waiting.request, Instant(view.now + waiting.request.run_time))
        for waiting in view.queue
        for turn in waiting.turns
    ]
    for job in view.running:
        more = min(job.wants, job.request.maximum - sum(_units_held(view, job)))
        if more > 0 and not job.request.together:
            found.append(ResourceDemand(job.turn, False, _growth(view, job, more), job.end))
    return sorted(found, key=lambda demand: demand[:2])


def _units_held(view: View, job: RunningJob) -> Iterator[int]:
    for name, count in job.allocation:
        each = job.request.processors_per_gpu
        yield min(count // each, view.nodes[name].facts.gpus) if each else count


def _growth(view: View, job: RunningJob, more: int) -> JobRequest:
    """Return what a running job asks for that would have so much more.

    A job on one node stays there, and one that holds something of its nodes stays on those.  One that is
    under as few leaf switches as it asked for stays under those.
    """
    at_home = tuple(name for name, _ in job.allocation)
    stays = job.request.single_node or job.request.held or job.request.contiguous
    wanted = at_home if stays else job.request.requested_nodes
    near = _under_own_switches(view, job)
    if near:
        wanted = tuple(name for name in near if not wanted or name in wanted)
    return msgspec.structs.replace(
        job.request,
        minimum=1,
        maximum=more,
        required_nodes=(),
        node_share=0,
        start_at_maximum=False,
        parts=(),
        requested_nodes=wanted,
        switches=0,
        contiguous=False,
        held=NOTHING_HELD,
        licences=tuple(demand for demand in job.request.licences if demand.amount is None),
        limits=tuple(share for share in job.request.limits if share.amount is None),
    )


def _under_own_switches(view: View, job: RunningJob) -> tuple[str, ...]:
    """Return the nodes under the leaf switches of a job that has no more than it asked for; else nothing."""
    if not job.request.switches or not any(node.switches for node in view.nodes.values()):
        return ()
    leaf = {name: node.switches[:1] or (name, "") for name, node in view.nodes.items()}
    own = {leaf[name] for name, _ in job.allocation}
    return tuple(name for name in view.nodes if leaf[name] in own) if len(own) <= job.request.switches else ()


def held_by_running(view: View) -> list[HeldShares]:
    """Return what the running jobs hold."""
    return [
        HeldShares(job.end, sum(n for _, n in job.allocation), job.job, job.request, job.allocation)
        for job in view.running
    ]


def world(view: View, held: Sequence[HeldShares]) -> World:
    """Return the nodes when exactly this is held.

    Raises:  PromiseBroken when something is held twice.
    """
    taken: dict[str, list[tuple[HeldShares, int]]] = {name: [] for name in view.nodes}
    for each in held:
        for name, count in each.shares:
            broken_unless(name in taken, f"job {each.job} gets node {name!r}, which does not exist")
            taken[name].append((each, count))
    nodes = tuple(_free_node(view, name, taken[name]) for name in view.nodes)
    return nodes, tuple(sorted(_licences(view.licences, held).items()))


def empty(view: View) -> World:
    """Return the nodes when nothing is held."""
    return world(view, ())


def reopened(view: View) -> View:
    """Return the view with every node open."""
    nodes = {name: msgspec.structs.replace(node, closed="") for name, node in view.nodes.items()}
    return msgspec.structs.replace(view, nodes=nodes)


def _free_node(view: View, name: str, taken: Sequence[tuple[HeldShares, int]]) -> FreeNode:
    node = view.nodes[name]
    facts, closed = node.facts, node.closed
    free, memory, disk, swap, gpus = facts.processors, facts.memory, facts.disk, facts.swap, facts.gpus
    if not taken:
        return FreeNode(facts, free, 0, False, memory, closed, disk, swap, gpus, node.switches)
    owned, jobs = False, set()
    for each, count in taken:
        request = each.request
        free -= count
        memory -= count * memory_with_each(request)
        gpus -= gpus_with(request, count)
        owned = owned or request.exclusive
        if each.job not in jobs:  # of each of its nodes, however often it was given more of it
            jobs.add(each.job)
            of_memory, of_disk, of_swap = held_of_each_node(request)
            memory, disk, swap = memory - of_memory, disk - of_disk, swap - of_swap
    broken_unless(free >= 0, f"processors of node {name!r} are given twice")
    broken_unless(not owned or len(jobs) == 1, f"{name!r} is shared with its owner")
    broken_unless(disk >= 0 and swap >= 0, f"disk or swap of node {name!r} is given twice")
    broken_unless(gpus >= 0, f"GPUs of node {name!r} are given twice")
    return FreeNode(facts, free, len(taken), owned, memory, closed, disk, swap, gpus, node.switches)


def _licences(licences: Mapping[str, tuple[int, int]], held: Sequence[HeldShares]) -> dict[str, int]:
    left = {feature: total for feature, (total, _) in licences.items()}
    for each in held:
        for demand in each.request.licences:
            if demand.feature in left:
                left[demand.feature] -= each.processors if demand.amount is None else demand.amount
        for key, amount in limits_with(each.request, each.processors).items():
            if not is_of_one_job(key):
                left[key] = left.get(key, amount) - amount
    broken_unless(min(left.values(), default=0) >= 0, "a licence is given twice, or more than a limit allows")
    return left


def kept_out_by_limits(view: View, held: Sequence[HeldShares], demand: ResourceDemand) -> bool:
    """Return whether a job would not fit on idle nodes with what its limits leave, though it would with all.

    `held` is what jobs hold of the limits.
    """
    alone, left = empty(reopened(view)), dict(world(view, held)[1])
    could = [each.request for each in demand.options(view.now) if ways(each.request, alone)]
    return bool(could) and not any(ways(request, _within_limits(request, alone, left)) for request in could)


def _within_limits(request: JobRequest, alone: World, left: dict[str, int]) -> World:
    own = {share.key for share in request.limits}
    nodes, totals = alone
    return nodes, tuple((name, left[name] if name in own else total) for name, total in totals)


NOTHING_GIVEN = (None, 0, None)


def given_by(plan: Plan) -> dict[tuple[JobId, bool], tuple[Shares | None, int, Seconds | None]]:
    """Return what a plan gives, by job and whether it starts: shares, an option and a lowered limit."""
    given: dict[tuple[JobId, bool], tuple[Shares | None, int, Seconds | None]] = {}
    given |= {(each.job, False): (each.allocation, 0, None) for each in plan.grows}
    given |= {(each.job, True): (each.allocation, each.option, each.lowered_limit) for each in plan.starts}
    return given


def _waiting(view: View, plan: Plan) -> Iterator[tuple[ResourceDemand, list[HeldShares]]]:
    """Yield the demands that get nothing, in turn, with what is held when it is their turn."""
    given, held = given_by(plan), held_by_running(view)
    for demand in demands(view):
        shares, option, limit = given.get((demand.job, demand.starts), NOTHING_GIVEN)
        if shares is not None:
            held.append(demand.under(option, view.now, limit).held(shares))
        elif demand.starts:
            yield demand, held


def _with_reservations(view: View) -> set[JobId]:
    return set() if view.before is None else {each.job for each in view.before.reservations}


def limited_jobs_delay_nobody(policy: Policy, view: View, plan: Plan) -> None:
    """Without the jobs that their limits keep out, the plan for the others is the same.

    Those that had a reservation keep it, so they are not left out.
    Raises:  PromiseBroken.
    """
    had = _with_reservations(view)
    out = {
        demand.job
        for demand, held in _waiting(view, plan)
        if demand.job not in had and kept_out_by_limits(view, held, demand)
    }
    if not out:
        return
    queue = [
        msgspec.structs.replace(each, turns=[turn for turn in each.turns if turn.job not in out])
        for each in view.queue
    ]
    other = policy(msgspec.structs.replace(view, queue=[each for each in queue if each.turns]))
    same = plan.starts == other.starts and plan.grows == other.grows
    mine = [(each.job, each.at, each.option) for each in plan.reservations]  # their nodes may be examples
    same = same and mine == [(each.job, each.at, each.option) for each in other.reservations]
    broken_unless(same, f"without the limited jobs {sorted(out)} the plan for the others is not the same")


def first_that_fits_starts(view: View, plan: Plan) -> None:
    """The first job that must wait for anything but its limits does not fit.

    Not asked where jobs have reservations already.
    Raises:  PromiseBroken.
    """
    if _with_reservations(view):
        return
    for demand, held in _waiting(view, plan):
        if kept_out_by_limits(view, held, demand):
            continue
        could = empty(reopened(view))
        options = [option.request for option in demand.options(view.now)]
        if any(ways(request, could) for request in options):
            fits = any(ways(request, world(view, held)) for request in options)
            broken_unless(
                not fits, f"job {demand.job} fits, and no job is ahead of it, but it does not start"
            )
            return
