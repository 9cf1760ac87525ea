"""What a task asks for: a program, its files, and how many instances of it.

Source: CCS, "Standard job and task options" and task.xsd; HPC Pack task properties and types.
"""

from enum import StrEnum

import msgspec

from headnode.core.model.limits import ResourceLimit
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import FOREVER, Seconds

MOST_INSTANCES = 1_000_000  # of one task


class TaskType(StrEnum):
    """What kind of task it is."""

    BASIC = "basic"
    SWEEP = "sweep"
    NODE_PREP = "node-prep"
    NODE_RELEASE = "node-release"
    SERVICE = "service"


PREPARING = frozenset({TaskType.NODE_PREP, TaskType.NODE_RELEASE})
"""Types that run once on each node of the job: before its first task there, and after its last."""

SPECIAL = PREPARING | {TaskType.SERVICE}
"""Types of which a job has at most one task, whose instances are made as the job goes on."""


class Distribution(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """How the processes of a task are laid on nodes: instances of a sweep, or processors of another task.

    At most one of `per_node`, `nodes` and `geometry` is given.  Source: SSS 3.1.0, "TaskDistribution".
    """

    per_node: int = 0  # so many on each node (the last may have fewer); 0: any number
    nodes: int = 0  # evenly over exactly so many nodes; 0: any number
    round_robin: bool = False  # one on each node before the second on any
    geometry: tuple[tuple[int, ...], ...] = ()  # numbers of processes (from 1) that share a node

    def draws(self, processes: int) -> bool:
        """Whether the geometry names each of so many processes once, and nobody else."""
        count = sum(map(len, self.geometry))  # looked at first: a job may ask for two billion processes
        named = {number for group in self.geometry for number in group}
        return count == len(named) == processes and named == set(range(1, processes + 1))


class TaskSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A task as its owner wrote it.

    A task is known by its number in the job, from 1, which is its place in the task list.
    Its instances are numbered from 1; a sweep's instance i stands for ``start + (i - 1) * increment``;
    a basic task has the one instance 1; those of a special task are made as its job goes on.
    `minimum` and `maximum` count the job's unit.
    """

    name: str = ""
    command: str = ""
    kind: TaskType = TaskType.BASIC
    minimum: int = 1
    maximum: int = 1
    run_time: Seconds = FOREVER
    exclusive: bool = False
    rerunnable: bool = False
    standard_input: str = ""
    standard_output: str = ""
    standard_error: str = ""
    append_output: bool = False  # keep what the file of standard output holds, and write behind it
    append_error: bool = False
    work_directory: str = ""
    private_directory: bool = False  # each instance starts in a new one of its own, removed when it is over
    required_nodes: tuple[str, ...] = ()
    node_group: str = ""
    needs: NodeNeeds = ANY_NODE  # of every node that it runs on
    distribution: Distribution | None = None
    depends_on: tuple[str, ...] = ()  # names: every task of such a name must be done first
    group: int | None = None
    start: int = 0
    end: int = 0
    increment: int = 1
    valid_exit_codes: tuple[tuple[int, int], ...] | None = None  # None: the job's
    fail_job_on_failure: bool = False
    fail_job_count: int = 1
    resource_limits: tuple[ResourceLimit, ...] = ()  # in place of the job's of the same name
    environment: dict[str, str] = {}
    properties: dict[str, str] = {}
    extensions: dict[str, str] = {}

    @property
    def instances(self) -> int:
        """How many instances the task has; 0 for a sweep whose range is empty, and for a special task."""
        if self.kind is not TaskType.SWEEP:
            return 0 if self.kind in SPECIAL else 1
        if self.increment <= 0 or self.end < self.start:
            return 0
        return (self.end - self.start) // self.increment + 1

    def value(self, instance: int) -> int:
        """Return the swept value that stands for `instance` (from 1)."""
        return self.start + (instance - 1) * self.increment
