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
from headnode.core.scheduling.placement import fewest, fit
from headnode.core.scheduling.reasons import never_fits, shortage
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
        found = _wanted(standing, wish, rule)
        if found:
            standing.grant(wish, found)
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


def _wanted(standing: Standing, wish: Wish, rule: Rule) -> Fit | None:
    """Return what the wish is given."""
    if standing.head is None:
        return fit(wish.need, standing.board) if standing.may_fit(wish.need) else None
    return rule.overtake(standing, wish)


def _blocked(view: View, standing: Standing, wish: Wish, rule: Rule) -> Telling:
    """Let the job wait, as the head if there is none; return what will say why."""
    head = standing.head
    if head is not None:
        return partial(_behind, view, standing, wish, rule, head)
    if _would_never_fit(view, standing, wish):
        return partial(_never, view, wish)
    promise = standing.promise_for(wish)
    if promise is not None or rule.closed_blocks:
        standing.head = Head(wish, promise)
    at = NEVER if promise is None else promise.at
    return lambda: Wait(shortage(wish.need, wish.request, standing.board), at)


def _still(view: View, standing: Standing, rule: Rule, place: int) -> Wait:
    """Say why the jobs of a class wait that was refused in the pass before already."""
    wish = first_of(view, view.terrain(), place)
    return Wait(()) if standing.head is None else _behind(view, standing, wish, rule, standing.head)


def _behind(view: View, standing: Standing, wish: Wish, rule: Rule, head: Head) -> Wait:
    """Say why a job waits behind the head, on what the pass has left free."""
    ahead = Reason(Why.PRIORITY, f"job {head.job} goes first", str(head.job))
    fits = fit(fewest(wish.need), standing.board) is not None
    if not fits and _would_never_fit(view, standing, wish):
        return _never(view, wish)
    missing = () if fits else shortage(wish.need, wish.request, standing.board)
    return Wait((ahead, *missing, *rule.refusal(standing, wish, fits)))


def _would_never_fit(view: View, standing: Standing, wish: Wish) -> bool:
    """Return whether the job could not run even if every node was open and nothing ran."""
    return not standing.can_run(wish) and bool(never_fits(wish.request, view.nodes, view.licences))


def _never(view: View, wish: Wish) -> Wait:
    return Wait(never_fits(wish.request, view.nodes, view.licences))
