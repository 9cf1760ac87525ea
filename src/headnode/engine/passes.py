"""A plan turned into commands."""

from headnode.core.lifecycle import commands as c
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.decision import Plan

Giving = c.StartJob | c.GrowJob
"""What a plan gives to one job."""


def commands_of(plan: Plan) -> list[Giving]:
    """Return the plan as wishes; `decide` refuses those that are stale."""
    grows: list[Giving] = [c.GrowJob(job=JobId(g.job), shares=g.allocation) for g in plan.grows]
    return grows + [
        c.StartJob(
            job=start.job,
            shares=start.allocation,
            backfilled=start.ahead_of is not None,
            option=start.option,
            parts=start.parts,
        )
        for start in plan.starts
    ]
