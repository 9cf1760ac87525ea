"""The state of a pass: free resources, grants, and the shadow reservation of the first blocked job."""

from collections.abc import Iterable
from functools import cached_property
from itertools import filterfalse
from typing import NamedTuple

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import NEVER, Instant
from headnode.core.scheduling.candidates import (
    Candidate,
    at_lowest_limit,
    candidate_options,
    resolved_at_some_time,
    waits_for_switches,
)
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.limit_checks import are_limited
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.placement import (
    at_minimum,
    find_placement,
    most_free,
    most_idle,
    part_shares,
    shares,
)
from headnode.core.scheduling.plan import Grow, Reservation, Start
from headnode.core.scheduling.request import ResolvedCache, ResolvedRequest
from headnode.core.scheduling.shadow_reservation import (
    BlockedJob,
    Release,
    ReleaseOutlook,
    ShadowReservation,
    is_harmless,
    is_over,
    release,
    releases_of,
    shadow_reservation,
    with_releases,
)
from headnode.core.scheduling.view import View, counted_licences, reserved_before


class PreviousPass(NamedTuple):
    """The result of a pass; its refusals stay valid as long as nothing becomes free."""

    policy: object
    now: Instant
    resources: FreeResources
    releases: list[Release]
    head: BlockedJob
    refused: set[JobRequest]
    reservations: tuple[Reservation, ...]


class PassMemory:
    """The result of the last pass that left a blocked job with a shadow reservation."""

    def __init__(self) -> None:
        self.ended: PreviousPass | None = None
        self.idle: FreeResources | None = None  # what is free when no job runs


