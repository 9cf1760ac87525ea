"""Every key of a grid description, with its values and its effect, and the JSON Schemas of these tables."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Annotated, Any, Literal

from msgspec import Meta

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.text.key_tables import KeyRow, KeyTable, KeyValue, described_form, json_schema_of
from headnode.core.model.job import JobSpec

MAX_CODE = 2**32 - 1  # an exit code without sign
MAX_COUNT = 2**31 - 1
ID = re.compile(r"[A-Za-z0-9_-]+")
_END = r"$(?!\n)"
"""The end of a text: for msgspec, as for Python, ``$`` alone is also before a newline at the end."""

_QUOTED, _BRACES = "write it in double quotes", "write it in braces: {...}"
TEXT = KeyValue("text", str, _QUOTED)
SOME_TEXT = KeyValue("text that is not empty", Annotated[str, Meta(min_length=1)], _QUOTED)
URI = KeyValue("text, a URI", described_form({"format": "uri"}, str), "write it as gsiftp://host/directory/")
VERSION = KeyValue("the number 2", Literal[2], "write 2")
FLAG = KeyValue("true or false", bool, "write true or false")
INTEGER = KeyValue(
    "a whole number",
    Annotated[int, Meta(ge=-MAX_COUNT - 1, le=MAX_COUNT)],
    "write a whole number, without quotes",
)
AMOUNT = KeyValue(
    "a whole number of at least 0",
    Annotated[int, Meta(ge=0, le=MAX_COUNT)],
    "write 0 or more, without quotes",
)
EXIT_CODE = KeyValue(
    "an exit code without sign",
    Annotated[int, Meta(ge=0, le=MAX_CODE)],
    f"write a number from 0 to {MAX_CODE}, without quotes",
)
JOB_TYPE = KeyValue(
    "one of single, mpi, openmp, hybrid",
    Literal["single", "mpi", "openmp", "hybrid"],
    "write single, mpi, openmp, hybrid",
)
NAME = KeyValue(
    "an id",
    Annotated[str, Meta(pattern=f"^{ID.pattern}{_END}")],
    "write letters of ASCII, digits, '-' and '_'",
)
TEXTS = KeyValue("a list of texts", list[str], 'write texts in brackets: ["-n", "4"]', part=TEXT)
_HOST = KeyValue("a name", Annotated[str, Meta(pattern=rf"^[^\s,]+{_END}")])
HOSTS = KeyValue(
    "a list of host names",
    Annotated[list[_HOST.form], Meta(min_length=1)],  # type: ignore[name-defined]  # made at run time
    'write at least one name in brackets: ["n1"]',
    part=_HOST,
)
IDS = KeyValue("a list of task ids", list[str], 'write ids in brackets: ["b", "c"]', part=TEXT)
_GROUP = KeyValue("a group of two task ids or more", Annotated[list[str], Meta(min_length=2)], part=TEXT)
GROUPS = KeyValue(
    "a list of groups of task ids",
    Annotated[list[_GROUP.form], Meta(min_length=1)],  # type: ignore[name-defined]  # made at run time
    'write groups of two tasks or more, in brackets: [["a", "b"]]',
    part=_GROUP,
)
ENVIRONMENT = KeyValue(
    "names with texts", dict[str, str | int], 'write {"NAME": "text"}', part=KeyValue("text", str | int)
)
FILES = KeyValue(
    "names of files with paths or URLs",
    dict[str, str],
    'write {"file": "path or URL"}',
    part=KeyValue("a path or URL", str),
)
ANYTHING = KeyValue("an object", dict[str, Any], "write it in braces")


def object_of(table: KeyTable["GridRow"], title: str) -> KeyValue:
    """Return the kind of an object that has rows of its own, by which it is checked."""
    return KeyValue(title, dict, _BRACES, inside=table.form)


def objects_of(table: KeyTable["GridRow"], title: str, fix: str) -> KeyValue:
    """Return the kind of a list of at least one object with rows of its own."""
    least = Meta(min_length=1)
    inside = Annotated[list[table.form], least]  # type: ignore[name-defined]  # made at run time
    return KeyValue(
        title,
        Annotated[list[dict[str, Any]], least],
        fix,
        part=KeyValue("an object", dict, _BRACES),
        inside=inside,
    )


class GridRole(Enum):
    """What becomes of a key in the model."""

    FORM = auto()  # it belongs to the form of the document: its version, its parts
    FIELD = auto()  # it has a typed field
    KEPT = auto()  # it has no effect here; it is kept in the extensions and written back


class GridRow(KeyRow, frozen=True, kw_only=True):
    """One key; its help names the source."""

    field: str = ""  # of JobSpec or TaskSpec, in words for the reference page
    role: GridRole = GridRole.FIELD
    kind: Fidelity = Fidelity.KEPT
    becomes: str = ""  # said once in the report of a read; "": the code that reads the key says it
    substituted: bool = False  # ``{name}`` in its texts is replaced


class GridTable(KeyTable[GridRow]):
    """The keys of one kind of object; `elsewhere` has keys that people write here, and where they belong."""

    def __init__(
        self, title: str, name: str, rows: Iterable[GridRow], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(title, rows, name)
        self.elsewhere = elsewhere or {}


_GRID, _JOB, _TASK = "grid: ", "Pilot service, job description: ", "Pilot service, task description: "
_NEEDS = "Pilot service, requirements"
_NO_EFFECT = "it is kept, without effect"
_NOT_LOOKED_AT = "it is kept, but it does not select nodes"
_FORM, _KEPT, _TRANSLATED = GridRole.FORM, GridRole.KEPT, Fidelity.TRANSLATED


def _row(key: str, value: KeyValue, source: str, field: str = "", **more: Any) -> GridRow:
    return GridRow(key=key, value=value, help=source, field=field, **more)


def _kept(key: str, value: KeyValue, source: str, becomes: str = _NO_EFFECT) -> GridRow:
    """Return the row of something that has no effect, though its writer meant one."""
    return _row(key, value, source, role=_KEPT, kind=Fidelity.NOT_SUPPORTED, becomes=becomes)


def _note(key: str, value: KeyValue, source: str) -> GridRow:
    """Return the row of something that is for people and programs of the user's own: nothing is lost."""
    return _row(key, value, source, role=_KEPT, becomes="it is kept")


