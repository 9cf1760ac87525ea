"""Where a pass stands: what is free, what was given, and what the first blocked job is promised."""

from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.model.quantities import NEVER, JobId
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.decision import Grow, Reservation, Start
from headnode.core.scheduling.future import Promise, Release, promise, promised, release, release_of
from headnode.core.scheduling.need import Need
from headnode.core.scheduling.placement import fewest, fit, shares
from headnode.core.scheduling.terrain import Order, Terrain
from headnode.core.scheduling.view import View
from headnode.core.scheduling.wishes import Wish

Alternatives = tuple[Order, ...]


class Head(NamedTuple):
    """The first job that must wait; no promise if no job's end will help it while nodes are closed."""

    wish: Wish
    promise: Promise | None

    @property
    def job(self) -> JobId:
        """The job itself."""
        return self.wish.job

    @property
    def need(self) -> Need:
        """What it needs."""
        return self.wish.need


class Standing:
    """Changes only by `grant` and `block`; what is free never grows."""

    def __init__(self, view: View, terrain: Terrain) -> None:
        now = {feature: free for feature, (_, free) in view.licences.items()}
        in_all = {feature: total for feature, (total, _) in view.licences.items()}
        self.board = Board.now(terrain, view.nodes, now)
        self.head: Head | None = None
        self.starts: list[Start] = []
        self.grows: list[Grow] = []
        self._view, self._terrain = view, terrain
        self._at_last = Board.empty(terrain, in_all)
        self._given: list[Release] = []
        self._room: dict[int, tuple[Alternatives, int]] = {}  # by identity: they are long, and few
        self._room_then: tuple[Promise | None, int] = (None, 0)

    def grant(self, wish: Wish, found: Fit) -> None:
        """Give the wish these processors."""
        piece = wish.need.piece(found)
        self.board.put(piece)
        self._room.clear()
        self._given.append(release(wish.end, wish.job, piece))
        if self.head is not None and self.head.promise is not None and not self.in_time(wish):
            self.head = self.head._replace(promise=self.still_promised(wish, found))
        named = shares(found, self._terrain)
        if wish.starts:
            self.starts.append(Start(wish.job, named, None if self.head is None else self.head.job))
        else:
            self.grows.append(Grow(wish.job, named))

    def may_fit(self, need: Need) -> bool:
        """Return whether there are processors enough, wherever they are; if not, nobody need look closer."""
        if need.unit is UnitType.NODE:
            return True
        known = self._room.get(id(need.alternatives))
        if known is None:
            known = need.alternatives, _most(self.board, need.alternatives)
            self._room[id(need.alternatives)] = known
        return need.minimum <= known[1]

    def may_keep_promise(self, need: Need) -> bool:
        """Return whether there will be enough for the head and for the need, by counting as in `may_fit`."""
        head = self.head
        if head is None or head.promise is None or need.alternatives is not head.need.alternatives:
            return True
        if UnitType.NODE in (need.unit, head.need.unit) or len(need.alternatives) > 1:
            return True
        if self._room_then[0] is not head.promise:
            self._room_then = head.promise, _most(head.promise.board, need.alternatives)
        return need.minimum + head.need.minimum <= self._room_then[1]

    def promise_for(self, wish: Wish) -> Promise | None:
        """Return when the wish will fit at the latest, or None while too many nodes are closed for it."""
        running = (release_of(job, self._view.now, self._terrain) for job in self._view.running)
        return promise(wish.need, self.board, [*running, *self._given], self._at_last)

    def can_run(self, wish: Wish) -> bool:
        """Return whether the wish would fit on the open nodes if nothing ran there."""
        return fit(fewest(wish.need), self._at_last) is not None

    def in_time(self, wish: Wish) -> bool:
        """Return whether the wish is over when the head's promise falls due; never without a due time."""
        due = NEVER if self.head is None or self.head.promise is None else self.head.promise.at
        return wish.end <= due < NEVER

    def still_promised(self, wish: Wish, found: Fit) -> Promise | None:
        """Return the head's promise if the wish keeps these processors for ever, or None if it is broken."""
        if self.head is None or self.head.promise is None:
            return None
        then = self.head.promise.board.copy()
        then.put(wish.need.piece(found))
        return promised(self.head.need, self.head.promise.at, then)

    def reservations(self) -> tuple[Reservation, ...]:
        """Return what the head is promised."""
        if self.head is None or self.head.promise is None:
            return ()
        kept, wish = self.head.promise, self.head.wish
        named = shares(kept.piece.fit, self._terrain)
        return (Reservation(wish.job, kept.at, named, wish.turn, wish.request),)


def _most(board: Board, alternatives: Alternatives) -> int:
    """Return how many processors there are at most on nodes of one of the lists."""
    free = board.free
    return max((sum([free[node] for node in order]) for order in alternatives), default=0)
