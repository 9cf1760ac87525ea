"""What is wrong with one task of a job, and with its processes, whatever the cluster looks like.

Source: SSS 3.1.0, "TaskGroup", "TaskDistribution", "ResourceLimit"; setrlimit(2).
Source: HPC Pack task validation and task types; CCS, "Standard job and task options"."""

import math
from collections import Counter
from collections.abc import Callable

from headnode.core.model.errors import BadRequest
from headnode.core.model.fields import OPTIONS_OF_TASKS
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.patterns import add_pattern
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import (
    LIMITS,
    MAX_INSTANCES,
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
    MAX_CODE,
    THE_JOB,
    JobPart,
    check_codes,
    check_environment,
    check_listed,
    check_positive,
    check_run_time,
    check_whole_numbers,
    task_part,
)

MAX_LIMIT = 2**63 - 1


def check_corresponding(spec: JobSpec) -> None:
    """Refuse a job whose instances wait each for another, and could not start one by one.

    Raises:  BadRequest ``corresponding``.
    """
    if not spec.after_corresponding:
        return
    fix = "let the job wait for all of them: parents"
    if spec.together or any(task.kind in SPECIAL for task in spec.tasks):
        what = "its instances wait one by one, and its tasks start together, or are special"
        THE_JOB.refuse("corresponding", what, fix, "after_corresponding")
    if any(task.end is not None for other in spec.alternatives for task in other.tasks):
        what = "its instances wait one by one, and an alternative has others"
        THE_JOB.refuse("corresponding", what, fix, "after_corresponding")


def check_limits(part: JobPart, limits: tuple[ResourceLimit, ...]) -> None:
    """Refuse limits that setrlimit does not know or cannot set.

    Raises:  BadRequest ``resource-limit``.
    """
    if not limits:
        return
    names = [limit.name for limit in limits]
    for name, times in Counter(names).items():
        at = names.index(name)
        if name not in LIMITS:
            what = f"{part} has the unknown resource limit {name[:60]!r}"
            part.refuse(
                "resource-limit", what, f"write one of {', '.join(LIMITS)}", "resource_limits", at, "name"
            )
        if times > 1:
            what = f"{part} has the limit {name!r} {times} times"
            part.refuse("resource-limit", what, "write it once, as soft:hard", "resource_limits", at)
    for at, limit in enumerate(limits):
        _check_limit(part.inside("resource_limits", at), limit)


def _check_limit(part: JobPart, limit: ResourceLimit) -> None:
    for side, amount in (("soft", limit.soft), ("hard", limit.hard)):
        if amount is not None and not UNLIMITED <= amount <= MAX_LIMIT:
            what = f"the {side} limit {limit.name} of {part} is {amount}"
            part.refuse("resource-limit", what, f"write {LIMITS[limit.name]}, or -1 for no limit", side)
    if limit.soft is None and limit.hard is None:
        part.refuse("resource-limit", f"the limit {limit.name} of {part} has no value", "write soft or hard")
    if not reaches(limit.hard, limit.soft):
        part.refuse(
            "resource-limit",
            f"the soft limit {limit.name} of {part}, {limit.soft}, is above the hard one, {limit.hard}",
            "raise the hard limit, or lower the soft one",
            "soft",
        )


_LEAST = [field for field in NodeNeeds.__struct_fields__ if field.startswith("minimum_")]


def check_needs(part: JobPart, needs: NodeNeeds) -> None:
    """Refuse what no node can be asked for.

    Raises:  BadRequest; ``pattern`` when a pattern cannot be read.
    """
    if needs is ANY_NODE:
        return
    inside, states = part.inside("needs"), 0
    for field in ("patterns", "excluded_patterns", "feature_patterns"):
        for at, pattern in enumerate(getattr(needs, field)):
            try:
                states = add_pattern(states, pattern)
            except BadRequest as no:
                inside.refuse(no.code, no.what, no.fix, field, at)
    for field in ("names", "excluded"):
        for at, name in enumerate(getattr(needs, field)):
            check_listed(inside, "node", name, field, at)
    for field in _LEAST:
        least = getattr(needs, field)
        if not 0 <= least <= MAX_CODE:
            amount = field.removeprefix("minimum_").replace("_", " ")
            what = f"the minimum {amount} of each node of {part} is {least}"
            inside.refuse("size", what, "request 0 or more", field)


def check_together(spec: JobSpec) -> None:
    """Refuse a gang whose tasks would have to wait for each other.

    Raises:  BadRequest ``gang-dependency``.
    """
    if not spec.together:
        return
    fix = "remove the dependency, or let the job start its tasks one after another"
    for number, task in enumerate(spec.tasks, 1):
        if task.depends_on:
            part = task_part(number, task)
            what = f"{part} waits for {task.depends_on[0]!r}, but all tasks of its job start together"
            part.refuse("gang-dependency", what, fix, "depends_on", 0)
    if spec.group_edges:
        what = "a task group waits for another, but all tasks of the job start together"
        THE_JOB.refuse("gang-dependency", what, fix, "group_edges", 0)


