"""The candidates of a pass: starts and growth, one at a time, in queue order."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Set
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId, QueuePosition
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
    option: int = 0  # what `need` and `end` are of: the request itself, or the n-th of its others

    @property
    def asks(self) -> JobRequest:
        """What is asked for under the option."""
        return self.request.option(self.option)

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
            yield resolve(request, self._node_table)
            for other in request.others:
                yield resolve(other, self._node_table)

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


def _growths(view: View, node_table: NodeTable) -> dict[int, Candidate]:
    """Return the candidates of running jobs that can grow, by their places in the view."""
    found: dict[int, Candidate] = {}
    for place, job in enumerate(view.running):
        need = resolve_growth(job, node_table) if job.wants > 0 else None
        if need is not None:
            found[place] = Candidate(job.turn, False, place, 0, need, job.request, job.end)
    return found


def candidate_options(candidate: Candidate, now: Instant, node_table: NodeTable) -> tuple[Candidate, ...]:
    """Return the candidate under each of its options, best first: as it is, and once for each other."""
    if not candidate.starts or not candidate.request.others:
        return (candidate,)
    others = enumerate(candidate.request.others, start=1)
    return candidate, *(
        candidate._replace(need=resolve(other, node_table), end=Instant(now + other.run_time), option=number)
        for number, other in others
    )


def first_candidate(view: View, node_table: NodeTable, place: int) -> Candidate:
    """Return the candidate of the first job of the class at this place of the queue."""
    waiting = view.queue[place]
    request = waiting.request
    end = Instant(view.now + request.run_time)
    return Candidate(waiting.turns[0], True, place, 0, resolve(request, node_table), request, end)
