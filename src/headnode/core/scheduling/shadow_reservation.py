"""When a waiting job will fit: running jobs end at their limits and release what they hold."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from math import inf
from operator import itemgetter
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.model.owner_limits import is_spent
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.candidates import Candidate, resolved_later
from headnode.core.scheduling.free_resources import Allocation, FreeResources
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import gpus_counted, held_of, instants_of, memory_of
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.request import ResolvedRequest, licences_held
from headnode.core.scheduling.view import RunningJob, View


class Release(NamedTuple):
    """An allocation and when it is released.  Sorted by time, then the smaller, then the earlier job."""

    at: Instant
    processors: int
    job: int
    piece: Allocation


class ShadowReservation(NamedTuple):
    """The earliest instant at which a job surely fits, the resources free then, and its allocation.

    `least` is what it needs then.
    """

    at: Instant
    resources: FreeResources
    piece: Allocation
    least: ResolvedRequest

    def beside(self, resources: FreeResources) -> "ShadowReservation | None":
        """Return the promise if so much is free then; None: it is broken."""
        found = find_placement(self.least, resources)
        return None if found is None else self._replace(resources=resources, piece=self.least.piece(found))


class BlockedJob(NamedTuple):
    """The first job that must wait; its `promise` is None if no end of a job helps it while nodes are closed.

    Jobs in a reservation have a blocked job of their own, because they wait for other nodes.
    """

    candidate: Candidate
    promise: ShadowReservation | None

    @property
    def job(self) -> JobId:
        """The job itself."""
        return self.candidate.job

    @property
    def need(self) -> ResolvedRequest:
        """What it needs."""
        return self.candidate.need

    @property
    def due(self) -> Instant:
        """When its promise falls due; NEVER without one."""
        return NEVER if self.promise is None else self.promise.at


def is_over(candidate: Candidate, head: BlockedJob) -> bool:
    """Return whether a candidate is over when a head's promise falls due; never without a due time."""
    return candidate.end <= head.due < NEVER


def is_harmless(candidate: Candidate, head: BlockedJob) -> bool:
    """Return whether a head keeps its promise wherever a candidate runs.

    Of processor-minutes the candidate gives nothing back when it is over.
    """
    return is_over(candidate, head) and not candidate.need.spends_with(head.need)


class ReleaseCache:
    """The releases of running jobs, and the sorted releases of all running jobs of a view."""

    def __init__(self) -> None:
        self.releases: dict[JobId, tuple[RunningJob, Release]] = {}
        self.returning: tuple[Sequence[RunningJob], list[Release]] | None = None


_FEW = 32  # fewer jobs are rather sorted anew, and all if more than one of so many is another
_BLOCK = 64  # jobs that are compared at once


def release(at: Instant, job: int, piece: Allocation) -> Release:
    """Return when a piece comes back, without the processor-minutes of limits, which do not."""
    if piece.licences and any(map(is_spent, piece.licences)):
        left = {key: amount for key, amount in piece.licences.items() if not is_spent(key)}
        piece = piece._replace(licences=left)
    return Release(at, sum([processors for _, processors in piece.fit]), job, piece)


def release_of(running: RunningJob, now: Instant, node_table: NodeTable) -> Release:
    """Return when a running job's piece comes back; a job over its limit is expected to end at once."""
    return _not_before(now, _release_at_end(running, node_table.cache.of(ReleaseCache), node_table))


def _not_before(now: Instant, found: Release) -> Release:
    return found if found.at >= now else found._replace(at=now)


def _worked_out(running: RunningJob, node_table: NodeTable) -> Release:
    numbers = [(node_table.numbers.get(name.casefold()), taken) for name, taken in running.allocation]
    held = tuple([(number, taken) for number, taken in numbers if number is not None])
    total = sum([taken for _, taken in running.allocation])
    piece = Allocation(
        held,
        running.request.exclusive,
        licences_held(running.request, total),
        memory_of(running.request),
        held_of(running.request),
        gpus_counted(running.request),
    )
    return release(running.end, running.job, piece)


def with_releases(ordered: Iterable[Release], more: Iterable[Release]) -> list[Release]:
    """Return releases by time with some more; at one time the smaller, then the earlier job goes first."""
    found = list(ordered)
    for each in more:
        insort(found, each, key=itemgetter(0, 1, 2))
    return found


def releases_of(view: View, node_table: NodeTable) -> list[Release]:
    """Return the releases of running jobs, in order; the same list as long as the same jobs run."""
    cache = node_table.cache.of(ReleaseCache)
    known = cache.returning
    if known is not None and known[0] is view.running and (not known[1] or known[1][0].at >= view.now):
        return known[1]
    found = None if known is None else _with_changes(*known, view.running, cache, node_table)
    if found is None:
        found = [_release_at_end(running, cache, node_table) for running in view.running]
        found.sort()  # each of another job, so nothing after the job is compared
    if found and found[0].at < view.now:
        found = sorted([_not_before(view.now, each) for each in found])
        cache.returning = None
    else:
        cache.returning = view.running, found
    return found


