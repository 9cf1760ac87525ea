"""What a job asks for: a `JobSpec` never changes, modifying a job replaces it."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Literal, Protocol

import msgspec
from msgspec.structs import fields, replace

from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.owner_limits import LimitShare, retimed
from headnode.core.model.quantities import FOREVER, NEVER, Instant, Priority, Seconds
from headnode.core.model.resource import places_in
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec


class HeldAmounts(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """Memory, disk and swap in MB that a job holds on each of its nodes, whatever its processors there.

    No other job is given them before the job ends, and a task of the job has at most this memory on a node,
    beside the `process_memory` of its processors.  Which nodes have so much in all is said elsewhere.
    """

    memory: int = 0
    disk: int = 0
    swap: int = 0

    def __bool__(self) -> bool:
        """Return whether anything is held."""
        return bool(self.memory or self.disk or self.swap)


NOTHING_HELD = HeldAmounts()


class UnitType(StrEnum):
    """The unit of the minimum and maximum of a job."""

    PROCESSOR = "processor"
    SOCKET = "socket"
    NODE = "node"
    GPU = "gpu"  # each with `processors_per_gpu` processors of its node

    @property
    def word(self) -> str:
        """The unit in a sentence: one of it."""
        return "GPU" if self is UnitType.GPU else self.value


class CountsUnits(Protocol):
    """A job or its request: it counts what it takes of nodes in a unit."""

    @property
    def unit(self) -> UnitType:
        """The unit."""

    @property
    def processors_per_gpu(self) -> int:
        """How many processors a GPU comes with; it only matters where that is the unit."""


def units_in(request: CountsUnits, processors: int, facts: NodeFacts | None) -> int:
    """Return how many whole units these processors of a node are; a node held in part is held.

    facts:  None: the node has been removed; then a socket cannot be told from a processor
    """
    unit = request.unit
    if unit is UnitType.GPU:
        gpus = gpus_with(processors, request.processors_per_gpu)
        return gpus if facts is None else min(gpus, facts.gpus)
    if unit is UnitType.NODE:
        return min(processors, 1)
    if unit is UnitType.SOCKET and facts is not None:
        return processors * facts.whole_sockets // facts.processors
    return processors


def processors_for(request: CountsUnits, units: int, facts: NodeFacts) -> int:
    """Return how many processors of a node so many units are; a part of a socket counts as all of it."""
    if (unit := request.unit) is UnitType.GPU:
        return units * request.processors_per_gpu
    if unit is UnitType.NODE:
        return units * facts.processors
    if unit is UnitType.SOCKET:
        return -(-units * facts.processors // facts.whole_sockets)
    return units


def gpus_with(processors: int, processors_per_gpu: int) -> int:
    """Return how many GPUs come with so many processors of a node; none if a GPU comes with 0 of them."""
    return processors // processors_per_gpu if processors_per_gpu else 0


class NodeGroupOp(StrEnum):
    """The operator that combines several node groups into the candidate nodes."""

    INTERSECT = "intersect"  # nodes that are in all of the groups
    UNION = "union"  # nodes that are in any of the groups
    UNIFORM = "uniform"  # all nodes of the job from exactly one of the groups


class OrderKey(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One key of a job's resource order: nodes with more of it come first, unless `ascending`."""

    by: Literal["memory", "processors", "speed"]
    ascending: bool = False


