"""The verbs of the local protocol that are about whole jobs."""

from typing import Any

from msgspec.structs import replace

from headnode.apps.server import answers_jobs as show
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.expecting import expected_object, prediction_object
from headnode.apps.server.fitting import refuse_unfit_change, refuse_unfit_now
from headnode.apps.server.history import sentence
from headnode.apps.server.job_lists import listed, page_of, short
from headnode.apps.server.lookups import Found, states_named
from headnode.apps.server.named_parents import with_parents
from headnode.apps.server.named_users import users_named
from headnode.apps.server.private_environments import copied_by, seen_by
from headnode.apps.server.reading import read_jobs, refuse_crowd, report_json, tasks_in
from headnode.apps.server.several_jobs import Described, create_all
from headnode.apps.server.verbs_groups import members, relations, summary
from headnode.core.formats import windows
from headnode.core.formats.terms import read_terms
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.deciding_filters import changes
from headnode.core.lifecycle.deciding_jobs import already_submitted
from headnode.core.lifecycle.events import JobCreated, JobFact, JobRequeued
from headnode.core.lifecycle.owners import is_other, plain_name
from headnode.core.lifecycle.permission import may_change
from headnode.core.lifecycle.records import decode_spec
from headnode.core.model.bounds import PAGE, TASKS_OF_FILE
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

Object = dict[str, Any]


async def create_job(desk: Desk, by: User, wish: w.CreateWish) -> Object:
    """Make a job in state configuring, or all of a job file."""
    described = await with_parents(desk, by, await read_jobs(desk, by, wish))
    return _made(by, await create_all(desk, by, described, submit=False), described)


def _made(by: User, ids: list[int], described: Described) -> Object:
    owners = sorted({plain_name(spec.run_as) for spec in described.specs if is_other(by, spec)})
    more: Object = {"jobs": ids} if len(ids) > 1 else {}
    if owners:
        more["owner"] = ", ".join(owners)
    return {"job": ids[-1], "report": report_json(described.report)} | more


def _created(events: tuple[object, ...]) -> int:
    return next(event.job for event in events if isinstance(event, JobCreated))


async def submit_job(desk: Desk, by: User, wish: w.SubmitWish) -> Object:
    """Put a job into the queue: one that was created, or a new one, or all of a job file."""
    if wish.job is not None:
        return await _submit_created(desk, by, wish, wish.job)
    described = await with_parents(desk, by, await read_jobs(desk, by, wish))
    refuse_unfit_now(desk, by, *described.specs)
    ids = await create_all(desk, by, described, submit=True)
    await desk.passage.wait(ids)
    return _made(by, ids, described)


async def _submit_created(desk: Desk, by: User, wish: w.SubmitWish, job: int) -> Object:
    refuse_description(wish)
    if wish.terms:
        await modify_job(desk, by, w.ModifyWish(job=job, terms=wish.terms))
    found = desk.lookups.job(job)
    refuse_ended(found)
    refuse_unfit_now(desk, by, found.spec, owner=found.record.owner)
    parents = desk.lookups.ended_parents(found.spec)
    await desk.ask(c.SubmitJob(by=by, job=JobId(job), parents=parents))
    await desk.passage.wait([job])
    return {"job": job, "report": []}


def refuse_description(wish: w.SubmitWish) -> None:
    """Refuse to describe a job that has been made before.

    Raises:  BadRequest ``id-and-description``.
    """
    if wish.jobfile is not None or wish.tasks:
        raise BadRequest(
            code="id-and-description",
            what="a job that was created is submitted by its id alone",
            fix="add tasks with `hn job add` first, or submit the job file without an id",
        )


def refuse_ended(found: Found) -> None:
    """Refuse to submit a job that is over.

    Raises:  WrongState ``already-submitted``.
    """
    if found.ended:
        raise already_submitted(found.record)


async def add_tasks(desk: Desk, by: User, wish: w.AddTasksWish) -> Object:
    """Add tasks at the end of a job's task list."""
    refuse_crowd(len(wish.tasks))
    while True:
        found = alive(desk, wish.job)
        known = len(found.spec.tasks)
        spec = read_terms({}, wish.tasks, found.spec, now=desk.now())
        if wish.jobfile is not None:
            read = await tasks_in(wish.jobfile)
            refuse_crowd(len(read), bound=TASKS_OF_FILE)
            spec = replace(spec, tasks=spec.tasks + read)
        try:
            await _change(desk, by, found, found.spec, spec)
        except WrongState as refused:
            if refused.code != "stale-tasks" or len(alive(desk, wish.job).spec.tasks) == known:
                raise
            continue  # somebody else added tasks in the same moment: put these behind theirs
        added = replace(spec, tasks=spec.tasks[known:])
        return {
            "job": wish.job,
            "tasks": list(range(known + 1, len(spec.tasks) + 1)),
            "report": report_json(tuple(windows.items(added))),
        }


