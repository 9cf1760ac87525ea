"""What is wished for in a pass: starts and growth, one at a time, in turn order."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.need import Need, growth_of, need_of
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import Turn, View


class Wish(NamedTuple):
    """A running job that wants more, or the first job left of a class.  Sorted by turn, growth first."""

    turn: Turn
    starts: bool
    place: int  # in the view's running jobs, or in its queue
    nth: int  # which of its class, from 0
    need: Need
    request: JobRequest
    end: Instant  # when what is given comes back
    option: int = 0  # what `need` and `end` are of: the request itself, or the n-th of its others

    @property
    def asks(self) -> JobRequest:
        """What is asked for under the option."""
        return self.request.option(self.option)

    @property
    def job(self) -> JobId:
        """The job whose wish it is."""
        return JobId(self.turn[2])


class Wishes:
    """Every wish in turn; the next job of a class comes up when `granted` is called for the one before.

    `needs` are those of all of them, in no order.  Classes at the places `aside` are left out.
    """

    def __init__(self, view: View, terrain: Terrain, aside: Set[int] = frozenset()) -> None:
        self._turns: list[Sequence[Turn]] = [each.turns for each in view.queue]
        self._view, self._terrain = view, terrain
        places = [place for place, each in enumerate(view.queue) if each.turns and place not in aside]
        self._heap = [*_growths(view, terrain), *(first_of(view, terrain, place) for place in places)]
        self.needs = [wish.need for wish in self._heap]
        self.needs += [need for wish in self._heap if wish.request.others for need in _others(wish, terrain)]
        heapify(self._heap)

    def __iter__(self) -> Iterator[Wish]:
        while self._heap:
            yield heappop(self._heap)

    def bring_back(self, aside: Set[int]) -> None:
        """Let the classes at these places of the queue come up, which were left aside."""
        for place in aside:
            heappush(self._heap, first_of(self._view, self._terrain, place))

    def granted(self, wish: Wish) -> None:
        """Let the next job of the class come up."""
        if wish.starts:
            self._come_up(wish, wish.nth + 1)

    def skip(self, wish: Wish, turn: Turn) -> None:
        """Let the job of the class with this turn come up, or the next after it."""
        self._come_up(wish, bisect_left(self._turns[wish.place], turn))

    def _come_up(self, wish: Wish, nth: int) -> None:
        if nth < len(self._turns[wish.place]):
            heappush(self._heap, wish._replace(turn=self._turns[wish.place][nth], nth=nth))


def _growths(view: View, terrain: Terrain) -> Iterator[Wish]:
    for place, job in enumerate(view.running):
        need = growth_of(job, terrain) if job.wants > 0 else None
        if need is not None:
            yield Wish(job.turn, False, place, 0, need, job.request, job.end)


def _others(wish: Wish, terrain: Terrain) -> Iterator[Need]:
    return (need_of(other, terrain) for other in wish.request.others)


def options(wish: Wish, now: Instant, terrain: Terrain) -> tuple[Wish, ...]:
    """Return the wish under each of its options, best first: as it is, and once for each of the others."""
    if not wish.starts or not wish.request.others:
        return (wish,)
    others = enumerate(wish.request.others, start=1)
    return wish, *(
        wish._replace(need=need_of(other, terrain), end=Instant(now + other.run_time), option=number)
        for number, other in others
    )


def first_of(view: View, terrain: Terrain, place: int) -> Wish:
    """Return the wish of the first job of the class at this place of the queue."""
    waiting = view.queue[place]
    request = waiting.request
    end = Instant(view.now + request.run_time)
    return Wish(waiting.turns[0], True, place, 0, need_of(request, terrain), request, end)