class Licence(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A request for a licence feature; `amount` None is one licence for each processor of the job (``*``)."""

    feature: str
    amount: int | None


class GroupEdge(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A dependency of task groups: every task of `child` waits for every task of `parent`."""

    parent: int
    child: int


class TaskAlternative(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True
):
    """The values of one task in an alternative request of its job; None: the value of the task."""

    minimum: int | None = None
    maximum: int | None = None
    run_time: Seconds | None = None
    end: int | None = None  # of a sweep: how many instances there are
    needs: NodeNeeds | None = None
    distribution: Distribution | None = None


class Alternative(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """An alternative request of a job; None: the value of the job."""

    unit: UnitType | None = None
    minimum: int | None = None
    maximum: int | None = None
    run_time: Seconds | None = None
    exclusive: bool | None = None
    single_node: bool | None = None
    licences: tuple[Licence, ...] | None = None
    node_groups: tuple[str, ...] | None = None
    requested_nodes: tuple[str, ...] | None = None
    excluded_nodes: tuple[str, ...] | None = None
    minimum_memory: int | None = None
    maximum_memory: int | None = None
    process_memory: int | None = None
    held: HeldAmounts | None = None
    needs: NodeNeeds | None = None
    processors_per_gpu: int | None = None
    tasks: tuple[TaskAlternative, ...] = ()  # one for each task, or none
    resource: str | None = None  # the request is for these resources alone; None: for own nodes alone


class JobSpec(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, forbid_unknown_fields=True):
    """A job description: all options of a job and its tasks, as its owner set them.

    `minimum` and `maximum` count `unit`; None means: calculate it from the tasks.
    Memory is in MB for each node.  Exit codes are inclusive ranges.
    """

    name: str = ""
    description: str = ""
    job_group: str = ""  # name of the job group of the job
    project: str = ""
    template: str = ""
    priority: Priority = Priority(2000)
    unit: UnitType = UnitType.PROCESSOR
    processors_per_gpu: int = 1  # where `unit` is GPU
    minimum: int | None = None
    maximum: int | None = None
    exclusive: bool = False
    single_node: bool = False
    run_time: Seconds = FOREVER
    minimum_run_time: Seconds | None = None  # to start earlier, its limit may be lowered to this
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
    held: HeldAmounts = NOTHING_HELD  # of each node it runs on, while it runs
    needs: NodeNeeds = ANY_NODE  # of every node of the job, beside what stands above
    together: bool = False  # gang: all instances of all tasks start at once, each task on nodes it asks for
    alternatives: tuple[Alternative, ...] = ()  # tried in this order after what the job itself asks for
    fail_on_task_failure: bool = False
    fail_dependent_tasks: bool = False
    task_retry_limit: int = 0  # how often a task is retried if its program fails
    valid_exit_codes: tuple[tuple[int, int], ...] = ((0, 0),)
    parents: tuple[int, ...] = ()  # ids of jobs that must be Finished first
    after_failure: tuple[int, ...] = ()  # ids of jobs that must have failed, or been canceled, first
    after_exit: tuple[int, ...] = ()  # ids of jobs that must be over first, however they end
    after_start: tuple[int, ...] = ()  # ids of jobs that must have started first
    after_corresponding: tuple[int, ...] = ()  # ids of jobs; an instance waits for the one of its number
    dependencies: tuple[JobDependency, ...] = ()  # on elements of jobs, or with a delay
    any_dependency: bool = False  # one of all these dependencies is enough; False: all must be satisfied
    named_parents: tuple[NamedParent, ...] = ()  # the like, whose ids the head has still to find
    singleton: bool = False  # jobs of its owner and name that were submitted before must be over first
    hold_until: Instant | None = None
    holds: tuple[str, ...] = ()  # names; the job waits until each is released
    end_by: Instant | None = None  # latest end of the job: it is canceled if it cannot end by then
    reservation: str = ""  # name of the one in which it runs, and nowhere else
    switches: int = 0  # leaf switches that its nodes are under, at most; 0: any number
    switches_wait: Seconds = Seconds(300.0)  # for how long it waits for so few; then any number will do
    contiguous: bool = False  # no other node stands between its nodes, in the order of names
    resource: str = ""  # places where it may run, see `model.resource.places_in`; empty: own nodes
    suspendable: bool = False
    signal: str = ""  # before the run time limit is over, see `model.signals`; empty: none
    preemptable: bool = True  # the job may be preempted by jobs of higher priority
    interactive: bool = False  # its one task is a program in a terminal, which somebody comes to
    resource_limits: tuple[ResourceLimit, ...] = ()  # of every process of every task
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
    storage_base: str = ""  # URL; paths of staged files are below it, where a task has none of its own
    transfer_attempts: int | None = None  # how often the transfer of a file is tried; None: 5 times
    credential: str = ""  # name of the owner's credential for storage, where a task has none of its own

    def valid_codes(self, task: TaskSpec) -> tuple[tuple[int, int], ...]:
        """Return the ranges of exit codes with which one of its tasks has succeeded."""
        return self.valid_exit_codes if task.valid_exit_codes is None else task.valid_exit_codes


class RequestPart(msgspec.Struct, frozen=True, gc=False):
    """The resources for one task of a job: lumps of units (mostly processors), each lump on one node.

    The parts of a gang are held beside each other; else tasks share what the job holds one after the other,
    and a part only says that the job's nodes must have room for it.
    """

    lumps: tuple[tuple[int, int], ...]  # (units of the job, how many such lumps), largest first
    apart: bool = False  # every lump on a node of its own
    spread: bool = False  # over many nodes rather than few
    whole: bool = False  # alone on nodes of which it takes all, within a job that may have others
    needs: NodeNeeds = ANY_NODE
    node_group: str = ""
    required_nodes: tuple[str, ...] = ()

    @property
    def units(self) -> int:
        """How many units of the job the lumps have in all, at the least."""
        return sum(size * times for size, times in self.lumps)


class JobRequest(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """The resource request of a job, for the scheduler; equal requests are one class in the queue.

    Made by `headnode.core.state.job_request.request_of`, with calculated sizes.  Memory is in MB of a node.
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
    held: HeldAmounts = NOTHING_HELD  # what it holds of each node beside that
    start_at_maximum: bool = False  # False: any number from minimum to maximum will do
    processors_per_gpu: int = 0  # where `unit` is GPU; 0: it is another
    needs: NodeNeeds = ANY_NODE
    together: bool = False  # `parts` has one part for each task, and all are held at once
    parts: tuple[RequestPart, ...] = ()
    alternatives: tuple["JobRequest", ...] = ()  # alternative requests, best first
    reservation: str = ""  # it runs nowhere but in this one; in lower case
    open_reservations: tuple[str, ...] = ()  # reservations that do not keep it out; in lower case, ascending
    user: str = ""  # whose it is, where some nodes serve one user only; empty: it does not matter
    resource: str = ""  # it runs there, not here; several: at one of them; in lower case
    limits: tuple[LimitShare, ...] = ()  # of its user and project
    switches: int = 0  # it waits for at most so many leaf switches; 0: it does not matter
    switches_until: Instant = NEVER  # when any number will do
    minimum_run_time: Seconds | None = None  # it may start with a limit as low as this; None: with its own
    contiguous: bool = False

    def option(self, number: int, limit: Seconds | None = None) -> "JobRequest":
        """Return what is asked for under an option: 0 for this itself, n for the n-th of the others.

        limit:   the run time limit, if it was lowered; the job takes less of limits of minutes
        Raises:  IndexError when there are not so many.
        """
        asked = self.alternatives[number - 1] if number else self
        return asked if limit is None else replace(asked, run_time=limit, limits=retimed(asked.limits, limit))

    @property
    def least_run_time(self) -> Seconds:
        """The lowest run time limit that it may start with."""
        return self.run_time if self.minimum_run_time is None else min(self.run_time, self.minimum_run_time)

    def allows_limit(self, limit: Seconds | None) -> bool:
        """Return whether its job may start with this limit instead of its own; None: with its own."""
        return limit is None or self.least_run_time <= limit < self.run_time


def with_option(spec: JobSpec, option: int) -> JobSpec:
    """Return the job with its request replaced: option 0 is what it says itself, n its n-th alternative.

    Raises:  IndexError when it has no such alternative.
    """
    if option == 0:
        return spec
    other = spec.alternatives[option - 1]
    if spec.unit is UnitType.GPU and other.unit not in (None, UnitType.GPU):
        spec = replace(spec, processors_per_gpu=1)  # as if it had never counted them
    pairs = zip(spec.tasks, other.tasks, strict=False)
    tasks = tuple(replace(task, **_stated(values)) for task, values in pairs) if other.tasks else spec.tasks
    return replace(spec, **_stated(other, "tasks"), tasks=tasks)


def places_named(spec: JobSpec) -> tuple[str, ...]:
    """Return the places that a job and its alternatives name, in their order and in lower case."""
    places = list(places_in(spec.resource))
    for other in spec.alternatives:
        places += places_in(other.resource) if other.resource is not None else ()
    return tuple(dict.fromkeys(places))


def _stated(other: msgspec.Struct, *aside: str) -> dict[str, object]:
    values = {field.name: getattr(other, field.name) for field in fields(other) if field.name not in aside}
    return {name: value for name, value in values.items() if value is not None}


DEPENDENCY_FIELDS = {
    Condition.ON_SUCCESS: "parents",
    Condition.ON_FAILURE: "after_failure",
    Condition.ON_EXIT: "after_exit",
    Condition.ON_START: "after_start",
    Condition.ON_CORRESPONDING: "after_corresponding",
}
"""The field of a job that holds the ids of jobs which it waits for in that way."""


def all_dependencies(spec: JobSpec) -> Iterator[JobDependency]:
    """Yield everything that a job or an instance of it waits for."""
    for condition, field in DEPENDENCY_FIELDS.items():
        yield from (JobDependency(parent, condition) for parent in getattr(spec, field))
    yield from spec.dependencies


def parents(spec: JobSpec, *, of_instances: bool = False) -> tuple[int, ...]:
    """Return the ids of the jobs that a job waits for, each once; with those that only its instances do."""
    found = spec.parents + spec.after_failure + spec.after_exit + spec.after_start
    more = spec.after_corresponding if of_instances else ()
    return tuple(dict.fromkeys((*found, *(one.job for one in spec.dependencies), *more)))
