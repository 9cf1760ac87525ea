"""From what a client sends to a job description, with the report on what became of each word."""

import asyncio
from typing import Any

import msgspec

from headnode.apps.server.desk import Desk
from headnode.apps.server.not_yet import not_acted_on
from headnode.apps.server.several_jobs import Described
from headnode.apps.server.wishes import CreateWish
from headnode.core.formats.fidelity import Item, honour, parse_awareness
from headnode.core.formats.terms import read_terms
from headnode.core.model.bounds import JOBS, TASKS, TASKS_OF_FILE, Bound
from headnode.core.model.errors import BadRequest
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User

LARGE = 16_384  # characters of job files that are read beside the event loop


async def read_jobs(desk: Desk, by: User, wish: CreateWish) -> Described:
    """Return the descriptions that a client means: a job file, changed and added to by options.

    A job that is for a cluster of another name is refused.
    Raises:  BadRequest, with line and column for a job file.
    """
    now, site = desk.now(), desk.site
    refuse_crowd(len(wish.tasks))
    if wish.jobfile is None:
        described = Described([read_terms(wish.terms, wish.tasks, None, now=now)], (), ())
    elif len(wish.jobfile) + sum(map(len, wish.files.values())) > LARGE:
        async with desk.reading:  # reading takes many times the memory of the text
            described = await asyncio.to_thread(_read_file, wish.jobfile, wish, site.name, by.name)
    else:
        described = _read_file(wish.jobfile, wish, site.name, by.name)
    bound = TASKS if wish.jobfile is None else TASKS_OF_FILE
    refuse_crowd(sum(len(spec.tasks) for spec in described.specs), len(described.specs), bound)
    if wish.jobfile is not None and (wish.terms or wish.tasks):
        specs = [read_terms(wish.terms, wish.tasks, spec, now=now) for spec in described.specs]
        described = described._replace(specs=specs)
    policy = described.awareness or parse_awareness(wish.awareness)
    kept = [item for spec in described.specs for item in not_acted_on(spec, site)]
    return described._replace(report=described.report + honour(policy, dict.fromkeys(kept)))


def refuse_crowd(tasks: int, jobs: int = 1, bound: Bound = TASKS) -> None:
    """Refuse more tasks, or jobs, than one request may have.

    Raises:  BadRequest ``too-many-tasks`` or ``too-many-jobs``.
    """
    if tasks > bound.most:
        raise BadRequest(
            code="too-many-tasks",
            what=f"the request has {tasks:,} tasks; the limit is {bound} in a request",
            fix="write repetitions as a sweep, or make the job with some tasks, add the others in further "
            "requests, and submit it then: hn job new, hn job add, hn job submit /id:ID",
        )
    if jobs > JOBS.most:
        raise BadRequest(
            code="too-many-jobs",
            what=f"the request has {jobs:,} jobs, and {JOBS} are possible at once",
            fix="divide it into several files",
        )


async def tasks_in(text: str) -> tuple[TaskSpec, ...]:
    """Return the tasks of a file with one job, or with a Task element alone.

    Raises:  BadRequest as `read_jobs` does, and when the file describes several jobs.
    """
    from headnode.core.formats import dialects

    read = dialects.read
    reading = await asyncio.to_thread(read, text) if len(text) > LARGE else read(text)
    return reading.only_job().tasks


def _read_file(text: str, wish: CreateWish, machine: str, user: str) -> Described:
    from headnode.core.formats import dialects  # a head that reads no job files does without

    how = dialects.How(
        awareness=parse_awareness(wish.awareness),
        strict=wish.strict,
        lenient=wish.lenient,
        language=dialects.dialect_named(wish.dialect).language if wish.dialect else None,
        files={name: said.encode() for name, said in wish.files.items()},
        values=wish.values,
        machine=machine,
        user=user,
    )
    reading = dialects.read(text, how)
    if not reading.jobs:
        raise BadRequest(
            code="no-jobs",
            what="the job file has no job of its own, only references to others",
            fix="write a Job",
        )
    return Described(reading.jobs, reading.links, reading.report, reading.awareness)


def report_json(report: tuple[Item, ...]) -> Any:
    """Return a fidelity report as clients get it."""
    return msgspec.to_builtins(report)
