"""Every key of the native form, in the order in which files are written.

Before them stand the values of requirements: features, speed, held memory, layout, limits.
>>> LIMITS.read({"nofile": 1024, "as": "1 GB:2 GB", "cpu": ":600"})[1:]
(ResourceLimit(name='as', soft=1073741824, hard=2147483648), ResourceLimit(name='cpu', soft=None, hard=600))
>>> RESOURCE_VALUES["features"].read(["gpu", ["big", "huge"]])
(('gpu',), ('big', 'huge'))
>>> SPEED.read("2.4 GHz"), SPEED.write(2400)
(2400, '2400 MHz')
>>> RESOURCE_VALUES["held"].read({"memory": "20 GB"}).memory
20480
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from headnode.core.formats.native.values import FLAG, MEMORY, VALUES, WHOLE, NativeRow, by_key
from headnode.core.formats.text.key_tables import KeyRow, KeyTable, KeyValue
from headnode.core.formats.text.quantities import format_memory, parse_memory, refuse, shown
from headnode.core.model.errors import BadRequest
from headnode.core.model.field_rows import JobOption
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS
from headnode.core.model.job import HeldAmounts, UnitType
from headnode.core.model.task import Distribution, ResourceLimit, StagedFile

_MEGABYTE, MAX_INTEGER = 2**20, 2**63 - 1  # the second is the largest of TOML
_SPEED = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([mg])hz\s*\Z", re.IGNORECASE)
Features = tuple[tuple[str, ...], ...]
Limits = tuple[ResourceLimit, ...]


def _features(value: Any) -> Features:
    """Return features, all of which a node must have; a list inside the list is a choice."""
    wanted = [value] if isinstance(value, str) else value
    return tuple((one,) if isinstance(one, str) else tuple(one) for one in wanted)


def _write_features(features: Features) -> str | list[str | list[str]]:
    written = [one[0] if len(one) == 1 else list(one) for one in features]
    return written[0] if len(written) == 1 and isinstance(written[0], str) else written


def _speed(value: str) -> int:
    """Return a speed in MHz."""
    match = _SPEED.match(value)
    speed = float(match[1]) * (1000 if match[2] in "gG" else 1) if match else 0.5
    if abs(speed - round(speed)) > 1e-6:
        raise SPEED.refusal(value)
    return round(speed)


SPEED = KeyValue(
    "a speed: 2400 MHz, 2.4 GHz",
    str,
    'write whole MHz with the unit, for example "2400 MHz" or "2.4 GHz"',
    _speed,
    lambda megahertz: f"{megahertz} MHz",
    code="speed",
)

_HELD_FIX = 'write {memory = "20 GB"}'
_HELD = KeyTable(
    f"a table of {', '.join(HeldAmounts.__struct_fields__)}",
    [
        KeyRow(key=field, value=MEMORY, help=f"{field} of each node")
        for field in HeldAmounts.__struct_fields__
    ],
    "held",
)


def _write_held(held: HeldAmounts) -> dict[str, str]:
    amounts = {field: getattr(held, field) for field in _HELD.by_key}
    return {field: format_memory(amount) for field, amount in amounts.items() if amount}


_ROUND_ROBIN = "round-robin"
_COUNT = KeyValue("a whole number of at least 1", Annotated[int, Meta(ge=1)], "write 2, or leave it out")
_GEOMETRY = KeyValue(
    "a list of lists of numbers",
    list[list[int]],
    "write the numbers of the processes that share a node: [[1, 2], [3]]",
    lambda value: tuple(map(tuple, value)),
)
_LAYOUT = KeyTable(
    "a distribution of processes over nodes",
    [
        KeyRow(key="per_node", value=_COUNT, help="number on each node"),
        KeyRow(key="nodes", value=_COUNT, help="evenly over this number of nodes"),
        KeyRow(key="round_robin", value=FLAG, help="one on each node before the second on any"),
        KeyRow(key="geometry", value=_GEOMETRY, help="for each node, the numbers of its processes, from 1"),
    ],
    "distribution",
)
_LAYOUT_FIX = 'write {per_node = 2}, {nodes = 3}, {geometry = [[1, 2], [3]]} or "round-robin"'


def _distribution(value: Any) -> Distribution:
    if value == _ROUND_ROBIN:
        return Distribution(round_robin=True)
    return Distribution(**_LAYOUT.read(value, _LAYOUT_FIX, "distribution"))


def _write_distribution(layout: Distribution) -> dict[str, Any]:
    written = {key: getattr(layout, key) for key in _LAYOUT.by_key}
    written["geometry"] = list(map(list, layout.geometry))
    return {key: value for key, value in written.items() if value}


_SIDE = re.compile(r"-?[0-9]{1,20}\Z")
_LIMIT_FIX = 'write a number, or "soft:hard", for example nofile = 1024 or as = "4 GB:8 GB"'


def _limits(value: Any) -> Limits:
    """Return limits, of a table or a list of ``name=limit``; a number is both soft and hard."""
    if isinstance(value, dict):
        return tuple(_limit(name, text) for name, text in value.items())
    if not all("=" in one for one in value):
        raise LIMITS.refusal(value)
    return tuple(_limit(name, text) for name, _, text in (one.rpartition("=") for one in value))


def _limit(name: str, value: int | str) -> ResourceLimit:
    soft, colon, hard = (part.strip() for part in str(value).partition(":"))
    return ResourceLimit(name, _side(name, soft), _side(name, hard if colon else soft))


def _side(name: str, text: str) -> int | None:
    if not text:
        return None
    if _SIDE.match(text):
        return int(text)
    try:
        return parse_memory(text) * _MEGABYTE
    except BadRequest:
        refuse("resource-limit", f"{name}: {shown(text)} is not a limit", _LIMIT_FIX)


def _write_limits(limits: Limits) -> dict[str, int | str] | list[str]:
    """Write limits as a table, or as a list when one name is there twice."""
    table = {one.name: _write_limit(one) for one in limits}
    if len(table) == len(limits):
        return table
    return [f"{one.name}={_write_limit(one)}" for one in limits]


def _write_limit(limit: ResourceLimit) -> int | str:
    if limit.soft == limit.hard and limit.soft is not None:
        return limit.soft if abs(limit.soft) <= MAX_INTEGER else str(limit.soft)
    return f"{'' if limit.soft is None else limit.soft}:{'' if limit.hard is None else limit.hard}"


LIMITS = KeyValue(
    "names of limits with a number, or soft:hard",
    dict[str, int | str] | list[str],
    _LIMIT_FIX,
    _limits,
    _write_limits,
    code="resource-limit",
    part=KeyValue("a limit", int | str),
)

_MODE = re.compile(r"0?[0-7]{1,3}\Z")


def _mode(value: str) -> int:
    if not _MODE.match(value):
        raise _PERMISSIONS.refusal(value)
    return int(value, 8)


_PERMISSIONS = KeyValue("permissions", str, 'write "0755", as for chmod', _mode, lambda mode: f"{mode:04o}")
_TEXT = KeyValue("text", str, "write it in double quotes")
_BYTES = KeyValue("a number of bytes", Annotated[int, Meta(ge=0)], "write digits, without quotes")
_STAGED = KeyTable(
    "a table of url and path",
    [
        KeyRow(key="url", value=_TEXT, help="URL, or path below the storage base"),
        KeyRow(key="path", value=_TEXT, help="path on the node; default: the last part of the URL"),
        KeyRow(key="mode", value=_PERMISSIONS, help="permissions of a file that is copied to the task"),
        KeyRow(key="size", value=_BYTES, help="size in bytes that a file copied to the task must have"),
        KeyRow(key="checksum", value=_TEXT, help="md5:, sha1:, sha256: or sha512: and hexadecimal digits"),
        KeyRow(key="credential", value=_TEXT, help="name of the owner's file with credentials"),
    ],
    "staged_file",
)
_STAGED_FIX = 'write {"data.csv" = "https://example.org/data.csv"}, or [{url = "...", path = "..."}]'


def name_in(url: str) -> str:
    """Return what a file is called that a URL names, with a slash for a directory.

    >>> name_in("https://example.org/d/x.csv"), name_in("sftp://example.org/d/")
    ('x.csv', 'd/')
    """
    plain = re.split(r"[?#]", url, maxsplit=1)[0]
    name = plain.rstrip("/").rpartition("/")[2]
    return f"{name}/" if plain.endswith("/") else name


def _staged(value: Any) -> tuple[StagedFile, ...]:
    """Return files of a table of paths with URLs, or of a list of tables."""
    if isinstance(value, dict):
        return tuple(StagedFile(path, url) for path, url in value.items())
    return tuple(_staged_file(table) for table in value)


def _staged_file(table: Any) -> StagedFile:
    fields = _STAGED.read(table, _STAGED_FIX, "staging")
    if not fields.get("url"):
        refuse("staging", f"{shown(table)} has no url", _STAGED_FIX)
    return StagedFile(**({"path": name_in(fields["url"])} | fields))


def _write_staged(files: tuple[StagedFile, ...]) -> dict[str, str] | list[dict[str, Any]]:
    table = {one.path: one.url for one in files}
    if tuple(StagedFile(path, url) for path, url in table.items()) == files:
        return table
    return [_write_staged_file(one) for one in files]


def _write_staged_file(one: StagedFile) -> dict[str, Any]:
    values = {key: getattr(one, key) for key in _STAGED.by_key}
    return {
        key: _STAGED.by_key[key].value.write(value)
        for key, value in values.items()
        if value not in (None, "")
    }


_STAGED_VALUE = KeyValue(
    "a table of paths with URLs, or a list of tables",
    dict[str, str] | list[dict[str, Any]],
    _STAGED_FIX,
    _staged,
    _write_staged,
    code="staging",
    inside=dict[str, str] | list[_STAGED.form],  # type: ignore[name-defined]  # a form is made at run time
    part=KeyValue("a URL", str | dict[str, Any]),
)


RESOURCE_VALUES: Mapping[str, KeyValue] = {
    "features": KeyValue(
        "a feature, or a list of them; a list inside is a choice",
        str | list[str | list[str]],
        'write ["gpu", "big"] for both of them, [["gpu", "big"]] for either',
        _features,
        _write_features,
        code="features",
        part=KeyValue("a feature, nor a list of features to choose from", str | list[str]),
    ),
    "held": KeyValue(
        "a table of memory, disk and swap with amounts",
        Any,
        make=lambda value: HeldAmounts(**_HELD.read(value, _HELD_FIX)),
        write=_write_held,
        inside=_HELD.form,
    ),
    "distribution": KeyValue(
        'a table of per_node, nodes, round_robin, geometry; or "round-robin"',
        Any,
        make=_distribution,
        write=_write_distribution,
        inside=Literal["round-robin"] | _LAYOUT.form,
    ),
    "staged_in": _STAGED_VALUE,
    "staged_out": _STAGED_VALUE,
    "speed": SPEED,
    "limits": LIMITS,
}
"""How values are read and written here, by their form in the catalogue."""

SIZES = {f"{unit}s": unit for unit in UnitType}
"""Keys for a minimum and a maximum, and what they count.  A file has one of them, everywhere the same."""

_VALUES = {**VALUES, **RESOURCE_VALUES}

_NEEDS_ORDER = """features lacking architecture system only_nodes avoid_nodes node_patterns avoid_patterns
    feature_patterns node_memory node_disk node_swap node_virtual node_speed node_processors sockets_per_node
    cores_per_socket threads_per_core"""
_JOB_ORDER = f"""name description job_group project template priority run_time minimum_run_time processors
    sockets nodes gpus processors_per_gpu exclusive single_node together run_until_canceled requested_nodes
    excluded_nodes node_groups node_group_op processors_per_node memory_per_node process_memory held
    {_NEEDS_ORDER} order_by licences parents after_failure after_exit after_start after_corresponding
    dependencies any_dependency named_parents singleton hold_until holds end_by switches switches_wait
    contiguous reservation signal suspendable preemptable interactive resource_limits valid_exit_codes
    fail_on_task_failure fail_dependent_tasks task_retry_limit storage_base transfer_attempts notify_on_start
    notify_on_completion email run_as"""
_TASK_ORDER = f"""name command sweep type processors sockets nodes gpus run_time depends_on work_directory
    private_directory temporary_directory stdin stdout stderr append_stdout append_stderr exclusive
    {_NEEDS_ORDER} distribution resource_limits rerunnable required_nodes node_group group valid_exit_codes
    fail_job_on_failure fail_job_count storage_base transfer_attempts credential"""
_LAST = "group_order dialect stage_in stage_out environment properties extensions"


def _in_files(options: Iterable[JobOption], order: str, whose: str) -> Mapping[str, NativeRow]:
    """Return the keys of the options of `whose`; those that `order` does not have stand before the last."""
    keys = {option.key: option for option in options if option.in_files}
    first, last = order.split(), [key for key in _LAST.split() if key in keys]
    others = [key for key in keys if key not in (*first, *last)]
    return by_key(*(_row(keys[key], whose) for key in (*first, *others, *last)))


def _row(option: JobOption, whose: str) -> NativeRow:
    return NativeRow(
        key=option.key,
        value=_VALUES[option.form],
        fields=option.fields,
        help=option.help.replace("{whose}", whose),
        example=option.example,
    )


JOB_KEYS = _in_files(OPTIONS_OF_JOBS, _JOB_ORDER, "the job")
"""Keys of the job.  `tasks` is besides: a table for each task."""

TASK_KEYS = _in_files(OPTIONS_OF_TASKS, _TASK_ORDER, "the task")
"""Keys of a task."""

ALTERNATIVE_ROWS = by_key(
    *(JOB_KEYS[key] for key in (*SIZES, "processors_per_gpu", "run_time", "exclusive", "single_node")),
    *(JOB_KEYS[key] for key in ("requested_nodes", "excluded_nodes", "node_groups", "memory_per_node")),
    *(JOB_KEYS[key] for key in ("process_memory", "held", "licences", "resource", *_NEEDS_ORDER.split())),
)
"""Keys of an alternative of the job; a key that is not there is as in the job."""

TASK_ALTERNATIVE_ROWS = by_key(
    *(TASK_KEYS[key] for key in (*SIZES, "run_time")),
    NativeRow(key="sweep_end", value=WHOLE, fields=("end",), help="the last number of the sweep's range"),
    *(TASK_KEYS[key] for key in _NEEDS_ORDER.split()),
    TASK_KEYS["distribution"],
)
"""Keys of a task in an alternative; a key that is not there is as in the task."""

TASKS, ALTERNATIVES, JOBS_TABLE, GROUP = "tasks", "alternatives", "jobs", "job_group"
TASK_ONLY = tuple(key for key in TASK_KEYS if key not in JOB_KEYS)
"""Keys that make a file without tables of tasks the description of one task."""

RIGHT_NAMES = {
    meant: right
    for right, words in {
        "name": "title job_name jobname label",
        "run_time": "time timelimit time_limit walltime wall_time runtime limit duration",
        "processors": "cpus cpu cores ncpus procs ntasks num_processors numprocessors numcores count np",
        "requested_nodes": "hosts hostname nodelist node_list node",
        "node_groups": "queue partition nodegroup pool",
        "memory_per_node": "mem memory ram",
        "description": "comment",
        "features": "feature constraint constraints needs",
        "architecture": "arch architectures platform",
        "system": "os opsys os_name operating_system systems",
        "node_disk": "disk scratch tmp",
        "node_swap": "swap",
        "together": "gang",
        "distribution": "layout tasks_per_node task_distribution",
        "holds": "hold",
        "end_by": "deadline",
        "resource_limits": "limits ulimit rlimits",
        "after_failure": "afternotok on_failure",
        "after_exit": "afterany on_exit",
        "after_start": "on_start",
        "after_corresponding": "aftercorr",
        "preemptable": "preemptible preempt requeueable",
        ALTERNATIVES: "alternative otherwise",
        "processors_per_node": "ppn cores_per_node cpus_per_node",
        "gpus": "gpu ngpus num_gpus numgpus gpu_count gres",
        "processors_per_gpu": "cores_per_gpu cpus_per_gpu corespergpu",
        "licences": "license licenses licence",
        "hold_until": "begin start_at not_before eligible",
        "email": "mail mail_user notify",
        "task_retry_limit": "retries retry",
        "parents": "after_jobs parent afterok after_success on_success",
        "command": "cmd run program executable exec",
        "sweep": "array range parametric values indices instances",
        "type": "kind",
        "depends_on": "depend depends dependency after requires",
        "private_directory": "scratch_directory",
        "temporary_directory": "tmpdir tmp_dir",
        "work_directory": "cwd workdir dir directory working_directory chdir wd",
        "stage_in": "input_files inputs transfer_input_files",
        "stage_out": "output_files outputs transfer_output_files",
        "storage_base": "default_storage_base",
        "transfer_attempts": "max_transfer_attempts",
        "stdin": "input standard_input",
        "stdout": "output out standard_output",
        "stderr": "error err standard_error",
        "environment": "env environment_variables variables export",
        "valid_exit_codes": "exit_codes success_codes",
        TASKS: "task steps",
    }.items()
    for meant in words.split()
}
"""Words of other systems, and the key that says the same."""

OF_TASKS = {"memory_per_node": "node_memory", "processors_per_node": "distribution"}
"""Keys of the job alone, and those that say the like of a task."""
