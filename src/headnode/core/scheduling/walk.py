"""A pass: every wish in turn order is granted or refused.  Policies differ only in who may overtake.

Within a pass what is free only shrinks, and placement is exact for the minimum.  So when the first job of
a class cannot start, no other of its class can, and the class is done with: a pass costs O(starts +
classes + running jobs that grow) placements, however long the queue.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.scheduling.board import Fit
from headnode.core.scheduling.decision import Plan, Reason, Wait, Why
from headnode.core.scheduling.otherwise import never_with_any, with_alternatives
from headnode.core.scheduling.overtaking import room, without_delay
from headnode.core.scheduling.placement import fewest, fit
from headnode.core.scheduling.reasons import shortage
from headnode.core.scheduling.standing import Head, Standing
from headnode.core.scheduling.view import View
from headnode.core.scheduling.waits import Telling, Waits
from headnode.core.scheduling.wishes import Wish, Wishes, first_of


class Rule(NamedTuple):
    """What makes one policy differ from another.

    `overtake` is asked about a wish behind a waiting job, and answers with what it may take; `refusal` says
    why not, given whether it would fit.  `closed_blocks`: a job whose nodes are closed holds up others.
    """

    overtake: Callable[[Standing, Wish], Fit | None]
    refusal: Callable[[Standing, Wish, bool], tuple[Reason, ...]]
    closed_blocks: bool


def walk(view: View, rule: Rule) -> Plan:
    """Decide about every queued job and every running job that would grow.  Touches nothing."""
    terrain = view.terrain()
    standing = Standing(view, terrain, rule)
    aside = standing.refused_before()
    wishes = Wishes(view, terrain, aside)
    waits: dict[JobRequest, Telling] = {}
    for wish in wishes:
        granted = _wanted(standing, wish, rule)
        if granted:
            standing.grant(*granted)
            wishes.granted(wish)
        elif wish.starts:  # a running job has its minimum: growth is a wish that holds up nobody
            waits[wish.request] = _blocked(view, standing, wish, rule)
        if aside and standing.heads:
            if standing.is_settled:
                waits |= {view.queue[at].request: partial(_still, view, standing, rule, at) for at in aside}
            else:
                wishes.bring_back(aside)
            aside = frozenset()
    standing.end(set(waits))
    return Plan(tuple(standing.starts), tuple(standing.grows), Waits(waits), standing.reservations())


def _wanted(standing: Standing, wish: Wish, rule: Rule) -> tuple[Wish, Fit] | None:
    """Return what the wish is given, and under which of its options: the first that can be."""
    ask: Callable[[Standing, Wish], Fit | None] = room
    if standing.heads:
        ask = without_delay if standing.head_of(wish) is None else rule.overtake
    for option in (
        standing.options(wish) if wish.request.others else (wish,)
    ):  # few have any, and all are asked
        found = ask(standing, option)
        if found:
            return option, found
    return None


def _blocked(view: View, standing: Standing, wish: Wish, rule: Rule) -> Telling:
    """Let the job wait, as the head if there is none; return what will say why."""
    head = standing.head_of(wish)
    if head is not None:
        return partial(_behind, view, standing, wish, rule, head)
    never = _would_never_fit(view, standing, wish)
    if never:
        return lambda: Wait(never)
    at = standing.wait(wish, unpromised=rule.closed_blocks).due
    return lambda: Wait(with_alternatives(_lacking(standing, each) for each in standing.options(wish)), at)


def _lacking(standing: Standing, wish: Wish) -> tuple[Reason, ...]:
    """Say what is missing for the first that waits; if nothing is, it may be that of another reservation."""
    others = [head for head in standing.heads.values() if head.wish.request != wish.request]
    if others and fit(fewest(wish.need), standing.board) is not None:
        what = f"it would fit, but could delay job {others[0].job}, which holds a reservation"
        return (Reason(Why.RESERVATION, what, str(others[0].job)),)
    return _missing(standing, wish)


def _missing(standing: Standing, wish: Wish) -> tuple[Reason, ...]:
    return shortage(wish.need, wish.asks, standing.board)


def _still(view: View, standing: Standing, rule: Rule, place: int) -> Wait:
    """Say why the jobs of a class wait that was refused in the pass before already."""
    wish = first_of(view, view.terrain(), place)
    head = standing.head_of(wish)
    return Wait(()) if head is None else _behind(view, standing, wish, rule, head)


def _behind(view: View, standing: Standing, wish: Wish, rule: Rule, head: Head) -> Wait:
    """Say why a job waits behind the head, on what the pass has left free."""
    never = _would_never_fit(view, standing, wish)
    if never:
        return Wait(never)
    ahead = Reason(Why.PRIORITY, f"job {head.job} is ahead in the queue", str(head.job))
    told = with_alternatives(_refused(standing, each, rule) for each in standing.options(wish))
    return Wait((ahead, *told))


def _refused(standing: Standing, wish: Wish, rule: Rule) -> tuple[Reason, ...]:
    """Say what is missing for a wish under one of its options, and why the policy refuses it."""
    fits = fit(fewest(wish.need), standing.board) is not None
    missing = () if fits else _missing(standing, wish)
    return (*missing, *rule.refusal(standing, wish, fits))


def _would_never_fit(view: View, standing: Standing, wish: Wish) -> tuple[Reason, ...]:
    """Return why the job could not run even if every node was open and nothing ran; nothing if it could."""
    if any(standing.can_run(option) for option in standing.options(wish)):
        return ()
    return never_with_any(wish.request, view)
