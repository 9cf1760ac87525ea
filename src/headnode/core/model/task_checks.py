"""What is wrong with one task of a job, and with its processes, whatever the cluster looks like.

Source: SSS 3.1.0, "TaskGroup", "TaskDistribution", "ResourceLimit"; setrlimit(2).
Source: HPC Pack task validation and task types; CCS, "Standard job and task options"."""

import math
from collections import Counter
from collections.abc import Callable

from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.patterns import compile_pattern
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import (
    LIMITS,
    MOST_INSTANCES,
    PREPARING,
    SPECIAL,
    UNLIMITED,
    Distribution,
    ResourceLimit,
    TaskSpec,
    TaskType,
    reaches,
)
from headnode.core.model.value_checks import (
    MOST_CODE,
    check_codes,
    check_environment,
    check_listed,
    check_positive,
    check_run_time,
    refuse,
    task_title,
)

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
            waits = f"{task_title(number, task)} waits for {task.depends_on[0]!r}"
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


MOST_CRITICAL_FAILURES = 1_000_000


def check_task(spec: JobSpec, number: int) -> None:
    """Refuse task `number` (from 1) of `spec` when it is wrong by itself or beside its job's options.

    Raises:  BadRequest; `code` names the rule.
    """
    task = spec.tasks[number - 1]
    for rule in _RULES:
        rule(spec, task, task_title(number, task))


def _check_task_size(spec: JobSpec, task: TaskSpec, whose: str) -> None:
    check_positive(f"the minimum of {whose}", task.minimum)
    check_positive(f"the maximum of {whose}", task.maximum)
    if task.maximum < task.minimum:
        refuse(
            "max-below-min",
            f"maximum {task.maximum} of {whose} is below its minimum {task.minimum}",
            "raise it",
        )
    if spec.minimum is not None and task.minimum > spec.minimum:
        refuse(
            "task-min-above-job",
            f"the minimum {task.minimum} of {whose} is above the job's minimum {spec.minimum}",
            f"raise the job's minimum to {task.minimum}, or let it be calculated",
        )
    if spec.maximum is not None and task.maximum > spec.maximum:
        refuse(
            "task-max-above-job",
            f"the maximum {task.maximum} of {whose} is above the job's maximum {spec.maximum}",
            f"raise the job's maximum to {task.maximum}, or let it be calculated",
        )


def _check_task_limits(spec: JobSpec, task: TaskSpec, whose: str) -> None:
    check_run_time(whose, task.run_time)
    if task.run_time > spec.run_time and task.run_time != FOREVER:
        refuse(
            "task-run-time",
            f"run time {_seconds(task.run_time)} of {whose} is above the job's, {_seconds(spec.run_time)}",
            "raise the job's run time",
        )
    if not 1 <= task.fail_job_count <= MOST_CRITICAL_FAILURES:
        refuse(
            "fail-job-count", f"{whose} fails the job after {task.fail_job_count} failures", "write 1 or more"
        )
    if task.fail_job_count > 1 and task.kind not in (TaskType.SWEEP, TaskType.SERVICE):
        refuse("fail-job-count", f"{whose} has one instance, but a count of failures", "leave the count out")
    check_codes(whose, task.valid_exit_codes)


def _seconds(span: float) -> str:
    return f"{span:g} s" if math.isfinite(span) else "no limit"


def _check_task_exclusive(spec: JobSpec, task: TaskSpec, whose: str) -> None:
    if task.exclusive and not spec.exclusive:
        refuse("exclusive-task", f"{whose} is exclusive in a job that is not", "make the job exclusive too")
    if task.exclusive and (spec.minimum is None or spec.maximum is None):
        refuse(
            "exclusive-task",
            f"{whose} is exclusive, but the job's minimum or maximum is to be calculated",
            "write the job's minimum and maximum",
        )


def _check_task_nodes(spec: JobSpec, task: TaskSpec, whose: str) -> None:
    for name in task.required_nodes:
        check_listed("required node", name)
    if task.required_nodes:
        _check_required(spec, task, whose)
    if task.node_group and (spec.node_groups or task.required_nodes):
        refuse(
            "task-node-group",
            f"{whose} asks for node group {task.node_group!r} beside groups of the job or required nodes",
            "ask for one of them",
        )


def _check_required(spec: JobSpec, task: TaskSpec, whose: str) -> None:
    required = set(task.required_nodes)
    if spec.maximum is not None and len(required) > spec.maximum:
        refuse(
            "required-nodes",
            f"{whose} requires {len(required)} nodes, more than the job's maximum {spec.maximum}",
            "raise the job's maximum, or require fewer",
        )
    wrong = sorted(required & set(spec.excluded_nodes))
    if spec.requested_nodes:
        wrong += sorted(required - set(spec.requested_nodes))
    if wrong:
        refuse(
            "required-nodes",
            f"{whose} requires {wrong[0]!r}, which the job does not take",
            "ask for it in the job",
        )


def _check_task_words(_: JobSpec, task: TaskSpec, whose: str) -> None:
    if "," in task.name:
        refuse("name", f"the name of {whose} contains a comma", "commas separate names: choose another")
    check_environment(whose, task.environment)


def _check_task_sweep(_: JobSpec, task: TaskSpec, whose: str) -> None:
    if task.kind is not TaskType.SWEEP:
        return
    if task.instances == 0:
        refuse(
            "empty-sweep",
            f"{whose} sweeps from {task.start} to {task.end} by {task.increment}: no values",
            "write an end that is not below the start, and an increment of 1 or more",
        )
    if task.instances > MOST_INSTANCES:
        refuse(
            "too-many-instances",
            f"{whose} has {task.instances} instances",
            f"at most {MOST_INSTANCES} are possible",
        )


def _check_task_special(_: JobSpec, task: TaskSpec, whose: str) -> None:
    if task.kind not in SPECIAL:
        return
    forbidden: dict[str, object] = {
        "dependencies": task.depends_on,
        "a group": task.group,
        "required nodes": task.required_nodes,
        "the option exclusive": task.exclusive,
        "a distribution": task.distribution,
    }
    if task.kind in PREPARING:
        forbidden["a size"] = (task.minimum, task.maximum) != (1, 1)
        forbidden["a node group"] = task.node_group
        forbidden["needs of its own"] = task.needs != ANY_NODE
    if task.kind is TaskType.NODE_RELEASE:
        forbidden["a failure that fails the job"] = task.fail_job_on_failure
    for what, given in forbidden.items():
        if given:
            refuse(
                "special-task",
                f"{whose}, a {task.kind.value} task, has {what}",
                "remove it: this kind of task cannot have it",
            )


_RULES: tuple[Callable[[JobSpec, TaskSpec, str], None], ...] = (
    _check_task_size,
    _check_task_limits,
    _check_task_exclusive,
    _check_task_nodes,
    _check_task_words,
    _check_task_sweep,
    _check_task_special,
    check_task_processes,
)
