"""Jobs that wait for others by name: the newest job of the owner that is meant."""

import asyncio
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from headnode.apps.server.api.job_submission import DescribedJobs
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.model.errors import NotFound
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec, NamedParent
from headnode.core.model.user import User
from headnode.core.state.job_record import decode_record, decode_spec
from headnode.core.state.permissions import is_other, plain_name

MOST_SEARCHED = 20_000
"""Ended jobs of the owner that are looked through, newest first."""

_PAGE_OF_JOBS = 500
_ID = "<Id>"
_Jobs = Sequence[tuple[int, bytes]]


async def with_parents(context: ServerContext, by: User, described: DescribedJobs) -> DescribedJobs:
    """Return jobs that wait for ids alone; the report says which job each name means.

    Raises:  NotFound ``no-such-parent`` when the owner has no such job.
    """
    if not any(spec.named_parents for spec in described.specs):
        return described
    specs: list[JobSpec] = []
    told: list[ReportItem] = []
    for spec in described.specs:
        owner = plain_name(spec.run_as) if is_other(by, spec) else by.name
        found = {parent: await _job_called(context, owner, parent) for parent in spec.named_parents}
        told += (
            ReportItem(
                Fidelity.NOTE,
                f"job {spec.name!r}" if spec.name else "job",
                f"it waits for job {job}: {parent}",
            )
            for parent, job in found.items()
        )
        specs.append(_linked(spec, found))
    return described._replace(specs=specs, report=(*described.report, *told))


def _linked(spec: JobSpec, found: dict[NamedParent, int]) -> JobSpec:
    fields: dict[str, tuple[int, ...]] = {}
    for parent, job in found.items():
        field = DEPENDENCY_FIELDS[parent.condition]
        fields[field] = tuple(dict.fromkeys((*fields.get(field, getattr(spec, field)), job)))
    return replace(spec, named_parents=(), **fields)


async def _job_called(context: ServerContext, owner: str, parent: NamedParent) -> int:
    """Return the newest job of the owner that is meant.

    Cost:  a walk over the owner's jobs in which the event loop takes turns; of most only bytes are compared.
    """
    alive = [(job.id, job.spec) for job in context.cluster.jobs.values() if job.owner == owner]
    best = max([job for job, data in alive if _is_meant(parent, data)], default=0)
    for page in _ended(context, owner):
        if page[0][0] < best:
            break  # all others are older
        best = max([best, *(job for job, data in page if _is_meant(parent, data))])
        await asyncio.sleep(0)
    if not best:
        raise NotFound(
            code="no-such-parent",
            what=f"the job depends on a job with {parent}, and {owner} has none",
            fix="submit that job first, or give its number (JobId): see `hn job list /all`",
        )
    return best


def _ended(context: ServerContext, owner: str) -> Iterator[_Jobs]:
    """Yield the jobs of the owner that are over, newest first, in pages."""
    before = None
    for _ in range(MOST_SEARCHED // _PAGE_OF_JOBS):
        page = context.lookups.archive.ended_jobs(owner=owner, states=(), before=before, limit=_PAGE_OF_JOBS)
        if not page:
            return
        before = page[-1].id
        yield [(job.id, decode_record(job.record).spec) for job in page]


def _is_meant(parent: NamedParent, data: bytes) -> bool:
    """Whether a description is that of the job; most are told by their bytes."""
    if not parent.by_id:
        return parent.name.encode() in data and decode_spec(data).name == parent.name
    if _ID.encode() not in data:
        return False
    from headnode.core.formats.sss.conversion import id_read_with  # with lxml: only who asks so pays for it

    return id_read_with(decode_spec(data).extensions) == parent.name
