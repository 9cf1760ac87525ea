"""The reference page of job languages, printed from the rows of each, and from what their writers report."""

from collections.abc import Iterator

from msgspec.structs import replace

from headnode.core.formats.dialects.table import DIALECTS
from headnode.core.formats.dialects.writing import write
from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.reference import reference_tables as grid_tables
from headnode.core.formats.native_form.reference import reference_tables as native_tables
from headnode.core.formats.sss.meaning import coverage
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import (
    Alternative,
    GroupEdge,
    JobSpec,
    Licence,
    NodeGroupOp,
    OrderKey,
    UnitType,
)
from headnode.core.model.limits import ResourceLimit
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, Priority, Seconds
from headnode.core.model.task import Distribution, TaskSpec, TaskType

_TASK = TaskSpec(name="a", command="/bin/a x")
_JOB = JobSpec(tasks=(_TASK,))
_HEAD = """# What each job language says

Printed from the code that reads and writes; [Job languages](../job-languages.md) says how to use it.
"""
_JOB_WISHES: dict[str, JobSpec] = {
    "name": replace(_JOB, name="n"),
    "project": replace(_JOB, project="p"),
    "job template, queue": replace(_JOB, template="t"),
    "priority, one of five": replace(_JOB, priority=Priority(3000)),
    "priority, any of 4001": replace(_JOB, priority=Priority(3001)),
    "processors of the job": replace(_JOB, minimum=2, maximum=4),
    "whole nodes instead of processors": replace(
        _JOB, unit=UnitType.NODE, minimum=2, maximum=2, tasks=(replace(_TASK, minimum=2, maximum=2),)
    ),
    "sockets instead of processors": replace(_JOB, unit=UnitType.SOCKET, minimum=2, maximum=2),
    "exclusive nodes": replace(_JOB, exclusive=True),
    "all on one node": replace(_JOB, single_node=True, tasks=(_TASK, replace(_TASK, name="b"))),
    "run time limit in minutes": replace(_JOB, run_time=Seconds(120.0)),
    "run time limit in seconds": replace(_JOB, run_time=Seconds(90.0)),
    "until it is canceled": replace(_JOB, minimum=1, maximum=1, run_until_canceled=True),
    "licences": replace(_JOB, licences=(Licence("solver", 2),)),
    "node groups, features": replace(_JOB, node_groups=("gpu",)),
    "any of several node groups": replace(_JOB, node_groups=("gpu", "big"), node_group_op=NodeGroupOp.UNION),
    "requested nodes": replace(_JOB, requested_nodes=("n1", "n2")),
    "excluded nodes": replace(_JOB, excluded_nodes=("n3",)),
    "which nodes first": replace(_JOB, order_by=(OrderKey("memory"),)),
    "memory of nodes, at least": replace(_JOB, minimum_memory=1000),
    "memory of nodes, at most": replace(_JOB, maximum_memory=1000),
    "processors of nodes, at least": replace(_JOB, minimum_processors_per_node=4),
    "processors of nodes, at most": replace(_JOB, maximum_processors_per_node=4),
    "memory of each process": replace(_JOB, process_memory=100),
    "first failure fails the job": replace(
        _JOB, fail_on_task_failure=True, tasks=(_TASK, replace(_TASK, name="b"))
    ),
    "failed tasks are run again": replace(_JOB, task_retry_limit=2),
    "exit codes that mean success": replace(_JOB, valid_exit_codes=((0, 2),)),
    "jobs that must finish first": replace(_JOB, parents=(7,)),
    "jobs that must fail, be over or start first": replace(
        _JOB, after_failure=(7,), after_exit=(8,), after_start=(9,)
    ),
    "hold until": replace(_JOB, hold_until=Instant(2_000_000_000.0)),
    "holds by name": replace(_JOB, holds=("data", "review")),
    "reservation of nodes": replace(_JOB, reservation="course"),
    "deadline": replace(_JOB, end_by=Instant(2_000_000_000.0)),
    "may be suspended": replace(_JOB, suspendable=True),
    "may not be preempted": replace(_JOB, preemptable=False),
    "a program in a terminal": replace(_JOB, interactive=True),
    "features of nodes": replace(_JOB, needs=NodeNeeds(features=(("gpu",), ("big",)))),
    "one of several features": replace(_JOB, needs=NodeNeeds(features=(("gpu", "big"),))),
    "features that nodes lack": replace(_JOB, needs=NodeNeeds(lacking=("old",))),
    "names of nodes by pattern": replace(_JOB, needs=NodeNeeds(patterns=("n.*",))),
    "architecture and operating system": replace(
        _JOB, needs=NodeNeeds(architectures=("x86_64",), systems=("Linux",))
    ),
    "disk and swap of nodes": replace(_JOB, needs=NodeNeeds(minimum_disk=1000, minimum_swap=1000)),
    "memory and swap of nodes together": replace(_JOB, needs=NodeNeeds(minimum_virtual=1000)),
    "speed of nodes": replace(_JOB, needs=NodeNeeds(minimum_speed=2000)),
    "all tasks start together": replace(_JOB, together=True, tasks=(_TASK, replace(_TASK, name="b"))),
    "alternatives": replace(_JOB, minimum=4, maximum=4, alternatives=(Alternative(minimum=2, maximum=2),)),
    "limits of processes": replace(_JOB, resource_limits=(ResourceLimit("nofile", 1024, 4096),)),
    "job group": replace(_JOB, job_group="night"),
    "description": replace(_JOB, description="what it is for"),
    "notices by mail": replace(_JOB, notify_on_start=True, email="ann@example.org"),
    "run as": replace(_JOB, run_as="ann"),
    "environment of the job": replace(_JOB, environment={"A": "1"}),
    "own words": replace(_JOB, properties={"A": "1"}),
    "groups of tasks in order": replace(
        _JOB,
        tasks=(replace(_TASK, group=1), replace(_TASK, name="b", group=2)),
        group_edges=(GroupEdge(1, 2),),
    ),
}
_TASK_WISHES: dict[str, TaskSpec] = {
    "several processors": replace(_TASK, minimum=4, maximum=4),
    "from so many processors to so many": replace(_TASK, minimum=2, maximum=4),
    "sweep": replace(_TASK, kind=TaskType.SWEEP, start=1, end=9, command="/bin/a *"),
    "run time limit of a task": replace(_TASK, run_time=Seconds(120.0)),
    "exclusive on its node": replace(_TASK, exclusive=True),
    "rerunnable": replace(_TASK, rerunnable=True),
    "shell command": replace(_TASK, command="a | b"),
    "standard input, output, error": replace(_TASK, standard_output="/data/out"),
    "work directory": replace(_TASK, work_directory="/data"),
    "required nodes": replace(_TASK, required_nodes=("n1",)),
    "nodes that a task may use": replace(_TASK, needs=NodeNeeds(names=("n1", "n2"))),
    "features of nodes of a task": replace(_TASK, needs=NodeNeeds(features=(("gpu",),))),
    "processes on each node": replace(
        _TASK, minimum=4, maximum=4, command="mpiexec -n 4 /bin/a", distribution=Distribution(per_node=2)
    ),
    "processes evenly over so many nodes": replace(
        _TASK, minimum=4, maximum=4, command="mpiexec -n 4 /bin/a", distribution=Distribution(nodes=2)
    ),
    "processes that share a node, by number": replace(
        _TASK,
        minimum=3,
        maximum=3,
        command="mpiexec -n 3 /bin/a",
        distribution=Distribution(geometry=((1, 3), (2,))),
    ),
    "limits of processes of a task": replace(_TASK, resource_limits=(ResourceLimit("core", 0, 0),)),
    "a directory of its own": replace(_TASK, private_directory=True),
    "node group of a task": replace(_TASK, node_group="gpu"),
    "environment of a task": replace(_TASK, environment={"A": "1"}),
    "exit codes of a task": replace(_TASK, valid_exit_codes=((0, 2),)),
    "its failure fails the job": replace(_TASK, fail_job_on_failure=True),
    "preparation and release of nodes": replace(_TASK, kind=TaskType.NODE_PREP),
}
_WORDS = {Kind.NOT_SUPPORTED: "no", Kind.APPROXIMATED: "nearly", Kind.TRANSLATED: "in other words"}


