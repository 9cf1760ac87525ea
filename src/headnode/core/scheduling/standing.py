"""Where a pass stands: what is free, what was given, and what the first blocked job is promised."""

from functools import cached_property
from math import inf
from typing import NamedTuple

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.decision import Grow, Reservation, Start
from headnode.core.scheduling.future import (
    Promise,
    Release,
    in_order,
    promise,
    promised,
    release,
    releases_of,
)
from headnode.core.scheduling.need import Need
from headnode.core.scheduling.placement import fewest, fit, part_shares, shares
from headnode.core.scheduling.terrain import Order, Terrain
from headnode.core.scheduling.view import View
from headnode.core.scheduling.wishes import Wish, options

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


class PassBefore(NamedTuple):
    """How a pass of a policy ended: who is refused then is refused as long as nothing becomes free."""

    policy: object
    now: Instant
    board: Board
    releases: list[Release]
    head: Head
    refused: set[JobRequest]


class Standing:
    """Changes only by `grant` and by who becomes the head; what is free never grows.

    The terrain remembers how the pass before ended.  Where everything is as it was then, the head's promise
    and the refusals need not be worked out again: only time has passed, and that helps nobody to overtake.
    """

    def __init__(self, view: View, terrain: Terrain, policy: object) -> None:
        now = {feature: free for feature, (_, free) in view.licences.items()}
        self.board = Board.now(terrain, view.nodes, now)
        self.head: Head | None = None
        self.starts: list[Start] = []
        self.grows: list[Grow] = []
        self._view, self._terrain, self._policy = view, terrain, policy
        self._running = releases_of(view, terrain)
        self._given: list[Release] = []
        self._room: dict[int, int] = {}  # by rules
        self._before = self._recalled()
        self.is_settled = False  # the head is that of the pass before, with the same promise
        self._spared: tuple[Promise, Board] | None = None
        self._room_then: tuple[Promise | None, int] = (None, 0)

    @cached_property
    def _at_last(self) -> Board:
        """The board with nothing on it."""
        in_all = {feature: total for feature, (total, _) in self._view.licences.items()}
        return Board.empty(self._terrain, in_all)

    def grant(self, wish: Wish, found: Fit) -> None:
        """Give the wish these processors."""
        piece = wish.need.piece(found)
        self.board.put(piece)
        self._room.clear()
        self._spared = None
        self._given.append(release(wish.end, wish.job, piece))
        if self.head is not None and self.head.promise is not None and not self.in_time(wish):
            self.head = self.head._replace(promise=self.still_promised(wish, found))
        named = shares(found, self._terrain)
        if wish.starts:
            ahead_of = None if self.head is None else self.head.job
            parts = part_shares(found, self._terrain)
            self.starts.append(Start(wish.job, named, ahead_of, wish.option, parts))
        else:
            self.grows.append(Grow(wish.job, named))

    def options(self, wish: Wish) -> tuple[Wish, ...]:
        """Return the wish under each of its options, best first."""
        return options(wish, self._view.now, self._terrain)

    def may_fit(self, need: Need) -> bool:
        """Return whether there are processors enough, wherever they are; if not, nobody need look closer."""
        if need.unit is UnitType.NODE:
            return True
        known = self._room.get(need.rules) if need.rules >= 0 else None
        if known is None:
            known = self._room[need.rules] = _most(self.board, need.alternatives)
        return need.minimum <= known

    def surely_delays(self, wish: Wish) -> bool:
        """Return whether the wish would delay the head wherever it ran; if not, look where it would."""
        return not self.in_time(wish) and not self._may_keep_promise(wish.need)

    def _may_keep_promise(self, need: Need) -> bool:
        """Return whether there will be enough for the head and for the need, by counting as in `may_fit`."""
        head = self.head
        if head is None or head.promise is None or need.rules < 0 or need.rules != head.need.rules:
            return True
        if UnitType.NODE in (need.unit, head.need.unit) or len(need.alternatives) > 1:
            return True
        if self._room_then[0] is not head.promise:
            self._room_then = head.promise, _most(head.promise.board, need.alternatives)
        return need.minimum + head.need.minimum <= self._room_then[1]

    def spared(self) -> Board | None:
        """Return the board of what is free both now and when the promise falls due, its piece left alone."""
        if self.head is None or self.head.promise is None:
            return None
        if self._spared is None or self._spared[0] is not self.head.promise:
            self._spared = self.head.promise, _beside(self.board, self.head.promise)
        return self._spared[1]

    def as_head(self, wish: Wish) -> Head:
        """Return the wish with when it will fit at the latest; None while too many nodes are closed for it.

        Of several options the one that is sure to fit first; of equals the one that the job prefers.
        """
        before, under = self._before, self.options(wish)
        if before is not None and not self._given and _is_same(before.head.wish, wish):
            self.is_settled = True
            return Head(under[before.head.wish.option], before.head.promise)
        heads = [
            Head(each, promise(each.need, self.board, self._releases(), self._at_last)) for each in under
        ]
        return min(heads, key=_due)

    def refused_before(self) -> frozenset[int]:
        """Return the places of the classes that stay refused if the head keeps its promise: `is_settled`."""
        before = self._before
        if before is None:
            return frozenset()
        head, queue = before.head.wish, self._view.queue
        places = [place for place, each in enumerate(queue) if each.turns and each.request in before.refused]
        if not any(queue[place].turns[0] == head.turn for place in places):
            return frozenset()  # the head is gone
        return frozenset(place for place in places if queue[place].turns[0] > head.turn)

    def end(self, refused: set[JobRequest]) -> None:
        """Let the terrain remember how the pass ends, but not what it remembered itself: no chains."""
        self._before = None
        if self.head is not None and self.head.promise is not None:
            now, policy = self._view.now, self._policy
            self._terrain.before = PassBefore(policy, now, self.board, self._releases(), self.head, refused)

    def _releases(self) -> list[Release]:
        """Return what running jobs and those that were given something give back, in order."""
        return in_order([*self._running, *self._given]) if self._given else self._running

    def _recalled(self) -> PassBefore | None:
        before = self._terrain.before
        if before is None or before.policy != self._policy or before.now > self._view.now:
            return None
        same = before.board.looks_like(self.board) and len(before.releases) == len(self._running)
        return before if same and before.releases == self._running else None

    def can_run(self, wish: Wish) -> bool:
        """Return whether the wish would fit on the open nodes if nothing ran there."""
        in_all = tuple([(feature, total) for feature, (total, _) in self._view.licences.items()])
        known = self._terrain.runs.get((wish.asks, in_all))
        if known is None:
            known = fit(fewest(wish.need), self._at_last) is not None
            self._terrain.runs[wish.asks, in_all] = known
        return known

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
        return (Reservation(wish.job, kept.at, named, wish.turn, wish.request, wish.option),)


def _beside(now: Board, promise: Promise) -> Board:
    then = promise.board.copy()
    then.put(promise.piece)
    return Board(
        now.terrain,
        [free if free > 0 else 0 for free in map(min, now.free, then.free)],
        now.jobs,
        now.owned,
        list(map(min, now.memory, then.memory)),
        {name: int(min(free, then.licences.get(name, inf))) for name, free in now.licences.items()},
    )


def _due(head: Head) -> tuple[bool, float]:
    return (True, NEVER) if head.promise is None else (False, head.promise.at)


def _is_same(one: Wish, other: Wish) -> bool:
    return one.turn == other.turn and one.request == other.request


def _most(board: Board, alternatives: Alternatives) -> int:
    """Return how many processors there are at most on nodes of one of the lists."""
    free = board.free
    if len(alternatives) == 1:
        return sum([free[node] for node in alternatives[0]])
    return max((sum([free[node] for node in order]) for order in alternatives), default=0)
