"""What the policy would do for a job, and what would let it start: asked in a thread beside the head's work.

A picture of the cluster is taken at once and never changes, so the head goes on meanwhile.
"""

import asyncio
import time

import msgspec

from headnode.apps.server.desk import Desk
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.balanced.plan import minimums_only
from headnode.core.scheduling.counterfactuals.axes import Room
from headnode.core.scheduling.counterfactuals.search import Found, searching
from headnode.core.scheduling.counterfactuals.subject import Subject, with_job, without
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import View, WaitingClass
from headnode.engine.constraining import with_kept
from headnode.engine.course import run_course, to_the_limits

MOST_PLANNING = 1.0  # seconds for all plans of one search
MOST_RUNNING_AHEAD = 1.0  # seconds


class Picture(msgspec.Struct, frozen=True):
    """The cluster with the job that is asked about in its queue, and what the policy would do now."""

    view: View
    policy: Policy
    plan: Plan
    subject: Subject
    spent: float  # seconds that the plan took


def view_now(desk: Desk, job: JobId) -> View:
    """Return the cluster as a policy may see it for a job, unchanged by what happens from now on.

    What filters keep for other jobs is not free for it.
    """
    view = with_kept(desk.engine.view(desk.now()), desk.engine.offers, desk.cluster, job)
    queue = [WaitingClass(waiting.request, tuple(waiting.turns)) for waiting in view.queue]
    return msgspec.structs.replace(view, queue=queue)


async def picture_with(desk: Desk, subject: Subject) -> Picture:
    """Return the picture with the subject where it stands, whether it queues already or not.

    Cost:  one pass, in a thread.
    """
    view = with_job(without(view_now(desk, subject.job), subject), subject)
    policy = desk.engine.policy()
    async with desk.searching:
        began = time.monotonic()
        plan = await asyncio.to_thread(policy, view)
        return Picture(view, policy, plan, subject, time.monotonic() - began)


async def found_changes(desk: Desk, picture: Picture, room: Room) -> Found:
    """Return what would let the subject start.

    Stops when all plans together took `MOST_PLANNING`, and says so.  One search goes on at a time, however
    many ask: the head is not slowed down by more than one.
    """
    async with desk.searching:
        return await asyncio.to_thread(_searched, picture, room)


def _searched(picture: Picture, room: Room) -> Found:
    end = time.monotonic() + MOST_PLANNING - picture.spent
    search = searching(picture.view, picture.plan, picture.subject, room)
    try:
        asked = next(search)
        while True:
            asked = search.send(picture.policy(asked) if time.monotonic() < end else None)
    except StopIteration as ended:
        found: Found = ended.value
        return found


async def start_by_limits(desk: Desk, picture: Picture) -> Instant | None:
    """Return when the subject will start if all jobs run to their limits and nobody comes after it.

    None if that is never, or not known within `MOST_RUNNING_AHEAD`.
    """
    async with desk.searching:
        return await asyncio.to_thread(_run_ahead, picture)


def _run_ahead(picture: Picture) -> Instant | None:
    """Run the plan ahead over the jobs that go before the subject; those behind do not delay it."""
    subject, view = picture.subject, picture.view
    queue = [
        WaitingClass(waiting.request, turns)
        for waiting in view.queue
        if (turns := tuple(turn for turn in waiting.turns if turn <= subject.turn))
    ]
    end = time.monotonic() + MOST_RUNNING_AHEAD
    ahead = minimums_only(msgspec.structs.replace(view, queue=queue))
    course = run_course(ahead, picture.policy, {}, to_the_limits(ahead), lambda: time.monotonic() > end)
    return known(course.starts.get(subject.job, NEVER))


def known(at: Instant) -> Instant | None:
    """Return an instant as clients get it; None for one that nobody can promise."""
    return None if at == NEVER else at
