"""Every key of a grid description, with its values and its effect, and the JSON Schemas of these tables."""

from typing import Any

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.grid.values import (
    AMOUNT,
    ANYTHING,
    DEFINITION,
    ENVIRONMENT,
    EXIT_CODE,
    FILES,
    FLAG,
    GROUPS,
    HOSTS,
    IDS,
    INTEGER,
    JOB_TYPE,
    NAME,
    REQUIREMENTS,
    SOME_TEXT,
    TASKS,
    TEXT,
    TEXTS,
    URI,
    VERSION,
    GridRole,
    GridRow,
    GridTable,
    GridValue,
    table_of,
)

_GRID, _JOB, _TASK = "grid: ", "Pilot service, job description: ", "Pilot service, task description: "
_LATER = "it is kept, and has no effect until files are transferred"
_NO_EFFECT = "it is kept, without effect"
_NOT_LOOKED_AT = "it is kept, but it does not select nodes"


def _kept(key: str, value: GridValue, source: str, becomes: str = _NO_EFFECT) -> GridRow:
    """Return the row of something that has no effect, though its writer meant one."""
    return GridRow(
        key=key, value=value, source=source, role=GridRole.KEPT, kind=Fidelity.NOT_SUPPORTED, becomes=becomes
    )


def _note(key: str, value: GridValue, source: str) -> GridRow:
    """Return the row of something that is for people and programs of the user's own: nothing is lost."""
    return GridRow(key=key, value=value, source=source, role=GridRole.KEPT, becomes="it is kept")


def _needed(key: str, value: GridValue, source: str, field: str) -> GridRow:
    """Return the row of something that is demanded of nodes."""
    return GridRow(key=key, value=value, source=source, field=field)


REQUIREMENT_ROWS = table_of(
    "requirements",
    _needed(
        "hostname",
        HOSTS,
        _GRID + "requirements: host names on which the task may run",
        "job requested_nodes, task needs.names",
    ),
    GridRow(
        key="lrms",
        value=TEXT,
        source=_GRID + "requirements: type of the batch system, for example Fork, PBS, Cleo",
        role=GridRole.KEPT,
        field="Headnode itself starts the tasks, as Fork does",
    ),
    GridRow(
        key="fork",
        value=FLAG,
        source=_GRID + "requirements: whether lrms Fork may be used",
        role=GridRole.KEPT,
        kind=Fidelity.NOTE,
        becomes="it is kept; it only allows what Headnode does not need: Fork",
    ),
    GridRow(
        key="queue",
        value=TEXT,
        source=_GRID + "requirements: queue of the batch system",
        role=GridRole.KEPT,
        field="template, if all tasks are in one queue",
    ),
    _needed("os_name", TEXT, "Pilot service, requirements", "needs.systems"),
    _kept("os_release", TEXT, "Pilot service, requirements", _NOT_LOOKED_AT),
    _kept("os_version", TEXT, "Pilot service, requirements", _NOT_LOOKED_AT),
    _needed("platform", TEXT, "Pilot service, requirements", "needs.architectures"),
    _needed(
        "cpu_instruction_set",
        TEXT,
        "Pilot service, requirements",
        "needs.architectures, unless there is another platform",
    ),
    _needed(
        "smp_size",
        AMOUNT,
        "Pilot service, requirements: processors of a node",
        "job minimum_processors_per_node, task needs.minimum_processors",
    ),
    _needed(
        "ram_size",
        AMOUNT,
        "Pilot service, requirements: memory of a node in MB",
        "job minimum_memory, task needs.minimum_memory",
    ),
    _needed(
        "virtual_size",
        AMOUNT,
        "Pilot service, requirements: memory and swap of a node in MB",
        "needs.minimum_virtual",
    ),
    _needed(
        "cpu_hz",
        AMOUNT,
        "Pilot service, requirements: speed of the processors, in Hz; below 1000000 it is in MHz",
        "needs.minimum_speed",
    ),
    _needed(
        "software",
        TEXT,
        "Pilot service, requirements: packages, for example gcc >= 4.1",
        "needs.features; versions are kept, but not compared",
    ),
)
"""Requirements of a job or of a task.  Those of the task replace the job's, key by key."""

