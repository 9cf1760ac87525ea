"""Decide about several jobs that come together and wait for each other: all of them, or none.

Source: SSS 3.1.0, "JobGroup": its jobs depend on one another.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_jobs import by_template, checked, configured, submission
from headnode.core.lifecycle.deciding_templates import submitted_spec
from headnode.core.lifecycle.descriptions import check_room_of
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.owners import created
from headnode.core.model.bounds import TASKS_OF_JOB
from headnode.core.model.checks import check
from headnode.core.model.circles import find_circle
from headnode.core.model.dependencies import FIELDS, Link, parents
from headnode.core.model.errors import BadRequest, Refused
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId


def create_several(cluster: Cluster, command: c.CreateJobs, now: Instant) -> list[Event]:
    """Make jobs with ids in their order, and submit them if that is wished.

    Raises:  what refuses one of them, with its number and name; BadRequest ``job-link`` and ``job-circle``.
    """
    _check_links(command.specs, command.links)
    specs = linked(command.specs, command.links, cluster.next_job)
    made: list[Event] = []
    for number, spec in enumerate(specs):
        try:
            if command.submit:
                specs[number] = spec = submitted_spec(cluster, command.by, spec)
            job = JobId(cluster.next_job + number)
            made.append(created(command.by, job, spec, checked(spec), command.known, now))
        except Refused as no:
            raise about(no, spec, number, len(specs)) from None
    check_room_of(cluster, made)
    if not command.submit:
        return made
    ids = range(cluster.next_job, cluster.next_job + len(specs))
    return [*made, *_submissions(cluster, command, ids, specs, now)]


def submit_several(cluster: Cluster, command: c.SubmitJobs, now: Instant) -> list[Event]:
    """Put jobs that were made before into the queue, whichever of them wait for each other.

    Raises:  what refuses one of them, with its number and name; BadRequest ``job-circle``.
    """
    specs: list[JobSpec] = []
    shaped: list[Event] = []
    tasks = 0
    for job in command.jobs:
        record = configured(cluster, job, command.by)
        written = cluster.written(record)
        tasks += len(written.tasks)
        _refuse_crowd(tasks)
        specs.append(submitted_spec(cluster, command.by, written))
        check(specs[-1])
        shaped += by_template(record, written, specs[-1], now)
    return [*shaped, *_submissions(cluster, command, command.jobs, specs, now)]


def _refuse_crowd(tasks: int) -> None:
    if tasks > TASKS_OF_JOB.most:
        raise BadRequest(
            code="too-many-tasks",
            what=f"the jobs have more than {TASKS_OF_JOB.most:,} tasks together",
            fix="submit them one by one: hn job submit /id:ID",
        )


def _submissions(
    cluster: Cluster,
    command: c.CreateJobs | c.SubmitJobs,
    ids: Sequence[int],
    specs: Sequence[JobSpec],
    now: Instant,
) -> Iterator[Event]:
    _refuse_circle(dict(zip(ids, specs, strict=True)))
    for number, (job, spec) in enumerate(zip(ids, specs, strict=True)):
        one = c.SubmitJob(by=command.by, job=JobId(job), parents=command.parents)
        try:
            yield submission(cluster, one, spec, now, place=number, beside=ids)
        except Refused as no:
            raise about(no, spec, number, len(specs)) from None


def _refuse_circle(specs: Mapping[int, JobSpec]) -> None:
    circle = find_circle(
        {
            job: [parent for parent in parents(spec) if parent in specs and parent != job]
            for job, spec in specs.items()
        }
    )
    if circle:
        shown = " -> ".join(f"job {job}" for job in circle)
        raise BadRequest(
            code="job-circle", what=f"jobs wait for each other: {shown}", fix="remove one dependency"
        )


def linked(specs: Sequence[JobSpec], links: Sequence[Link], first: int) -> list[JobSpec]:
    """Return the jobs as they wait for each other, if their ids count from `first`."""
    awaited: dict[int, dict[str, list[int]]] = {}
    for link in links:
        field = FIELDS[link.condition]
        awaited.setdefault(link.child, {}).setdefault(field, []).append(first + link.parent)
    found = list(specs)
    for child, more in awaited.items():
        spec = found[child]
        fields = {field: tuple(dict.fromkeys((*getattr(spec, field), *ids))) for field, ids in more.items()}
        found[child] = replace(spec, **fields)
    return found


def _check_links(specs: Sequence[JobSpec], links: Sequence[Link]) -> None:
    graph: dict[int, list[int]] = {}
    for link in links:
        if not (0 <= link.child < len(specs) and 0 <= link.parent < len(specs)):
            raise BadRequest(
                code="job-link",
                what=f"job {link.child + 1} waits for job {link.parent + 1}, and there are {len(specs)}",
                fix="name one of them",
            )
        graph.setdefault(link.child, []).append(link.parent)
    circle = find_circle(graph)
    if circle:
        shown = " -> ".join(_called(specs[number], number) for number in circle)
        raise BadRequest(
            code="job-circle", what=f"jobs wait for each other: {shown}", fix="remove one dependency"
        )


def about(no: Refused, spec: JobSpec, number: int, of: int) -> Refused:
    """Return a refusal that says which of several jobs it is about; of one job the refusal itself."""
    if of == 1:
        return no
    return type(no)(code=no.code, what=f"{_called(spec, number)} of {of}: {no.what}", fix=no.fix)


def _called(spec: JobSpec, number: int) -> str:
    return f"job {number + 1}" + (f" {spec.name!r}" if spec.name else "")
