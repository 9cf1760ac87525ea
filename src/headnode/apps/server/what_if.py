"""What would let a job start: the search of the core, with time for everybody else between two plans."""

import asyncio

import msgspec

from headnode.apps.server.desk import Desk
from headnode.core.model.quantities import NEVER, Instant
from headnode.core.scheduling.counterfactuals.axes import Room
from headnode.core.scheduling.counterfactuals.search import Found, searching
from headnode.core.scheduling.counterfactuals.subject import Subject, with_job, without
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import View, WaitingClass
from headnode.engine.passes import view_of

MOST_PLANNING = 1.0  # seconds of planning for one answer


class Picture(msgspec.Struct, frozen=True):
    """The cluster with the job that is asked about in its queue, and what the policy would do now."""

    view: View
    policy: Policy
    plan: Plan
    subject: Subject
    spent: float  # seconds that the plan took


def view_now(desk: Desk) -> View:
    """Return the cluster as a policy may see it, unchanged by what happens from now on."""
    view = view_of(desk.cluster, desk.now())
    queue = [WaitingClass(waiting.request, tuple(waiting.turns)) for waiting in view.queue]
    return msgspec.structs.replace(view, queue=queue, before=desk.engine.last_plan)


def picture_with(desk: Desk, subject: Subject) -> Picture:
    """Return the picture with the subject where it stands, whether it queues already or not.

    Cost:  one pass.
    """
    view = with_job(without(view_now(desk), subject), subject)
    policy = desk.engine.policies[desk.engine.settings.text("SchedulingPolicy")]
    clock = asyncio.get_running_loop().time
    began = clock()
    plan = policy(view)
    return Picture(view, policy, plan, subject, clock() - began)


async def found_changes(desk: Desk, picture: Picture, room: Room) -> Found:
    """Return what would let the subject start; others are served between two plans.

    Stops when all plans together took `MOST_PLANNING`, and says so.  One search goes on at a time, however
    many ask: between two plans nobody waits for more than one.
    """
    async with desk.searching:
        return await _searched(picture, room)


async def _searched(picture: Picture, room: Room) -> Found:
    clock = asyncio.get_running_loop().time
    spent = picture.spent
    search = searching(picture.view, picture.plan, picture.subject, room)
    try:
        asked = next(search)
        while True:
            await asyncio.sleep(0)
            began = clock()
            plan = picture.policy(asked) if spent < MOST_PLANNING else None
            spent += clock() - began
            asked = search.send(plan)
    except StopIteration as ended:
        found: Found = ended.value
        return found


def known(at: Instant) -> Instant | None:
    """Return an instant as clients get it; None for one that nobody can promise."""
    return None if at == NEVER else at
