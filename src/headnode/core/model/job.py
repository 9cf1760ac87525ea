"""What a job asks for.  A `JobSpec` never changes; modifying a job replaces it.

Source: CCS, "Standard job and task options"; HPC Pack job properties; design words of section 2.
"""

from enum import StrEnum
from typing import Literal

import msgspec

from headnode.core.model.quantities import FOREVER, Instant, Priority, Seconds
from headnode.core.model.task import TaskSpec


class UnitType(StrEnum):
    """What minimum and maximum count."""

    PROCESSOR = "processor"
    SOCKET = "socket"
    NODE = "node"


class NodeGroupOp(StrEnum):
    """How several node groups combine into the candidate nodes."""

    INTERSECT = "intersect"  # nodes that are in all of the groups
    UNION = "union"  # nodes that are in any of the groups
    UNIFORM = "uniform"  # all nodes of the job from exactly one of the groups


class OrderKey(msgspec.Struct, frozen=True, gc=False):
    """One key of a job's own resource order: more of it first, unless `ascending`."""

    by: Literal["memory", "processors", "speed"]
    ascending: bool = False


class Licence(msgspec.Struct, frozen=True, gc=False):
    """A wish for a licence feature; `amount` None means one for each processor of the job (``*``)."""

    feature: str
    amount: int | None


class GroupEdge(msgspec.Struct, frozen=True, gc=False):
    """Every task of the `child` group waits for every task of the `parent` group."""

    parent: int
    child: int


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job as its owner wrote it.

    `minimum` and `maximum` count `unit`; None means: calculate it from the tasks.
    Memory is in MB for each node.  Exit codes are inclusive ranges.
    """

    name: str = ""
    project: str = ""
    template: str = ""
    priority: Priority = Priority(2000)
    unit: UnitType = UnitType.PROCESSOR
    minimum: int | None = None
    maximum: int | None = None
    exclusive: bool = False
    single_node: bool = False
    run_time: Seconds = FOREVER
    run_until_canceled: bool = False
    licences: tuple[Licence, ...] = ()
    node_groups: tuple[str, ...] = ()
    node_group_op: NodeGroupOp = NodeGroupOp.INTERSECT
    requested_nodes: tuple[str, ...] = ()  # candidates: the job's nodes come from these
    excluded_nodes: tuple[str, ...] = ()
    order_by: tuple[OrderKey, ...] = ()  # empty: the cluster's resource order, memory then speed
    minimum_memory: int | None = None
    maximum_memory: int | None = None
    minimum_processors_per_node: int | None = None
    maximum_processors_per_node: int | None = None
    process_memory: int | None = None  # estimated, for each process; MB
    fail_on_task_failure: bool = False
    fail_dependent_tasks: bool = False
    task_retry_limit: int = 0  # how often a task whose program failed is run again
    valid_exit_codes: tuple[tuple[int, int], ...] = ((0, 0),)
    parents: tuple[int, ...] = ()  # ids of jobs that must be Finished first
    hold_until: Instant | None = None
    notify_on_start: bool = False
    notify_on_completion: bool = False
    email: str = ""
    run_as: str = ""  # credential user as written; only administrators may run as another
    environment: dict[str, str] = {}
    tasks: tuple[TaskSpec, ...] = ()
    group_edges: tuple[GroupEdge, ...] = ()
    properties: dict[str, str] = {}  # ExtendedTerms and custom properties: the user's own words
    extensions: dict[str, str] = {}  # attributes of the dialect we keep but do not act on
    dialect: str = ""  # where it was read from: ccs, hpcpack-2008, hpcpack, terms; "" for native


class JobRequest(msgspec.Struct, frozen=True, gc=False):
    """What the scheduler needs to know of a job: equal requests are one class in the queue.

    Made by `headnode.core.lifecycle.requests.request_of`; minimum and maximum are calculated already.
    Memory is in MB for each node.
    """

    unit: UnitType
    minimum: int
    maximum: int
    exclusive: bool
    single_node: bool
    run_time: Seconds
    licences: tuple[Licence, ...]
    node_groups: tuple[str, ...]
    node_group_op: NodeGroupOp
    requested_nodes: tuple[str, ...]
    required_nodes: tuple[str, ...]  # union over the tasks: the allocation must hold all of them
    excluded_nodes: tuple[str, ...]
    order_by: tuple[OrderKey, ...]
    minimum_memory: int | None
    maximum_memory: int | None
    minimum_processors_per_node: int | None
    maximum_processors_per_node: int | None
    node_share: int = 0  # largest minimum of an exclusive task that must own whole nodes; 0: none
    memory: int = 0  # MB that the job holds with each of its processors; 0: it is not counted
    start_at_maximum: bool = False  # False: any number from minimum to maximum will do
