"""The verbs of the local protocol that are about all jobs of a group, and what a job and its group share."""

from typing import Any

from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.fitting import refuse_unfit_now
from headnode.apps.server.lookups import Found
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.events import Outcome
from headnode.core.lifecycle.groups import group_state
from headnode.core.lifecycle.parents import fate_of, standing
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import PEOPLE_SAY, JobState
from headnode.core.model.dependencies import Condition, dependencies
from headnode.core.model.errors import NotFound, Refused
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

Object = dict[str, Any]


async def group(desk: Desk, by: User, wish: w.GroupWish) -> Object:
    """Tell the state of a group and the ids of the jobs it has now."""
    jobs = members(desk, by, wish)
    return summary(wish.group, jobs)


def members(desk: Desk, by: User, wish: w.GroupWish) -> list[JobRecord]:
    """Return the jobs that a group has now; those of the asker when no owner is named.

    Raises:  NotFound ``no-such-group``.
    """
    owner = by.name if wish.owner is None else wish.owner
    jobs = desk.lookups.group(wish.group, None if owner == "*" else owner)
    if not jobs:
        whose = "" if owner == "*" else f" of {owner}"
        raise NotFound(
            code="no-such-group",
            what=f"there is no job group {wish.group!r}{whose}",
            fix="see `hn job list /all` for jobs, and `hn job view ID` for their groups",
        )
    return jobs


def summary(name: str, jobs: list[JobRecord]) -> Object:
    """Return a group as clients see it: its state, and how many of its jobs are in which."""
    counts: dict[str, int] = {}
    for job in jobs:
        counts[PEOPLE_SAY[job.state]] = counts.get(PEOPLE_SAY[job.state], 0) + 1
    return {
        "group": name,
        "state": group_state(jobs).value,
        "jobs": [job.id for job in jobs],
        "counts": counts,
        "open": [job.id for job in jobs if not job.state.is_final],
        "skipped": [job.id for job in jobs if job.skipped],
    }


async def submit_group(desk: Desk, by: User, wish: w.GroupWish) -> Object:
    """Submit all jobs of a group that were made and not submitted yet, in one step."""
    jobs = [job for job in members(desk, by, wish) if job.state is JobState.CONFIGURING]
    specs = [desk.cluster.written(job) for job in jobs]
    refuse_unfit_now(desk, by, *specs)
    command = c.SubmitJobs(
        by=by, jobs=tuple(job.id for job in jobs), parents=desk.lookups.ended_parents(*specs)
    )
    await desk.ask(command)
    await desk.passage.wait(command.jobs)
    return {"group": wish.group, "jobs": list(command.jobs)}


async def cancel_group(desk: Desk, by: User, wish: w.StopGroupWish) -> Object:
    """Cancel all jobs of a group that are not over, in one step."""
    return await _stop(desk, by, wish, "canceled")


async def finish_group(desk: Desk, by: User, wish: w.StopGroupWish) -> Object:
    """Finish all jobs of a group that are not over, in one step."""
    return await _stop(desk, by, wish, "finished")


async def _stop(desk: Desk, by: User, wish: w.StopGroupWish, outcome: Outcome) -> Object:
    """Stop them as one batch: one by one, a job that waits for the failure of another would start."""
    jobs = [job for job in members(desk, by, wish) if not job.state.is_final]
    answers = await desk.ask_together([_stop_one(by, job.id, wish, outcome) for job in jobs])
    stopped: list[Object] = []
    refused: list[Object] = []
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, Refused):
            refused.append({"job": job.id, "code": answer.code, "what": answer.what, "fix": answer.fix})
        else:
            state = desk.lookups.job(job.id).record.state
            stopped.append({"job": job.id, "state": PEOPLE_SAY[state]})
    return {"group": wish.group, "jobs": stopped, "refused": refused}


def _stop_one(by: User, job: JobId, wish: w.StopGroupWish, outcome: Outcome) -> c.StopJob:
    return c.StopJob(
        by=by, job=job, outcome=outcome, message=wish.message, force=wish.force, graceful=wish.graceful
    )


def relations(desk: Desk, found: Found) -> Object:
    """Return what a job waits for or has waited for, and which jobs do so of it.

    Of those that depend on it these are told: the ones of its group, and all that have not started.
    """
    return {
        "dependencies": [
            dependency(desk, found.record, parent, condition)
            for parent, condition in dependencies(found.spec)
        ],
        "dependents": _dependents(desk, found),
    }


def dependency(desk: Desk, record: JobRecord, parent: int, condition: Condition) -> Object:
    """Return one thing that a job waits for: of whom, what, and how that stands."""
    other = desk.lookups.record(parent)
    told: Object = {"job": parent, "condition": condition.value, "name": "", "state": "", "standing": ""}
    if other is None:
        return told
    spec = desk.cluster.written(other)
    stands = standing(condition, fate_of(other)).name.lower()
    if record.state.is_queued and parent not in record.waits_for:
        stands = "met"  # what let a job go holds, whatever became of it since
    return told | {"name": spec.name, "state": PEOPLE_SAY[other.state], "standing": stands}


def _dependents(desk: Desk, found: Found) -> list[Object]:
    own = found.record
    waiting = {desk.cluster.jobs[job].id for job in desk.cluster.children.get(own.id, ())}
    group = desk.lookups.group(own.group, own.owner) if own.group else []
    candidates = {record.id: record for record in group}
    candidates |= {job: desk.cluster.jobs[job] for job in waiting}
    told = []
    for job, record in sorted(candidates.items()):
        spec = desk.cluster.written(record)
        told += [
            {"job": job, "condition": condition.value, "name": spec.name, "state": PEOPLE_SAY[record.state]}
            for parent, condition in dependencies(spec)
            if parent == own.id
        ]
    return told
