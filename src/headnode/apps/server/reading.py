"""From what a client sends to a job description, with the report on what became of each word."""

import asyncio
from typing import Any

import msgspec

from headnode.apps.server.not_yet import not_acted_on
from headnode.apps.server.wishes import CreateWish
from headnode.core.formats.fidelity import Item, honour, parse_awareness
from headnode.core.formats.terms import read_terms
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant

LARGE = 16_384  # characters of job files that are read beside the event loop


async def read_job(wish: CreateWish, now: Instant) -> tuple[JobSpec, tuple[Item, ...]]:
    """Return the description that a client means: a job file, changed and added to by options.

    Raises:  BadRequest, with line and column for a job file.
    """
    spec: JobSpec | None = None
    report: tuple[Item, ...] = ()
    if wish.jobfile is not None:
        read = _read_file
        if len(wish.jobfile) + sum(map(len, wish.files.values())) > LARGE:
            spec, report = await asyncio.to_thread(read, wish.jobfile, wish)
        else:
            spec, report = read(wish.jobfile, wish)
    if spec is None or wish.terms or wish.tasks:
        spec = read_terms(wish.terms, wish.tasks, spec, now=now)
    return spec, report + honour(parse_awareness(wish.awareness), not_acted_on(spec))


def _read_file(text: str, wish: CreateWish) -> tuple[JobSpec, tuple[Item, ...]]:
    from headnode.core.formats import dialects  # a head that reads no job files does without

    how = dialects.How(
        awareness=parse_awareness(wish.awareness),
        strict=wish.strict,
        lenient=wish.lenient,
        language=dialects.dialect_named(wish.dialect).language if wish.dialect else None,
        files={name: said.encode() for name, said in wish.files.items()},
    )
    reading = dialects.read(text, how)
    return reading.only_job(), reading.report


def report_json(report: tuple[Item, ...]) -> Any:
    """Return a fidelity report as clients get it."""
    return msgspec.to_builtins(report)
