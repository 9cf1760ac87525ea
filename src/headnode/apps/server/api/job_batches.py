"""Many submissions in one request: those that are accepted are submitted in one step; or all or none."""

import asyncio
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count, islice
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from headnode.apps.server.api.groups import with_parents
from headnode.apps.server.api.job_submission import (
    DescribedJobs,
    create_command,
    note_named,
    read_jobs,
    refuse_too_many,
    refuse_unfit_now,
    source_of,
)
from headnode.apps.server.api.verbs import CREATES, verb, without_frames
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.fidelity import FidelityReport
from headnode.core.model.bounds import NOTE, TASKS_OF_FILE
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import ErrorClass, HeadnodeError, NotAllowed, Refused
from headnode.core.model.job import JobSpec
from headnode.core.model.user import Receipt, User
from headnode.core.state.decide import REPEATED, decide
from headnode.core.state.groups import CreateJobs
from headnode.core.state.job_events import JobCreated
from headnode.core.state.limit_index import SubmissionCounts
from headnode.core.state.permissions import is_other, plain_name
from headnode.protocol import requests as w
from headnode.protocol.job_answers import SubmissionOutcome, SubmissionRefusal, SubmitJobsAnswer

READ_IN_A_TURN: Final = 50  # submissions that are read before other requests have their turn
MAX_TRIES: Final = 3  # others may change the cluster while a request is divided into good and bad

Outcome = int | SubmissionRefusal
"""What became of a submission: how many jobs it made, or why none."""

_outcomes = msgspec.msgpack.Decoder(list[int | tuple[str, str]])


class JobBatch:
    """The submissions of one request, by number from 0: what they describe, or why they are refused."""

    def __init__(self, request: w.SubmitJobsRequest) -> None:
        self._size, self._all_or_none = len(request.submissions), request.all_or_none
        self.described: dict[int, DescribedJobs] = {}
        self._refused: dict[int, SubmissionRefusal] = {}

    def refuse(self, number: int, no: Refused) -> None:
        """Refuse a submission.

        Raises:  `no`, which then names the submission, if the request is for all or none.
        """
        path = ("submissions", number, *no.path)
        if self._all_or_none:
            what = f"submission {number + 1} of {self._size}: {no.what}"
            raise type(no)(code=no.code, what=what, fix=no.fix, path=path)
        self.described.pop(number, None)
        self._refused[number] = _refusal(without_frames(no), path)

    def refuse_unfit(self, context: ServerContext, by: User, numbers: Iterable[int]) -> None:
        """Refuse those of some submissions with jobs that are wrong, or could never run."""
        described = {number: self.described[number].specs for number in numbers if number in self.described}
        try:
            refuse_unfit_now(context, by, *chain.from_iterable(described.values()))
        except Refused:  # it is about one of them: each by itself
            for number, specs in described.items():
                try:
                    refuse_unfit_now(context, by, *specs)
                except Refused as no:
                    self.refuse(number, no)

    def refuse_those_refused_alone(self, context: ServerContext, by: User) -> bool:
        """Refuse each submission that would be refused alone, or that those before it leave no room for.

        Return whether there are any.
        """
        alone, before = replace(by, once=None, expected=None), len(self._refused)
        limits, counted = context.cluster.limit_index, SubmissionCounts()
        for number, described in list(self.described.items()):
            command = create_command(context, alone, described, submit=True)
            try:
                limits.check_events(decide(context.cluster, command, context.now()), counted)
            except Refused as no:
                self.refuse(number, no)
        return len(self._refused) > before

    def command(self, context: ServerContext, by: User) -> CreateJobs:
        """Return the request to submit the jobs of all submissions that are not refused, in one step."""
        links: list[DependencyLink] = []
        sources: dict[int, bytes] = {}
        first = 0
        for each in self.described.values():
            sources[first] = source_of(by, each)
            links += [
                replace(link, child=link.child + first, parent=link.parent + first) for link in each.links
            ]
            first += len(each.specs)
        together = create_command(context, by, DescribedJobs(self.specs(), links, ()), submit=True)
        return replace(together, sources=sources, batch=_packed(self.outcomes()))

    def specs(self) -> list[JobSpec]:
        """Return the jobs of all submissions that are not refused."""
        return [spec for each in self.described.values() for spec in each.specs]

    def outcomes(self) -> list[Outcome]:
        """Return what becomes of each submission."""
        return [
            self._refused[number] if number in self._refused else len(self.described[number].specs)
            for number in range(self._size)
        ]

    def reports(self) -> dict[int, FidelityReport]:
        """Return what is to be reported of submissions."""
        return {number: each.report for number, each in self.described.items() if each.report}


def _packed(outcomes: Sequence[Outcome]) -> bytes:
    plain = [each if isinstance(each, int) else (each.code, each.error_class) for each in outcomes]
    return zlib.compress(msgspec.msgpack.encode(plain))


