"""Where a pass stands: what is free, what was given, and what the first blocked job is promised."""

from functools import cached_property
from math import inf
from typing import NamedTuple

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.decision import Grow, Reservation, Start
from headnode.core.scheduling.future import (
    Outlook,
    Promise,
    Release,
    in_order,
    promise,
    promised,
    release,
    releases_of,
)
from headnode.core.scheduling.need import Need, ResolvedCache, at_some_time
from headnode.core.scheduling.placement import fewest, fit, part_shares, shares
from headnode.core.scheduling.terrain import Order, Terrain
from headnode.core.scheduling.view import View
from headnode.core.scheduling.wishes import Wish, options

Alternatives = tuple[Order, ...]


class Head(NamedTuple):
    """The first job that must wait; no promise if no job's end will help it while nodes are closed.

    Jobs that run in a reservation only have a head of their own: they and the others wait for other things.
    """

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

    @property
    def due(self) -> Instant:
        """When its promise falls due; NEVER without one."""
        return NEVER if self.promise is None else self.promise.at


class PassBefore(NamedTuple):
    """How a pass of a policy ended: who is refused then is refused as long as nothing becomes free."""

    policy: object
    now: Instant
    board: Board
    releases: list[Release]
    head: Head
    refused: set[JobRequest]


class PassMemory:
    """How the last pass ended that left a blocked job with a promise."""

    def __init__(self) -> None:
        self.ended: PassBefore | None = None


