"""Every promise is broken by some policy, and then says where, as code that makes the same scene again."""

import itertools
from collections.abc import Callable
from math import inf

import msgspec
import pytest

import headnode.testing
from headnode.core.model.job import JobRequest, Licence
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.plan import Plan, Reservation, Wait
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import View, WaitingClass
from headnode.testing import (
    MANNERS,
    SMALL_WORLDS,
    Promise,
    PromiseBroken,
    check_history,
    check_scene,
    check_small_worlds,
    check_streams,
    random_history,
    show_history,
    show_scene,
)
from headnode.testing.checking import random_histories, streams

P = Promise
easy, fcfs, conservative, anew = (
    POLICIES[name] for name in ("easy", "fcfs", "conservative", "conservative-replan")
)
changed = msgspec.structs.replace


def says_nothing(view: View) -> Plan:
    made = easy(view)
    return changed(made, waits=dict(itertools.islice(made.waits.items(), 1)))


def gives_reasons_to_nobody(view: View) -> Plan:
    made = easy(view)
    return changed(made, waits={request: Wait(()) for request in made.waits})


def forgets_what_runs(view: View) -> Plan:
    nodes = {
        name: changed(each, free=each.facts.processors, jobs=0, exclusive_to=None, memory_held=0)
        for name, each in view.nodes.items()
    }
    return easy(changed(view, nodes=nodes, running=[]))


def forgets_licences(view: View) -> Plan:
    return easy(changed(view, licences={}))


def forgets_memory(view: View) -> Plan:
    def plenty(name: str) -> object:
        facts = view.nodes[name].facts
        return changed(view.nodes[name], facts=changed(facts, memory=1000), memory_held=0)

    return easy(changed(view, nodes={name: plenty(name) for name in view.nodes}))


def waits_for_limits_as_for_nodes(view: View) -> Plan:
    """A job that its limits keep out has a reservation, as if they were licences."""
    queue = [
        WaitingClass(changed(each.request, limits=(), licences=as_licences(each.request)), each.turns)
        for each in view.queue
    ]
    made, requests = easy(changed(view, queue=queue)), [each.request for each in view.queue]
    waits = {
        request: made.waits[each.request]
        for request, each in zip(requests, queue, strict=True)
        if each.request in made.waits
    }
    return changed(made, waits=waits)


def as_licences(request: JobRequest) -> tuple[Licence, ...]:
    return (*request.licences, *(Licence(share.key, share.amount) for share in request.limits))


_calls = itertools.count()


def is_moody(view: View) -> Plan:
    return easy(view) if next(_calls) % 2 else fcfs(changed(view, queue=()))


def tidies_up(view: View) -> Plan:
    made = easy(view)
    for each in view.queue:
        each.turns.reverse()  # type: ignore[attr-defined]
    return made


def takes_the_first_listed(view: View) -> Plan:
    first = dict(itertools.islice(view.nodes.items(), 1))
    return easy(changed(view, nodes=first, running=()))


def promises_now(view: View) -> Plan:
    made = easy(view)
    return changed(made, reservations=tuple(changed(each, at=view.now) for each in made.reservations))


def puts_off(view: View) -> Plan:
    """Every plan puts off every reservation by a minute."""
    made = conservative(changed(view, before=None))
    later = tuple(changed(each, at=each.at + 60) for each in made.reservations)
    return changed(made, reservations=later)


def never_starts_large_ones(view: View) -> Plan:
    small = [each for each in view.queue if each.request.minimum < 3]
    made = easy(changed(view, queue=small))
    large = {each.request: Wait(tuple(view_reason())) for each in view.queue if each.request.minimum >= 3}
    return changed(made, waits={**made.waits, **large})


def view_reason() -> list[object]:
    return [headnode.testing.Reason(headnode.testing.Why.POLICY, "too large")]


def starts_who_fits(view: View) -> Plan:
    """No reservations at all: one start a pass, whoever fits first."""
    for turn, request in sorted((turn, each.request) for each in view.queue for turn in each.turns):
        where = place(request, view.nodes, view.licences)
        if where is not None:
            made = Plan((headnode.testing.Start(turn.job, where),), (), {})
            left = {each.request for each in view.queue if [turn.job] != [one.job for one in each.turns]}
            return changed(made, waits={each: Wait(tuple(view_reason())) for each in left})
    return Plan((), (), {each.request: Wait(tuple(view_reason())) for each in view.queue})


def starts_nobody(view: View) -> Plan:
    return Plan((), (), {each.request: Wait(tuple(view_reason())) for each in view.queue})


def last_first(view: View) -> Plan:
    queue = [
        WaitingClass(
            each.request, sorted(msgspec.structs.replace(turn, order=-turn.order) for turn in each.turns)
        )
        for each in view.queue
    ]
    return easy(changed(view, queue=queue))


def reserves_for_nobody(view: View) -> Plan:
    made = easy(view)
    ghost = [
        Reservation(99, view.now, (("a", 1),), headnode.testing.turn_of(99), each.request)
        for each in view.queue
    ]
    return changed(made, reservations=(*made.reservations, *ghost[:1]))