TASK_ROWS = table_of(
    "task definition",
    GridRow(key="version", value=VERSION, source=_GRID + "version", role=GridRole.FORM, required=True),
    _note("description", TEXT, _GRID + "description: for people"),
    GridRow(
        key="executable",
        value=SOME_TEXT,
        source=_GRID + "executable: an absolute path, or one in the directory of the task",
        field="command",
        becomes="it is the program of the command line",
        required=True,
        substituted=True,
    ),
    GridRow(
        key="arguments",
        value=TEXTS,
        source=_GRID + "arguments",
        field="command",
        kind=Fidelity.TRANSLATED,
        becomes="they are in the command line, quoted",
        substituted=True,
    ),
    GridRow(
        key="environment",
        value=ENVIRONMENT,
        source=_GRID + "environment: names become upper case",
        field="environment; the spelling of the names is kept",
        substituted=True,
    ),
    GridRow(
        key="count",
        value=INTEGER,
        source=_GRID + "count: more than 1 means MPI",
        field="minimum, maximum, command",
    ),
    GridRow(
        key="jobtype",
        value=JOB_TYPE,
        source=_TASK + "jobtype",
        role=GridRole.KEPT,
        field="command, with count",
    ),
    GridRow(
        key="nodes",
        value=AMOUNT,
        source=_TASK + "nodes",
        role=GridRole.KEPT,
        field="distribution; minimum, maximum with ppn",
    ),
    GridRow(
        key="ppn",
        value=AMOUNT,
        source=_TASK + "ppn: MPI processes on each node",
        role=GridRole.KEPT,
        field="distribution; minimum, maximum with nodes",
    ),
    GridRow(key="stdin", value=TEXT, source=_GRID + "stdin", field="standard_input", substituted=True),
    GridRow(key="stdout", value=TEXT, source=_GRID + "stdout", field="standard_output", substituted=True),
    GridRow(key="stderr", value=TEXT, source=_GRID + "stderr", field="standard_error", substituted=True),
    GridRow(
        key="input_files",
        value=FILES,
        source=_GRID + "input_files: names on the node, with source paths or URLs",
        role=GridRole.KEPT,
        substituted=True,
    ),
    GridRow(
        key="output_files",
        value=FILES,
        source=_GRID + "output_files: names on the node, with target paths or URLs",
        role=GridRole.KEPT,
        substituted=True,
    ),
    GridRow(
        key="default_storage_base",
        value=URI,
        source=_GRID + "default_storage_base: paths of files are below it; the task's replaces the job's",
        role=GridRole.KEPT,
        becomes="paths of files are resolved against it",
        substituted=True,
    ),
    GridRow(
        key="max_success_code",
        value=EXIT_CODE,
        source=_GRID + "max_success_code: the largest exit code, without sign, that means success; else 0",
        field="valid_exit_codes",
        kind=Fidelity.TRANSLATED,
        becomes="exit codes from 0 to it mean success",
    ),
    _kept("max_transfer_attempts", AMOUNT, _TASK + "max_transfer_attempts; else the job's, else 5", _LATER),
    GridRow(
        key="requirements",
        value=REQUIREMENTS,
        source=_GRID + "requirements: they replace the job's, key by key",
        role=GridRole.FORM,
    ),
    _kept("extensions", ANYTHING, _TASK + "extensions: handed on to the batch system"),
    _note("meta", ANYTHING, _GRID + "meta: any content, for the user's own purposes"),
)
"""The definition of a task, in a job or on its own."""