class Standing:
    """Changes only by `grant` and by who becomes the head; what is free never grows.

    The terrain remembers how the pass before ended.  Where everything is as it was then, the head's promise
    and the refusals need not be worked out again: only time has passed, and that helps nobody to overtake.
    """

    def __init__(self, view: View, terrain: Terrain, policy: object) -> None:
        now = {feature: free for feature, (_, free) in view.licences.items()}
        self.board = Board.now(terrain, view.nodes, now)
        self.heads: dict[str, Head] = {}  # by the reservation in which they run; empty: all the others
        self.starts: list[Start] = []
        self.grows: list[Grow] = []
        self._view, self._terrain, self._policy = view, terrain, policy
        self._running = releases_of(view, terrain)
        self._given: list[Release] = []
        self._room: dict[int, int] = {}  # by rules
        self._before = self._recalled()
        self.is_settled = False  # the head is that of the pass before, with the same promise
        self._spared: tuple[list[Promise], Board] | None = None
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
        for name, head in self.heads.items():
            if head.promise is not None and not _is_over(wish, head):
                self.heads[name] = head._replace(promise=self._still(head, wish, found))
        named = shares(found, self._terrain)
        if wish.starts:
            head_before = self.head_of(wish)
            ahead_of = None if head_before is None else head_before.job
            parts = part_shares(found, self._terrain)
            self.starts.append(Start(wish.job, named, ahead_of, wish.option, parts))
        else:
            self.grows.append(Grow(wish.job, named))

    def head_of(self, wish: Wish) -> Head | None:
        """Return the first job that must wait for the same reservation as the wish, or like it for none."""
        return self.heads.get(wish.request.reservation)

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
        """Return whether the wish would delay a head wherever it ran; if not, look where it would."""
        heads = self.heads.values()
        return any(not _is_over(wish, head) and not self._may_keep_promise(head, wish.need) for head in heads)

    def _may_keep_promise(self, head: Head, need: Need) -> bool:
        """Return whether there will be enough for the head and for the need, by counting as in `may_fit`."""
        if head.promise is None or need.rules < 0 or need.rules != head.need.rules:
            return True
        if need.access is not None:
            return True  # other nodes may be open to the head by then
        if UnitType.NODE in (need.unit, head.need.unit) or len(need.alternatives) > 1:
            return True
        if self._room_then[0] is not head.promise:
            self._room_then = head.promise, _most(head.promise.board, need.alternatives)
        return need.minimum + head.need.minimum <= self._room_then[1]

    def promises(self) -> list[Promise]:
        """Return what the heads are promised."""
        return [head.promise for head in self.heads.values() if head.promise is not None]

    def spared(self) -> Board | None:
        """Return the board of what is free both now and when promises fall due, their pieces left alone."""
        promises = self.promises()
        if not promises:
            return None
        if self._spared is None or self._spared[0] != promises:
            beside = self.board
            for each in promises:
                beside = _beside(beside, each)
            self._spared = promises, beside
        return self._spared[1]

    def wait(self, wish: Wish, *, unpromised: bool) -> Head:
        """Let a wish wait that is the first of its kind to do so, and return how.

        It is a head only if it is promised something, or if `unpromised` are heads, too.  What is promised
        to another head is not promised again.
        """
        head = self._as_head(wish)
        if head.promise is not None and self.heads:
            head = self._beside_others(head)
        if head.promise is not None or unpromised:
            self.heads[wish.request.reservation] = head
        return head

    def _beside_others(self, head: Head) -> Head:
        """Put what is promised to several heads on the boards of each other; the last yields if it cannot."""
        if head.promise is None:
            return head
        boards: dict[str, Head] = {}
        for name, other in self.heads.items():
            if other.promise is None:
                continue
            first, second = (head, other) if head.due <= other.due else (other, head)
            if first.wish.asks.run_time + first.due <= second.due < NEVER:
                continue
            kept = self._still_beside(second, first)
            if kept is None:
                return head._replace(promise=None)
            if second is head:
                head = head._replace(promise=kept)
            else:
                boards[name] = other._replace(promise=kept)
        self.heads |= boards
        return head

    def _still_beside(self, head: Head, other: Head) -> Promise | None:
        """Return a head's promise with another head at work, whose promise falls due before."""
        if head.promise is None or other.promise is None:
            return head.promise
        then = head.promise.board.copy()
        then.put(other.promise.piece)
        return promised(head.need, self._view.now, head.promise.at, then)

    def _as_head(self, wish: Wish) -> Head:
        """Return the wish with when it will fit at the latest; None while too many nodes are closed for it.

        Of several options the one that is sure to fit first; of equals the one that the job prefers.
        """
        before, under = self._before, self.options(wish)
        if before is not None and not self._given and _is_same(before.head.wish, wish):
            self.is_settled = True
            return Head(under[before.head.wish.option], before.head.promise)
        outlook = Outlook(self._view.now, self.board, self._releases(), self._at_last)
        return min([Head(each, promise(each.need, outlook)) for each in under], key=_due)

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
        head = self.heads.get("")
        if head is not None and head.promise is not None and len(self.heads) == 1:
            now, policy = self._view.now, self._policy
            ended = PassBefore(policy, now, self.board, self._releases(), head, refused)
            self._terrain.cache.of(PassMemory).ended = ended

    def _releases(self) -> list[Release]:
        """Return what running jobs and those that were given something give back, in order."""
        return in_order([*self._running, *self._given]) if self._given else self._running

    def _recalled(self) -> PassBefore | None:
        before = self._terrain.cache.of(PassMemory).ended
        if before is None or before.policy != self._policy or before.now > self._view.now:
            return None
        same = before.board.looks_like(self.board) and len(before.releases) == len(self._running)
        return before if same and before.releases == self._running else None

    def can_run(self, wish: Wish) -> bool:
        """Return whether the wish would fit on the open nodes if nothing ran there."""
        in_all = tuple([(feature, total) for feature, (total, _) in self._view.licences.items()])
        runs = self._terrain.cache.of(ResolvedCache).runs
        known = runs.get((wish.asks, in_all))
        if known is None:
            known = fit(fewest(at_some_time(wish.need, self._terrain)), self._at_last) is not None
            runs[wish.asks, in_all] = known
        return known

    def in_time(self, wish: Wish) -> bool:
        """Return whether the wish is over when the heads' promises fall due; never without a due time."""
        return all(_is_over(wish, head) for head in self.heads.values())

    def still_promised(self, wish: Wish, found: Fit) -> bool:
        """Return whether every head keeps its promise if the wish has these processors.

        For ever, if it is not over in time.
        """
        return all(
            head.promise is None or _is_over(wish, head) or self._still(head, wish, found) is not None
            for head in self.heads.values()
        )

    def _still(self, head: Head, wish: Wish, found: Fit) -> Promise | None:
        """Return a head's promise if the wish keeps these processors for ever, or None if it is broken."""
        if head.promise is None:
            return None
        then = head.promise.board.copy()
        then.put(wish.need.piece(found))
        return promised(head.need, self._view.now, head.promise.at, then)

    def reservations(self) -> tuple[Reservation, ...]:
        """Return what the heads are promised, in turn order."""
        kept = [(head.wish, head.promise) for head in self.heads.values() if head.promise is not None]
        found: list[Reservation] = []
        for wish, given in sorted(kept, key=lambda one: one[0].turn):
            named = shares(given.piece.fit, self._terrain)
            found.append(Reservation(wish.job, given.at, named, wish.turn, wish.request, wish.option))
        return tuple(found)


def _is_over(wish: Wish, head: Head) -> bool:
    """Return whether a wish is over when a head's promise falls due; never without a due time."""
    return wish.end <= head.due < NEVER


def _beside(now: Board, promise: Promise) -> Board:
    then = promise.board.copy()
    then.put(promise.piece)
    return Board(
        now.terrain,
        [free if free > 0 else 0 for free in map(min, now.free, then.free)],
        now.jobs,
        now.owned,
        (
            list(map(min, now.memory, then.memory)),
            list(map(min, now.disk, then.disk)),
            list(map(min, now.swap, then.swap)),
        ),
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