def reference_page() -> str:
    """Return the whole page as Markdown."""
    parts = [
        _HEAD,
        "## What can be said\n",
        "Each line is a job that asks for this; each cell what the writer of the language reports.\n",
        *_sayable(),
        "\n## The native form\n",
        native_tables(),
        "## Grid JSON\n",
        "Keys in bold must be there.\n",
        grid_tables(),
        "## The SSS job object\n",
        *_sss_coverage(),
    ]
    return "\n".join(parts) + "\n"


def _sayable() -> Iterator[str]:
    names = [name for name in DIALECTS if name not in ("native-json", "grid-task", "sss-3.0")]
    yield f"| a job asks for | {' | '.join(f'`{name}`' for name in names)} |"
    yield "|---" * (len(names) + 1) + "|"
    wishes = _JOB_WISHES | {name: replace(_JOB, tasks=(task,)) for name, task in _TASK_WISHES.items()}
    wishes["tasks that wait for tasks"] = replace(
        _JOB, tasks=(_TASK, replace(_TASK, name="b", depends_on=("a",)))
    )
    for title, spec in wishes.items():
        yield f"| {title} | {' | '.join(_cell(spec, name) for name in names)} |"


def _cell(spec: JobSpec, dialect: str) -> str:
    """Return how well a dialect says what a job asks for beyond the plainest job of as many tasks."""
    plain = replace(_JOB, tasks=tuple(replace(_TASK, name=task.name) for task in spec.tasks))
    usual = {(item.kind, item.what) for item in write(plain, dialect)[1]}
    try:
        found = {(item.kind, item.what) for item in write(spec, dialect)[1]} - usual
    except BadRequest:
        return "no"
    kinds = {kind for kind, _ in found}
    return next((word for kind, word in _WORDS.items() if kind in kinds), "yes")


def _sss_coverage() -> Iterator[str]:
    yield "| 3.1.0 | 3.0.3 | in | compliance | | becomes | source |"
    yield "|---|---|---|---|---|---|---|"
    for row in coverage():
        compliance = row.compliance.value if row.compliance else ""
        cells = (
            f"`{row.name}`",
            f"`{row.name_3_0}`",
            row.parent,
            compliance,
            row.coverage,
            row.becomes,
            row.source,
        )
        yield f"| {' | '.join(cells)} |"
