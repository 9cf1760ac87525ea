"""Conservative backfill: many waiting jobs have a reservation, and no job starts that would delay one.

Each of the first jobs that must wait, as many as the view's depth allows, is given the earliest slot that
touches no other; the jobs behind them start if they touch none either.  A carried reservation never moves
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
from headnode.core.model.quantities import NEVER, Instant
from headnode.core.scheduling.availability import Availability, Slot
from headnode.core.scheduling.candidates import Candidate, CandidateQueue, candidate_options
from headnode.core.scheduling.carried_reservations import (
    NOTHING_CARRIED,
    CarriedReservations,
    CarriedSlot,
    carry_on,
    carry_over_reservations,
    give_all_back,
    recalled,
    remember,
    slots_before,
)
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.gaps import within_all
from headnode.core.scheduling.limit_checks import spent_classes
from headnode.core.scheduling.placement import (
    at_minimum,
    find_placement,
    find_promised_placement,
    part_shares,
    shares,
)
from headnode.core.scheduling.plan import (
    Grow,
    LazyReasons,
    LazyWait,
    Plan,
    Reservation,
    Start,
)
from headnode.core.scheduling.release_profile import kinds_of
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.shadow_reservation import releases_of
from headnode.core.scheduling.slot_reasons import SlotReasons
from headnode.core.scheduling.unlimited_jobs import UnlimitedJobs
from headnode.core.scheduling.view import View


def plan_conservative(view: View) -> Plan:
    """Decide about every queued job; reservations of the plan before never move later."""
    return ConservativePass(view, anew=False).plan()


def plan_conservative_anew(view: View) -> Plan:
    """Decide about every queued job; every reservation is given anew."""
    return ConservativePass(view, anew=True).plan()


class ConservativePass:
    """A pass of conservative: it starts jobs and reserves slots, candidate by candidate.

    A reservation is always out of the availability already.
    """

    def __init__(self, view: View, *, anew: bool) -> None:
        self._view, self._node_table = view, view.node_table()
        spent = spent_classes(view)
        self._candidates = CandidateQueue(view, self._node_table, spent)
        free = {feature: free for feature, (_, free) in view.licences.items()}
        self._resources = FreeResources.now(self._node_table, view.nodes, free)
        self._future, self._kept = self._planned_before(anew=anew)
        self._unlimited = UnlimitedJobs(view, self._node_table)
        self._likely = slots_before(view) if anew else {}
        self._in_vain: dict[JobRequest, Instant] = {}  # there is no slot for this request before
        self._starts: list[Start] = []
        self._grows: list[Grow] = []
        self._reservations: list[Reservation] = []
        self._reasons = SlotReasons(view, self._resources, self._unlimited, self._reservations)
        self._waits: dict[JobRequest, LazyWait] = {
            view.queue[place].request: partial(self._reasons.of_class, place, None) for place in spent
        }
        self._held: list[Slot] = []  # of the reservations
        self._shallow, self._refused_with = True, -1  # how many starts there were when classes were refused
        self._processors = sum(self._resources.free)

    def _planned_before(self, *, anew: bool) -> tuple[Availability, CarriedReservations]:
        """Return what is free over time without the reservations that are kept, and these."""
        needs, view = list(self._candidates.needs()), self._view
        requests = (each for one in view.queue for each in (one.request, *one.request.alternatives))
        table, shortest = self._node_table, within_all(each.least_run_time for each in requests)
        kinds, releases = kinds_of(table, needs), releases_of(view, table)
        amounts = any(need.counts_amounts for need in needs)
        before = recalled(view, table, kinds, shortest)
        if before is not None and before.future.renew(view.now, self._resources, releases, amounts=amounts):
            kept = give_all_back(table, before) if anew else carry_on(view, table, before)
            if kept is not None:
                return before.future, kept
        future = Availability(view.now, self._resources, kinds, releases, amounts=amounts, shortest=shortest)
        return future, NOTHING_CARRIED if anew else carry_over_reservations(view, table, future)

    def plan(self) -> Plan:
        """Decide about every candidate in turn."""
        for candidate in self._candidates:
            if not candidate.starts:
                self._grow(candidate)
            elif candidate.job in self._kept.slots:
                self._offer(candidate, self._kept.slots.pop(candidate.job))
            elif self._reasons.is_limited(candidate):
                self._lower_or_wait(candidate)
            elif self._is_shallow():
                self._reserve(candidate)
            elif self._kept.slots or not self._is_refused(candidate):
                self._start_or_wait(candidate)
        wake = min([self._view.next_switches_timeout(), *(each.at for each in self._reservations)])
        held = tuple(self._reservations)
        if not self._kept.slots:
            remember(self._node_table, self._future, held, self._held)
        return Plan(tuple(self._starts), tuple(self._grows), LazyReasons(self._waits), held, wake)

    def _is_shallow(self) -> bool:
        """Return whether one more job may have a reservation; after the first refusal, none may."""
        coming = sum(held.slot.at > self._view.now for held in self._kept.slots.values())
        self._shallow = self._shallow and len(self._reservations) + coming < self._view.depth
        return self._shallow

    def _grow(self, candidate: Candidate) -> None:
        found = self._room_now(candidate)
        if found is not None and self._unlimited.allows(candidate, found):
            self._give(candidate, found)
            self._grows.append(Grow(candidate.job, shares(found, self._node_table)))

    def _offer(self, candidate: Candidate, held: CarriedSlot) -> None:
        """Start the job if its slot is due or an earlier slot is free now; otherwise keep the best slot.

        Better is an earlier slot, or one at the same instant for a request that the job prefers.
        """
        slot, under = held.slot, self._options(candidate)
        own = under[held.option]
        if slot.at > self._view.now:
            moved = self._moved_up(candidate, slot)
            if moved is not None:
                self._hold(candidate, own, moved, held)
                return
        self._future.give(own.need.piece(slot.fit), slot.at, slot.at + own.asks.run_time)
        found = [(each, self._better(each, held)) for each in under]
        if any(better is not None for _, better in found):
            self._in_vain.clear()
        slots = [(each, better or (slot if each is own else None)) for each, better in found]
        self._settle(candidate, slots, promised=own)

    def _moved_up(self, candidate: Candidate, slot: Slot) -> Slot | None:
        """Return where a slot is held from now on; None: all that the job may have must be looked at."""
        if not self._kept.freed:
            return slot
        need, run_time = candidate.need, candidate.asks.run_time
        moved = None if candidate.request.alternatives else self._future.move_up(need, run_time, slot)
        if moved is None:
            return None if self._may_move(candidate, slot) else slot
        if moved.at < slot.at:
            self._in_vain.clear()
        return moved

    def _may_move(self, candidate: Candidate, slot: Slot) -> bool:
        """Return whether an earlier slot is worth looking for, before the one held is given back."""
        need, asked = candidate.need, candidate.request
        if asked.alternatives:
            return True
        if not self._future.may_be_earlier(need, asked.run_time, slot):
            return False
        if self._future.fits_earlier(need, asked.run_time, self._not_before(asked, slot.at), slot):
            return True
        self._in_vain[asked] = slot.at
        return False

    def _not_before(self, request: JobRequest, until: float) -> Instant:
        """Return the instant from which on a slot before another instant is looked for.

        Where an equal job found none, none is looked for.  That does not help a job whose own slot comes
        before the one of its equal, for it was in the way.
        """
        after = self._in_vain.get(request, self._view.now)
        return after if after <= until else self._view.now

    def _better(self, candidate: Candidate, held: CarriedSlot) -> Slot | None:
        """Return a slot that is better than the one held, for the candidate under one of its options."""
        until = nextafter(held.slot.at, inf) if candidate.option < held.option else held.slot.at
        return self._earliest(candidate, until) if until > self._view.now else None

    def _reserve(self, candidate: Candidate) -> None:
        """Start the job or reserve a slot; a job that no release helps waits without a slot."""
        slots = [(each, self._earliest(each, NEVER)) for each in self._options(candidate)]
        if any(slot is not None for _, slot in slots):
            self._settle(candidate, slots)
        else:
            if candidate.request.minimum_run_time is None or not self._starts_lowered(candidate):
                self._unlimited.wait(candidate)
                self._wait(candidate, NEVER)

    def _settle(
        self,
        candidate: Candidate,
        slots: Iterable[tuple[Candidate, Slot | None]],
        *,
        promised: Candidate | None = None,
    ) -> None:
        """Start the job in a slot that begins now, or hold it: the earliest there is under its options.

        Of equal slots that for the request it prefers; the one it was `promised` cannot be denied to it.
        """
        there = [(each, slot) for each, slot in slots if slot is not None]
        for option, slot in sorted(there, key=lambda found: found[1].at):
            found = self._room_now(option, slot.fit) if slot.at <= self._view.now else slot.fit
            if found is None or not (self._unlimited.allows(option, found) or option is promised):
                continue
            if slot.at <= self._view.now:
                self._start(candidate, option, found)
            else:
                self._future.take(option.need.piece(found), slot.at, slot.at + option.asks.run_time)
                self._hold(candidate, option, slot)
            return
        self._lower_or_wait(candidate)

    def _start_or_wait(self, candidate: Candidate) -> None:
        """Start a job behind those with reservations, if it touches none of them."""
        for option in self._options(candidate):
            found = self._room_beside_slots(option)
            if found is not None and self._unlimited.allows(option, found):
                self._start(candidate, option, found)
                return
        self._lower_or_wait(candidate)

    def _room_beside_slots(self, option: Candidate) -> Placement | None:
        lasts = self._future.may_last(option.need, option.end)
        return self._room_now(option) if lasts and self._fits_on_board(option.need) else None

    def _lower_or_wait(self, candidate: Candidate) -> None:
        """Start a job with a lower run time limit, if it may and touches no reservation then."""
        if candidate.request.minimum_run_time is None or not self._starts_lowered(candidate):
            self._wait(candidate, NEVER)

    def _starts_lowered(self, candidate: Candidate) -> bool:
        from headnode.core.scheduling.lowered_limits import start_lowered  # few jobs have such a limit

        due = [each.at for each in self._reservations]
        due += [held.slot.at for held in self._kept.slots.values()]
        options, table = self._options(candidate), self._node_table
        found = start_lowered(options, self._view, table, self._room_beside_slots, due)
        if found is not None and self._unlimited.allows(*found):
            self._start(candidate, *found)
            return True
        return False

    def _leaves_slot(self, candidate: Candidate, option: Candidate, slot: Slot) -> bool:
        """Start a job with a lower limit that has a slot later on, which it then does not need."""
        slot_of = option.need.piece(slot.fit), slot.at, slot.at + option.asks.run_time
        self._future.give(*slot_of)
        if not self._starts_lowered(candidate):
            self._future.take(*slot_of)
            return False
        self._in_vain.clear()
        return True

    def _is_refused(self, candidate: Candidate) -> bool:
        """Leave out the classes of which no job will start; return whether the candidate is of one of them.

        Nothing is given back any more when no job is left with a slot from before, so that what is free only
        becomes less.
        """
        if self._reasons.head is None:
            return False
        if self._refused_with != len(self._starts):
            self._refused_with = len(self._starts)
            for place in self._candidates.refuse(self._is_hopeless):
                self._waits.setdefault(
                    self._view.queue[place].request,
                    partial(self._reasons.of_class, place, self._reasons.head),
                )
        if not self._is_hopeless(candidate.request, candidate.need):
            return False
        self._wait(candidate, NEVER)
        return True

    def _is_hopeless(self, request: JobRequest, need: ResolvedRequest) -> bool:
        """Return whether counts refuse a class until the end of the pass, now or until its jobs would end."""
        if request.alternatives:
            return False
        if self._processors < need.minimum and need.unit is not UnitType.NODE:
            return True
        return not self._future.may_last(need, self._view.now + request.least_run_time)

    def _options(self, candidate: Candidate) -> tuple[Candidate, ...]:
        return (
            candidate_options(candidate, self._view.now, self._node_table)
            if candidate.request.alternatives
            else (candidate,)
        )

    def _earliest(self, candidate: Candidate, until: float) -> Slot | None:
        """Return the first slot before an instant.

        The slot of a job that would do with several requests may be for another than is looked for.
        """
        now, asked = self._view.now, candidate.request
        if asked.alternatives:
            return self._future.first_fit(candidate.need, candidate.asks.run_time, now, until)
        after = self._not_before(asked, until)
        likely = self._likely.get(candidate.job, NEVER)
        slot = self._future.first_fit_near(candidate.need, asked.run_time, after, until, likely)
        if slot is not None or until < NEVER:
            self._in_vain[asked] = Instant(until) if slot is None else slot.at
        return slot

    def _room_now(self, candidate: Candidate, promised: Placement = ()) -> Placement | None:
        """Return what the candidate can have from now until its end without touching a reservation."""
        now = self._view.now
        if candidate.end <= now:
            return None
        if candidate.need.near and not promised:  # which of the equal nodes that are free now
            found = find_placement(candidate.need, self._resources)
            if found and self._future.has_room(candidate.need.piece(found), now, candidate.end):
                return found
        there = self._future.resources(candidate.need, now, candidate.end)
        return find_promised_placement(candidate.need, there, promised)

    def _fits_on_board(self, need: ResolvedRequest) -> bool:
        """Return whether the minimum fits now, reservations or not; counts are asked first."""
        if self._processors < need.minimum and need.unit is not UnitType.NODE:
            return False
        return find_placement(at_minimum(need), self._resources) is not None

    def _give(self, candidate: Candidate, placement: Placement) -> None:
        self._processors -= sum(processors for _, processors in placement)
        self._resources.put(candidate.need.piece(placement))
        self._future.start(candidate.need.piece(placement), candidate.end)

    def _start(self, candidate: Candidate, option: Candidate, placement: Placement) -> None:
        """Start the job of a candidate under one of its options."""
        self._give(option, placement)
        named, parts = shares(placement, self._node_table), part_shares(placement, self._node_table)
        limit = option.lowered_limit
        self._starts.append(Start(candidate.job, named, self._reasons.head, option.option, parts, limit))
        self._candidates.granted(candidate)

    def _hold(
        self, candidate: Candidate, option: Candidate, slot: Slot, before: CarriedSlot | None = None
    ) -> None:
        """Keep a slot for the job of a candidate under one of its options; it may be as it was before.

        It does not need the slot if it starts now with a lower limit.
        """
        if candidate.request.minimum_run_time is not None and self._leaves_slot(candidate, option, slot):
            return
        self._record_wait(candidate, slot.at)
        kept = before.reservation if before is not None and before.slot is slot else None
        if kept is None or kept.turn != candidate.turn:
            named, parts = shares(slot.fit, self._node_table), part_shares(slot.fit, self._node_table)
            kept = Reservation(
                candidate.job, slot.at, named, candidate.turn, candidate.request, option.option, parts
            )
        self._reservations.append(kept)
        self._held.append(slot)
        self._candidates.granted(candidate)

    def _wait(self, candidate: Candidate, at: Instant) -> None:
        """Record that the job waits without a slot, as do all jobs of its class without one."""
        self._record_wait(candidate, at)
        turns = self._kept.turns.get(candidate.request, [])
        following = bisect_right(turns, candidate.turn)
        if following < len(turns):
            self._candidates.skip(candidate, turns[following])

    def _record_wait(self, candidate: Candidate, at: Instant) -> None:
        """Record the wait of the first job of a class, and the first waiting job of all."""
        if candidate.request not in self._waits:
            self._waits[candidate.request] = partial(self._reasons.of, candidate, at, self._reasons.head)
        is_first = self._reasons.head is None and not self._reasons.is_limited(candidate)
        if is_first and self._unlimited.can_run(candidate):
            self._reasons.head = candidate.job
