"""Every key of a grid description, with its values and what becomes of it.

Source: grid, "Attributes of task descriptions" and "Resource requirements"; the schemas of the Pilot service
for jobs, tasks and requirements, which have some more keys.
"""

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.rows import Role, Row, table
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
    Value,
)

_GRID, _JOB, _TASK = "grid: ", "Pilot service, job description: ", "Pilot service, task description: "
_LATER = "it is kept, and has no effect until files are transferred"
_NO_EFFECT = "it is kept, without effect"
_NOT_LOOKED_AT = "it is kept, but it does not select nodes"


def _kept(key: str, value: Value, source: str, becomes: str = _NO_EFFECT) -> Row:
    """Return the row of something that has no effect, though its writer meant one."""
    return Row(key=key, value=value, source=source, role=Role.KEPT, kind=Kind.NOT_SUPPORTED, becomes=becomes)


def _note(key: str, value: Value, source: str) -> Row:
    """Return the row of something that is for people and programs of the user's own: nothing is lost."""
    return Row(key=key, value=value, source=source, role=Role.KEPT, becomes="it is kept")


def _needed(key: str, value: Value, source: str, field: str) -> Row:
    """Return the row of something that is demanded of nodes."""
    return Row(key=key, value=value, source=source, field=field)


REQUIREMENT_ROWS = table(
    "requirements",
    _needed(
        "hostname",
        HOSTS,
        _GRID + "requirements: host names on which the task may run",
        "job requested_nodes, task needs.names",
    ),
    Row(
        key="lrms",
        value=TEXT,
        source=_GRID + "requirements: type of the batch system, for example Fork, PBS, Cleo",
        role=Role.KEPT,
        field="Headnode itself starts the tasks, as Fork does",
    ),
    Row(
        key="fork",
        value=FLAG,
        source=_GRID + "requirements: whether lrms Fork may be used",
        role=Role.KEPT,
        kind=Kind.NOTE,
        becomes="it is kept; it only allows what Headnode does not need: Fork",
    ),
    Row(
        key="queue",
        value=TEXT,
        source=_GRID + "requirements: queue of the batch system",
        role=Role.KEPT,
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

TASK_ROWS = table(
    "task definition",
    Row(key="version", value=VERSION, source=_GRID + "version", role=Role.FORM, required=True),
    _note("description", TEXT, _GRID + "description: for people"),
    Row(
        key="executable",
        value=SOME_TEXT,
        source=_GRID + "executable: an absolute path, or one in the directory of the task",
        field="command",
        becomes="it is the program of the command line",
        required=True,
        substituted=True,
    ),
    Row(
        key="arguments",
        value=TEXTS,
        source=_GRID + "arguments",
        field="command",
        kind=Kind.TRANSLATED,
        becomes="they are in the command line, quoted",
        substituted=True,
    ),
    Row(
        key="environment",
        value=ENVIRONMENT,
        source=_GRID + "environment: names become upper case",
        field="environment; the spelling of the names is kept",
        substituted=True,
    ),
    Row(
        key="count",
        value=INTEGER,
        source=_GRID + "count: more than 1 means MPI",
        field="minimum, maximum, command",
    ),
    Row(key="jobtype", value=JOB_TYPE, source=_TASK + "jobtype", role=Role.KEPT, field="command, with count"),
    Row(
        key="nodes",
        value=AMOUNT,
        source=_TASK + "nodes",
        role=Role.KEPT,
        field="distribution; minimum, maximum with ppn",
    ),
    Row(
        key="ppn",
        value=AMOUNT,
        source=_TASK + "ppn: MPI processes on each node",
        role=Role.KEPT,
        field="distribution; minimum, maximum with nodes",
    ),
    Row(key="stdin", value=TEXT, source=_GRID + "stdin", field="standard_input", substituted=True),
    Row(key="stdout", value=TEXT, source=_GRID + "stdout", field="standard_output", substituted=True),
    Row(key="stderr", value=TEXT, source=_GRID + "stderr", field="standard_error", substituted=True),
    Row(
        key="input_files",
        value=FILES,
        source=_GRID + "input_files: names on the node, with source paths or URLs",
        role=Role.KEPT,
        substituted=True,
    ),
    Row(
        key="output_files",
        value=FILES,
        source=_GRID + "output_files: names on the node, with target paths or URLs",
        role=Role.KEPT,
        substituted=True,
    ),
    Row(
        key="default_storage_base",
        value=URI,
        source=_GRID + "default_storage_base: paths of files are below it; the task's replaces the job's",
        role=Role.KEPT,
        becomes="paths of files are resolved against it",
        substituted=True,
    ),
    Row(
        key="max_success_code",
        value=EXIT_CODE,
        source=_GRID + "max_success_code: the largest exit code, without sign, that means success; else 0",
        field="valid_exit_codes",
        kind=Kind.TRANSLATED,
        becomes="exit codes from 0 to it mean success",
    ),
    _kept("max_transfer_attempts", AMOUNT, _TASK + "max_transfer_attempts; else the job's, else 5", _LATER),
    Row(
        key="requirements",
        value=REQUIREMENTS,
        source=_GRID + "requirements: they replace the job's, key by key",
        role=Role.FORM,
    ),
    _kept("extensions", ANYTHING, _TASK + "extensions: handed on to the batch system"),
    _note("meta", ANYTHING, _GRID + "meta: any content, for the user's own purposes"),
)
"""The definition of a task, in a job or on its own."""

ITEM_ROWS = table(
    "task",
    Row(
        key="id",
        value=NAME,
        source=_JOB + "id: letters, digits, '-' and '_'",
        field="name",
        becomes="it is the name of the task",
        required=True,
    ),
    _note("description", TEXT, _JOB + "description of a task: for people"),
    Row(
        key="children",
        value=IDS,
        source=_JOB + "children: tasks that start when this one has finished",
        field="depends_on",
        kind=Kind.TRANSLATED,
        becomes="each child depends on the task",
    ),
    Row(key="definition", value=DEFINITION, source=_JOB + "definition", role=Role.FORM),
    Row(
        key="filename",
        value=TEXT,
        source=_JOB + "filename: a file with the definition, beside the job's",
        role=Role.FORM,
        kind=Kind.TRANSLATED,
        becomes="the definition is read from the file",
    ),
    Row(
        key="meta",
        value=ANYTHING,
        source=_JOB + "meta of a task",
        role=Role.KEPT,
        field="properties, if all its values are texts",
    ),
    elsewhere=dict.fromkeys(TASK_ROWS.by_key, "'definition' of the task"),
)
"""A task of a job, around its definition."""

JOB_ROWS = table(
    "job",
    Row(key="version", value=VERSION, source=_GRID + "version", role=Role.FORM, required=True),
    Row(
        key="description",
        value=TEXT,
        source=_JOB + "description: for people",
        field="name",
        kind=Kind.TRANSLATED,
        becomes="it is the name of the job",
    ),
    Row(
        key="default_storage_base",
        value=URI,
        source=_GRID + "default_storage_base: paths of files are below it",
        role=Role.KEPT,
        becomes="paths of files are resolved against it",
        substituted=True,
    ),
    _kept("max_transfer_attempts", AMOUNT, _JOB + "max_transfer_attempts, for each file; else 5", _LATER),
    Row(key="tasks", value=TASKS, source=_GRID + "tasks", role=Role.FORM, field="tasks", required=True),
    Row(
        key="groups",
        value=GROUPS,
        source=_JOB + "groups: tasks that run on the same resource",
        role=Role.KEPT,
        field="single_node, if they connect all tasks; the cluster is one resource",
    ),
    Row(
        key="requirements",
        value=REQUIREMENTS,
        source=_GRID + "requirements: for every task without its own",
        role=Role.FORM,
    ),
    Row(
        key="meta",
        value=ANYTHING,
        source=_JOB + "meta: any content",
        role=Role.KEPT,
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
