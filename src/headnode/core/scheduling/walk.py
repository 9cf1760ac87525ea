"""A pass: every wish in turn order is granted or refused.  Policies differ only in who may overtake.

Within a pass what is free only shrinks, and placement is exact for the minimum.  So when the first job of
a class cannot start, no other of its class can, and the class is done with: a pass costs O(starts +
classes + running jobs that grow) placements, however long the queue.
"""

from collections.abc import Callable
from typing import NamedTuple

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER
from headnode.core.scheduling.board import Fit
from headnode.core.scheduling.decision import Plan, Reason, Wait, Why
from headnode.core.scheduling.placement import fit
from headnode.core.scheduling.reasons import never_fits, shortage
from headnode.core.scheduling.standing import Head, Standing
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import View
from headnode.core.scheduling.wishes import Wish, Wishes


class Rule(NamedTuple):
    """What makes one policy differ from another.

    `overtake` is asked about a wish that fits behind a waiting job, and answers with what it may take;
    `refusal` says why not.  `closed_blocks`: a job whose nodes are closed holds up those behind it.
    """

    overtake: Callable[[Standing, Wish, Fit], Fit | None]
    refusal: Callable[[Head, Wish], Reason]
    closed_blocks: bool


def walk(view: View, rule: Rule) -> Plan:
    """Decide about every queued job and every running job that would grow.  Touches nothing."""
    terrain = Terrain(view.nodes)
    standing, wishes = Standing(view, terrain), Wishes(view, terrain)
    waits: dict[JobRequest, Wait] = {}
    for wish in wishes:
        fits = fit(wish.need, standing.board)
        found = rule.overtake(standing, wish, fits) if fits and standing.head else fits
        if found:
            standing.grant(wish, found)
            wishes.granted(wish)
        elif wish.starts:  # a running job has its minimum: growth is a wish that holds up nobody
            waits.setdefault(wish.request, _wait(view, standing, wish, rule, fits=fits is not None))
    return Plan(tuple(standing.starts), tuple(standing.grows), waits, standing.reservations())


def _wait(view: View, standing: Standing, wish: Wish, rule: Rule, *, fits: bool) -> Wait:
    """Let the job wait, as the head if there is none, and say why."""
    if not fits and not standing.can_run(wish):
        never = never_fits(wish.request, view.nodes, view.licences)
        if never:
            return Wait(never)
    if standing.head is None:
        return _wait_first(standing, wish, rule)
    ahead = Reason(Why.PRIORITY, f"job {standing.head.job} goes first", str(standing.head.job))
    if fits:
        return Wait((ahead, rule.refusal(standing.head, wish)))
    return Wait((ahead, *shortage(wish.need, wish.request, standing.board)))


def _wait_first(standing: Standing, wish: Wish, rule: Rule) -> Wait:
    promise = standing.promise_for(wish)
    if promise is not None or rule.closed_blocks:
        standing.head = Head(wish, promise)
    reasons = shortage(wish.need, wish.request, standing.board)
    return Wait(reasons, NEVER if promise is None else promise.at)
