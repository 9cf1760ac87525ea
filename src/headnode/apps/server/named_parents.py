"""Jobs to wait for that a description calls by name become ids: the newest such job of the owner.

Source: SSS 3.1.0, "Dependency" (attribute designator).
"""

import asyncio
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from headnode.apps.server.desk import Desk
from headnode.apps.server.several_jobs import Described
from headnode.core.formats.fidelity import Item, Kind
from headnode.core.lifecycle.owners import is_other, plain_name
from headnode.core.lifecycle.records import decode_record, decode_spec
from headnode.core.model.dependencies import FIELDS
from headnode.core.model.errors import NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.named_parents import NamedParent
from headnode.core.model.user import User

MOST_SEARCHED = 20_000
"""Ended jobs of the owner that are looked through, newest first."""

_PAGE = 500
_ID = "<Id>"
_Jobs = Sequence[tuple[int, bytes]]


async def with_parents(desk: Desk, by: User, described: Described) -> Described:
    """Return jobs that wait for ids alone; the report says which job each name means.

    Raises:  NotFound ``no-such-parent`` when the owner has no such job.
    """
    if not any(spec.named_parents for spec in described.specs):
        return described
    specs: list[JobSpec] = []
    told: list[Item] = []
    for spec in described.specs:
        owner = plain_name(spec.run_as) if is_other(by, spec) else by.name
        found = {parent: await _job_called(desk, owner, parent) for parent in spec.named_parents}
        told += (
            Item(Kind.NOTE, f"job {spec.name!r}" if spec.name else "job", f"it waits for job {job}: {parent}")
            for parent, job in found.items()
        )
        specs.append(_linked(spec, found))
    return described._replace(specs=specs, report=(*described.report, *told))


def _linked(spec: JobSpec, found: dict[NamedParent, int]) -> JobSpec:
    fields: dict[str, tuple[int, ...]] = {}
    for parent, job in found.items():
        field = FIELDS[parent.condition]
        fields[field] = tuple(dict.fromkeys((*fields.get(field, getattr(spec, field)), job)))
    return replace(spec, named_parents=(), **fields)


async def _job_called(desk: Desk, owner: str, parent: NamedParent) -> int:
    """Return the newest job of the owner that is meant.

    Cost:  a walk over the owner's jobs in which the event loop takes turns; of most only bytes are compared.
    """
    alive = [(job.id, job.spec) for job in desk.cluster.jobs.values() if job.owner == owner]
    best = max([job for job, data in alive if _is_meant(parent, data)], default=0)
    for page in _ended(desk, owner):
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


def _ended(desk: Desk, owner: str) -> Iterator[_Jobs]:
    """Yield the jobs of the owner that are over, newest first, in pages."""
    before = None
    for _ in range(MOST_SEARCHED // _PAGE):
        page = desk.lookups.archive.ended_jobs(owner=owner, states=(), before=before, limit=_PAGE)
        if not page:
            return
        before = page[-1].id
        yield [(job.id, decode_record(job.record).spec) for job in page]


def _is_meant(parent: NamedParent, data: bytes) -> bool:
    """Whether a description is that of the job; most are told by their bytes."""
    if not parent.by_id:
        return parent.called.encode() in data and decode_spec(data).name == parent.called
    if _ID.encode() not in data:
        return False
    from headnode.core.formats.sss.meaning import id_read_with  # with lxml: only who asks so pays for it

    return id_read_with(decode_spec(data).extensions) == parent.called
