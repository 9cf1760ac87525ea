"""The candidates of a pass: starts and growth, one at a time, in queue order."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId, QueuePosition
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.request import ResolvedRequest, resolve, resolve_growth
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


class CandidateQueue:
    """All candidates in queue order; after `granted`, the next job of the same class is a candidate.

    `needs` are those of all of them, in no order.  Classes at the places `aside` are left out.
    """

    def __init__(self, view: View, node_table: NodeTable, aside: Set[int] = frozenset()) -> None:
        self._turns: list[Sequence[QueuePosition]] = [each.turns for each in view.queue]
        self._view, self._node_table = view, node_table
        places = [place for place, each in enumerate(view.queue) if each.turns and place not in aside]
        self._heap = [
            *_growths(view, node_table),
            *(first_candidate(view, node_table, place) for place in places),
        ]
        self.needs = [candidate.need for candidate in self._heap]
        self.needs += [
            need
            for candidate in self._heap
            if candidate.request.others
            for need in _others(candidate, node_table)
        ]
        heapify(self._heap)

    def __iter__(self) -> Iterator[Candidate]:
        while self._heap:
            yield heappop(self._heap)

    def bring_back(self, aside: Set[int]) -> None:
        """Let the classes at these places of the queue come up, which were left aside."""
        for place in aside:
            heappush(self._heap, first_candidate(self._view, self._node_table, place))

    def granted(self, candidate: Candidate) -> None:
        """Let the next job of the class come up."""
        if candidate.starts:
            self._come_up(candidate, candidate.nth + 1)

    def skip(self, candidate: Candidate, turn: QueuePosition) -> None:
        """Let the job of the class with this turn come up, or the next after it."""
        self._come_up(candidate, bisect_left(self._turns[candidate.place], turn))

    def _come_up(self, candidate: Candidate, nth: int) -> None:
        if nth < len(self._turns[candidate.place]):
            heappush(self._heap, candidate._replace(turn=self._turns[candidate.place][nth], nth=nth))


def _growths(view: View, node_table: NodeTable) -> Iterator[Candidate]:
    for place, job in enumerate(view.running):
        need = resolve_growth(job, node_table) if job.wants > 0 else None
        if need is not None:
            yield Candidate(job.turn, False, place, 0, need, job.request, job.end)


def _others(candidate: Candidate, node_table: NodeTable) -> Iterator[ResolvedRequest]:
    return (resolve(other, node_table) for other in candidate.request.others)


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