class PassState:
    """The state of one pass; only `grant` and a new blocked job change it, and free resources never grow.

    The node table remembers how the pass before ended.  Where everything is as it was then, the head's
    promise and the refusals need not be worked out again: only time has passed, and that helps no backfill.
    """

    def __init__(self, view: View, node_table: NodeTable, policy: object) -> None:
        now = {feature: free for feature, (_, free) in view.licences.items()}
        self.resources = FreeResources.now(node_table, view.nodes, now)
        self.heads: dict[str, BlockedJob] = {}  # by the reservation in which they run; empty: all the others
        self.starts: list[Start] = []
        self.grows: list[Grow] = []
        self._view, self._node_table, self._policy = view, node_table, policy
        self._given: list[Release] = []
        self._known_releases: list[Release] | None = None
        self._reservations: tuple[Reservation, ...] | None = None
        self._room: dict[tuple[int, UnitType | None], int] = {}  # by rules, and the unit of whole nodes
        self._before = self._recalled()
        self.is_settled = False  # the head is that of the pass before, with the same promise
        self._spared: tuple[list[ShadowReservation], FreeResources] | None = None
        self._room_then: tuple[ShadowReservation | None, dict[int, int]] = (None, {})  # by rules

    @cached_property
    def _at_last(self) -> FreeResources:
        """What is free when no job runs."""
        in_all = {feature: total for feature, (total, _) in self._view.licences.items()}
        memory = self._node_table.cache.of(PassMemory)
        if memory.idle is None or memory.idle.licences != in_all:
            memory.idle = FreeResources.empty(self._node_table, in_all)
        return memory.idle

    @property
    def _running(self) -> list[Release]:
        """The releases of running jobs.  Where no job waits, nobody asks for them."""
        if self._known_releases is None:  # a cached_property takes a lock
            self._known_releases = releases_of(self._view, self._node_table)
        return self._known_releases

    def grant(self, candidate: Candidate, placement: Placement) -> None:
        """Give the candidate these processors."""
        piece = candidate.need.piece(placement)
        self.resources.put(piece)
        self._room.clear()
        self._spared = None
        self._given.append(release(candidate.end, candidate.job, piece))
        for name, head in self.heads.items():
            if head.promise is not None and not is_harmless(candidate, head):
                self.heads[name] = head._replace(promise=self._still(head, candidate, placement))
        named = shares(placement, self._node_table)
        if candidate.starts:
            head_before = self.head_of(candidate)
            ahead_of = None if head_before is None else head_before.job
            parts = part_shares(placement, self._node_table)
            option, limit = candidate.option, candidate.lowered_limit
            self.starts.append(Start(candidate.job, named, ahead_of, option, parts, limit))
        else:
            self.grows.append(Grow(candidate.job, named))

    def head_of(self, candidate: Candidate) -> BlockedJob | None:
        """Return the first job that must wait for the same reservation as the candidate, or for none."""
        return self.heads.get(candidate.request.reservation)

    def options(self, candidate: Candidate) -> tuple[Candidate, ...]:
        """Return the candidate under each of its options, best first."""
        return candidate_options(candidate, self._view.now, self._node_table)

    def at_lowest_limit(self, candidate: Candidate) -> Candidate:
        """Return the candidate with the lowest run time limit that its job may start with."""
        return at_lowest_limit(candidate, self._view.now, self._node_table)

    def is_limited(self, candidate: Candidate) -> bool:
        """Return whether limits of its user and project keep the job from starting, under all its options."""
        if not (candidate.request.limits or candidate.request.alternatives):
            return False
        needs = [option.need for option in self.options(candidate)]
        return are_limited(needs, self.resources, self._at_last)

    def keeps_reservation(self, candidate: Candidate) -> bool:
        """Return whether a job that its limits keep from starting now still has the reservation it had.

        Jobs of its own user or project may start before it that end in time, so that its limits allow it.
        """
        at = reserved_before(self._view, candidate.job, candidate.request)
        return at < NEVER and self._as_head(candidate).due <= at

    def led_before(self, candidate: Candidate) -> bool:
        """Return whether the candidate was the head of the pass that this one remembers."""
        return self._before is not None and candidate.turn == self._before.head.candidate.turn

    def may_fit(self, need: ResolvedRequest) -> bool:
        """Return whether enough is free, on any nodes; if not, the request cannot fit.

        Of whole nodes those count that are idle, in units of the need.
        """
        key = need.rules, need.unit if need.whole else None
        known = self._room.get(key) if need.rules >= 0 else None
        if known is None:
            known = self._room[key] = (most_idle if need.whole else most_free)(self.resources, need)
        return (need.minimum if need.whole else _least_processors(need)) <= known

    def surely_delays(self, candidate: Candidate) -> bool:
        """Return whether the candidate would delay a head wherever it ran; if not, look where it would."""
        for head in self.heads.values():
            if not is_over(candidate, head) and not self._may_keep_promise(head, candidate.need):
                return True
        return False

    def never_fits(self, request: JobRequest, need: ResolvedRequest) -> bool:
        """Return whether no job of a class will be backfilled in this pass, whatever else is granted."""
        if request.alternatives or request.reservation not in self.heads:
            return False
        if not self.may_fit(need):
            return True
        end = self._view.now + request.least_run_time
        for head in self.heads.values():
            if not end <= head.due < NEVER and not self._may_keep_promise(head, need):
                return True
        return False

    def _may_keep_promise(self, head: BlockedJob, need: ResolvedRequest) -> bool:
        """Return whether there will be enough for the head and for the need, by counting as in `may_fit`."""
        if head.promise is None or need.rules < 0:
            return True
        if UnitType.NODE in (need.unit, head.need.unit) or len(need.alternatives) > 1:
            return True
        if self._room_then[0] is not head.promise:
            self._room_then = head.promise, {}
        known, then = self._room_then[1], head.promise.resources
        rules = need.rules if need.access is not None or need.rules == head.need.rules else _OTHER_RULES
        if rules not in known and rules == _OTHER_RULES:
            known[rules] = sum([free for free in then.free if free > 0])
        elif rules not in known:
            known[rules] = most_free(then, _on_nodes_of_both(need, head.promise.least))
        return _least_processors(need) + _least_processors(head.need) <= known[rules]

    def promises(self) -> list[ShadowReservation]:
        """Return what the heads are promised."""
        return [head.promise for head in self.heads.values() if head.promise is not None]

    def spared(self) -> FreeResources | None:
        """Return what is free both now and when promises fall due, without what is promised."""
        promises = self.promises()
        if not promises:
            return None
        if self._spared is None or self._spared[0] != promises:
            beside = self.resources
            for each in promises:
                then = each.resources.copy()
                then.put(each.piece)
                beside = beside.at_both_times(then)
            self._spared = promises, beside
        return self._spared[1]

    def wait(self, candidate: Candidate, *, unpromised: bool) -> BlockedJob:
        """Let a candidate wait that is the first of its kind to do so, and return how.

        It is a head only if it is promised something, or if `unpromised` are heads, too.  What is promised
        to another head is not promised again.
        """
        head = self._as_head(candidate)
        if head.promise is not None and self.heads:
            head = self._beside_others(head)
        if head.promise is not None or unpromised:
            self.heads[candidate.request.reservation] = head
        return head

    def _beside_others(self, head: BlockedJob) -> BlockedJob:
        """Put what is promised to several heads on the boards of each other; the last yields if it cannot."""
        if head.promise is None:
            return head
        boards: dict[str, BlockedJob] = {}
        for name, other in self.heads.items():
            if other.promise is None:
                continue
            first, second = (head, other) if head.due <= other.due else (other, head)
            over = first.candidate.asks.run_time + first.due <= second.due < NEVER
            if over and not first.need.spends_with(second.need):
                continue
            kept = self._still_beside(second, first, over=over)
            if kept is None:
                return head._replace(promise=None)
            if second is head:
                head = head._replace(promise=kept)
            else:
                boards[name] = other._replace(promise=kept)
        self.heads |= boards
        return head

    def _still_beside(self, head: BlockedJob, other: BlockedJob, *, over: bool) -> ShadowReservation | None:
        """Return the promise of a head beside another head, whose promise is due earlier."""
        if head.promise is None or other.promise is None:
            return head.promise
        then = head.promise.resources.copy()
        piece = other.promise.piece
        then.put(other.need.spent(piece.fit) if over else piece)
        return head.promise.beside(then)

    def _as_head(self, candidate: Candidate) -> BlockedJob:
        """Return the candidate with its shadow reservation; None while too many nodes are closed.

        Of several options the one that is sure to fit first; of equals the one that the job prefers.
        """
        before, under = self._before, self.options(candidate)
        if before is not None and not self._given and _is_same(before.head.candidate, candidate):
            self.is_settled = True
            return BlockedJob(under[before.head.candidate.option], before.head.promise)
        outlook = ReleaseOutlook(self._view.now, self.resources, self._releases(), self._at_last)
        heads = [BlockedJob(each, shadow_reservation(each.need, outlook)) for each in under]
        return heads[0] if len(heads) == 1 else min(heads, key=_due)

    def refused_before(self) -> frozenset[int]:
        """Return the places of the classes that stay refused if the head keeps its promise: `is_settled`."""
        before = self._before
        if before is None:
            return frozenset()
        head, queue = before.head.candidate, self._view.queue
        refused = before.refused
        places = [place for place, each in enumerate(queue) if each.turns and each.request in refused]
        leading = [queue[place].request for place in places if queue[place].turns[0] == head.turn]
        if leading != [head.request]:
            return frozenset()  # the head is gone, or was changed
        return frozenset(place for place in places if queue[place].turns[0] > head.turn)

    def end(self, refused: Iterable[JobRequest]) -> None:
        """Cache the result of this pass.  Drop the cache of the pass before, so that caches do not chain."""
        kept, self._before = self.reservations(), None
        head = self.heads.get("") if self.heads else None
        if head is not None and head.promise is not None and len(self.heads) == 1:
            now, policy = self._view.now, self._policy
            if self._node_table.switched:  # those that wait for few switches will not for ever
                refused = filterfalse(waits_for_switches, refused)
            ended = PreviousPass(policy, now, self.resources, self._releases(), head, set(refused), kept)
            self._node_table.cache.of(PassMemory).ended = ended

    def _releases(self) -> list[Release]:
        """Return the releases of running jobs and of jobs that this pass has started, in order."""
        return with_releases(self._running, self._given) if self._given else self._running

    def _recalled(self) -> PreviousPass | None:
        before = self._node_table.cache.of(PassMemory).ended
        if before is None or before.policy is not self._policy or before.now > self._view.now:
            return None
        same = before.resources.looks_like(self.resources) and before.releases == self._running
        return before if same else None

    def can_run(self, candidate: Candidate) -> bool:
        """Return whether the candidate would fit on the open nodes if nothing ran there."""
        candidate = self.at_lowest_limit(candidate)
        in_all = counted_licences(candidate.asks, self._view)
        runs = self._node_table.cache.of(ResolvedCache).runs
        known = runs.get((candidate.asks, in_all))
        if known is None:
            known = (
                find_placement(
                    at_minimum(resolved_at_some_time(candidate.need, self._node_table)), self._at_last
                )
                is not None
            )
            runs[candidate.asks, in_all] = known
        return known

    def in_time(self, candidate: Candidate) -> bool:
        """Return whether the candidate ends before the promises to the heads fall due."""
        return all(is_harmless(candidate, head) for head in self.heads.values())

    def still_promised(self, candidate: Candidate, placement: Placement) -> bool:
        """Return whether every head keeps its promise if the candidate has these processors.

        For ever, if it is not over in time.
        """
        return all(
            head.promise is None
            or is_harmless(candidate, head)
            or self._still(head, candidate, placement) is not None
            for head in self.heads.values()
        )

    def _still(
        self, head: BlockedJob, candidate: Candidate, placement: Placement
    ) -> ShadowReservation | None:
        """Return a head's promise if the candidate gets these processors; None: it is broken.

        For ever, if it is not over in time.
        """
        if head.promise is None:
            return None
        then = head.promise.resources.copy()
        over = is_over(candidate, head)
        then.put(candidate.need.spent(placement) if over else candidate.need.piece(placement))
        return head.promise.beside(then)

    def reservations(self) -> tuple[Reservation, ...]:
        """Return what the heads are promised, in turn order."""
        if self._reservations is None:
            self._reservations = self._worked_out() if self.heads else ()
        return self._reservations

    def _worked_out(self) -> tuple[Reservation, ...]:
        before, head = self._before, self.heads.get("")
        if before is not None and head is not None and self.is_settled and len(self.heads) == 1:
            then = before.head
            if head.promise is then.promise and head.candidate.turn == then.candidate.turn:
                return before.reservations
        kept = [(head.candidate, head.promise) for head in self.heads.values() if head.promise is not None]
        found: list[Reservation] = []
        for one, given in sorted(kept, key=lambda one: one[0].turn):
            named = shares(given.piece.fit, self._node_table)
            found.append(Reservation(one.job, given.at, named, one.turn, one.request, one.option))
        return tuple(found)


_OTHER_RULES = -1  # than those of the head: all nodes are counted


def _least_processors(need: ResolvedRequest) -> int:
    """Return how many processors the minimum of a need is at least; as many units, if it counts no GPUs."""
    return need.minimum * (need.processors_per_gpu or 1)


def _on_nodes_of_both(need: ResolvedRequest, then: ResolvedRequest) -> ResolvedRequest:
    """Return a need on its nodes and those of a head then: where nodes are reserved, these differ."""
    if need.access is None:
        return need
    every = set(need.alternatives[0]).union(*then.alternatives)
    return need._replace(alternatives=(tuple(every),))


def _due(head: BlockedJob) -> tuple[bool, float]:
    return (True, NEVER) if head.promise is None else (False, head.promise.at)


def _is_same(one: Candidate, other: Candidate) -> bool:
    return one.turn == other.turn and one.request == other.request