def alive(desk: Desk, job: int) -> Found:
    """Return a job that is not over.

    Raises:  WrongState ``job-over``.
    """
    found = desk.lookups.job(job)
    if found.ended:
        raise WrongState(
            code="job-over",
            what=f"job {job} is {found.record.state.value}",
            fix=f"make a copy and change that: hn job clone {job}",
        )
    return found


async def modify_job(desk: Desk, by: User, wish: w.ModifyWish) -> Object:
    """Change options of a job."""
    found = desk.lookups.job(wish.job)
    known = found.spec if found.ended else found.taken
    spec = read_terms(wish.terms, (), known, now=desk.now())
    return {"job": wish.job, "changed": list(await _change(desk, by, found, known, spec))}


async def _change(desk: Desk, by: User, found: Found, known: JobSpec, wished: JobSpec) -> tuple[str, ...]:
    """Change a job, past submission filters if it was submitted; return the names of what has changed.

    `known` is the job as it was when the wish was read.
    """
    record = found.record
    if wished == known or not (record.state.is_queued or record.state.is_active):
        return await _changed_to(desk, by, found, known, wished)
    may_change(by, record)
    async with desk.passage.changing(record, wished) as spec:
        return await _changed_to(desk, by, found, known, spec)


async def _changed_to(desk: Desk, by: User, found: Found, known: JobSpec, spec: JobSpec) -> tuple[str, ...]:
    fields = changes(known, spec)
    if not fields:
        return ()
    if found.record.submitted is not None and fields != ("tasks",):
        refuse_unfit_change(desk, found.record.owner, spec)
    archived = found.record if found.ended else None
    named = users_named(by, (spec,))
    skipped = desk.lookups.skipped_for(found.record)
    command = c.ModifyJob(
        by=by,
        job=found.record.id,
        spec=spec,
        fields=fields,
        archived=archived,
        known=named,
        parents=desk.lookups.ended_parents(*(decode_spec(one.spec) for one in skipped)),
        skipped=skipped,
    )
    await desk.ask(command)
    return fields


async def set_progress(desk: Desk, by: User, wish: w.ProgressWish) -> Object:
    """Note how far a job is."""
    record = alive(desk, wish.job).record
    await desk.ask(c.SetProgress(by=by, job=record.id, percent=wish.percent, message=wish.message))
    return {"job": wish.job}


async def cancel_job(desk: Desk, by: User, wish: w.StopWish) -> Object:
    """Cancel a job."""
    return await _stop(desk, by, wish, "canceled")


async def finish_job(desk: Desk, by: User, wish: w.StopWish) -> Object:
    """Finish a job."""
    return await _stop(desk, by, wish, "finished")


async def _stop(desk: Desk, by: User, wish: w.StopWish, outcome: str) -> Object:
    found = desk.lookups.job(wish.job)
    if found.ended:
        if found.record.state.value == outcome:
            return {"job": wish.job, "state": found.record.state.value}
        raise WrongState(
            code="job-over",
            what=f"job {wish.job} is {found.record.state.value} already",
            fix="only jobs that have not ended can be canceled or finished",
        )
    command = c.StopJob(
        by=by,
        job=found.record.id,
        outcome="canceled" if outcome == "canceled" else "finished",
        message=wish.message,
        force=wish.force,
        graceful=wish.graceful,
    )
    await desk.ask(command)
    return {"job": wish.job, "state": desk.lookups.job(wish.job).record.state.value}


async def requeue_job(desk: Desk, by: User, wish: w.JobWish) -> Object:
    """Run a job again, but for what has finished."""
    found = desk.lookups.job(wish.job)
    skipped = desk.lookups.skipped_for(found.record)
    command = c.RequeueJob(
        by=by,
        job=found.record.id,
        archived=found.record if found.ended else None,
        parents=desk.lookups.ended_parents(found.spec, *(decode_spec(one.spec) for one in skipped)),
        skipped=skipped,
    )
    events = await desk.ask(command)
    again = [one.job for one in events if isinstance(one, JobRequeued) and one.job != found.record.id]
    return {"job": wish.job, "reopened": again}


