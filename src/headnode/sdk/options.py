"""The options of jobs and tasks by their names in the native form, with the types of their values.

Printed by `make bless` (scripts/sdk_source.py): do not edit.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePath
from typing import Any, Protocol, TypedDict


class NumberedJob(Protocol):
    """A job of the SDK."""

    @property
    def id(self) -> int:
        """Return the number of the job."""


JobReference = int | str | NumberedJob
"""A job by its number, by its name in the same file, or as the SDK has it."""


class TaskOptions(TypedDict, total=False):
    """Options of a task."""

    name: str  # name of the task, for dependencies
    command: str  # command line; in a sweep * is replaced by the value
    sweep: int | str | range  # run once for each number of a range
    type: str  # kind of the task; a task with a sweep is a sweep
    processors: int | str  # processors of each instance
    sockets: int | str  # sockets of each instance
    nodes: int | str  # whole nodes of each instance
    gpus: int | str  # GPUs of each instance
    run_time: str | timedelta  # run time limit of each instance
    depends_on: str | Sequence[str]  # run after all tasks of these names
    work_directory: str | PurePath  # work directory; default: the home directory
    private_directory: (
        bool  # run in a new directory below the work directory or /tmp; it is removed when the task ends
    )
    temporary_directory: bool  # TMPDIR is a new directory on each node, removed when the task ends
    stdin: str | PurePath  # file for standard input
    stdout: str | PurePath  # file for standard output
    stderr: str | PurePath  # file for standard error
    append_stdout: bool  # append to the file for standard output; default: overwrite it
    append_stderr: bool  # append to the file for standard error
    exclusive: bool  # the nodes run no other task
    features: (
        str | Sequence[str | Sequence[str]]
    )  # features that every node of the task must have; a list inside the list: one of them
    lacking: str | Sequence[str]  # features that the nodes must not have
    architecture: str | Sequence[str]  # architecture of the nodes, or several alternatives
    system: str | Sequence[str]  # operating system of the nodes, or several alternatives
    only_nodes: str | Sequence[str]  # use only these nodes
    avoid_nodes: str | Sequence[str]  # do not use these nodes
    node_patterns: str | Sequence[str]  # regular expressions: the whole name of a node matches one of them
    avoid_patterns: str | Sequence[str]  # regular expressions: the name of a node matches none of them
    feature_patterns: (
        str | Sequence[str]
    )  # regular expressions: for each, the node has a feature that matches it
    node_memory: str  # memory that every node of the task must have
    node_disk: str  # disk where tasks write that every node of the task must have
    node_swap: str  # swap that every node of the task must have
    node_virtual: str  # memory and swap together that every node of the task must have
    node_speed: str  # speed that every node of the task must have
    node_processors: int  # processors that every node of the task must have
    sockets_per_node: int  # sockets that every node of the task must have
    cores_per_socket: int  # cores that each socket of every node of the task must have
    threads_per_core: int  # threads that each core of every node of the task must have
    distribution: Mapping[
        str, Any
    ]  # distribution of its processes, or of the instances of a sweep, over nodes
    resource_limits: Mapping[
        str, int | str
    ]  # limits of every process, in place of the job's of the same name
    rerunnable: bool  # may run again after a system failure; default: true
    required_nodes: str | Sequence[str]  # the task needs all of these nodes
    node_group: str  # run on nodes of this group
    group: int  # number of its task group
    valid_exit_codes: int | str | Sequence[int | str]  # exit codes that mean success; else the job's
    fail_job_on_failure: bool  # a failure of this task fails the job
    fail_job_count: int  # how many failed instances fail the job
    storage_base: str  # URL below which paths of its staged files are; else the job's
    transfer_attempts: int  # how often the transfer of a file is tried; else the job's
    credential: str  # name of the owner's credential for storage; else the job's
    script: (
        str  # text of the program, with #! in its first line; the first word of the command line is its name
    )
    stage_in: (
        Mapping[str, str] | Sequence[Mapping[str, Any]]
    )  # files that are copied to the task before it starts
    stage_out: (
        Mapping[str, str] | Sequence[Mapping[str, Any]]
    )  # files that are copied from the task after it has ended
    environment: Mapping[str, str | int]  # environment of the task
    properties: Mapping[str, str | int]  # your own words
    extensions: Mapping[str, str | int]  # properties of another language: kept, without effect


class JobOptions(TypedDict, total=False):
    """Options of a job."""

    name: str  # name of the job
    description: str  # free description of the job
    job_group: str  # job group of the job
    project: str  # project of the job
    template: str  # job template
    priority: str | int  # place in the queue
    run_time: str | timedelta  # run time limit of the job
    minimum_run_time: str | timedelta  # to start earlier, the run time limit may be lowered to this
    processors: int | str  # processors for the whole job; * is calculated from the tasks
    sockets: int | str  # sockets for the whole job; * is calculated from the tasks
    nodes: int | str  # whole nodes for the whole job; * is calculated from the tasks
    gpus: int | str  # GPUs for the whole job; * is calculated from the tasks
    processors_per_gpu: int  # processors that come with each GPU; default: 1
    exclusive: bool  # the nodes run no other job
    single_node: bool  # the whole job runs on one node
    together: bool  # all tasks start at the same time
    run_until_canceled: bool  # keep the resources until the job is canceled
    requested_nodes: str | Sequence[str]  # use only nodes from this list
    excluded_nodes: str | Sequence[str]  # exclude these nodes
    node_groups: str | Sequence[str]  # use only nodes of these groups
    node_group_op: str  # combination of several node groups
    processors_per_node: int | str  # processors that each node must have: a minimum, or minimum-maximum
    memory_per_node: str  # memory that each node must have: a minimum, or minimum - maximum
    process_memory: str  # estimated memory of each process
    held: Mapping[str, str]  # memory, disk and swap of each node that are reserved for the job while it runs
    features: (
        str | Sequence[str | Sequence[str]]
    )  # features that every node of the job must have; a list inside the list: one of them
    lacking: str | Sequence[str]  # features that the nodes must not have
    architecture: str | Sequence[str]  # architecture of the nodes, or several alternatives
    system: str | Sequence[str]  # operating system of the nodes, or several alternatives
    only_nodes: str | Sequence[str]  # use only these nodes
    avoid_nodes: str | Sequence[str]  # do not use these nodes
    node_patterns: str | Sequence[str]  # regular expressions: the whole name of a node matches one of them
    avoid_patterns: str | Sequence[str]  # regular expressions: the name of a node matches none of them
    feature_patterns: (
        str | Sequence[str]
    )  # regular expressions: for each, the node has a feature that matches it
    node_memory: str  # memory that every node of the job must have
    node_disk: str  # disk where tasks write that every node of the job must have
    node_swap: str  # swap that every node of the job must have
    node_virtual: str  # memory and swap together that every node of the job must have
    node_speed: str  # speed that every node of the job must have
    node_processors: int  # processors that every node of the job must have
    sockets_per_node: int  # sockets that every node of the job must have
    cores_per_socket: int  # cores that each socket of every node of the job must have
    threads_per_core: int  # threads that each core of every node of the job must have
    order_by: str | Sequence[str]  # which nodes first
    licences: Mapping[str, int | str] | str | Sequence[str]  # licences of the cluster
    parents: JobReference | Sequence[JobReference]  # start only after these jobs have finished
    after_failure: (
        JobReference | Sequence[JobReference]
    )  # start only after these jobs have failed, or were canceled
    after_exit: (
        JobReference | Sequence[JobReference]
    )  # start only after these jobs have ended, with any result
    after_start: JobReference | Sequence[JobReference]  # start only after these jobs have started
    after_corresponding: (
        JobReference | Sequence[JobReference]
    )  # start each instance of a sweep only after the one of its number in these jobs has finished
    dependencies: (
        str | Sequence[str]
    )  # start only after an element of a job, or some minutes after the start of a job
    any_dependency: bool  # one of the dependencies is enough
    named_parents: Sequence[
        Mapping[str, str]
    ]  # start only after these jobs of the same user, found by name or by the Id of their SSS job object
    singleton: bool  # start only after all jobs of the same name and owner, submitted before, have ended
    hold_until: str | float | datetime | timedelta  # do not start before
    holds: str | Sequence[str]  # names of holds: the job waits until all are released
    end_by: (
        str | float | datetime | timedelta
    )  # latest end of the job: it is canceled if it cannot end by then
    switches: int  # leaf switches above its nodes, at most; 0: any number
    switches_wait: str | timedelta  # how long the job waits for few switches; default: 5m
    contiguous: bool  # the nodes stand beside each other, in the order of their names
    reservation: str  # run only in this reservation of nodes
    signal: str  # signal before the run time limit is over, and how many seconds before it
    suspendable: bool  # the job may be suspended and resumed
    preemptable: bool  # the job may be preempted by jobs of higher priority
    interactive: bool  # interactive: its one program runs in a terminal
    resource_limits: Mapping[str, int | str]  # limits of every process of every task: a number, or soft:hard
    valid_exit_codes: int | str | Sequence[int | str]  # exit codes that mean success
    fail_on_task_failure: bool  # the first failed task fails the job
    fail_dependent_tasks: bool  # a failed task fails those that depend on it
    task_retry_limit: int  # how often a task is retried if its program fails
    storage_base: str  # URL below which paths of staged files are
    transfer_attempts: int  # how often the transfer of a staged file is tried; default: 5
    notify_on_start: bool  # send a notice when the job starts
    notify_on_completion: bool  # send a notice when the job has ended
    email: str  # e-mail address for notices
    run_as: str  # user of the job; only administrators may name another user
    resource: str  # where the job runs: resources with their own schedulers, here, or any
    credential: str  # name of the owner's credential for storage
    group_order: str | Sequence[str]  # order of task groups
    dialect: str  # language from which the job was converted
    environment: Mapping[str, str | int]  # environment of all tasks
    properties: Mapping[str, str | int]  # your own words
    extensions: Mapping[str, str | int]  # properties of another language: kept, without effect


class SingleTaskOptions(JobOptions, total=False):
    """Options of a job with one task."""

    sweep: int | str | range  # run once for each number of a range
    type: str  # kind of the task; a task with a sweep is a sweep
    depends_on: str | Sequence[str]  # run after all tasks of these names
    work_directory: str | PurePath  # work directory; default: the home directory
    private_directory: (
        bool  # run in a new directory below the work directory or /tmp; it is removed when the task ends
    )
    temporary_directory: bool  # TMPDIR is a new directory on each node, removed when the task ends
    stdin: str | PurePath  # file for standard input
    stdout: str | PurePath  # file for standard output
    stderr: str | PurePath  # file for standard error
    append_stdout: bool  # append to the file for standard output; default: overwrite it
    append_stderr: bool  # append to the file for standard error
    distribution: Mapping[
        str, Any
    ]  # distribution of its processes, or of the instances of a sweep, over nodes
    rerunnable: bool  # may run again after a system failure; default: true
    required_nodes: str | Sequence[str]  # the task needs all of these nodes
    node_group: str  # run on nodes of this group
    group: int  # number of its task group
    fail_job_on_failure: bool  # a failure of this task fails the job
    fail_job_count: int  # how many failed instances fail the job
    script: (
        str  # text of the program, with #! in its first line; the first word of the command line is its name
    )
    stage_in: (
        Mapping[str, str] | Sequence[Mapping[str, Any]]
    )  # files that are copied to the task before it starts
    stage_out: (
        Mapping[str, str] | Sequence[Mapping[str, Any]]
    )  # files that are copied from the task after it has ended
