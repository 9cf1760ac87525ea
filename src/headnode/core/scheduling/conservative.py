"""Conservative backfill: many waiting jobs have a reservation, and nobody starts who would delay one.

Each of the first jobs that must wait, as many as the view's depth allows, is given the earliest slot that
touches no other; the jobs behind them start if they touch none either.  A kept reservation never moves
later: when something becomes free unexpectedly, every job that has one is offered an earlier slot, in turn.
Planned anew, all slots are given again at each pass, in turn; what helps one may then put off another.

A job that no end of a limit will help has no slot.  Jobs without a limit do not take its place.

Source:  Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", 2001.
"""

from bisect import bisect_right
from collections.abc import Iterable
from functools import partial
from math import inf, nextafter

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.availability import Availability, Slot
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.decision import Grow, Plan, Reason, Reservation, Start, Wait, Why
from headnode.core.scheduling.endless import Endless
from headnode.core.scheduling.future import releases_of
from headnode.core.scheduling.kept import Held, Kept, keep
from headnode.core.scheduling.kinds import Kinds
from headnode.core.scheduling.need import Need
from headnode.core.scheduling.otherwise import never_with_any, with_alternatives
from headnode.core.scheduling.placement import fewest, fit, fit_again, part_shares, shares
from headnode.core.scheduling.reasons import shortage
from headnode.core.scheduling.view import View
from headnode.core.scheduling.waits import Telling, Waits
from headnode.core.scheduling.wishes import Wish, Wishes, options


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
        return Availability(
            view.now, self._board, kinds, releases, amounts=any(n.memory or n.held for n in needs)
        )

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
        coming = sum(held.slot.at > self._view.now for held in self._kept.slots.values())
        self._shallow = self._shallow and len(self._reservations) + coming < self._view.depth
        return self._shallow

    def _grow(self, wish: Wish) -> None:
        found = self._room_now(wish)
        if found is not None and self._endless.allows(wish, found):
            self._give(wish, found)
            self._grows.append(Grow(wish.job, shares(found, self._terrain)))

    def _offer(self, wish: Wish, held: Held) -> None:
        """Start a job whose slot has come, or whom a better one lets start; hold the best for it else.

        Better is an earlier slot, or one at the same instant for a request that the job prefers.
        """
        slot, under = held.slot, self._options(wish)
        own = under[held.option]
        if slot.at > self._view.now and not self._kept.freed:
            self._hold(wish, own, slot)
            return
        self._future.give(own.need.piece(slot.fit), slot.at, slot.at + own.asks.run_time)
        found = [(each, self._better(each, held)) for each in under]
        if any(better is not None for _, better in found):
            self._in_vain.clear()
        slots = [(each, better or (slot if each is own else None)) for each, better in found]
        self._settle(wish, slots, promised=own)

    def _better(self, wish: Wish, held: Held) -> Slot | None:
        """Return a slot that is better than the one held, for the wish under one of its options."""
        until = nextafter(held.slot.at, inf) if wish.option < held.option else held.slot.at
        return self._earliest(wish, until) if until > self._view.now else None

    def _reserve(self, wish: Wish) -> None:
        """Start the job or give it a slot; one that no end of a limit will help waits without."""
        slots = [(each, self._earliest(each, NEVER)) for each in self._options(wish)]
        if any(slot is not None for _, slot in slots):
            self._settle(wish, slots)
        else:
            self._endless.wait(wish)
            self._wait(wish, NEVER)

    def _settle(
        self, wish: Wish, slots: Iterable[tuple[Wish, Slot | None]], *, promised: Wish | None = None
    ) -> None:
        """Start the job in a slot that begins now, or hold it: the earliest there is under its options.

        Of equal slots that for the request it prefers; the one it was `promised` cannot be denied to it.
        """
        there = [(each, slot) for each, slot in slots if slot is not None]
        for option, slot in sorted(there, key=_begin):
            found = self._room_now(option, slot.fit) if slot.at <= self._view.now else slot.fit
            if found is None or not (self._endless.allows(option, found) or option is promised):
                continue
            if slot.at <= self._view.now:
                self._start(wish, option, found)
            else:
                self._future.take(option.need.piece(found), slot.at, slot.at + option.asks.run_time)
                self._hold(wish, option, slot)
            return
        self._wait(wish, NEVER)

    def _start_or_wait(self, wish: Wish) -> None:
        """Start a job behind those with reservations, if it touches none of them."""
        for option in self._options(wish):
            found = self._room_now(option) if self._fits_on_board(option.need) else None
            if found is not None and self._endless.allows(option, found):
                self._start(wish, option, found)
                return
        self._wait(wish, NEVER)

    def _options(self, wish: Wish) -> tuple[Wish, ...]:
        return options(wish, self._view.now, self._terrain) if wish.request.others else (wish,)

    def _earliest(self, wish: Wish, until: float) -> Slot | None:
        """Return the first slot before an instant.  Where an equal job found none, none is looked for.

        That does not help a job whose own slot comes before the one of its equal, for it was in the way.
        Nor one that would do with several requests: its slot may be for another than is looked for.
        """
        now, asked = self._view.now, wish.request
        if asked.others:
            return self._future.first_fit(wish.need, wish.asks.run_time, now, until)
        after = self._in_vain.get(asked, now)
        after = after if after <= until else now
        slot = self._future.first_fit(wish.need, asked.run_time, after, until)
        if slot is not None or until < NEVER:
            self._in_vain[asked] = Instant(until) if slot is None else slot.at
        return slot

    def _room_now(self, wish: Wish, promised: Fit = ()) -> Fit | None:
        """Return what the wish can have from now until its end without touching a reservation."""
        now = self._view.now
        return None if wish.end <= now else fit_again(wish.need, self._future.board(now, wish.end), promised)

    def _fits_on_board(self, need: Need) -> bool:
        """Return whether the minimum fits now, reservations or not; counts are asked first."""
        if self._processors < need.minimum and need.unit is not UnitType.NODE:
            return False
        return fit(fewest(need), self._board) is not None

    def _give(self, wish: Wish, found: Fit) -> None:
        self._processors -= sum(processors for _, processors in found)
        self._board.put(wish.need.piece(found))
        self._future.take(wish.need.piece(found), self._view.now, wish.end)

    def _start(self, wish: Wish, option: Wish, found: Fit) -> None:
        """Start the job of a wish under one of its options."""
        self._give(option, found)
        named, parts = shares(found, self._terrain), part_shares(found, self._terrain)
        self._starts.append(Start(wish.job, named, self._head, option.option, parts))
        self._wishes.granted(wish)

    def _hold(self, wish: Wish, option: Wish, slot: Slot) -> None:
        """Keep a slot for the job of a wish under one of its options."""
        self._tell(wish, slot.at)
        named, parts = shares(slot.fit, self._terrain), part_shares(slot.fit, self._terrain)
        kept = Reservation(wish.job, slot.at, named, wish.turn, wish.request, option.option, parts)
        self._reservations.append(kept)
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
            never = never_with_any(wish.request, self._view)
            if never:
                return Wait(never)
        ahead = (
            () if head is None else (Reason(Why.PRIORITY, f"job {head} is ahead in the queue", str(head)),)
        )
        told = with_alternatives(self._refused(each) for each in self._options(wish))
        return Wait((*ahead, *told), at)

    def _refused(self, wish: Wish) -> tuple[Reason, ...]:
        """Say what is missing for a wish under one of its options, or which slot is in the way."""
        if self._fits_on_board(wish.need):
            return (self._in_the_way(wish),)
        return shortage(wish.need, wish.asks, self._board)

    def _in_the_way(self, wish: Wish) -> Reason:
        """Name the job whose slot comes first: it fits now, so slots are all that keeps it from starting."""
        slots = [(each.at, each.job) for each in self._reservations]
        if wish.end == NEVER and self._endless.head is not None:
            slots.append((NEVER, self._endless.head.job))
        job = min(slots)[1] if slots else self._head
        what = f"it would fit, but could delay job {job}, which has a reservation"
        if wish.end == NEVER:
            what += "; with a run time limit it may be backfilled"
        return Reason(Why.RESERVATION, what, str(job))


def _begin(found: tuple[Wish, Slot]) -> Instant:
    return found[1].at
