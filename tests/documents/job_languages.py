"""The reference pages of the job languages, printed from their rows and from the reports of their writers."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from headnode.core.formats.dialects.reading import DIALECTS
from headnode.core.formats.dialects.writing import write
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.grid.keys import (
    ITEM_ROWS,
    JOB_ROWS,
    REQUIREMENT_ROWS,
    TASK_ROWS,
    GridRole,
    GridRow,
    GridTable,
)
from headnode.core.formats.hpc_xml.attributes import HPC, JOB_ATTRIBUTES, TASK_ATTRIBUTES, HpcRole, HpcRow
from headnode.core.formats.native.keys import ALTERNATIVE_ROWS, JOB_KEYS, TASK_ALTERNATIVE_ROWS, TASK_KEYS
from headnode.core.formats.native.values import NativeRow
from headnode.core.formats.sss.attributes import ATTRIBUTES
from headnode.core.formats.sss.properties import SssProperty
from headnode.core.formats.sss.property_rows import (
    CHILDREN,
    NODE_PROPERTIES,
    ROWS,
    ElementPlace,
    PropertyRole,
    RequirementLevel,
    SssRow,
    meaning_of,
    stands_wrapped,
)
from headnode.core.formats.sss.value_types import SssVersion
from headnode.core.formats.text.toml_text import toml_value
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, GroupEdge, JobSpec, Licence, NodeGroupOp, OrderKey, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, Priority, Seconds
from headnode.core.model.task import Distribution, ResourceLimit, TaskSpec, TaskType

_ROLES = {HpcRole.FIELD: "", HpcRole.LIVE: "only in exports", HpcRole.KEPT: "kept, without effect"}


def hpc_xml_reference() -> str:
    """Return every attribute of Job and of Task as tables in Markdown."""
    job, task = "\n".join(_hpc_xml_table(JOB_ATTRIBUTES)), "\n".join(_hpc_xml_table(TASK_ATTRIBUTES))
    return f"### Attributes of Job\n\n{job}\n\n### Attributes of Task\n\n{task}\n"


def _hpc_xml_table(rows: Iterable[HpcRow]) -> Iterator[str]:
    yield "| HPC Pack | CCS 2003 | also read | field | width | source |"
    yield "|---|---|---|---|---|---|"
    for row in rows:
        later = " (2008 R2)" if row.since == HPC and row.hpc else ""
        meaning = _ROLES[row.role] or f"`{row.field}`"
        cells = (row.hpc + later, row.ccs, ", ".join(row.also), meaning, str(row.width or ""), row.source)
        yield f"| {' | '.join(cells)} |"


_GRID_TITLES = {
    "Job": JOB_ROWS,
    "Task of a job": ITEM_ROWS,
    "Definition of a task": TASK_ROWS,
    "Requirements": REQUIREMENT_ROWS,
}


def grid_reference() -> str:
    """Return every key of grid descriptions as tables in Markdown."""
    return "\n".join(line for title, table in _GRID_TITLES.items() for line in _grid_section(title, table))


def _grid_section(title: str, table: GridTable) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| key | value | becomes | source |"
    yield "|---|---|---|---|"
    for row in table.rows:
        key = f"**{row.key}**" if row.required else row.key
        yield f"| {key} | {row.value.title} | {_grid_meaning(row)} | {row.help} |"
    yield ""


def _grid_meaning(row: GridRow) -> str:
    if row.field:
        return ("" if row.role is GridRole.FIELD else "kept; ") + row.field
    return {
        GridRole.FORM: "the form of the document",
        GridRole.KEPT: row.becomes or "kept",
        GridRole.FIELD: row.becomes,
    }[row.role]


def native_reference() -> str:
    """Return every key of the native form as tables in Markdown."""
    sections = {
        "Keys of the job": JOB_KEYS,
        "Keys of a task": TASK_KEYS,
        "Keys of an alternative": ALTERNATIVE_ROWS,
        "Keys of a task in an alternative": TASK_ALTERNATIVE_ROWS,
    }
    return "\n".join(line for title, rows in sections.items() for line in _native_section(title, rows))


def _native_section(title: str, rows: Mapping[str, NativeRow]) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| key | meaning | value | example |"
    yield "|---|---|---|---|"
    for row in rows.values():
        example = "" if row.example is None else f"`{row.key} = {toml_value(row.example)}`"
        yield f"| {row.key} | {row.help} | {row.value.title} | {example} |"
    yield ""


_SSS_TITLES = {
    ElementPlace.JOB_GROUP: "JobGroup",
    ElementPlace.JOB: "Job",
    ElementPlace.TASK_GROUP: "TaskGroup",
    ElementPlace.TASK: "Task",
}


def sss_reference() -> str:
    """Return all properties, parts and attributes as tables in Markdown."""
    tables = {
        "Parts": _parts(),
        "Properties": _properties(),
        "Attributes": _attributes(),
    }
    return "\n".join(f"### {title}\n\n" + "\n".join(lines) + "\n" for title, lines in tables.items())


def _parts() -> Iterator[str]:
    yield "| element | in | how often | may be an id | source |"
    yield "|---|---|---|---|---|"
    for child in CHILDREN:
        most = "any number" if child.many else "once"
        often = f"at least {child.least}" if child.least else most
        parents = ", ".join(place.value for place in ElementPlace if place in child.parents)
        yield _line(f"`{child.name}`", parents, often, "yes" if child.reference else "", child.source)


def _properties() -> Iterator[str]:
    yield "| 3.1.0 | 3.0.3 | also read | type | in | how often | support | source |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in ROWS:
        also = ", ".join(f"`{name}`" for name in row.also)
        often = "must" if row.appearance is RequirementLevel.MUST else "any number" if row.many else "once"
        yield _line(
            f"`{row.name}`",
            f"`{_old_name(row)}`",
            also,
            row.type.name,
            _places(row),
            often,
            row.compliance.value,
            row.source,
        )


def _old_name(row: SssRow) -> str:
    name = row.name_in(SssVersion.V3_0)
    wrapped = any(stands_wrapped(row, place) for place in row.places)
    return f"NodeProperties/{name}" if wrapped else name


def _places(row: SssRow) -> str:
    if row.places >= frozenset(ElementPlace) - {ElementPlace.DATA}:
        return "anywhere"
    named = [title for place, title in _SSS_TITLES.items() if place in row.places]
    marks = [place.value for place in (ElementPlace.REQUESTED, ElementPlace.DELIVERED) if place in row.places]
    return ", ".join([*named, *marks])


def _attributes() -> Iterator[str]:
    yield "| attribute | of | type | words | source |"
    yield "|---|---|---|---|---|"
    for row in ATTRIBUTES:
        elements = [one.name for one in ROWS if one.shape is row.shape or issubclass(one.shape, row.shape)]
        everywhere = "requested properties" if row.requested else "every element"
        of = everywhere if row.shape is SssProperty else ", ".join(dict.fromkeys(elements))
        must = " (must)" if row.required else ""
        yield _line(f"`{row.name}`{must}", of, row.type.name, ", ".join(row.type.words), row.source)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


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
    "one job of its name at a time": replace(_JOB, singleton=True),
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
    "sockets, cores and threads of nodes": replace(
        _JOB, needs=NodeNeeds(minimum_sockets=2, minimum_cores_per_socket=8, minimum_threads_per_core=2)
    ),
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
_WORDS = {
    Fidelity.NOT_SUPPORTED: "no",
    Fidelity.APPROXIMATED: "nearly",
    Fidelity.TRANSLATED: "in other words",
}


def reference_page() -> str:
    """Return the whole page as Markdown."""
    parts = [
        _HEAD,
        "## What can be said\n",
        "Each line is a job that asks for this; each cell what the writer of the language reports.\n",
        *_sayable(),
        "\n## The native form\n",
        native_reference(),
        "## Grid JSON\n",
        "Keys in bold must be there.\n",
        grid_reference(),
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
    try:
        usual = {(item.kind, item.what) for item in write(plain, dialect)[1]}
        found = {(item.kind, item.what) for item in write(spec, dialect)[1]} - usual
    except BadRequest:
        return "no"
    kinds = {kind for kind, _ in found}
    return next((word for kind, word in _WORDS.items() if kind in kinds), "yes")


_PARTS = {
    "JobGroup": "its jobs, with links between them",
    "JobDefaults": "what its jobs do not say themselves",
    "Job": "a job; one defined elsewhere is not supported",
    "TaskGroupDefaults": "what task groups do not say themselves",
    "TaskGroup": "a task; all tasks of the job start together",
    "TaskDefaults": "what tasks do not say themselves",
    "Task": "an instance; a task of its own where it differs from its group",
    "Requested": "what the job asks for at best; alternatives, in the order of preference",
    "Delivered": "what the job used",
    "Variable": "one variable of environment; a value without signs takes it away",
    "File": "the script that an Executable #id means, in command",
    NODE_PROPERTIES: "Node and Feature in 3.0.3",
}
"""What the elements of SSS that hold others mean to Headnode."""

_PART_SOURCES = {
    "Variable": "SSS 3.1.0, Variable Element",
    "File": "SSSRMAP, File; SSS 3.1.0, Table 25-2, note on Executable",
    NODE_PROPERTIES: "SSS 3.0.3, its examples",
}


class CoverageRow(NamedTuple):
    """One property or part of SSS in both versions, with the word of the column Compliance."""

    name: str
    name_3_0: str
    parent: str
    compliance: RequirementLevel | None  # None: a part, of which the tables do not say it
    coverage: PropertyRole
    becomes: str
    source: str


def coverage() -> tuple[CoverageRow, ...]:
    """Return a row for every property of the tables of SSS and every element with parts, in their order."""
    return (*(row for one in ROWS for row in _coverage_of(one)), *_coverage_of_parts())


def _coverage_of(row: SssRow) -> Iterator[CoverageRow]:
    """Yield one row for the places in which a property means the same, and one for each other meaning."""
    places: dict[tuple[PropertyRole, str], list[ElementPlace]] = {}
    for place in _SSS_TITLES:
        if place in row.places:
            found = meaning_of(row.name, place)
            places.setdefault((found.role, found.becomes), []).append(place)
    for (role, becomes), parents in places.items():
        name = row.name_in(SssVersion.V3_0)
        yield CoverageRow(row.name, name, ", ".join(parents), row.compliance, role, becomes, row.source)


def _coverage_of_parts() -> Iterator[CoverageRow]:
    children = {child.name: child for child in CHILDREN}
    for name, becomes in _PARTS.items():
        child = children.get(name)
        parents = ", ".join(place for place in ElementPlace if child and place in child.parents)
        role = PropertyRole.OUTCOME if name == "Delivered" else PropertyRole.ACTED_ON
        source = child.source if child else _PART_SOURCES[name]
        yield CoverageRow(name, name, parents, None, role, becomes, source)


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


if __name__ == "__main__":
    sys.stdout.write(reference_page())
