"""A job for its writers: as JSON, with what only the scheduler knows, and with needs as older fields."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import fields, replace

from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.job import JobSpec, NodeGroupOp
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.transitions import JobState, TaskState


def write_job_json(spec: JobSpec) -> dict[str, Any]:
    """Return the job as what JSON can hold."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))  # JSON has null for no limit
    return found


class ExportedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An instance of a task that has started."""

    nodes: tuple[str, ...] = ()
    started: Instant | None = None
    ended: Instant | None = None
    exit_code: int | None = None


class ExportedTask(msgspec.Struct, frozen=True, kw_only=True):
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
    instances: Mapping[int, ExportedInstance] = {}
    all_listed: bool = True


class DeliveredResources(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was given and used: of processors the most at a time; memory in MB, of its largest task."""

    processors: int = 0
    nodes: int = 0
    processor_seconds: Seconds | None = None
    wall_seconds: Seconds | None = None
    memory_average: int | None = None
    memory_maximum: int | None = None
    exit_code: int | None = None


class ExportedJob(msgspec.Struct, frozen=True, kw_only=True):
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
    tasks: Mapping[int, ExportedTask] = {}
    starts: int = 0
    suspended: Seconds = Seconds(0.0)  # how long it stood still
    holds: tuple[str, ...] | None = None  # those that are on; None: not known
    group_state: str = ""  # of its job group, as SSS says it
    group_created: Instant | None = None
    delivered: DeliveredResources | None = None


TellLoss = Callable[[Fidelity, str], None]
"""Takes a finding about what is rewritten."""


def job_with_needs_as_fields(spec: JobSpec, report: TellLoss) -> JobSpec:
    """Return the job with what its needs say in other fields, where these say the same; the rest stays."""
    if spec.needs == ANY_NODE:
        return spec
    needs, changed = spec.needs, dict[str, Any]()
    names = tuple(name for name in spec.requested_nodes if name in needs.names)
    if needs.names and (names or not spec.requested_nodes):
        changed["requested_nodes"] = names or needs.names
        needs = replace(needs, names=())
    if needs.excluded:
        changed["excluded_nodes"] = tuple(dict.fromkeys([*spec.excluded_nodes, *needs.excluded]))
        needs = replace(needs, excluded=())
    if needs.minimum_memory:
        changed["minimum_memory"] = max(spec.minimum_memory or 0, needs.minimum_memory)
        needs = replace(needs, minimum_memory=0)
    if needs.minimum_processors:
        least = max(spec.minimum_processors_per_node or 0, needs.minimum_processors)
        changed["minimum_processors_per_node"] = least
        needs = replace(needs, minimum_processors=0)
    for field in changed:
        report(Fidelity.TRANSLATED, f"{field}: it says what the needs of nodes say")
    changed |= _groups(spec, needs, report)
    if "node_groups" in changed:
        needs = replace(needs, features=())
    return replace(spec, needs=needs, **changed)


def _groups(spec: JobSpec, needs: NodeNeeds, report: TellLoss) -> dict[str, Any]:
    """Return features as node groups, all of which the nodes are in."""
    together = len(spec.node_groups) < 2 or spec.node_group_op is NodeGroupOp.INTERSECT
    if not needs.features or not together or any(len(choice) != 1 for choice in needs.features):
        return {}
    report(Fidelity.APPROXIMATED, "features: nodes are of groups of these names there")
    groups = tuple(dict.fromkeys([*spec.node_groups, *(choice[0] for choice in needs.features)]))
    return {"node_groups": groups, "node_group_op": NodeGroupOp.INTERSECT}


def task_with_needs_as_fields(task: TaskSpec, report: TellLoss) -> TaskSpec:
    """Return the task with what its needs say in other fields, where these say the same; the rest stays."""
    if task.needs == ANY_NODE:
        return task
    needs, changed = task.needs, dict[str, Any]()
    if len(needs.names) == 1 and task.required_nodes in ((), needs.names):
        changed["required_nodes"] = needs.names
        report(Fidelity.TRANSLATED, "required_nodes: it says what the needs of nodes say")
        needs = replace(needs, names=())
    if len(needs.features) == 1 and len(needs.features[0]) == 1 and not task.node_group:
        changed["node_group"] = needs.features[0][0]
        report(Fidelity.APPROXIMATED, "features: nodes are of a group of that name there")
        needs = replace(needs, features=())
    return replace(task, needs=needs, **changed)


def unwritten_needs(needs: NodeNeeds) -> Iterator[str]:
    """Yield the names of what is demanded of nodes."""
    if needs == ANY_NODE:
        return
    for field in fields(needs):
        if getattr(needs, field.name) != field.default:
            yield field.name