def _unpacked(batch: bytes) -> list[Outcome]:
    """Return the outcomes in a receipt; of a refusal only code and class are kept."""
    return [
        each
        if isinstance(each, int)
        else SubmissionRefusal(
            code=each[0],
            what="it was refused when this request was carried out first",
            fix="submit it in a request of its own: the answer says why",
            exit_status=ErrorClass(each[1]).exit_status,
            error_class=each[1],
            path=["submissions", number],
        )
        for number, each in enumerate(_outcomes.decode(zlib.decompress(batch)))
    ]


def _refusal(no: HeadnodeError, path: Sequence[str | int]) -> SubmissionRefusal:
    return SubmissionRefusal(
        code=no.code,
        what=no.what[: NOTE.most],
        fix=no.fix[: NOTE.most],
        exit_status=no.exit_status,
        error_class=no.error_class.value,
        path=list(path),
    )


async def _submitted_again(
    context: ServerContext, _by: User, receipt: Receipt, _request: w.SubmitJobsRequest
) -> SubmitJobsAnswer:
    return await _answer(context, _unpacked(receipt.batch), receipt.jobs[0], {}, repeated=True)


@verb(CREATES, again=_submitted_again, adds=True)
async def submit_jobs(context: ServerContext, by: User, request: w.SubmitJobsRequest) -> SubmitJobsAnswer:
    """Submit many jobs in one step: those that are not refused; or all or none."""
    batch = await _read(context, by, request)
    await note_named(context, by, batch.specs())
    made: tuple[object, ...] = ()
    for tries in count(1):
        if not batch.described:
            break
        try:
            made = await context.ask(batch.command(context, by))
            break
        except Refused as no:
            is_about_one = no.code != REPEATED and tries < MAX_TRIES
            if not (is_about_one and batch.refuse_those_refused_alone(context, by)):
                raise
    first = next((event.job for event in made if isinstance(event, JobCreated)), 0)
    answer = await _answer(context, batch.outcomes(), first, batch.reports())
    owners = sorted({plain_name(spec.run_as) for spec in batch.specs() if is_other(by, spec)})
    return replace(answer, owner=", ".join(owners)) if owners else answer


async def _read(context: ServerContext, by: User, request: w.SubmitJobsRequest) -> JobBatch:
    """Return what the submissions describe, or why they are refused.

    Raises:  BadRequest ``too-many-tasks``, ``too-many-jobs``; of a request for all or none what refuses one.
    """
    batch = JobBatch(request)
    jobs, tasks = 0, 0
    for first in range(0, len(request.submissions), READ_IN_A_TURN):
        site = context.site
        numbers = range(first, min(first + READ_IN_A_TURN, len(request.submissions)))
        for number in numbers:
            try:
                described = await read_jobs(context, by, request.submissions[number], site, to_submit=True)
                batch.described[number] = await with_parents(context, by, described)
            except Refused as no:
                batch.refuse(number, no)
        batch.refuse_unfit(context, by, numbers)
        specs = [
            spec for number in numbers if number in batch.described for spec in batch.described[number].specs
        ]
        jobs, tasks = jobs + len(specs), tasks + sum(len(spec.tasks) for spec in specs)
        refuse_too_many(tasks, jobs, TASKS_OF_FILE)
        await asyncio.sleep(0)
    return batch


async def _answer(
    context: ServerContext,
    outcomes: Sequence[Outcome],
    first: int,
    reports: Mapping[int, FidelityReport],
    *,
    repeated: bool = False,
) -> SubmitJobsAnswer:
    """Return the answer when the jobs, whose ids count from `first`, have passed their submission filters."""
    ids = iter(range(first, first + sum(each for each in outcomes if isinstance(each, int))))
    parts = [list(islice(ids, each)) if isinstance(each, int) else [] for each in outcomes]
    jobs = [job for part in parts for job in part]
    failed = {
        job: why for job, why in zip(jobs, await context.submission_chain.messages(jobs), strict=True) if why
    }
    results = [
        SubmissionOutcome(refused=each)
        if isinstance(each, SubmissionRefusal)
        else _result(number, part, reports.get(number), failed)
        for number, (each, part) in enumerate(zip(outcomes, parts, strict=True))
    ]
    return SubmitJobsAnswer(results, jobs, repeated=True if repeated else UNSET)


def _result(
    number: int, jobs: list[int], report: FidelityReport | None, failed: Mapping[int, str]
) -> SubmissionOutcome:
    outcome = SubmissionOutcome(job=jobs[-1], jobs=jobs if len(jobs) > 1 else UNSET, report=report or UNSET)
    refused = [job for job in jobs if job in failed]
    if not refused:
        return outcome
    no = NotAllowed(
        code="submission-filter",
        what="; ".join(f"job {job} failed: {failed[job]}" for job in refused[:5]),
        fix=f"change that, and submit a copy: hn job clone {refused[0]}",
    )
    return replace(outcome, refused=_refusal(no, ("submissions", number)))
