"""From what a client sends to a job description, with the report on what became of each word."""

import asyncio
from typing import Any

import msgspec

from headnode.apps.server.not_yet import Site, not_acted_on
from headnode.apps.server.several_jobs import Described
from headnode.apps.server.wishes import CreateWish
from headnode.core.formats.fidelity import Item, honour, parse_awareness
from headnode.core.formats.terms import read_terms
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant

LARGE = 16_384  # characters of job files that are read beside the event loop


async def read_jobs(wish: CreateWish, now: Instant, site: Site) -> Described:
    """Return the descriptions that a client means: a job file, changed and added to by options.

    A job that is for a cluster of another name is refused.
    Raises:  BadRequest, with line and column for a job file.
    """
    if wish.jobfile is None:
        described = Described([read_terms(wish.terms, wish.tasks, None, now=now)], (), ())
    elif len(wish.jobfile) + sum(map(len, wish.files.values())) > LARGE:
        described = await asyncio.to_thread(_read_file, wish.jobfile, wish, site.name)
    else:
        described = _read_file(wish.jobfile, wish, site.name)
    if wish.jobfile is not None and (wish.terms or wish.tasks):
        specs = [read_terms(wish.terms, wish.tasks, spec, now=now) for spec in described.specs]
        described = described._replace(specs=specs)
    policy = parse_awareness(wish.awareness)
    kept = [item for spec in described.specs for item in not_acted_on(spec, site)]
    return described._replace(report=described.report + honour(policy, dict.fromkeys(kept)))


def _read_file(text: str, wish: CreateWish, machine: str) -> Described:
    from headnode.core.formats import dialects  # a head that reads no job files does without

    how = dialects.How(
        awareness=parse_awareness(wish.awareness),
        strict=wish.strict,
        lenient=wish.lenient,
        language=dialects.dialect_named(wish.dialect).language if wish.dialect else None,
        files={name: said.encode() for name, said in wish.files.items()},
        machine=machine,
    )
    reading = dialects.read(text, how)
    if not reading.jobs:
        raise BadRequest(
            code="no-jobs",
            what="the job file holds no job: all of it is defined elsewhere",
            fix="write a Job",
        )
    return Described(reading.jobs, reading.links, reading.report)


def report_json(report: tuple[Item, ...]) -> Any:
    """Return a fidelity report as clients get it."""
    return msgspec.to_builtins(report)
