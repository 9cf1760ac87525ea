"""Verbs about tasks, their output, and job groups, as methods.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from typing import Any, Literal

from headnode.protocol.answers import (
    GroupObject,
    ModifiedTask,
    StoppedGroup,
    SubmittedGroup,
    TaskAnswer,
    TasksAnswer,
    TaskStateAnswer,
)
from headnode.protocol.requests import (
    GroupNameRequest,
    ListTasksRequest,
    ModifyTaskRequest,
    ReadOutputRequest,
    StopGroupRequest,
    StopTaskRequest,
    TaskIdRequest,
)
from headnode.protocol.task_answers import (
    InstanceCountsAnswer,
    InstanceCountsRequest,
    OutputAnswer,
    OutputBytesAnswer,
)
from headnode.sdk.synchronous.verb_calls import VerbCalls, new_key


class TaskVerbs(VerbCalls):
    """Verbs about tasks, their output, and job groups."""

    def group(self, group: str, *, owner: str | None = None) -> GroupObject:
        """Show the state of a group and the ids of its current jobs.

        For everybody.

        owner: None: the requesting user; `*`: all users
        """
        return self._ask("group", GroupNameRequest(group=group, owner=owner), GroupObject)

    def submit_group(
        self, group: str, *, owner: str | None = None, idempotency: str | None = None
    ) -> SubmittedGroup:
        """Submit all created jobs of a group in one step, all or none.

        For its owner, operators, administrators.

        owner: None: the requesting user; `*`: all users
        """
        return self._ask(
            "submit_group",
            GroupNameRequest(group=group, owner=owner),
            SubmittedGroup,
            idempotency or new_key(),
        )

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
        return self._ask(
            "cancel_group",
            StopGroupRequest(group=group, owner=owner, message=message, force=force, graceful=graceful),
            StoppedGroup,
        )

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
        return self._ask(
            "finish_group",
            StopGroupRequest(group=group, owner=owner, message=message, force=force, graceful=graceful),
            StoppedGroup,
        )

    def modify_task(self, job: int, task: int, terms: dict[str, Any]) -> ModifiedTask:
        """Change options of a task, before the job is submitted.

        For its owner, administrators.
        """
        return self._ask("modify_task", ModifyTaskRequest(job=job, task=task, terms=terms), ModifiedTask)

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
        return self._ask(
            "tasks",
            ListTasksRequest(job=job, after=after, limit=limit, states=states or [], expand=expand),
            TasksAnswer,
        )

    def task(self, job: int, task: int, *, instance: int | None = None) -> TaskAnswer:
        """Show a task, or one instance of it, with everything that the user may know.

        For everybody.
        """
        return self._ask("task", TaskIdRequest(job=job, task=task, instance=instance), TaskAnswer)

    def cancel_task(
        self, job: int, task: int, *, instance: int | None = None, message: str = "", force: bool = False
    ) -> TaskStateAnswer:
        """Cancel a task, or one instance of it.

        For its owner, operators, administrators.
        """
        return self._ask(
            "cancel_task",
            StopTaskRequest(job=job, task=task, instance=instance, message=message, force=force),
            TaskStateAnswer,
        )

    def finish_task(
        self, job: int, task: int, *, instance: int | None = None, message: str = "", force: bool = False
    ) -> TaskStateAnswer:
        """Stop a task, or one instance of it, and count running instances as finished.

        For its owner, operators, administrators.
        """
        return self._ask(
            "finish_task",
            StopTaskRequest(job=job, task=task, instance=instance, message=message, force=force),
            TaskStateAnswer,
        )

    def requeue_task(self, job: int, task: int, *, instance: int | None = None) -> TaskStateAnswer:
        """Run a task that has ended again.

        For its owner, operators, administrators.
        """
        return self._ask(
            "requeue_task", TaskIdRequest(job=job, task=task, instance=instance), TaskStateAnswer
        )

    def task_output(self, job: int, task: int, *, instance: int | None = None) -> OutputAnswer:
        """Show where the output of a task is. The client reads it with its own rights.

        For everybody.
        """
        return self._ask("task_output", TaskIdRequest(job=job, task=task, instance=instance), OutputAnswer)

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
        return self._ask(
            "read_output",
            ReadOutputRequest(
                job=job, task=task, instance=instance, offset=offset, limit=limit, stream=stream
            ),
            OutputBytesAnswer,
        )

    def instance_counts(self, job: int, task: int, *, parts: int = 1000) -> InstanceCountsAnswer:
        """Divide the instances of a task into parts, and show how many of each are in each state.

        For everybody.

        parts: at most so many
        """
        return self._ask(
            "instance_counts", InstanceCountsRequest(job=job, task=task, parts=parts), InstanceCountsAnswer
        )
