"""What only the scheduler knows of a job, for exports of real jobs in every language."""

from collections.abc import Mapping

import msgspec

from headnode.core.lifecycle.states import JobState, TaskState
from headnode.core.model.quantities import Instant, Seconds


class LiveInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of a task that has started."""

    nodes: tuple[str, ...] = ()
    started: Instant | None = None
    ended: Instant | None = None
    exit_code: int | None = None


class LiveTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a real job.  Times are None while they have not come.

    `instances` are those of a sweep that have started, by number; `all_listed` is False if there are more.
    """

    state: TaskState = TaskState.CONFIGURING
    exit_code: int | None = None
    message: str = ""
    nodes: tuple[str, ...] = ()
    created: Instant | None = None
    submitted: Instant | None = None
    started: Instant | None = None
    ended: Instant | None = None
    requeues: int = 0
    pending_reason: str = ""
    instances: Mapping[int, LiveInstance] = {}
    all_listed: bool = True


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was given and used: of processors the most at a time; memory in MB, of its largest task."""

    processors: int = 0
    nodes: int = 0
    processor_seconds: Seconds | None = None
    wall_seconds: Seconds | None = None
    memory_average: int | None = None
    memory_maximum: int | None = None
    exit_code: int | None = None


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A real job.  `tasks` is by task number, from 1; `phase` replaces the word of the state in HPC Pack.

    A job with a `phase` is written for a filter.
    Source:  HPC filters: the state in the file tells a filter why it is called (Validating, Queued, Running).
    """

    id: int
    state: JobState = JobState.CONFIGURING
    phase: str = ""
    owner: str = ""
    owner_group: str = ""  # the first group of the owner; "" when it is not known
    machine: str = ""  # the name of the cluster
    submit_host: str = ""  # from which it was submitted; "" when it was not, or it is not known
    created: Instant | None = None
    submitted: Instant | None = None
    started: Instant | None = None
    ended: Instant | None = None
    message: str = ""
    nodes: tuple[str, ...] = ()
    backfilled: bool = False
    requeues: int = 0
    pending_reason: str = ""
    progress: int | None = None  # percent
    progress_message: str = ""
    tasks: Mapping[int, LiveTask] = {}
    starts: int = 0
    suspended: Seconds = Seconds(0.0)  # how long it stood still
    holds: tuple[str, ...] | None = None  # those that are on; None: not known
    group_state: str = ""  # of its job group, as SSS says it
    group_created: Instant | None = None
    delivered: Delivered | None = None