IN_A_PLAN: list[tuple[Promise, Callable[[View], Plan]]] = [
    (P.EVERYBODY_IS_DECIDED, says_nothing),
    (P.EVERYBODY_IS_DECIDED, gives_reasons_to_nobody),
    (P.EVERYBODY_IS_DECIDED, reserves_for_nobody),
    (P.WHAT_IS_GIVEN_FITS, forgets_what_runs),
    (P.WHAT_IS_GIVEN_FITS, forgets_licences),
    (P.WHAT_IS_GIVEN_FITS, forgets_memory),
    (P.IS_A_FUNCTION, is_moody),
    (P.IS_A_FUNCTION, tidies_up),
    (P.LISTING_DOES_NOT_MATTER, takes_the_first_listed),
    (P.RESERVATIONS_CAN_BE_KEPT, promises_now),
    (P.NOBODY_OVERTAKES, easy),
    (P.FIRST_IS_NOT_DELAYED, starts_who_fits),
    (P.FIRST_IS_NOT_DELAYED, last_first),
    (P.WHO_IS_OVER_IN_TIME_OVERTAKES, fcfs),
    (P.WHO_CAN_OVERTAKES, fcfs),
    (P.LIMITED_DELAY_NOBODY, waits_for_limits_as_for_nodes),
    (P.FIRST_THAT_FITS_STARTS, waits_for_limits_as_for_nodes),
    (P.FIRST_THAT_FITS_STARTS, starts_nobody),
]
IN_HISTORIES: list[tuple[Promise, Callable[[View], Plan], float]] = [
    (P.NEVER_LATER, puts_off, inf),
    (P.NEVER_LATER, anew, inf),
    (P.NEVER_LATER, easy, inf),
    (P.NEVER_LATER_BUT_FOR_BETTER_TURNS, puts_off, inf),
    (P.EVERYBODY_STARTS, never_starts_large_ones, inf),
    (P.EQUALS_START_IN_TURN, last_first, inf),
    (P.EARLIEST_SLOTS, anew, inf),
    (P.EARLIEST_SLOTS, easy, inf),
    (P.EARLIEST_SLOTS_ANEW, conservative, inf),
    (P.EARLIEST_SLOTS, lambda view: conservative(changed(view, depth=2)), 1),
    (P.EARLIEST_SLOTS, lambda view: conservative(changed(view, depth=1)), 2),
]


@pytest.mark.parametrize(("promise", "policy"), IN_A_PLAN)
def test_a_plan_that_breaks_a_promise_is_caught_in_some_small_world(
    promise: Promise, policy: Callable[[View], Plan]
) -> None:
    with pytest.raises(PromiseBroken, match=f"^not kept: {promise}\n"):
        check_small_worlds(policy, [promise])


@pytest.mark.parametrize(("promise", "policy", "depth"), IN_HISTORIES)
def test_a_promise_that_is_broken_over_time_is_caught_in_some_history(
    promise: Promise, policy: Callable[[View], Plan], depth: float
) -> None:
    with pytest.raises(PromiseBroken, match=f"^not kept: {promise}"):  # noqa: PT012
        for manner in MANNERS:
            for _, history in random_histories(manner, 20, depth=depth):
                check_history(policy, history, [promise])


def test_who_starves_is_caught() -> None:
    with pytest.raises(PromiseBroken, match=r"job 3 has waited .* minutes: it starves"):
        check_streams(starts_who_fits)


def test_every_promise_is_tried_here() -> None:
    tried = {promise for promise, _ in IN_A_PLAN} | {promise for promise, _, _ in IN_HISTORIES}
    assert tried | {P.NOBODY_STARVES} == set(Promise)


def run(code: str) -> object:
    """Return what code for a test makes."""
    return eval(code, vars(headnode.testing))


def test_a_scene_is_shown_as_the_code_that_makes_it() -> None:
    for worlds in SMALL_WORLDS.values():
        for view in itertools.islice(worlds(), 0, None, 50):
            again = run(show_scene(view))
            assert isinstance(again, View)
            by_turn = sorted(view.queue, key=lambda each: each.turns)
            assert changed(again, queue=sorted(again.queue, key=lambda each: each.turns)) == changed(
                view, queue=by_turn, ground=None
            )


def test_scenes_of_histories_are_shown_with_what_was_promised_before() -> None:
    for manner in MANNERS:
        history = random_history(manner, 3, depth=3)
        for moment in headnode.testing.live(history, conservative):
            again = run(show_scene(moment.view))
            assert isinstance(again, View)
            assert same_plan(conservative(again), moment.plan, moment.view.now - again.now)


def same_plan(one: Plan, other: Plan, shift: float) -> bool:
    """Return whether two plans are the same, made so many seconds apart."""
    starts = one.starts == other.starts and one.grows == other.grows
    ours = [(each.job, each.at + shift, each.allocation) for each in one.reservations]
    return starts and ours == [(each.job, each.at, each.allocation) for each in other.reservations]


@pytest.mark.parametrize("history", [random_history(MANNERS[0], 1), *(each.history for each in streams())])
def test_a_history_is_shown_as_the_code_that_makes_it(history: headnode.testing.History) -> None:
    again = run(show_history(history))
    assert isinstance(again, headnode.testing.History)
    assert list(again.arrivals) == list(history.arrivals)
    assert (list(again.nodes), dict(again.licences)) == (list(history.nodes), dict(history.licences))


def test_a_broken_promise_is_shown_in_a_history_of_which_no_job_can_be_left_out() -> None:
    history = random_history(MANNERS[1], 0, jobs=30)
    with pytest.raises(PromiseBroken) as broken:
        check_history(puts_off, history, [P.NEVER_LATER])
    code = str(broken.value).split("in the history\n")[1]
    shorter = run(code)
    assert isinstance(shorter, headnode.testing.History)
    assert len(shorter.arrivals) < len(history.arrivals) / 2
    with pytest.raises(PromiseBroken):
        check_history(puts_off, shorter, [P.NEVER_LATER])
    for each in shorter.arrivals:
        fewer = [other for other in shorter.arrivals if other is not each]
        check_history(puts_off, shorter._replace(arrivals=fewer), [P.NEVER_LATER])


def test_a_scene_can_be_checked_alone() -> None:
    view = headnode.testing.scene([headnode.testing.node("a")], [], [(1, headnode.testing.asks(1))])
    assert headnode.testing.started(check_scene(easy, view)) == [1]