_VERSION = _row("version", VERSION, _GRID + "version", role=_FORM, required=True)

REQUIREMENT_ROWS = GridTable("requirements", "requirements", (
    _row("hostname", HOSTS, _GRID + "requirements: host names on which the task may run",
        "job requested_nodes, task needs.names"),
    _row("lrms", TEXT, _GRID + "requirements: type of the batch system, for example Fork, PBS, Cleo",
        "resource, if one has that scheduler or name; Fork: own nodes", role=_KEPT),
    _row("fork", FLAG, _GRID + "requirements: whether lrms Fork may be used", role=_KEPT,
        kind=Fidelity.NOTE, becomes="it is kept; it only allows what Headnode does not need: Fork"),
    _row("queue", TEXT, _GRID + "requirements: queue of the batch system",
        "template, if all tasks are in one queue", role=_KEPT),
    _row("os_name", TEXT, _NEEDS, "needs.systems"),
    _kept("os_release", TEXT, _NEEDS, _NOT_LOOKED_AT),
    _kept("os_version", TEXT, _NEEDS, _NOT_LOOKED_AT),
    _row("platform", TEXT, _NEEDS, "needs.architectures"),
    _row("cpu_instruction_set", TEXT, _NEEDS, "needs.architectures, unless there is another platform"),
    _row("smp_size", AMOUNT, _NEEDS + ": processors of a node",
        "job minimum_processors_per_node, task needs.minimum_processors"),
    _row("ram_size", AMOUNT, _NEEDS + ": memory of a node in MB",
        "job minimum_memory, task needs.minimum_memory"),
    _row("virtual_size", AMOUNT, _NEEDS + ": memory and swap of a node in MB", "needs.minimum_virtual"),
    _row("cpu_hz", AMOUNT, _NEEDS + ": speed of the processors, in Hz; below 1000000 it is in MHz",
        "needs.minimum_speed"),
    _row("software", TEXT, _NEEDS + ": packages, for example gcc >= 4.1",
        "needs.features; versions are kept, but not compared"),
))  # fmt: skip
"""Requirements of a job or of a task.  Those of the task replace the job's, key by key."""

_REQUIREMENTS = object_of(REQUIREMENT_ROWS, "an object of requirements")

