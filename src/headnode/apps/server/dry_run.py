"""What would become of a job if it was submitted now.  Nothing is made, changed or recorded."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headnode.apps.server import wishes as w
from headnode.apps.server.answers_jobs import brief_of, job_object
from headnode.apps.server.deadlines import deadline_object
from headnode.apps.server.desk import Desk
from headnode.apps.server.explaining import blank, changes, kept_outside, stands, would_start_by
from headnode.apps.server.fitting import refuse_unfit
from headnode.apps.server.lookups import Found
from headnode.apps.server.named_parents import with_parents
from headnode.apps.server.named_users import users_named
from headnode.apps.server.reading import read_jobs, report_json
from headnode.apps.server.several_jobs import Described, creation
from headnode.apps.server.verbs_jobs import refuse_description, refuse_ended
from headnode.apps.server.ways import Way, new_turn, room_of_new, way_of_new
from headnode.apps.server.what_if import picture_with
from headnode.core.formats.terms import read_terms
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.decide import decide
from headnode.core.lifecycle.deciding_groups import linked
from headnode.core.lifecycle.events import JobSubmitted
from headnode.core.lifecycle.owners import owner_of
from headnode.core.lifecycle.parents import wished
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.dependencies import dependencies
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.scheduling.counterfactuals.search import Offer
from headnode.core.scheduling.counterfactuals.subject import Subject
from headnode.core.scheduling.decision import Reason, Why

Object = dict[str, Any]
MOST_FORETOLD = 20  # jobs of one file


class _Candidate(NamedTuple):
    """A job that could be submitted; `job` is the id of one that was made before."""

    spec: JobSpec
    waits: tuple[Reason, ...]  # for which other jobs
    job: JobId | None
    written: bool  # its tasks are written down already: options do not change them


async def check_job(desk: Desk, by: User, wish: w.SubmitWish) -> Object:
    """Say what submitting would say, and what would become of each job: starts where, or waits for what.

    Each is looked at as if the others of its file were not there, but for those that it waits for.
    Raises:  whatever would refuse the submission.
    """
    if wish.job is not None:
        return {"report": [], **await _foretold(desk, by, _made_before(desk, by, wish, wish.job))}
    described = await with_parents(desk, by, await read_jobs(desk, by, wish))
    report = {"report": report_json(described.report)}
    candidates = _candidates(desk, by, described, written=wish.jobfile is not None)
    if len(candidates) == 1:
        return report | await _foretold(desk, by, candidates[0])
    told = [await _foretold(desk, by, candidate) for candidate in candidates[:MOST_FORETOLD]]
    return report | {"jobs": told, "count": len(candidates)}


async def _foretold(desk: Desk, by: User, candidate: _Candidate) -> Object:
    spec = candidate.spec
    turn = (*new_turn(desk.cluster, spec)[:2], candidate.job or JobId(desk.cluster.next_job))
    owner = owner_of(by, spec, users_named(by, (spec,)))
    request = desk.cluster.would_ask(owner.name, spec)
    picture = await picture_with(desk, Subject(turn, request))
    answer = blank(desk) | stands(desk, picture)
    answer |= {"job": candidate.job, "name": spec.name}
    now = desk.now()
    outside = _outside(candidate, now)
    if outside:
        answer |= kept_outside(answer, outside, spec.hold_until if _held(spec, now) else None, None)
    else:

        def way(offer: Offer) -> Way:
            return way_of_new(spec, offer, written=candidate.written, now=now)

        answer |= await changes(desk, picture, room_of_new(spec, by), way)
        answer |= await would_start_by(desk, picture)
    answer["deadline"] = deadline_object(spec, answer)
    return {"job": _job_object(desk, by, candidate), "explanation": answer}


def _candidates(desk: Desk, by: User, described: Described, *, written: bool) -> list[_Candidate]:
    """Return the jobs of a description, if their submission is not refused."""
    refuse_unfit(desk, by, *described.specs)
    events = decide(desk.cluster, creation(desk, by, described, submit=True), desk.now())
    first = desk.cluster.next_job
    submitted = {event.job - first: event for event in events if isinstance(event, JobSubmitted)}
    specs = linked(described.specs, described.links, first)
    found = []
    for number, spec in enumerate(specs):
        inside = [
            _wait(f"job {parent - first + 1} of the file to {wished(condition)}")
            for parent, condition in dependencies(spec)
            if parent >= first
        ]
        waits = (*_waits(desk, spec, submitted[number].waits_for), *inside)
        found.append(_Candidate(described.specs[number], waits, None, written))
    return found


def _waits(desk: Desk, spec: JobSpec, waits_for: tuple[int, ...]) -> Iterator[Reason]:
    return (_wait(text, str(parent)) for parent, text in desk.awaited(spec, waits_for))


def _wait(text: str, parent: str = "") -> Reason:
    return Reason(Why.DEPENDENCY, f"it would wait for {text}", parent)


def _made_before(desk: Desk, by: User, wish: w.SubmitWish, job: int) -> _Candidate:
    refuse_description(wish)
    found = desk.lookups.job(job)
    spec = read_terms(wish.terms, (), found.spec, now=desk.now())
    _refuse_change(desk, by, found, spec)
    refuse_unfit(desk, by, spec, owner=found.record.owner)
    parents = desk.lookups.ended_parents(spec)
    made = c.CreateJob(by=by, spec=spec, submit=True, parents=parents, known=users_named(by, (spec,)))
    events = decide(desk.cluster, made, desk.now())
    waits_for = next(event.waits_for for event in events if isinstance(event, JobSubmitted))
    return _Candidate(spec, tuple(_waits(desk, spec, waits_for)), found.record.id, written=True)


def _refuse_change(desk: Desk, by: User, found: Found, spec: JobSpec) -> None:
    """Refuse a job that cannot be submitted, or not with these options, because of its state or its owner."""
    fields = tuple(
        name for name in JobSpec.__struct_fields__ if getattr(found.spec, name) != getattr(spec, name)
    )
    if fields:
        archived = found.record if found.ended else None
        known = users_named(by, (spec,))
        change = c.ModifyJob(
            by=by, job=found.record.id, spec=spec, fields=fields, archived=archived, known=known
        )
        decide(desk.cluster, change, desk.now())
    else:
        refuse_ended(found)
    if not found.ended:  # one that is over was brought back by the change
        parents = desk.lookups.ended_parents(spec)
        decide(desk.cluster, c.SubmitJob(by=by, job=found.record.id, parents=parents), desk.now())


def _held(spec: JobSpec, now: float) -> bool:
    return spec.hold_until is not None and spec.hold_until > now


def _outside(candidate: _Candidate, now: float) -> list[Reason]:
    """Return why the job would not even be considered."""
    found: list[Reason] = []
    until = candidate.spec.hold_until
    if until is not None and until > now:
        at = datetime.fromtimestamp(until, UTC).astimezone().isoformat(timespec="seconds")
        found.append(Reason(Why.HOLD, f"it would be held until {at}"))
    found += [Reason(Why.HOLD, f"it would have the hold {name!r}", name) for name in candidate.spec.holds]
    return [*found, *candidate.waits]


def _job_object(desk: Desk, by: User, candidate: _Candidate) -> Object:
    owner = owner_of(by, candidate.spec, users_named(by, (candidate.spec,)))
    record = JobRecord(
        id=candidate.job or JobId(desk.cluster.next_job),
        owner=owner.name,
        uid=owner.uid,
        gid=owner.gid,
        spec=b"",
        state=JobState.CONFIGURING,
        priority=candidate.spec.priority,
        created=desk.now(),
    )
    return job_object(record, brief_of(record, candidate.spec)) | {"id": candidate.job}
