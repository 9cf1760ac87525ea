"""Verbs that make and change jobs, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Any

from headnode.protocol.answers import (
    AddTasksAnswer,
    HoldsAnswer,
    JobAnswer,
    JobFileAnswer,
    JobIdAnswer,
    JobStateAnswer,
    ModifiedJob,
    RequeuedJob,
    SubmitAnswer,
)
from headnode.protocol.requests import (
    AddTasksRequest,
    CreateJobRequest,
    ExportJobRequest,
    HoldJobRequest,
    JobIdRequest,
    ModifyJobRequest,
    ReleaseJobRequest,
    SetProgressRequest,
    StopJobRequest,
    SubmitJobRequest,
)
from headnode.sdk.asynchronous.verb_calls import AsyncVerbCalls, new_key


class AsyncJobVerbs(AsyncVerbCalls):
    """Verbs that make and change jobs."""

    async def create_job(
        self,
        *,
        jobfile: str | None = None,
        files: dict[str, str] | None = None,
        values: dict[str, str] | None = None,
        dialect: str | None = None,
        lenient: bool = False,
        terms: dict[str, Any] | None = None,
        tasks: list[dict[str, Any]] | None = None,
        strict: bool = False,
        awareness: str = "warn",
        idempotency: str | None = None,
    ) -> SubmitAnswer:
        """Create a job in state configuring, or all jobs of a job file.

        For everybody.

        jobfile: the text of a job file
        files: {name: text} of the files that it names
        values: {name: value} put in for `{name}` in a grid file
        dialect: its language; None: recognized by its content
        lenient: repair what can be repaired
        terms: options; they override the file
        tasks: a list of task terms
        strict: refuse what the language does not allow
        awareness: reject, warn or ignore
        """
        return await self._ask(
            "create_job",
            CreateJobRequest(
                jobfile=jobfile,
                files=files or {},
                values=values or {},
                dialect=dialect,
                lenient=lenient,
                terms=terms or {},
                tasks=tasks or [],
                strict=strict,
                awareness=awareness,
            ),
            SubmitAnswer,
            idempotency or new_key(),
        )

    async def submit_job(
        self,
        *,
        jobfile: str | None = None,
        files: dict[str, str] | None = None,
        values: dict[str, str] | None = None,
        dialect: str | None = None,
        lenient: bool = False,
        terms: dict[str, Any] | None = None,
        tasks: list[dict[str, Any]] | None = None,
        strict: bool = False,
        awareness: str = "warn",
        job: int | None = None,
        idempotency: str | None = None,
    ) -> SubmitAnswer:
        """Put a job into the queue: a created one, or a new one, or all jobs of a job file, all or none.

        For everybody.

        jobfile: the text of a job file
        files: {name: text} of the files that it names
        values: {name: value} put in for `{name}` in a grid file
        dialect: its language; None: recognized by its content
        lenient: repair what can be repaired
        terms: options; they override the file
        tasks: a list of task terms
        strict: refuse what the language does not allow
        awareness: reject, warn or ignore
        job: an id that was created
        """
        return await self._ask(
            "submit_job",
            SubmitJobRequest(
                jobfile=jobfile,
                files=files or {},
                values=values or {},
                dialect=dialect,
                lenient=lenient,
                terms=terms or {},
                tasks=tasks or [],
                strict=strict,
                awareness=awareness,
                job=job,
            ),
            SubmitAnswer,
            idempotency or new_key(),
        )

    async def add_tasks(
        self,
        job: int,
        *,
        tasks: list[dict[str, Any]] | None = None,
        jobfile: str | None = None,
        idempotency: str | None = None,
    ) -> AddTasksAnswer:
        """Add tasks at the end of a job's task list.

        For its owner, administrators.

        tasks: a list of task terms, at most 3,000 at once
        jobfile: a file with a Task, or with one job
        """
        return await self._ask(
            "add_tasks",
            AddTasksRequest(job=job, tasks=tasks or [], jobfile=jobfile),
            AddTasksAnswer,
            idempotency or new_key(),
        )

    async def modify_job(self, job: int, terms: dict[str, Any]) -> ModifiedJob:
        """Change options of a job.

        For its owner, operators, administrators.
        """
        return await self._ask("modify_job", ModifyJobRequest(job=job, terms=terms), ModifiedJob)

    async def set_progress(
        self, job: int, *, percent: int | None = None, message: str | None = None
    ) -> JobIdAnswer:
        """Set the progress of a job.

        For its owner, operators, administrators.

        percent: 0 to 100
        """
        return await self._ask(
            "set_progress", SetProgressRequest(job=job, percent=percent, message=message), JobIdAnswer
        )

    async def cancel_job(
        self, job: int, *, message: str = "", force: bool = False, graceful: bool = False
    ) -> JobStateAnswer:
        """Cancel a job.

        For its owner, operators, administrators.
        """
        return await self._ask(
            "cancel_job",
            StopJobRequest(job=job, message=message, force=force, graceful=graceful),
            JobStateAnswer,
        )

    async def finish_job(
        self, job: int, *, message: str = "", force: bool = False, graceful: bool = False
    ) -> JobStateAnswer:
        """Finish a job.

        For its owner, operators, administrators.
        """
        return await self._ask(
            "finish_job",
            StopJobRequest(job=job, message=message, force=force, graceful=graceful),
            JobStateAnswer,
        )

    async def requeue_job(self, job: int) -> RequeuedJob:
        """Run a job again, except for what has finished.

        For its owner, operators, administrators.
        """
        return await self._ask("requeue_job", JobIdRequest(job=job), RequeuedJob)

    async def clone_job(self, job: int, *, idempotency: str | None = None) -> SubmitAnswer:
        """Make a copy of a job, in state configuring. The report says what was left out.

        For everybody.
        """
        return await self._ask("clone_job", JobIdRequest(job=job), SubmitAnswer, idempotency or new_key())

    async def job(self, job: int) -> JobAnswer:
        """Show a job with everything that the user may know of it.

        For everybody.
        """
        return await self._ask("job", JobIdRequest(job=job), JobAnswer)

    async def export_job(self, job: int, *, dialect: str | None = None) -> JobFileAnswer:
        """Write a job in one of the dialects.

        For everybody.

        dialect: one of [every job language](../job-languages.md)
        """
        return await self._ask("export_job", ExportJobRequest(job=job, dialect=dialect), JobFileAnswer)

    async def suspend_job(self, job: int) -> JobStateAnswer:
        """Stop the processes of a running job, and release its processors.

        For its owner, operators, administrators.
        """
        return await self._ask("suspend_job", JobIdRequest(job=job), JobStateAnswer)

    async def resume_job(self, job: int) -> JobStateAnswer:
        """Let a suspended job go on when its processors are free.

        For its owner, operators, administrators.
        """
        return await self._ask("resume_job", JobIdRequest(job=job), JobStateAnswer)

    async def hold_job(self, job: int, *, name: str = "user", message: str = "") -> HoldsAnswer:
        """Keep a job from starting until the hold is released.

        For its owner, operators, administrators.

        name: of the hold
        """
        return await self._ask("hold_job", HoldJobRequest(job=job, name=name, message=message), HoldsAnswer)

    async def release_job(self, job: int, *, name: str = "user", all: bool = False) -> HoldsAnswer:
        """Release a hold of a job, or all of them; return those that are left.

        For its owner, operators, administrators.

        name: of the hold
        all: every hold
        """
        return await self._ask("release_job", ReleaseJobRequest(job=job, name=name, all=all), HoldsAnswer)