def _release_at_end(running: RunningJob, cache: ReleaseCache, node_table: NodeTable) -> Release:
    """Return when a running job's piece comes back by its limit."""
    known = cache.releases.get(running.job)
    if known is None or known[0] is not running:
        known = cache.releases[running.job] = running, _worked_out(running, node_table)
    return known[1]


def _with_changes(
    before: Sequence[RunningJob],
    ordered: list[Release],
    running: Sequence[RunningJob],
    cache: ReleaseCache,
    node_table: NodeTable,
) -> list[Release] | None:
    """Return the releases of running jobs, made of those of the jobs that ran before; None if few remain."""
    changes = _changed_jobs(before, running, len(before) // _FEW)
    if changes is None:
        return None
    gone, fresh = changes
    found = ordered.copy()
    for job in gone:
        del found[bisect_left(found, _worked_out(job, node_table)[:3])]
    for job in fresh:
        insort(found, _release_at_end(job, cache, node_table))
    return found


def _changed_jobs(
    before: Sequence[RunningJob], running: Sequence[RunningJob], most: int
) -> tuple[list[RunningJob], list[RunningJob]] | None:
    """Return the jobs that ran before and do not run now, and the other way round; as they were seen.

    None if there are more than `most`, or surely too many if jobs do not come in the same order as before.
    """
    gone: list[RunningJob] = []
    fresh: list[RunningJob] = []
    at = to = 0
    while len(gone) + len(fresh) <= most:
        same = _equal_jobs(before, at, running, to)
        at, to = at + same, to + same
        if at == len(before) or to == len(running):
            gone += before[at:]
            fresh += running[to:]
            return (gone, fresh) if len(gone) + len(fresh) <= most else None
        gone.append(before[at])
        if before[at].job == running[to].job:
            fresh.append(running[to])
            to += 1
        at += 1
    return None


def _equal_jobs(one: Sequence[RunningJob], at: int, other: Sequence[RunningJob], to: int) -> int:
    """Return how many jobs are the same from these places on.  Most are, so whole blocks are compared."""
    most, found = min(len(one) - at, len(other) - to), 0
    while found < most:
        end = min(found + _BLOCK, most)
        if one[at + found : at + end] != other[to + found : to + end]:
            break
        found = end
    while found < most and one[at + found] == other[to + found]:
        found += 1
    return found


class ReleaseOutlook(NamedTuple):
    """The future free resources: those free at `since`, and the releases in order.

    Jobs without a limit end at NEVER, one after the other.  `at_last` is what is free with no job:
    holders the view does not name, such as jobs just ending, go at NEVER too.
    """

    since: Instant
    resources: FreeResources
    ordered: Sequence[Release]
    at_last: FreeResources


def shadow_reservation(need: ResolvedRequest, outlook: ReleaseOutlook) -> ShadowReservation | None:
    """Return the earliest promise for a need that does not fit now, or None if no end will help.

    Nodes that will close are not promised to any job; reserved ones follow `resolved_later`.
    Cost:  O(log(releases)) placements, because what fits still fits when more is free; one where counts tell.
    Where nodes are reserved, as many for each beginning and end of a reservation.
    """
    if need.access is not None or (need.switches and need.timeout < inf):
        return _promise_between(need, outlook)
    since, now, ordered, at_last = outlook
    least = at_minimum(resolved_later(need, now.node_table, 0.0))
    count = _step_from(ordered, max(1, _too_few(least, now, ordered)))
    if count <= len(ordered):
        resources = _after(now, ordered[:count])
        found = find_placement(least, resources)
        if found is not None:
            return ShadowReservation(ordered[count - 1].at, resources, need.piece(found), least)
        promise = _first_after(need, least, ordered, count, resources)
        if promise is not None:
            return promise
    return shadow_reservation_at(need, since, NEVER, at_last.copy())


def _first_after(
    need: ResolvedRequest,
    least: ResolvedRequest,
    ordered: Sequence[Release],
    count: int,
    resources: FreeResources,
) -> ShadowReservation | None:
    """Return the promise after the first release at which the need fits, where it does not after `count`.

    `resources` are those after `count` releases.  Twice as far is looked each time, then between.
    """
    low, high, width, last = count, 0, 1, len(ordered)
    best: ShadowReservation | None = None
    while best is None and low < last:
        step = _step_from(ordered, min(low + width, last))
        then = _after(resources, ordered[low:step])
        found = find_placement(least, then)
        if found is None:
            low, resources, width = step, then, 2 * width
        else:
            best, high = ShadowReservation(ordered[step - 1].at, then, need.piece(found), least), step
    fits_at = high  # the step of `best`; `high` is a count of which that is the step
    while best is not None and high - low > 1:
        middle = (low + high) // 2
        step = _step_from(ordered, middle)
        if step >= fits_at:
            high = middle
            continue
        then = _after(resources, ordered[low:step])
        found = find_placement(least, then)
        if found is None:
            low, resources = step, then
        else:
            best = ShadowReservation(ordered[step - 1].at, then, need.piece(found), least)
            high, fits_at = middle, step
    return best


def _promise_between(need: ResolvedRequest, outlook: ReleaseOutlook) -> ShadowReservation | None:
    """Return the earliest promise where nodes are reserved, or few switches are asked for only until a time.

    From one instant at which the nodes it may use change to the next what fits still fits: each such span
    is searched as if there was no other.
    """
    since, now, ordered, at_last = outlook
    finite = [each for each in ordered if each.at < NEVER]
    edges = [since, *_changes(need, outlook)]
    for edge, after in zip(edges, [*edges[1:], NEVER], strict=True):
        first = bisect_right(finite, edge, key=itemgetter(0))
        if edge > since or (finite and finite[0].at <= since):
            found = shadow_reservation_at(need, since, edge, _after(now, finite[:first]))
            if found is not None:
                return found
        ends = sorted({each.at for each in finite[first:] if each.at < after})
        found = _first_end(need, outlook, finite, ends)
        if found is not None:
            return found
    least = at_minimum(resolved_later(need, now.node_table, NEVER))
    counts = range(len(finite) + 1, len(ordered) + 1)
    enough = bisect_left(
        counts, True, key=lambda count: find_placement(least, _after(now, ordered[:count])) is not None
    )
    resources = _after(now, ordered[: counts[enough]]) if enough < len(counts) else at_last.copy()
    return shadow_reservation_at(need, since, NEVER, resources)


def _changes(need: ResolvedRequest, outlook: ReleaseOutlook) -> list[Instant]:
    """Return when the nodes that a need may use change, after now, ascending."""
    access, node_table = need.access, outlook.resources.node_table
    edges = instants_of(node_table.reserved)
    if access is not None and access.lasts < inf:
        edges |= {edge - access.lasts for edge in edges}
    if need.switches and need.timeout < inf:
        edges.add(need.timeout)
    return sorted({Instant(outlook.since + edge) for edge in edges if edge > 0})


def _first_end(
    need: ResolvedRequest, outlook: ReleaseOutlook, ordered: Sequence[Release], ends: Sequence[Instant]
) -> ShadowReservation | None:
    """Return the promise at the first of these ends at which the need fits, if what fits still fits."""
    if not ends:
        return None
    since, now = outlook.since, outlook.resources
    least = at_minimum(resolved_later(need, now.node_table, ends[0] - since))

    def suffices(end: Instant) -> bool:
        return (
            find_placement(least, _after(now, ordered[: bisect_right(ordered, end, key=itemgetter(0))]))
            is not None
        )

    if not suffices(ends[-1]):
        return None
    end = ends[bisect_left(ends, True, key=suffices)]
    resources = _after(now, ordered[: bisect_right(ordered, end, key=itemgetter(0))])
    return shadow_reservation_at(need, since, end, resources)


def _too_few(least: ResolvedRequest, now: FreeResources, ordered: Sequence[Release]) -> int:
    """Return how many releases there must be at least, by counting processors wherever they are."""
    if least.unit is UnitType.NODE:
        return 0
    missing = least.minimum - sum(now.free)
    for count, each in enumerate(ordered):
        if missing <= 0:
            return count
        missing -= each.processors
    return len(ordered)


def shadow_reservation_at(
    need: ResolvedRequest, since: Instant, at: Instant, resources: FreeResources
) -> ShadowReservation | None:
    """Return the promise of a minimum at this instant, or None if it does not fit then.

    `since` is the present instant.
    """
    least = at_minimum(resolved_later(need, resources.node_table, at - since))
    found = find_placement(least, resources)
    return None if found is None else ShadowReservation(at, resources, need.piece(found), least)


def _step_from(ordered: Sequence[Release], count: int) -> int:
    """Return after how many releases, not fewer than `count`, to look: those of one instant come together.

    Not so those at NEVER.  `count` itself if there are not so many.
    """
    last = len(ordered)
    while count < last and NEVER != ordered[count - 1].at == ordered[count].at:
        count += 1
    return count


def _after(resources: FreeResources, ended: Iterable[Release]) -> FreeResources:
    then = resources.copy()
    for each in ended:
        then.lift(each.piece)
    return then
