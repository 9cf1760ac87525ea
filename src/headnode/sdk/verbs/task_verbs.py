"""Verbs about tasks, their output, and job groups, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Any, Literal

from headnode.protocol.answers import GroupObject, StoppedGroup, SubmittedGroup
from headnode.protocol.job_answers import (
    InstanceCountsAnswer,
    InstanceCountsRequest,
    ModifiedTask,
    OutputAnswer,
    OutputBytesAnswer,
    ReplacedJob,
    TaskAnswer,
    TasksAnswer,
    TaskStateAnswer,
)
from headnode.protocol.requests import (
    GroupNameRequest,
    ListTasksRequest,
    ModifyTaskRequest,
    ReadOutputRequest,
    ReplaceJobRequest,
    StopGroupRequest,
    StopTaskRequest,
    TaskIdRequest,
)
from headnode.sdk.verbs.verb_methods import verb_of


class TaskVerbs:
    """Verbs about tasks, their output, and job groups."""

    @verb_of(GroupNameRequest)
    def group(self, group: str, *, owner: str | None = None) -> GroupObject:
        """Show the state of a group and the ids of its current jobs.

        For everybody.

        owner: None: the requesting user; `*`: all users
        """

    @verb_of(GroupNameRequest, creates=True)
    def submit_group(
        self, group: str, *, owner: str | None = None, idempotency: str | None = None
    ) -> SubmittedGroup:
        """Submit all created jobs of a group in one step, all or none.

        For its owner, operators, administrators.

        owner: None: the requesting user; `*`: all users
        """

    @verb_of(StopGroupRequest)
    def cancel_group(
        self,
        group: str,
        *,
        owner: str | None = None,
        message: str = "",
        force: bool = False,
        graceful: bool = False,
    ) -> StoppedGroup:
        """Cancel all jobs of a group that have not ended, in one step.

        For its owner, operators, administrators.

        owner: None: the requesting user; `*`: all users
        """

    @verb_of(StopGroupRequest)
    def finish_group(
        self,
        group: str,
        *,
        owner: str | None = None,
        message: str = "",
        force: bool = False,
        graceful: bool = False,
    ) -> StoppedGroup:
        """Finish all jobs of a group that have not ended, in one step.

        For its owner, operators, administrators.

        owner: None: the requesting user; `*`: all users
        """

    @verb_of(ModifyTaskRequest)
    def modify_task(self, job: int, task: int, terms: dict[str, Any]) -> ModifiedTask:
        """Change options of a task, before the job is submitted.

        For its owner, administrators.
        """

    @verb_of(ReplaceJobRequest)
    def replace_job(
        self,
        job: int,
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
    ) -> ReplacedJob:
        """Describe a job anew that was created and never submitted; its number stays.

        For its owner, administrators.

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

    @verb_of(ListTasksRequest)
    def tasks(
        self,
        job: int,
        *,
        after: int = 0,
        limit: int = 1000,
        states: list[str] | None = None,
        expand: int | None = None,
    ) -> TasksAnswer:
        """Show the tasks of a job, or the instances of one of them.

        For everybody.

        after: a task number, or with `expand` an instance
        expand: a task number: its instances instead
        """

    @verb_of(TaskIdRequest)
    def task(self, job: int, task: int, *, instance: int | None = None) -> TaskAnswer:
        """Show a task, or one instance of it, with everything that the user may know.

        For everybody.
        """

    @verb_of(StopTaskRequest)
    def cancel_task(
        self, job: int, task: int, *, instance: int | None = None, message: str = "", force: bool = False
    ) -> TaskStateAnswer:
        """Cancel a task, or one instance of it.

        For its owner, operators, administrators.
        """

    @verb_of(StopTaskRequest)
    def finish_task(
        self, job: int, task: int, *, instance: int | None = None, message: str = "", force: bool = False
    ) -> TaskStateAnswer:
        """Stop a task, or one instance of it, and count running instances as finished.

        For its owner, operators, administrators.
        """

    @verb_of(TaskIdRequest)
    def requeue_task(self, job: int, task: int, *, instance: int | None = None) -> TaskStateAnswer:
        """Run again what has ended of a task, or one instance that runs.

        For its owner, operators, administrators.
        """

    @verb_of(TaskIdRequest)
    def task_output(self, job: int, task: int, *, instance: int | None = None) -> OutputAnswer:
        """Show where the output of a task is. The client reads it with its own rights.

        For everybody.
        """

    @verb_of(ReadOutputRequest)
    def read_output(
        self,
        job: int,
        task: int,
        *,
        instance: int | None = None,
        offset: int = 0,
        limit: int = 262144,
        stream: Literal["captured", "standard_output", "standard_error"] = "captured",
    ) -> OutputBytesAnswer:
        """Read output on its node, with the rights of the job's user.

        For its owner, administrators.

        offset: bytes; negative: from the end
        limit: bytes
        """

    @verb_of(InstanceCountsRequest)
    def instance_counts(self, job: int, task: int, *, parts: int = 1000) -> InstanceCountsAnswer:
        """Divide the instances of a task into parts, and show how many of each are in each state.

        For everybody.

        parts: at most so many
        """