ITEM_ROWS = table_of(
    "task",
    GridRow(
        key="id",
        value=NAME,
        source=_JOB + "id: letters, digits, '-' and '_'",
        field="name",
        becomes="it is the name of the task",
        required=True,
    ),
    _note("description", TEXT, _JOB + "description of a task: for people"),
    GridRow(
        key="children",
        value=IDS,
        source=_JOB + "children: tasks that start when this one has finished",
        field="depends_on",
        kind=Fidelity.TRANSLATED,
        becomes="each child depends on the task",
    ),
    GridRow(key="definition", value=DEFINITION, source=_JOB + "definition", role=GridRole.FORM),
    GridRow(
        key="filename",
        value=TEXT,
        source=_JOB + "filename: a file with the definition, beside the job's",
        role=GridRole.FORM,
        kind=Fidelity.TRANSLATED,
        becomes="the definition is read from the file",
    ),
    GridRow(
        key="meta",
        value=ANYTHING,
        source=_JOB + "meta of a task",
        role=GridRole.KEPT,
        field="properties, if all its values are texts",
    ),
    elsewhere=dict.fromkeys(TASK_ROWS.by_key, "'definition' of the task"),
)
"""A task of a job, around its definition."""

JOB_ROWS = table_of(
    "job",
    GridRow(key="version", value=VERSION, source=_GRID + "version", role=GridRole.FORM, required=True),
    GridRow(
        key="description",
        value=TEXT,
        source=_JOB + "description: for people",
        field="name",
        kind=Fidelity.TRANSLATED,
        becomes="it is the name of the job",
    ),
    GridRow(
        key="default_storage_base",
        value=URI,
        source=_GRID + "default_storage_base: paths of files are below it",
        role=GridRole.KEPT,
        becomes="paths of files are resolved against it",
        substituted=True,
    ),
    _kept("max_transfer_attempts", AMOUNT, _JOB + "max_transfer_attempts, for each file; else 5", _LATER),
    GridRow(
        key="tasks", value=TASKS, source=_GRID + "tasks", role=GridRole.FORM, field="tasks", required=True
    ),
    GridRow(
        key="groups",
        value=GROUPS,
        source=_JOB + "groups: tasks that run on the same resource",
        role=GridRole.KEPT,
        field="single_node, if they connect all tasks; the cluster is one resource",
    ),
    GridRow(
        key="requirements",
        value=REQUIREMENTS,
        source=_GRID + "requirements: for every task without its own",
        role=GridRole.FORM,
    ),
    GridRow(
        key="meta",
        value=ANYTHING,
        source=_JOB + "meta: any content",
        role=GridRole.KEPT,
        field="properties, if all its values are texts",
    ),
    elsewhere=dict.fromkeys(TASK_ROWS.by_key, "'definition' of a task")
    | dict.fromkeys(REQUIREMENT_ROWS.by_key, "'requirements'"),
)
"""The keys of a job."""

RESOURCE_KEYS = (
    *("created", "modified", "expires", "server_time", "server_policy_uri", "owner", "vo", "definition"),
    *("state", "operation", "tasks", "deleted", "job", "exit_code", "uri", "job_id", "delegation_id"),
)
"""What the Pilot service says of a job or task it has, around the description."""


DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PARTS = {"item": ITEM_ROWS, "task": TASK_ROWS, "requirements": REQUIREMENT_ROWS}


def job_schema() -> dict[str, Any]:
    """Return the schema of a job description."""
    parts = {name: _object(table) for name, table in _PARTS.items()}
    parts["item"]["not"] = {"required": ["definition", "filename"]}
    return _document("Grid job description, version 2", JOB_ROWS, parts)


def task_schema() -> dict[str, Any]:
    """Return the schema of the description of a task on its own."""
    parts = {"requirements": _object(REQUIREMENT_ROWS)}
    return _document("Grid task description, version 2", TASK_ROWS, parts)


def _document(title: str, table: GridTable, parts: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DRAFT, "title": title, **_object(table), "$defs": parts}


def _object(table: GridTable) -> dict[str, Any]:
    required = [row.key for row in table.rows if row.required]
    return {
        "type": "object",
        "properties": {row.key: {"description": row.source, **row.value.schema} for row in table.rows},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
