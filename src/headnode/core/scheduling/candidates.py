"""The candidates of a pass: starts and growth, one at a time, in queue order; and what they need later."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Set
from heapq import heapify, heappop, heappush
from itertools import compress
from math import inf
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds, format_time_limit
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.request import (
    ResolvedRequest,
    resolve,
    resolve_growth,
    resolved_before,
)
from headnode.core.scheduling.view import View


class Candidate(NamedTuple):
    """A running job that can grow, or the next job of a waiting class.

    Sorted by queue position, growth first.
    """

    turn: QueuePosition
    starts: bool
    place: int  # in the view's running jobs, or in its queue
    nth: int  # which of its class, from 0
    need: ResolvedRequest
    request: JobRequest
    end: Instant  # when what is given comes back
    option: int = 0  # what `need` and `end` are of: the request itself, or its n-th alternative
    lowered_limit: Seconds | None = None  # and of this run time limit; None: of that of the request

    @property
    def asks(self) -> JobRequest:
        """What is asked for under the option."""
        return self.request.option(self.option, self.lowered_limit)

    @property
    def lowered_in_words(self) -> str:
        """What a reason says of the lowered limit; empty if it is not lowered."""
        limit = self.lowered_limit
        return "" if limit is None else f", even with a run time limit of {format_time_limit(limit)}"

    @property
    def job(self) -> JobId:
        """The job whose candidate it is."""
        return self.turn.job


_Place = tuple[QueuePosition, bool, int, int]
"""The turn, `starts`, `place` and `nth` of a candidate that is made when it comes up."""


class CandidateQueue:
    """All candidates in queue order; after `granted`, the next job of the same class is a candidate.

    Classes at the places `aside` are left out.
    """

    def __init__(self, view: View, node_table: NodeTable, aside: Set[int] = frozenset()) -> None:
        self._view, self._node_table = view, node_table
        self._growths = _growths(view, node_table)
        self._heap: list[_Place] = [
            (each.turns[0], True, place, 0)
            for place, each in enumerate(view.queue)
            if each.turns and place not in aside
        ]
        self._heap += [(each.turn, False, place, 0) for place, each in self._growths.items()]
        heapify(self._heap)

    def __iter__(self) -> Iterator[Candidate]:
        while self._heap:
            turn, starts, place, nth = heappop(self._heap)
            if not starts:
                yield self._growths[place]
                continue
            first = first_candidate(self._view, self._node_table, place)
            yield first._replace(turn=turn, nth=nth) if nth else first

    def needs(self) -> Iterator[ResolvedRequest]:
        """Yield the needs of all that have not come up, in no order."""
        for _, starts, place, _ in self._heap:
            if not starts:
                yield self._growths[place].need
                continue
            request = self._view.queue[place].request
            for asked in (request, *request.alternatives):
                yield resolve_now(asked, self._node_table, self._view.now)

    def refuse(self, is_hopeless: Callable[[JobRequest, ResolvedRequest], bool]) -> list[int]:
        """Leave out the classes of which no job will be granted anything; return their places."""
        queue, needs = self._view.queue, resolved_before(self._node_table)
        left: list[_Place] = []
        found: list[int] = []
        for each in self._heap:
            place = each[2]
            if each[1]:
                request = queue[place].request
                if is_hopeless(request, needs.get(request) or resolve(request, self._node_table)):
                    found.append(place)
                    continue
            left.append(each)
        if found:
            self._heap = left
            heapify(left)
        return found

    def bring_back(self, aside: Set[int]) -> None:
        """Let the classes at these places of the queue come up, which were left aside."""
        for place in aside:
            heappush(self._heap, (self._view.queue[place].turns[0], True, place, 0))

    def granted(self, candidate: Candidate) -> None:
        """Let the next job of the class come up."""
        if candidate.starts:
            self._come_up(candidate, candidate.nth + 1)

    def skip(self, candidate: Candidate, turn: QueuePosition) -> None:
        """Let the job of the class with this turn come up, or the next after it."""
        self._come_up(candidate, bisect_left(self._view.queue[candidate.place].turns, turn))

    def _come_up(self, candidate: Candidate, nth: int) -> None:
        turns = self._view.queue[candidate.place].turns
        if nth < len(turns):
            heappush(self._heap, (turns[nth], True, candidate.place, nth))


_wants = attrgetter("wants")


def _growths(view: View, node_table: NodeTable) -> dict[int, Candidate]:
    """Return the candidates of running jobs that can grow, by their places in the view."""
    found: dict[int, Candidate] = {}
    for place, job in compress(enumerate(view.running), map(_wants, view.running)):
        need = resolve_growth(job, node_table)
        if need is not None:
            found[place] = Candidate(job.turn, False, place, 0, need, job.request, job.end)
    return found


def candidate_options(candidate: Candidate, now: Instant, node_table: NodeTable) -> tuple[Candidate, ...]:
    """Return the candidate under each of its options, best first: as it is, and once for each other."""
    if not candidate.starts or not candidate.request.alternatives:
        return (candidate,)
    others = enumerate(candidate.request.alternatives, start=1)
    return candidate, *(
        candidate._replace(
            need=resolve_now(other, node_table, now),
            end=Instant(now + other.run_time),
            option=number,
        )
        for number, other in others
    )


def with_limit(candidate: Candidate, limit: Seconds, now: Instant, node_table: NodeTable) -> Candidate:
    """Return the candidate as if its run time limit was lowered to so much."""
    lower = candidate._replace(end=Instant(now + limit), lowered_limit=limit)
    need = candidate.need
    if need.access is None and not need.limits and not node_table.closing:
        return lower  # the limit changes nothing of what it needs
    return lower._replace(need=resolve_now(lower.asks, node_table, now))


def at_lowest_limit(candidate: Candidate, now: Instant, node_table: NodeTable) -> Candidate:
    """Return the candidate with the lowest run time limit that its job may start with."""
    least = candidate.asks.least_run_time
    if not candidate.starts or least == candidate.asks.run_time:
        return candidate
    return with_limit(candidate, least, now, node_table)


def lowest(request: JobRequest) -> JobRequest:
    """Return a request with the lowest run time limit that its job may start with, under each option."""
    if request.minimum_run_time is None:
        return request
    alternatives = tuple(map(lowest, request.alternatives))
    return replace(request.option(0, request.least_run_time), alternatives=alternatives)


def first_candidate(view: View, node_table: NodeTable, place: int) -> Candidate:
    """Return the candidate of the first job of the class at this place of the queue."""
    waiting = view.queue[place]
    request = waiting.request
    end = Instant(view.now + request.run_time)
    need = resolve_now(request, node_table, view.now)
    return Candidate(waiting.turns[0], True, place, 0, need, request, end)


_SAME = 1e-6  # seconds; instants that were added up differ in the last digit


def resolved_later(need: ResolvedRequest, node_table: NodeTable, seconds: float) -> ResolvedRequest:
    """Return the need of a start so long from now: on nodes that then take it, as reservations go.

    Not on those that will close: what begins later is promised none of them.
    """
    access = need.access
    if need.switches:
        need = later(need, seconds)
    if access is None:
        return _lasting(need, node_table)
    orders = (node_table.taking(order, access, seconds) for order in need.anywhere)
    return _lasting(need._replace(alternatives=tuple(orders)), node_table)


def resolved_at_some_time(need: ResolvedRequest, node_table: NodeTable) -> ResolvedRequest:
    """Return the need on all nodes that take it at some time, as reservations go."""
    access = need.access
    if need.switches:
        need = later(need, inf)
    if access is None:
        return need
    orders = (node_table.ever_taking(order, access) for order in need.anywhere)
    return need._replace(alternatives=tuple(orders))


def _lasting(need: ResolvedRequest, node_table: NodeTable) -> ResolvedRequest:
    if not node_table.closing:
        return need
    stay = node_table.open_for
    orders = (tuple(node for node in order if stay[node] == inf) for order in need.alternatives)
    return need._replace(alternatives=tuple(orders))


def with_timeout(need: ResolvedRequest, request: JobRequest, now: float) -> ResolvedRequest:
    """Return a need that knows for how long from now it asks for few switches: not at all if that is over."""
    if not need.switches:
        return need
    if request.switches_until <= now:
        return need._replace(switches=0)
    return need._replace(timeout=request.switches_until - now)


def later(need: ResolvedRequest, seconds: float) -> ResolvedRequest:
    """Return the need of a start so long from now: it may not ask for few switches any more."""
    over = need.timeout < inf and seconds >= need.timeout - _SAME
    return need._replace(switches=0) if over else need


def resolve_now(request: JobRequest, node_table: NodeTable, now: float) -> ResolvedRequest:
    """Work out what a job asks for now."""
    return with_timeout(resolve(request, node_table), request, now)


def resolve_at_last(request: JobRequest, node_table: NodeTable) -> ResolvedRequest:
    """Work out what a job asks for after it has waited for few switches as long as it may."""
    need = resolve(request, node_table)
    return need._replace(switches=0) if need.switches and request.switches_until < NEVER else need


def stages(
    need: ResolvedRequest, now: Instant, after: Instant, until: float
) -> Iterator[tuple[ResolvedRequest, Instant, float]]:
    """Yield what a job asks for while it waits for few switches and after that, each from when until when."""
    over = Instant(now + need.timeout)
    if after < over:
        yield need._replace(timeout=inf), after, min(over, until)
    if max(after, over) < until:
        yield need._replace(switches=0), max(after, over), until


def waits_for_switches(request: JobRequest) -> bool:
    """Return whether a request asks for few switches under any of its options."""
    return bool(request.switches) or any(other.switches for other in request.alternatives)
