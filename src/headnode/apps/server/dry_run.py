"""What would become of a job if it was submitted now.  Nothing is made, changed or recorded."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

from headnode.apps.server import wishes as w
from headnode.apps.server.answers_jobs import job_object
from headnode.apps.server.desk import Desk
from headnode.apps.server.explaining import blank, changes, kept_outside, stands, would_start_by
from headnode.apps.server.lookups import Found
from headnode.apps.server.reading import read_job, report_json
from headnode.apps.server.verbs_jobs import refuse_description, refuse_ended, refuse_unfit
from headnode.apps.server.ways import Way, new_turn, room_of_new, way_of_new
from headnode.apps.server.what_if import picture_with
from headnode.core.formats.fidelity import Item
from headnode.core.formats.terms import read_terms
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.decide import decide
from headnode.core.lifecycle.events import JobSubmitted
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.requests import request_of
from headnode.core.lifecycle.states import JobState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.scheduling.counterfactuals.search import Offer
from headnode.core.scheduling.counterfactuals.subject import Subject
from headnode.core.scheduling.decision import Reason, Why

Object = dict[str, Any]


class _Described(NamedTuple):
    """A job that could be submitted; `job` is the id of one that was made before."""

    spec: JobSpec
    report: tuple[Item, ...]
    waits_for: tuple[int, ...]
    job: JobId | None
    written: bool  # its tasks are written down already: options do not change them


async def check_job(desk: Desk, by: User, wish: w.SubmitWish) -> Object:
    """Say what submitting would say, and what would become of the job: starts where, or waits for what.

    Raises:  whatever would refuse the submission.
    """
    described = await _described(desk, by, wish)
    spec = described.spec
    turn = (*new_turn(desk.cluster, spec)[:2], described.job or JobId(desk.cluster.next_job))
    picture = await picture_with(desk, Subject(turn, request_of(spec)))
    answer = blank(desk) | stands(desk, picture)
    answer |= {"job": described.job, "name": spec.name}
    now = desk.now()
    outside = _outside(described, now)
    if outside:
        answer |= kept_outside(answer, outside, spec.hold_until if _held(spec, now) else None, None)
    else:

        def way(offer: Offer) -> Way:
            return way_of_new(spec, offer, written=described.written, now=now)

        answer |= await changes(desk, picture, room_of_new(spec, by), way)
        answer |= await would_start_by(desk, picture)
    job = _job_object(desk, by, described)
    return {"report": report_json(described.report), "job": job, "explanation": answer}


async def _described(desk: Desk, by: User, wish: w.SubmitWish) -> _Described:
    if wish.job is not None:
        return _made_before(desk, by, wish, wish.job)
    spec, report = await read_job(wish, desk.now())
    refuse_unfit(desk, spec)
    waits_for = _accepted(desk, by, spec)
    return _Described(spec, report, waits_for, None, written=wish.jobfile is not None)


def _made_before(desk: Desk, by: User, wish: w.SubmitWish, job: int) -> _Described:
    refuse_description(wish)
    found = desk.lookups.job(job)
    spec = read_terms(wish.terms, (), found.spec, now=desk.now())
    _refuse_change(desk, by, found, spec)
    refuse_unfit(desk, spec)
    return _Described(spec, (), _accepted(desk, by, spec), found.record.id, written=True)


def _refuse_change(desk: Desk, by: User, found: Found, spec: JobSpec) -> None:
    """Refuse a job that cannot be submitted, or not with these options, because of its state or its owner."""
    fields = tuple(
        name for name in JobSpec.__struct_fields__ if getattr(found.spec, name) != getattr(spec, name)
    )
    if fields:
        archived = found.record if found.ended else None
        change = c.ModifyJob(by=by, job=found.record.id, spec=spec, fields=fields, archived=archived)
        decide(desk.cluster, change, desk.now())
    else:
        refuse_ended(found)
    if not found.ended:  # one that is over was brought back by the change
        parents = desk.lookups.ended_parents(spec.parents)
        decide(desk.cluster, c.SubmitJob(by=by, job=found.record.id, parents=parents), desk.now())


def _accepted(desk: Desk, by: User, spec: JobSpec) -> tuple[int, ...]:
    """Return which parents the job would wait for, if its submission is not refused."""
    parents = desk.lookups.ended_parents(spec.parents)
    events = decide(desk.cluster, c.CreateJob(by=by, spec=spec, submit=True, parents=parents), desk.now())
    return next(event.waits_for for event in events if isinstance(event, JobSubmitted))


def _held(spec: JobSpec, now: float) -> bool:
    return spec.hold_until is not None and spec.hold_until > now


def _outside(described: _Described, now: float) -> list[Reason]:
    """Return why the job would not even be considered."""
    found: list[Reason] = []
    until = described.spec.hold_until
    if until is not None and until > now:
        at = datetime.fromtimestamp(until, UTC).astimezone().isoformat(timespec="seconds")
        found.append(Reason(Why.HOLD, f"it would be held until {at}"))
    for parent in described.waits_for:
        found.append(Reason(Why.DEPENDENCY, f"it would wait for job {parent}", str(parent)))
    return found


def _job_object(desk: Desk, by: User, described: _Described) -> Object:
    record = JobRecord(
        id=described.job or JobId(desk.cluster.next_job),
        owner=by.name,
        uid=by.uid,
        gid=by.gid,
        spec=b"",
        state=JobState.CONFIGURING,
        priority=described.spec.priority,
        created=desk.now(),
    )
    return job_object(record, described.spec) | {"id": described.job}
