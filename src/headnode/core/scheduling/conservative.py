"""Conservative backfill: many waiting jobs have a reservation, and nobody starts who would delay one.

Each of the first jobs that must wait, as many as the view's depth allows, is given the earliest slot that
touches no other; the jobs behind them start if they touch none either.  A kept reservation never moves
later: when something becomes free unexpectedly, every job that has one is offered an earlier slot, in turn.
Planned anew, all slots are given again at each pass, in turn; what helps one may then put off another.

A job that no end of a limit will help has no slot.  Jobs without a limit do not take its place.

Source:  Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", 2001.
"""

from bisect import bisect_right
from functools import partial

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.availability import Availability, Slot
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.decision import Grow, Plan, Reason, Reservation, Start, Wait, Why
from headnode.core.scheduling.endless import Endless
from headnode.core.scheduling.future import releases_of
from headnode.core.scheduling.kept import Kept, keep
from headnode.core.scheduling.kinds import Kinds
from headnode.core.scheduling.need import Need
from headnode.core.scheduling.placement import fewest, fit, shares
from headnode.core.scheduling.reasons import never_fits, shortage
from headnode.core.scheduling.view import View
from headnode.core.scheduling.waits import Telling, Waits
from headnode.core.scheduling.wishes import Wish, Wishes


def plan(view: View) -> Plan:
    """Decide about every queued job; reservations of the plan before never move later."""
    return _Pass(view, anew=False).plan()


def plan_anew(view: View) -> Plan:
    """Decide about every queued job; every reservation is given anew."""
    return _Pass(view, anew=True).plan()


