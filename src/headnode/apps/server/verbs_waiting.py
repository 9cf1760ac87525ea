"""Verbs that let jobs wait: suspend and resume, hold and release."""

from typing import Any

from headnode.apps.server import wishes as w
from headnode.apps.server.answers_jobs import hold_object
from headnode.apps.server.desk import Desk
from headnode.core.lifecycle import commands as c
from headnode.core.model.errors import WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

Object = dict[str, Any]


async def suspend_job(desk: Desk, by: User, wish: w.JobWish) -> Object:
    """Stop a running job, and let others have what it holds."""
    await desk.ask(c.SuspendJob(by=by, job=_alive(desk, wish)))
    return _standing(desk, wish)


async def resume_job(desk: Desk, by: User, wish: w.JobWish) -> Object:
    """Let a suspended job go on when there is room for it."""
    await desk.ask(c.ResumeJob(by=by, job=_alive(desk, wish)))
    return _standing(desk, wish)


def _alive(desk: Desk, wish: w.JobWish) -> JobId:
    """Return the id of a job that is not over.

    Raises:  NotFound ``no-such-job``, WrongState ``job-over``.
    """
    found = desk.lookups.job(wish.job)
    if found.ended:
        raise WrongState(
            code="job-over",
            what=f"job {wish.job} is {found.record.state.value} already",
            fix=f"run it again with hn job requeue {wish.job}, or make a copy with hn job clone {wish.job}",
        )
    return found.record.id


def _standing(desk: Desk, wish: w.JobWish) -> Object:
    return {"job": wish.job, "state": desk.lookups.job(wish.job).record.state.value}


async def hold_job(desk: Desk, by: User, wish: w.HoldWish) -> Object:
    """Keep a job from starting until the hold is released."""
    await desk.ask(c.HoldJob(by=by, job=_alive(desk, wish), name=wish.name, message=wish.message))
    return _held(desk, wish)


async def release_job(desk: Desk, by: User, wish: w.ReleaseWish) -> Object:
    """Release a hold of a job, or all of them; return those that are left."""
    name = None if wish.all else wish.name
    await desk.ask(c.ReleaseJob(by=by, job=_alive(desk, wish), name=name))
    return _held(desk, wish)


def _held(desk: Desk, wish: w.JobWish) -> Object:
    holds = desk.lookups.job(wish.job).record.holds
    return {"job": wish.job, "holds": [hold_object(hold) for hold in holds]}
