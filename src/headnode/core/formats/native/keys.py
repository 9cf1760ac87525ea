"""Every key of the native form, in the order in which files are written."""

from collections.abc import Iterable, Mapping

from headnode.core.formats.native.resource_values import RESOURCE_VALUES
from headnode.core.formats.native.values import VALUES, WHOLE, NativeRow, by_key
from headnode.core.model.field_rows import JobOption
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS
from headnode.core.model.job import UnitType

SIZES = {"processors": UnitType.PROCESSOR, "sockets": UnitType.SOCKET, "nodes": UnitType.NODE}
"""Keys for a minimum and a maximum, and what they count.  A file has one of them, everywhere the same."""

_VALUES = {**VALUES, **RESOURCE_VALUES}

_NEEDS_ORDER = """features lacking architecture system only_nodes avoid_nodes node_patterns avoid_patterns
    feature_patterns node_memory node_disk node_swap node_virtual node_speed node_processors"""
_JOB_ORDER = f"""name description job_group project template priority run_time processors sockets nodes
    exclusive single_node together run_until_canceled requested_nodes excluded_nodes node_groups node_group_op
    processors_per_node memory_per_node process_memory held {_NEEDS_ORDER} order_by licences parents
    after_failure after_exit after_start named_parents hold_until holds end_by reservation suspendable
    preemptable interactive resource_limits valid_exit_codes fail_on_task_failure fail_dependent_tasks
    task_retry_limit notify_on_start notify_on_completion email run_as"""
_TASK_ORDER = f"""name command sweep type processors sockets nodes run_time depends_on work_directory
    private_directory stdin stdout stderr append_stdout append_stderr exclusive {_NEEDS_ORDER} distribution
    resource_limits rerunnable required_nodes node_group group valid_exit_codes fail_job_on_failure
    fail_job_count"""
_LAST = "group_order dialect environment properties extensions"


def _in_files(options: Iterable[JobOption], order: str, whose: str) -> Mapping[str, NativeRow]:
    """Return the keys of the options of `whose`; those that `order` does not have stand before the last."""
    keys = {option.key: option for option in options if option.in_files}
    last = [key for key in _LAST.split() if key in keys]
    first = order.split()
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
    *(JOB_KEYS[key] for key in SIZES),
    *(JOB_KEYS[key] for key in ("run_time", "exclusive", "single_node", "requested_nodes", "excluded_nodes")),
    *(JOB_KEYS[key] for key in ("node_groups", "memory_per_node", "process_memory", "held", "licences")),
    *(JOB_KEYS[key] for key in _NEEDS_ORDER.split()),
)
"""Keys of an alternative of the job; a key that is not there is as in the job."""

TASK_ALTERNATIVE_ROWS = by_key(
    *(TASK_KEYS[key] for key in SIZES),
    TASK_KEYS["run_time"],
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
        "preemptable": "preemptible preempt requeueable",
        ALTERNATIVES: "alternative otherwise",
        "processors_per_node": "ppn cores_per_node cpus_per_node",
        "licences": "license licenses licence",
        "hold_until": "begin start_at not_before eligible",
        "email": "mail mail_user notify",
        "task_retry_limit": "retries retry",
        "parents": "after_jobs parent afterok after_success on_success",
        "command": "cmd run script program executable exec",
        "sweep": "array range parametric values indices instances",
        "type": "kind",
        "depends_on": "depend depends dependencies dependency after requires",
        "private_directory": "scratch_directory",
        "work_directory": "cwd workdir dir directory working_directory chdir wd",
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
