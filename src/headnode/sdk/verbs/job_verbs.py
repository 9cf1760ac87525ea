"""Verbs that make and change jobs, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Any, Literal

from headnode.protocol.answers import (
    AddTasksAnswer,
    JobAnswer,
    JobFileAnswer,
    JobIdAnswer,
    JobStateAnswer,
    ModifiedJob,
    RequeuedJob,
    SubmitAnswer,
)
from headnode.protocol.job_answers import (
    EndAllocationRequest,
    HoldJobRequest,
    HoldsAnswer,
    ReleaseJobRequest,
    SignalJobAnswer,
    SignalJobRequest,
    SubmitJobsAnswer,
    TaskStateAnswer,
)
from headnode.protocol.requests import (
    AddTasksRequest,
    CreateJobRequest,
    ExportJobRequest,
    HoldTaskRequest,
    JobIdRequest,
    ModifyJobRequest,
    SetProgressRequest,
    StopJobRequest,
    SubmitJobRequest,
    SubmitJobsRequest,
    TaskIdRequest,
)
from headnode.sdk.verbs.verb_methods import verb_of


class JobVerbs:
    """Verbs that make and change jobs."""

    @verb_of(CreateJobRequest, creates=True)
    def create_job(
        self,
        *,
        jobfile: str | None = None,
        files: dict[str, str] | None = None,
        values: dict[str, str] | None = None,
        dialect: str | None = None,
        script: list[str] | None = None,
        options: list[str] | None = None,
        directory: str = "",
        environment: dict[str, str] | None = None,
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
        script: name and arguments of a batch script
        options: of the command line of sbatch or qsub; they override those of the script
        directory: where a batch script is submitted
        environment: variables of the shell, for a batch script that asks for them
        lenient: repair what can be repaired
        terms: options; they override the file
        tasks: a list of task terms
        strict: refuse what the language does not allow
        awareness: reject, warn or ignore
        """

    @verb_of(SubmitJobRequest, creates=True)
    def submit_job(
        self,
        *,
        jobfile: str | None = None,
        files: dict[str, str] | None = None,
        values: dict[str, str] | None = None,
        dialect: str | None = None,
        script: list[str] | None = None,
        options: list[str] | None = None,
        directory: str = "",
        environment: dict[str, str] | None = None,
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
        script: name and arguments of a batch script
        options: of the command line of sbatch or qsub; they override those of the script
        directory: where a batch script is submitted
        environment: variables of the shell, for a batch script that asks for them
        lenient: repair what can be repaired
        terms: options; they override the file
        tasks: a list of task terms
        strict: refuse what the language does not allow
        awareness: reject, warn or ignore
        job: an id that was created
        """

    @verb_of(AddTasksRequest, creates=True)
    def add_tasks(
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

    @verb_of(ModifyJobRequest)
    def modify_job(self, job: int, terms: dict[str, Any]) -> ModifiedJob:
        """Change options of a job.

        For its owner, operators, administrators.
        """

    @verb_of(SetProgressRequest)
    def set_progress(
        self, job: int, *, percent: int | None = None, message: str | None = None
    ) -> JobIdAnswer:
        """Set the progress of a job.

        For its owner, operators, administrators.

        percent: 0 to 100
        """

    @verb_of(StopJobRequest)
    def cancel_job(
        self, job: int, *, message: str = "", force: bool = False, graceful: bool = False
    ) -> JobStateAnswer:
        """Cancel a job.

        For its owner, operators, administrators.
        """

    @verb_of(StopJobRequest)
    def finish_job(
        self, job: int, *, message: str = "", force: bool = False, graceful: bool = False
    ) -> JobStateAnswer:
        """Finish a job.

        For its owner, operators, administrators.
        """

    @verb_of(JobIdRequest)
    def requeue_job(self, job: int) -> RequeuedJob:
        """Run a job again, except for what has finished.

        For its owner, operators, administrators.
        """

    @verb_of(JobIdRequest, creates=True)
    def clone_job(self, job: int, *, idempotency: str | None = None) -> SubmitAnswer:
        """Make a copy of a job, in state configuring. The report says what was left out.

        For everybody.
        """

    @verb_of(JobIdRequest)
    def job(self, job: int) -> JobAnswer:
        """Show a job with everything that the user may know of it.

        For everybody.
        """

    @verb_of(ExportJobRequest)
    def export_job(self, job: int, *, dialect: str | None = None) -> JobFileAnswer:
        """Write a job in one of the dialects, or show the file that it was read from.

        For everybody.

        dialect: one of [every job language](../job-languages.md); `submitted`: its own file
        """

    @verb_of(SubmitJobsRequest, creates=True)
    def submit_jobs(
        self,
        submissions: list[CreateJobRequest],
        *,
        all_or_none: bool = False,
        idempotency: str | None = None,
    ) -> SubmitJobsAnswer:
        """Submit many jobs in one step: those that are not refused; or all or none.

        For everybody.

        submissions: each as in submit_job
        all_or_none: if one is refused, none is carried out
        """

    @verb_of(JobIdRequest)
    def suspend_job(self, job: int) -> JobStateAnswer:
        """Stop the processes of a running job, and release its processors.

        For its owner, operators, administrators.
        """

    @verb_of(JobIdRequest)
    def resume_job(self, job: int) -> JobStateAnswer:
        """Let a suspended job go on when its processors are free.

        For its owner, operators, administrators.
        """

    @verb_of(HoldJobRequest)
    def hold_job(
        self, job: int, *, name: str = "user", message: str = "", requeue: bool = False
    ) -> HoldsAnswer:
        """Keep a job from starting until the hold is released; with `requeue` also a running job.

        For its owner, operators, administrators.

        name: of the hold
        requeue: a running job is stopped and goes back to the queue
        """

    @verb_of(ReleaseJobRequest)
    def release_job(self, job: int, *, name: str = "user", all: bool = False) -> HoldsAnswer:
        """Release a hold of a job, or all of them; return those that are left.

        For its owner, operators, administrators.

        name: of the hold
        all: every hold
        """

    @verb_of(HoldTaskRequest)
    def hold_task(
        self, job: int, task: int, *, instance: int | None = None, requeue: bool = False
    ) -> TaskStateAnswer:
        """Keep queued instances of a task from starting; with `requeue` also those that run.

        For its owner, operators, administrators.

        requeue: also instances that run: they are stopped and go back to the queue
        """

    @verb_of(TaskIdRequest)
    def release_task(self, job: int, task: int, *, instance: int | None = None) -> TaskStateAnswer:
        """Release held instances of a task.

        For its owner, operators, administrators.
        """

    @verb_of(EndAllocationRequest)
    def end_allocation(self, job: int, exit_code: int) -> JobStateAnswer:
        """End an allocation after its command; with an exit code other than 0 the job has failed.

        For its owner, operators, administrators.

        exit_code: of its command; 128 and more: the signal that ended it
        """

    @verb_of(SignalJobRequest)
    def signal_job(
        self,
        job: int,
        signal: str,
        *,
        target: Literal["all", "program", "steps"] = "all",
        task: int | None = None,
        instance: int | None = None,
    ) -> SignalJobAnswer:
        """Send a signal to the processes of a running job.

        For its owner, operators, administrators.

        signal: a name or a number: USR1, 10
        target: which processes; program: the first of a task; steps: of `srun`
        task: its running instances; None: all tasks
        instance: this one
        """