TASK_ROWS = GridTable("task definition", "task", (
    _VERSION,
    _note("description", TEXT, _GRID + "description: for people"),
    _row("executable", SOME_TEXT,
        _GRID + "executable: an absolute path, or one in the directory of the task", "command",
        becomes="it is the program of the command line", required=True, substituted=True),
    _row("arguments", TEXTS, _GRID + "arguments", "command", kind=_TRANSLATED,
        becomes="they are in the command line, quoted", substituted=True),
    _row("environment", ENVIRONMENT, _GRID + "environment: names become upper case",
        "environment; the spelling of the names is kept", substituted=True),
    _row("count", INTEGER, _GRID + "count: more than 1 means MPI", "minimum, maximum, command"),
    _row("jobtype", JOB_TYPE, _TASK + "jobtype", "command, with count", role=_KEPT),
    _row("nodes", AMOUNT, _TASK + "nodes", "distribution; minimum, maximum with ppn", role=_KEPT),
    _row("ppn", AMOUNT, _TASK + "ppn: MPI processes on each node",
        "distribution; minimum, maximum with nodes", role=_KEPT),
    _row("stdin", TEXT, _GRID + "stdin", "standard_input", substituted=True),
    _row("stdout", TEXT, _GRID + "stdout", "standard_output", substituted=True),
    _row("stderr", TEXT, _GRID + "stderr", "standard_error", substituted=True),
    _row("input_files", FILES, _GRID + "input_files: names on the node, with source paths or URLs",
        "stage_in", substituted=True),
    _row("output_files", FILES, _GRID + "output_files: names on the node, with target paths or URLs",
        "stage_out", substituted=True),
    _row("default_storage_base", URI,
        _GRID + "default_storage_base: paths of files are below it; the task's replaces the job's",
        "storage_base", becomes="paths of files are resolved against it", substituted=True),
    _row("max_success_code", EXIT_CODE,
        _GRID + "max_success_code: the largest exit code, without sign, that means success; else 0",
        "valid_exit_codes", kind=_TRANSLATED, becomes="exit codes from 0 to it mean success"),
    _row("max_transfer_attempts", AMOUNT, _TASK + "max_transfer_attempts; else the job's, else 5",
        "transfer_attempts"),
    _row("requirements", _REQUIREMENTS, _GRID + "requirements: they replace the job's, key by key",
        role=_FORM),
    _kept("extensions", ANYTHING, _TASK + "extensions: handed on to the batch system"),
    _note("meta", ANYTHING, _GRID + "meta: any content, for the user's own purposes"),
))  # fmt: skip
"""The definition of a task, in a job or on its own."""

ITEM_ROWS = GridTable("task", "item", (
    _row("id", NAME, _JOB + "id: letters, digits, '-' and '_'", "name",
        becomes="it is the name of the task", required=True),
    _note("description", TEXT, _JOB + "description of a task: for people"),
    _row("children", IDS, _JOB + "children: tasks that start when this one has finished", "depends_on",
        kind=_TRANSLATED, becomes="each child depends on the task"),
    _row("definition", object_of(TASK_ROWS, "the definition of a task"), _JOB + "definition", role=_FORM),
    _row("filename", TEXT, _JOB + "filename: a file with the definition, beside the job's", role=_FORM,
        kind=_TRANSLATED, becomes="the definition is read from the file"),
    _row("meta", ANYTHING, _JOB + "meta of a task", "properties, if all its values are texts", role=_KEPT),
), elsewhere=dict.fromkeys(TASK_ROWS.by_key, "'definition' of the task"))  # fmt: skip
"""A task of a job, around its definition."""

JOB_ROWS = GridTable("job", "job", (
    _VERSION,
    _row("description", TEXT, _JOB + "description: for people", "name", kind=_TRANSLATED,
        becomes="it is the name of the job"),
    _row("default_storage_base", URI, _GRID + "default_storage_base: paths of files are below it",
        "storage_base", becomes="paths of files are resolved against it", substituted=True),
    _row("max_transfer_attempts", AMOUNT, _JOB + "max_transfer_attempts, for each file; else 5",
        "transfer_attempts"),
    _row("tasks", objects_of(ITEM_ROWS, "a list of tasks", "write at least one task in brackets"),
        _GRID + "tasks", "tasks", role=_FORM, required=True),
    _row("groups", GROUPS, _JOB + "groups: tasks that run on the same resource",
        "single_node, if they connect all tasks; the cluster is one resource", role=_KEPT),
    _row("requirements", _REQUIREMENTS, _GRID + "requirements: for every task without its own", role=_FORM),
    _row("meta", ANYTHING, _JOB + "meta: any content", "properties, if all its values are texts",
        role=_KEPT),
), elsewhere=dict.fromkeys(TASK_ROWS.by_key, "'definition' of a task")
    | dict.fromkeys(REQUIREMENT_ROWS.by_key, "'requirements'"))  # fmt: skip
"""The keys of a job."""

JOB_FIELDS: Mapping[str, str] = {
    row.key: row.field
    for row in JOB_ROWS.rows
    if row.role is GridRole.FIELD and row.field in JobSpec.__struct_fields__
}
"""The keys whose values are those of a field of the job."""

RESOURCE_KEYS = (
    *("created", "modified", "expires", "server_time", "server_policy_uri", "owner", "vo", "definition"),
    *("state", "operation", "tasks", "deleted", "job", "exit_code", "uri", "job_id", "delegation_id"),
)
"""What the Pilot service says of a job or task it has, around the description."""


def job_schema() -> dict[str, Any]:
    """Return the schema of a job description."""
    schema = json_schema_of("Grid job description, version 2", JOB_ROWS)
    schema["$defs"]["item"]["not"] = {"required": ["definition", "filename"]}
    return schema


def task_schema() -> dict[str, Any]:
    """Return the schema of the description of a task on its own."""
    return json_schema_of("Grid task description, version 2", TASK_ROWS)
