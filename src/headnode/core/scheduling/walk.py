"""A pass: every wish in turn order is granted or refused.  Policies differ only in who may overtake.

Within a pass what is free only shrinks, and placement is exact for the minimum.  So when the first job of
a class cannot start, no other of its class can, and the class is done with: a pass costs O(starts +
classes + running jobs that grow) placements, however long the queue.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER
from headnode.core.scheduling.board import Fit
from headnode.core.scheduling.decision import Plan, Reason, Wait, Why
from headnode.core.scheduling.otherwise import never_with_any, with_alternatives
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
        if aside and standing.head is not None:
            if standing.is_settled:
                waits |= {view.queue[at].request: partial(_still, view, standing, rule, at) for at in aside}
            else:
                wishes.bring_back(aside)
            aside = frozenset()
    standing.end(set(waits))
    return Plan(tuple(standing.starts), tuple(standing.grows), Waits(waits), standing.reservations())


def _wanted(standing: Standing, wish: Wish, rule: Rule) -> tuple[Wish, Fit] | None:
    """Return what the wish is given, and under which of its options: the first that can be."""
    ask = _room if standing.head is None else rule.overtake
    for option in (
        standing.options(wish) if wish.request.others else (wish,)
    ):  # few have any, and all are asked
        found = ask(standing, option)
        if found:
            return option, found
    return None


def _room(standing: Standing, wish: Wish) -> Fit | None:
    return fit(wish.need, standing.board) if standing.may_fit(wish.need) else None


def _blocked(view: View, standing: Standing, wish: Wish, rule: Rule) -> Telling:
    """Let the job wait, as the head if there is none; return what will say why."""
    head = standing.head
    if head is not None:
        return partial(_behind, view, standing, wish, rule, head)
    never = _would_never_fit(view, standing, wish)
    if never:
        return lambda: Wait(never)
    promised = standing.as_head(wish)
    if promised.promise is not None or rule.closed_blocks:
        standing.head = promised
    at = NEVER if promised.promise is None else promised.promise.at
    return lambda: Wait(with_alternatives(_missing(standing, each) for each in standing.options(wish)), at)


def _missing(standing: Standing, wish: Wish) -> tuple[Reason, ...]:
    return shortage(wish.need, wish.asks, standing.board)


def _still(view: View, standing: Standing, rule: Rule, place: int) -> Wait:
    """Say why the jobs of a class wait that was refused in the pass before already."""
    wish = first_of(view, view.terrain(), place)
    return Wait(()) if standing.head is None else _behind(view, standing, wish, rule, standing.head)


def _behind(view: View, standing: Standing, wish: Wish, rule: Rule, head: Head) -> Wait:
    """Say why a job waits behind the head, on what the pass has left free."""
    never = _would_never_fit(view, standing, wish)
    if never:
        return Wait(never)
    ahead = Reason(Why.PRIORITY, f"job {head.job} goes first", str(head.job))
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