def check_distribution(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    """Refuse a distribution that contradicts itself or the number of processes.

    Raises:  BadRequest ``distribution``.
    """
    layout = task.distribution
    if layout is None:
        return
    inside = part.inside("distribution")
    if min(layout.per_node, layout.nodes) < 0 or max(layout.per_node, layout.nodes) > MAX_CODE:
        field = "nodes" if 0 <= layout.per_node <= MAX_CODE else "per_node"
        what = f"a number in the distribution of {part} is below 1"
        inside.refuse("distribution", what, "write 1 or more", field)
    if sum(map(bool, (layout.per_node, layout.nodes, layout.geometry))) > 1:
        what = f"{part} is distributed by more than one of per node, nodes and geometry"
        inside.refuse("distribution", what, "choose one of them")
    processes = task.instances if task.kind is TaskType.SWEEP else task.minimum
    if layout.nodes > processes:
        what = f"{part} has {processes} processes for {layout.nodes} nodes"
        inside.refuse("distribution", what, "ask for fewer nodes, or for more processes", "nodes")
    if layout.geometry:
        _check_geometry(spec, task, layout, inside, processes)


def _check_geometry(
    spec: JobSpec, task: TaskSpec, layout: Distribution, part: JobPart, processes: int
) -> None:
    if not layout.draws(processes) or () in layout.geometry:
        part.refuse(
            "distribution",
            f"the geometry of {part} is not each number from 1 to {processes} once",
            "write every process in one group, for example [[1, 2], [3]] for three of them",
            "geometry",
        )
    if spec.unit is UnitType.NODE:
        what = f"{part} counts nodes and has a geometry"
        part.refuse("distribution", what, "ask for processors", "geometry")
    if task.kind is TaskType.SWEEP and not spec.together and len(spec.tasks) > 1:
        part.refuse(
            "distribution",
            f"{part} is a sweep with a geometry beside other tasks that do not start together with it",
            "let all tasks start together, or make it a job of its own",
            "geometry",
        )


def check_processes(spec: JobSpec) -> None:
    """Refuse a job whose processes cannot be limited, laid on nodes or started as it says."""
    check_limits(THE_JOB, spec.resource_limits)
    check_needs(THE_JOB, spec.needs)
    check_together(spec)


def check_task_processes(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    """Refuse a task whose processes cannot be limited or laid on nodes as it says."""
    check_limits(part, task.resource_limits)
    check_needs(part, task.needs)
    check_distribution(spec, task, part)


_LIMITED = [option for option in OPTIONS_OF_TASKS if option.limits]


def check_task(spec: JobSpec, number: int) -> None:
    """Refuse task `number` (from 1) of `spec` when it is wrong by itself or beside its job's options.

    Raises:  BadRequest; `code` names the rule.
    """
    task = spec.tasks[number - 1]
    part = task_part(number, task)
    for rule in _RULES:
        rule(spec, task, part)


def _check_task_size(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    check_positive(part, "minimum", f"the minimum of {part}", task.minimum)
    check_positive(part, "maximum", f"the maximum of {part}", task.maximum)
    if task.maximum < task.minimum:
        part.refuse(
            "max-below-min",
            f"maximum {task.maximum} of {part} is below its minimum {task.minimum}",
            "raise it",
            "maximum",
        )
    if spec.minimum is not None and task.minimum > spec.minimum:
        part.refuse(
            "task-min-above-job",
            f"the minimum {task.minimum} of {part} is above the job's minimum {spec.minimum}",
            f"raise the job's minimum to {task.minimum}, or let it be calculated",
            "minimum",
        )
    if spec.maximum is not None and task.maximum > spec.maximum:
        part.refuse(
            "task-max-above-job",
            f"the maximum {task.maximum} of {part} is above the job's maximum {spec.maximum}",
            f"raise the job's maximum to {task.maximum}, or let it be calculated",
            "maximum",
        )


def _check_task_limits(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    check_run_time(part, task.run_time)
    if task.run_time > spec.run_time and task.run_time != FOREVER:
        part.refuse(
            "task-run-time",
            f"run time {_seconds(task.run_time)} of {part} is above the job's, {_seconds(spec.run_time)}",
            "raise the job's run time",
            "run_time",
        )
    check_whole_numbers(part, task, _LIMITED)
    if task.fail_job_count > 1 and task.kind not in (TaskType.SWEEP, TaskType.SERVICE):
        what = f"{part} has one instance, and a number of failed instances that fails the job"
        part.refuse("fail-job-count", what, "leave that number out", "fail_job_count")
    check_codes(part, task.valid_exit_codes)


def _seconds(span: float) -> str:
    return f"{span:g} s" if math.isfinite(span) else "no limit"


def _check_task_exclusive(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    if task.exclusive and not spec.exclusive:
        what = f"{part} is exclusive in a job that is not"
        part.refuse("exclusive-task", what, "make the job exclusive too", "exclusive")
    if task.exclusive and spec.unit is UnitType.GPU:
        what = f"{part} is exclusive in a job that counts GPUs"
        part.refuse("exclusive-task", what, "let the job count nodes, or leave it out", "exclusive")
    if task.exclusive and (spec.minimum is None or spec.maximum is None):
        part.refuse(
            "exclusive-task",
            f"{part} is exclusive, but the job's minimum or maximum is to be calculated",
            "write the job's minimum and maximum",
            "exclusive",
        )


def _check_task_nodes(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    for at, name in enumerate(task.required_nodes):
        check_listed(part, "required node", name, "required_nodes", at)
    if task.required_nodes:
        _check_required(spec, task, part)
    if task.node_group and (spec.node_groups or task.required_nodes):
        part.refuse(
            "task-node-group",
            f"{part} requests node group {task.node_group!r} beside groups of the job or required nodes",
            "request one of them",
            "node_group",
        )


def _check_required(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    required = set(task.required_nodes)
    if spec.maximum is not None and len(required) > spec.maximum:
        part.refuse(
            "required-nodes",
            f"{part} requires {len(required)} nodes, more than the job's maximum {spec.maximum}",
            "raise the job's maximum, or require fewer",
            "required_nodes",
        )
    wrong = sorted(required & set(spec.excluded_nodes))
    if spec.requested_nodes:
        wrong += sorted(required - set(spec.requested_nodes))
    if wrong:
        part.refuse(
            "required-nodes",
            f"{part} requires {wrong[0]!r}, which the job does not request",
            "request it in the job",
            "required_nodes",
            task.required_nodes.index(wrong[0]),
        )


def _check_task_words(_: JobSpec, task: TaskSpec, part: JobPart) -> None:
    if "," in task.name:
        what = f"the name of {part} contains a comma"
        part.refuse("name", what, "commas separate names: choose another", "name")
    check_environment(part, task.environment)


def _check_task_sweep(_: JobSpec, task: TaskSpec, part: JobPart) -> None:
    if task.kind is not TaskType.SWEEP:
        return
    if task.instances == 0:
        part.refuse(
            "empty-sweep",
            f"the sweep of {part}, {task.start} to {task.end} in steps of {task.increment}, has no values",
            "write an end that is not below the start, and an increment of 1 or more",
            "end",
        )
    if task.instances > MAX_INSTANCES:
        part.refuse(
            "too-many-instances",
            f"{part} has {task.instances} instances",
            f"at most {MAX_INSTANCES} are possible",
            "end",
        )


def _check_task_special(_: JobSpec, task: TaskSpec, part: JobPart) -> None:
    if task.kind not in SPECIAL:
        return
    forbidden: dict[str, object] = {
        "depends_on": task.depends_on,
        "group": task.group,
        "required_nodes": task.required_nodes,
        "exclusive": task.exclusive,
        "distribution": task.distribution,
    }
    if task.kind in PREPARING:
        forbidden["minimum"] = (task.minimum, task.maximum) != (1, 1)
        forbidden["node_group"] = task.node_group
        forbidden["needs"] = task.needs != ANY_NODE
    if task.kind is TaskType.NODE_RELEASE:
        forbidden["fail_job_on_failure"] = task.fail_job_on_failure
    for field, is_set in forbidden.items():
        if is_set:
            part.refuse(
                "special-task",
                f"{part}, a {task.kind.value} task, has {_OF_ORDINARY_TASKS[field]}",
                "remove it: this kind of task cannot have it",
                field,
            )


_OF_ORDINARY_TASKS = {
    "depends_on": "dependencies",
    "group": "a group",
    "required_nodes": "required nodes",
    "exclusive": "the option exclusive",
    "distribution": "a distribution",
    "minimum": "a size",
    "node_group": "a node group",
    "needs": "needs of its own",
    "fail_job_on_failure": "a failure that fails the job",
}
"""What special tasks cannot have, as messages call it."""


def _check_task_staging(spec: JobSpec, task: TaskSpec, part: JobPart) -> None:
    if task.stages or task.credential or spec.credential:
        from headnode.core.model.staging import check_staging

        check_staging(spec, task, part)


_RULES: tuple[Callable[[JobSpec, TaskSpec, JobPart], None], ...] = (
    _check_task_size,
    _check_task_limits,
    _check_task_exclusive,
    _check_task_nodes,
    _check_task_words,
    _check_task_sweep,
    _check_task_special,
    check_task_processes,
    _check_task_staging,
)
