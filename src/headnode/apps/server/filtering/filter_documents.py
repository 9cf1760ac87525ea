"""Calls of filters: the job as a document that a filter gets, and what the filter has changed in it.

What a dialect cannot say is not lost: only what reads differently before and after is taken over.
Source: HPC filters: a filter may change properties of the job, and none of a task.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headnode.core import filtering
from headnode.core.filtering import (
    CallOutcome,
    FilterAnswer,
    FilterDialect,
    FilterKind,
    FilterOffer,
    FilterRequest,
    FilterReturn,
)
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.state.filters import changes, refuse_changed_tasks

if TYPE_CHECKING:
    from headnode.adapters.filters.plug_ins import PlugIn
    from headnode.adapters.filters.programs import Programs
    from headnode.core.formats.job_views import ExportedJob

log = logging.getLogger("headnode.filters")

LARGE_DOCUMENT = 64 * 1024  # bytes of a description that is written and read beside the event loop
ABOUT = "about"  # in JSON: what only the scheduler knows of the job


async def write_document(
    spec: JobSpec, live: "ExportedJob", form: FilterDialect, size: int, *, change: bool = False
) -> bytes:
    """Return the job in a dialect; `size` is that of its description, in bytes.

    `change`: the job is in the queue or runs already, and this is what it is to be.
    """
    if size > LARGE_DOCUMENT:
        return await asyncio.to_thread(_written, spec, live, form, change)
    return _written(spec, live, form, change)


def _written(spec: JobSpec, live: "ExportedJob", form: FilterDialect, change: bool) -> bytes:
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


async def changed_spec(spec: JobSpec, before: bytes, after: bytes | None, form: FilterDialect) -> JobSpec:
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
    if len(before) + len(after) > LARGE_DOCUMENT:
        return await asyncio.to_thread(_merged, spec, before, after, form)
    return _merged(spec, before, after, form)


def _merged(spec: JobSpec, before: bytes, after: bytes, form: FilterDialect) -> JobSpec:
    old, new = read_document(before, form), read_document(after, form)
    refuse_changed_tasks(old, new)
    return msgspec.structs.replace(spec, **{name: getattr(new, name) for name in changes(old, new)})


def read_document(paper: bytes, form: FilterDialect) -> JobSpec:
    """Return the description in a document.

    Raises:  BadRequest when it is no job.
    """
    from headnode.core.formats import dialects

    if form == "native-json":
        paper = _without_about(paper)
    language = dialects.dialect_named(form).language
    return dialects.read(paper, dialects.ReadOptions(language=language)).only_job()


def _without_about(paper: bytes) -> bytes:
    try:
        document = msgspec.json.decode(paper)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(code="filter-paper", what=f"the filter's output is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise BadRequest(code="filter-paper", what="the filter's output is not a JSON object")
    document.pop(ABOUT, None)
    return msgspec.json.encode(document)


class FilterCaller:
    """Calls filters for the whole head."""

    def __init__(self, state: Path, cluster: str) -> None:
        self._papers, self._data = state / "filter-papers", state / "filter-data"
        self._environment = dict(os.environ) | {"CCP_SCHEDULER": cluster, "CCP_HOME": sys.prefix}
        self._programs: Programs | None = None  # until the first call
        self._plug_ins: dict[str, PlugIn] = {}
        self.bank: Callable[[FilterRequest], Awaitable[FilterReturn]] | None = None

    async def call(self, call: FilterRequest) -> FilterReturn:
        """Call one filter; one that cannot be run now, as on a full disk, counts as missing."""
        try:
            return await self._called(call)
        except OSError as error:
            log.error("filter %r could not be run for job %d: %s", call.filter.name, call.job, error)
            return FilterReturn(FilterAnswer(CallOutcome.MISSING, words=str(error)), call.paper)

    async def _called(self, call: FilterRequest) -> FilterReturn:
        """Call one filter.

        Raises:  OSError.
        """
        if call.filter == filtering.BANK_FILTER and self.bank is not None:
            return await self.bank(call)
        if self._programs is None:
            self._programs = self._prepared()
        name = call.filter.plug_in
        if not name:
            return await self._programs.call(call)
        plug_in = self._plug_ins.get(name)
        if plug_in is None:
            plug_in = self._plug_ins[name] = self._plug_in(name)
        return await plug_in.call(call)

    def _prepared(self) -> "Programs":
        """Return what calls programs; imported with the first filter."""
        from headnode.adapters.filters.programs import Programs

        programs = Programs(self._papers, self._data, self._environment)
        programs.prepare()
        return programs

    def _plug_in(self, name: str) -> "PlugIn":
        from headnode.adapters.filters.plug_ins import PlugIn

        return PlugIn(name, self._data, self._environment)

    async def undo(
        self,
        calls: Sequence[filtering.FilterCall],
        job: int,
        seconds: float,
        offered: FilterOffer | None = None,
        *,
        change: bool = False,
    ) -> None:
        """Call filters again so that they undo what they did, in this order; what they answer is nothing.

        `offered` is what activation filters were asked about; None: they are submission filters, asked about
        a submission or, with `change`, about the change of a job.
        """
        kind: FilterKind = "revert-submission" if offered is None else "revert-activation"
        for each in calls:
            await self.call(FilterRequest(each.filter, kind, job, each.paper, seconds, offered, change))

    async def close(self) -> None:
        """End everything that runs."""
        if self._programs is not None:
            await self._programs.close()
        await asyncio.gather(*(each.close() for each in self._plug_ins.values()))