async def clone_job(desk: Desk, by: User, wish: w.JobWish) -> Object:
    """Make a copy of a job, in state configuring."""
    copied, left_out = copied_by(desk, by, desk.lookups.job(wish.job))
    spec = replace(copied, run_as="")  # it is his who makes it
    events = await desk.ask(c.CreateJob(by=by, spec=spec))
    return {"job": _created(events), "report": report_json(left_out)}


async def job(desk: Desk, by: User, wish: w.JobWish) -> Object:
    """Show a job with everything that the user may know of it."""
    found = desk.lookups.job(wish.job)
    told = _history(desk, found.record.id, 200)
    reason = desk.pending_reason(found.record)
    spec, left_out = seen_by(desk, by, found)
    shown = show.detailed_job(found.record, spec, reason, told) | {"private": bool(left_out)}
    predicted = prediction_object(desk.predictions.prediction(found.record.id))
    plan = desk.engine.last_plan
    share = None if plan is None or found.ended else plan.shares.get(found.record.id)
    more = {"expected": expected_object(desk, found.record), "prediction": predicted, "share": share}
    return {"job": shown | more | relations(desk, found)}


async def jobs(desk: Desk, by: User, wish: w.ListWish) -> Object:
    """Show a page of jobs, newest id first."""
    if wish.group is not None:
        return _jobs_of_group(desk, by, wish, wish.group)
    owner = by.name if wish.owner == "" else wish.owner
    page = page_of(desk, wish, owner, states_named(wish.states))
    shown = [listed(desk, found) for found in page.jobs]
    total = sum(desk.cluster.counts.values()) + sum(desk.lookups.archive.count_ended(owner=None).values())
    return {"jobs": shown, "more": page.more, "total": total, "damage": desk.lookups.archive.damage()}


def _jobs_of_group(desk: Desk, by: User, wish: w.ListWish, name: str) -> Object:
    """Show a page of the jobs that a group has now, and its state."""
    owner = {None: "*", "": None}.get(wish.owner, wish.owner)
    group = members(desk, by, w.GroupWish(group=name, owner=owner))
    states = states_named(wish.states)
    wanted = [job for job in reversed(group) if not states or job.state in states]
    page = [job for job in wanted if wish.before is None or job.id < wish.before]
    limit = min(max(1, wish.limit), PAGE.most)
    shown = [listed(desk, desk.lookups.job(job.id)) for job in page[:limit]]
    more = page[limit - 1].id if len(page) > limit else None
    return {"jobs": shown, "more": more, "total": len(group), "group": summary(name, group)}


async def history(desk: Desk, by: User, wish: w.HistoryWish) -> Object:  # noqa: ARG001
    """Show what happened to a job."""
    return {"history": _history(desk, desk.lookups.job(wish.job).record.id, wish.limit)}


def _history(desk: Desk, job: JobId, limit: int) -> list[Object]:
    events = desk.lookups.archive.history(job, limit)
    return [
        {"at": event.at, "text": text}
        for event in events
        if isinstance(event, JobFact) and (text := sentence(event))
    ]


async def export_job(desk: Desk, by: User, wish: w.ExportWish) -> Object:
    """Write a job in one of the dialects."""
    from headnode.apps.server import exporting  # with lxml: only who exports pays for it
    from headnode.core.formats import dialects

    found = desk.lookups.job(wish.job)
    own = found.spec.dialect or "native"
    dialect = wish.dialect or (own if own in dialects.DIALECTS else "hpcpack")
    spec, left_out = seen_by(desk, by, found)
    is_sss = dialects.dialect_named(dialect).language is dialects.Language.SSS
    live = (exporting.live_with_instances if is_sss else exporting.live_of)(desk, found)
    text, report = dialects.write(spec, dialect, live)
    return {"text": text.decode(), "report": report_json((*left_out, *report))}


async def watch(desk: Desk, by: User, wish: w.WatchWish, changed: set[int]) -> tuple[list[Object], bool]:  # noqa: ARG001
    """Return the jobs that have changed as they are now, and whether all are over; then all of them."""
    jobs = wish.job if isinstance(wish.job, list) else [wish.job]
    if not jobs:
        raise NotFound(code="no-jobs", what="there is no job to watch", fix="name at least one job id")
    done = not any(JobId(job) in desk.cluster.jobs for job in jobs)
    found = [desk.lookups.job(job) for job in jobs if done or job in changed]
    return [_watched(desk, each) for each in found], done


def _watched(desk: Desk, found: Found) -> Object:
    return short(desk, found) | {"expected": expected_object(desk, found.record)}
