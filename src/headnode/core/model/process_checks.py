"""What is wrong with how the processes of a job start together, lie on nodes, and are limited.

Source: SSS 3.1.0, "TaskGroup", "TaskDistribution", "ResourceLimit"; setrlimit(2).
"""

from collections import Counter

from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.limits import LIMITS, UNLIMITED, ResourceLimit, reaches
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.patterns import compile_pattern
from headnode.core.model.small_checks import MOST_CODE, called, check_listed, refuse
from headnode.core.model.task import Distribution, TaskSpec, TaskType

MOST_LIMIT = 2**63 - 1


def check_limits(whose: str, limits: tuple[ResourceLimit, ...]) -> None:
    """Refuse limits that setrlimit does not know or cannot set.

    Raises:  BadRequest ``resource-limit``.
    """
    for name, times in Counter(limit.name for limit in limits).items():
        if name not in LIMITS:
            what = f"{whose} has a resource limit {name[:60]!r}, which the system does not know"
            refuse("resource-limit", what, f"there are {', '.join(LIMITS)}")
        if times > 1:
            refuse("resource-limit", f"{whose} has {times} limits {name!r}", "write one, soft and hard")
    for limit in limits:
        _check_limit(whose, limit)


def _check_limit(whose: str, limit: ResourceLimit) -> None:
    for side, amount in (("soft", limit.soft), ("hard", limit.hard)):
        if amount is not None and not UNLIMITED <= amount <= MOST_LIMIT:
            what = f"the {side} limit {limit.name} of {whose} is {amount}"
            refuse("resource-limit", what, f"write {LIMITS[limit.name]}, or -1 for no limit")
    if limit.soft is None and limit.hard is None:
        refuse("resource-limit", f"the limit {limit.name} of {whose} has no value", "write soft or hard")
    if not reaches(limit.hard, limit.soft):
        refuse(
            "resource-limit",
            f"the soft limit {limit.name} of {whose}, {limit.soft}, is above the hard one, {limit.hard}",
            "raise the hard limit, or lower the soft one",
        )


def check_needs(whose: str, needs: NodeNeeds) -> None:
    """Refuse what no node can be asked for.

    Raises:  BadRequest; ``pattern`` when a pattern cannot be read.
    """
    for pattern in (*needs.patterns, *needs.excluded_patterns, *needs.feature_patterns):
        compile_pattern(pattern)
    for name in (*needs.names, *needs.excluded):
        check_listed("node", name)
    for what in ("memory", "disk", "swap", "speed", "processors"):
        least = getattr(needs, f"minimum_{what}")
        if not 0 <= least <= MOST_CODE:
            refuse("size", f"the least {what} of each node of {whose} is {least}", "ask for 0 or more")


def check_together(spec: JobSpec) -> None:
    """Refuse a gang whose tasks would have to wait for each other.

    Raises:  BadRequest ``gang-dependency``.
    """
    if not spec.together:
        return
    fix = "remove the dependency, or let the job start its tasks one after another"
    for number, task in enumerate(spec.tasks, 1):
        if task.depends_on:
            waits = f"{called(number, task)} waits for {task.depends_on[0]!r}"
            refuse("gang-dependency", f"{waits}, but all tasks of its job start together", fix)
    if spec.group_edges:
        what = "a task group waits for another, but all tasks of the job start together"
        refuse("gang-dependency", what, fix)


def check_distribution(spec: JobSpec, task: TaskSpec, whose: str) -> None:
    """Refuse a distribution that contradicts itself or the number of processes.

    Raises:  BadRequest ``distribution``.
    """
    layout = task.distribution
    if layout is None:
        return
    if min(layout.per_node, layout.nodes) < 0 or max(layout.per_node, layout.nodes) > MOST_CODE:
        refuse("distribution", f"a number in the distribution of {whose} is not possible", "write 1 or more")
    if sum(map(bool, (layout.per_node, layout.nodes, layout.geometry))) > 1:
        what = f"{whose} is distributed by more than one of per node, nodes and geometry"
        refuse("distribution", what, "choose one of them")
    processes = task.instances if task.kind is TaskType.SWEEP else task.minimum
    if layout.nodes > processes:
        what = f"{whose} has {processes} processes for {layout.nodes} nodes"
        refuse("distribution", what, "ask for fewer nodes, or for more processes")
    if layout.geometry:
        _check_geometry(spec, task, layout, whose, processes)


def _check_geometry(spec: JobSpec, task: TaskSpec, layout: Distribution, whose: str, processes: int) -> None:
    if not layout.draws(processes) or () in layout.geometry:
        refuse(
            "distribution",
            f"the geometry of {whose} is not each number from 1 to {processes} once",
            "write every process in one group, for example [[1, 2], [3]] for three of them",
        )
    if spec.unit is UnitType.NODE:
        refuse("distribution", f"{whose} counts nodes and has a geometry", "ask for processors")
    if task.kind is TaskType.SWEEP and not spec.together and len(spec.tasks) > 1:
        refuse(
            "distribution",
            f"{whose} is a sweep with a geometry beside other tasks that do not start together with it",
            "let all tasks start together, or make it a job of its own",
        )


def check_processes(spec: JobSpec) -> None:
    """Refuse a job whose processes cannot be limited, laid on nodes or started as it says."""
    check_limits("the job", spec.resource_limits)
    check_needs("the job", spec.needs)
    check_together(spec)


def check_task_processes(spec: JobSpec, task: TaskSpec, whose: str) -> None:
    """Refuse a task whose processes cannot be limited or laid on nodes as it says."""
    check_limits(whose, task.resource_limits)
    check_needs(whose, task.needs)
    check_distribution(spec, task, whose)