class _Pass:
    """Gives and reserves, wish by wish; a reservation is always out of the availability already."""

    def __init__(self, view: View, *, anew: bool) -> None:
        self._view, self._terrain = view, view.terrain()
        self._wishes = Wishes(view, self._terrain)
        free = {feature: free for feature, (_, free) in view.licences.items()}
        self._board = Board.now(self._terrain, view.nodes, free)
        self._future = self._availability()
        self._kept = Kept({}, {}, freed=True) if anew else keep(view, self._terrain, self._future)
        self._endless = Endless(view, self._terrain)
        self._in_vain: dict[JobRequest, Instant] = {}  # there is no slot for this request before
        self._starts: list[Start] = []
        self._grows: list[Grow] = []
        self._waits: dict[JobRequest, Telling] = {}
        self._reservations: list[Reservation] = []
        self._head: JobId | None = None  # the first that must wait
        self._shallow = True
        self._processors = sum(self._board.free)

    def _availability(self) -> Availability:
        needs, view = self._wishes.needs, self._view
        releases = releases_of(view, self._terrain)
        kinds = Kinds(self._terrain, needs)
        return Availability(view.now, self._board, kinds, releases, memory=any(n.memory for n in needs))

    def plan(self) -> Plan:
        """Decide about every wish in turn."""
        for wish in self._wishes:
            if not wish.starts:
                self._grow(wish)
            elif wish.job in self._kept.slots:
                self._offer(wish, self._kept.slots.pop(wish.job))
            elif self._is_shallow():
                self._reserve(wish)
            else:
                self._start_or_wait(wish)
        wake = min((each.at for each in self._reservations), default=NEVER)
        held = tuple(self._reservations)
        return Plan(tuple(self._starts), tuple(self._grows), Waits(self._waits), held, wake)

    def _is_shallow(self) -> bool:
        """Return whether one more may have a reservation; after the first who may not, nobody may."""
        coming = sum(slot.at > self._view.now for slot in self._kept.slots.values())
        self._shallow = self._shallow and len(self._reservations) + coming < self._view.depth
        return self._shallow

    def _grow(self, wish: Wish) -> None:
        found = self._room_now(wish)
        if found is not None and self._endless.allows(wish, found):
            self._give(wish, found)
            self._grows.append(Grow(wish.job, shares(found, self._terrain)))

    def _offer(self, wish: Wish, slot: Slot) -> None:
        """Start a job whose slot has come, or whom an earlier one lets start; hold the best for it else."""
        now, need = self._view.now, wish.need
        if slot.at > now and not self._kept.freed:
            self._hold(wish, slot)
            return
        self._future.give(need.piece(slot.fit), slot.at, slot.at + wish.request.run_time)
        best = self._earliest(wish, slot.at) if slot.at > now else None
        if best is not None:
            self._in_vain.clear()
        self._settle(wish, best or slot, promised=True)

    def _reserve(self, wish: Wish) -> None:
        """Start the job or give it a slot; one that no end of a limit will help waits without."""
        slot = self._earliest(wish, NEVER)
        if slot is not None:
            self._settle(wish, slot, promised=False)
        else:
            self._endless.wait(wish)
            self._wait(wish, NEVER)

    def _settle(self, wish: Wish, slot: Slot, *, promised: bool) -> None:
        """Start the job in a slot that begins now, or hold it."""
        found = self._room_now(wish) if slot.at <= self._view.now else slot.fit
        if found is None or not (self._endless.allows(wish, found) or promised):
            self._wait(wish, NEVER)
        elif slot.at <= self._view.now:
            self._start(wish, found)
        else:
            self._future.take(wish.need.piece(found), slot.at, slot.at + wish.request.run_time)
            self._hold(wish, slot)

    def _start_or_wait(self, wish: Wish) -> None:
        """Start a job behind those with reservations, if it touches none of them."""
        found = self._room_now(wish) if self._fits_on_board(wish.need) else None
        if found is not None and self._endless.allows(wish, found):
            self._start(wish, found)
        else:
            self._wait(wish, NEVER)

    def _earliest(self, wish: Wish, until: float) -> Slot | None:
        """Return the first slot before an instant.  Where an equal job found none, none is looked for.

        That does not help a job whose own slot comes before the one of its equal, for it was in the way.
        """
        after = self._in_vain.get(wish.request, self._view.now)
        after = after if after <= until else self._view.now
        slot = self._future.first_fit(wish.need, wish.request.run_time, after, until)
        if slot is not None or until < NEVER:
            self._in_vain[wish.request] = Instant(until) if slot is None else slot.at
        return slot

    def _room_now(self, wish: Wish) -> Fit | None:
        """Return what the wish can have from now until its end without touching a reservation."""
        now = self._view.now
        return None if wish.end <= now else fit(wish.need, self._future.board(now, wish.end))

    def _fits_on_board(self, need: Need) -> bool:
        """Return whether the minimum fits now, reservations or not; counts are asked first."""
        if self._processors < need.minimum and need.unit is not UnitType.NODE:
            return False
        return fit(fewest(need), self._board) is not None

    def _give(self, wish: Wish, found: Fit) -> None:
        self._processors -= sum(processors for _, processors in found)
        self._board.put(wish.need.piece(found))
        self._future.take(wish.need.piece(found), self._view.now, wish.end)

    def _start(self, wish: Wish, found: Fit) -> None:
        self._give(wish, found)
        self._starts.append(Start(wish.job, shares(found, self._terrain), self._head))
        self._wishes.granted(wish)

    def _hold(self, wish: Wish, slot: Slot) -> None:
        self._tell(wish, slot.at)
        named = shares(slot.fit, self._terrain)
        self._reservations.append(Reservation(wish.job, slot.at, named, wish.turn, wish.request))
        self._wishes.granted(wish)

    def _wait(self, wish: Wish, at: Instant) -> None:
        """Let the job wait without a slot, and with it all of its class that have none."""
        self._tell(wish, at)
        turns = self._kept.turns.get(wish.request, [])
        following = bisect_right(turns, wish.turn)
        if following < len(turns):
            self._wishes.skip(wish, turns[following])

    def _tell(self, wish: Wish, at: Instant) -> None:
        """Remember what the first of a class waits for, and who is the first of all."""
        if wish.request not in self._waits:
            self._waits[wish.request] = partial(self._why, wish, at, self._head)
        if self._head is None and self._endless.can_run(wish):
            self._head = wish.job

    def _why(self, wish: Wish, at: Instant, head: JobId | None) -> Wait:
        """Say why it waits.  What did not fit during the pass does not fit after it."""
        if not self._endless.can_run(wish):
            never = never_fits(wish.request, self._view.nodes, self._view.licences)
            if never:
                return Wait(never)
        ahead = () if head is None else (Reason(Why.PRIORITY, f"job {head} goes first", str(head)),)
        if not self._fits_on_board(wish.need):
            return Wait((*ahead, *shortage(wish.need, wish.request, self._board)), at)
        return Wait((*ahead, self._in_the_way(wish)), at)

    def _in_the_way(self, wish: Wish) -> Reason:
        """Name the job whose slot comes first: it fits now, so slots are all that keeps it from starting."""
        slots = [(each.at, each.job) for each in self._reservations]
        if wish.end == NEVER and self._endless.head is not None:
            slots.append((NEVER, self._endless.head.job))
        job = min(slots)[1] if slots else self._head
        what = f"it would fit, but could delay job {job}, which has a reservation"
        if wish.end == NEVER:
            what += "; with a run time limit it may fit before it"
        return Reason(Why.RESERVATION, what, str(job))
