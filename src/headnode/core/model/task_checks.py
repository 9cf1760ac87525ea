"""What is wrong with one task of a job, whatever the cluster looks like.

Source: HPC Pack task validation and task types; CCS, "Standard job and task options".
"""

import math
from collections.abc import Callable

from headnode.core.model.job import JobSpec
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.process_checks import check_task_processes
from headnode.core.model.quantities import FOREVER
from headnode.core.model.small_checks import (
    called,
    check_codes,
    check_environment,
    check_listed,
    check_positive,
    check_run_time,
    refuse,
)
from headnode.core.model.task import MOST_INSTANCES, PREPARING, SPECIAL, TaskSpec, TaskType

MOST_CRITICAL_FAILURES = 1_000_000


def check_task(spec: JobSpec, number: int) -> None:
    """Refuse task `number` (from 1) of `spec` when it is wrong by itself or beside its job's options.

    Raises:  BadRequest; `code` names the rule.
    """
    task = spec.tasks[number - 1]
    for rule in _RULES:
        rule(spec, task, called(number, task))


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
