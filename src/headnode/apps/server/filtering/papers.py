"""A job as a filter gets it, and what a filter has made of it.

What a dialect cannot say is not lost: only what reads differently before and after is taken over.
Source: HPC filters: a filter may change properties of the job, and none of a task.
"""

import asyncio
from typing import Any

import msgspec

from headnode.core.filtering.registration import Form
from headnode.core.formats.live_jobs import Live
from headnode.core.lifecycle.deciding_filters import changes, refuse_changed_tasks
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec

LARGE = 64 * 1024  # bytes of a description that is written and read beside the event loop
ABOUT = "about"  # in JSON: what only the scheduler knows of the job


async def write_paper(spec: JobSpec, live: Live, form: Form, size: int, *, change: bool = False) -> bytes:
    """Return the job in a dialect; `size` is that of its description, in bytes.

    `change`: the job is in the queue or runs already, and this is what it is to be.
    """
    if size > LARGE:
        return await asyncio.to_thread(_written, spec, live, form, change)
    return _written(spec, live, form, change)


def _written(spec: JobSpec, live: Live, form: Form, change: bool) -> bytes:
    from headnode.core.formats import dialects

    if form != "native-json":
        return dialects.write(spec, form, live)[0]
    job: dict[str, Any] = msgspec.json.decode(dialects.write(spec, form)[0])
    about = {
        "id": live.id,
        "owner": live.owner,
        "state": live.phase,
        "submitted": live.submitted,
        "nodes": list(live.nodes),
        "backfilled": live.backfilled,
        "requeues": live.requeues,
        "change": change,
    }
    return msgspec.json.encode(job | {ABOUT: about})


async def changed(spec: JobSpec, before: bytes, after: bytes | None, form: Form) -> JobSpec:
    """Return the description with what a filter has changed from one paper to the other.

    Raises:  BadRequest when the second is no job, has other tasks, or is not there.
    """
    if after is None:
        raise BadRequest(
            code="filter-paper",
            what="the filter removed the job file, or it is not a regular file",
            fix="the filter must write into the file that it was given",
        )
    if before == after:
        return spec
    if len(before) + len(after) > LARGE:
        return await asyncio.to_thread(_merged, spec, before, after, form)
    return _merged(spec, before, after, form)


def _merged(spec: JobSpec, before: bytes, after: bytes, form: Form) -> JobSpec:
    old, new = _read(before, form), _read(after, form)
    refuse_changed_tasks(old, new)
    return msgspec.structs.replace(spec, **{name: getattr(new, name) for name in changes(old, new)})


def _read(paper: bytes, form: Form) -> JobSpec:
    from headnode.core.formats import dialects

    if form == "native-json":
        paper = _without_about(paper)
    language = dialects.dialect_named(form).language
    return dialects.read(paper, dialects.How(language=language)).only_job()


def _without_about(paper: bytes) -> bytes:
    try:
        found = msgspec.json.decode(paper)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(code="filter-paper", what=f"the filter's output is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadRequest(code="filter-paper", what="the filter's output is not a JSON object")
    found.pop(ABOUT, None)
    return msgspec.json.encode(found)
