"""Every key of the native form, in the order in which files are written."""

from headnode.core.formats.native.resource_values import DISTRIBUTION, FEATURES, HELD, LIMITS, SPEED
from headnode.core.formats.native.values import (
    AT_LEAST,
    BOUNDS,
    CODES,
    EDGES,
    FLAG,
    GROUP_OP,
    JOBS,
    LICENCES,
    MEMORY,
    MEMORY_BOUNDS,
    MOMENT,
    NAMED_JOBS,
    NAMES,
    NODES,
    ORDER,
    PAIRS,
    PRIORITY,
    SPAN,
    SWEEP,
    TEXT,
    TYPE,
    WHOLE,
    NativeRow,
    by_key,
)
from headnode.core.model.job import UnitType

SIZES = {"processors": UnitType.PROCESSOR, "sockets": UnitType.SOCKET, "nodes": UnitType.NODE}
"""Keys for a minimum and a maximum, and what they count.  A file has one of them, everywhere the same."""

_SIZE = ("minimum", "maximum")
_JOB_SIZE = "for the whole job; * is calculated from the tasks"
_AFTER = "start only after these jobs"


def _needs(whose: str) -> tuple[NativeRow, ...]:
    """Return the rows of what is demanded of every node."""
    of_each = f"that every node of {whose} must have"
    return (
        NativeRow(
            key="features",
            value=FEATURES,
            fields=("needs.features",),
            help=f"features {of_each}; a list inside the list: one of them",
            example=["gpu", ["big", "huge"]],
        ),
        NativeRow(
            key="lacking",
            value=NAMES,
            fields=("needs.lacking",),
            help="features that the nodes must not have",
        ),
        NativeRow(
            key="architecture",
            value=NAMES,
            fields=("needs.architectures",),
            help="architecture of the nodes, or several alternatives",
            example="x86_64",
        ),
        NativeRow(
            key="system",
            value=NAMES,
            fields=("needs.systems",),
            help="operating system of the nodes, or several alternatives",
            example="Linux",
        ),
        NativeRow(
            key="only_nodes",
            value=NODES,
            fields=("needs.names",),
            help="use only these nodes",
            example="node[1-5]",
        ),
        NativeRow(key="avoid_nodes", value=NODES, fields=("needs.excluded",), help="do not use these nodes"),
        NativeRow(
            key="node_patterns",
            value=NAMES,
            fields=("needs.patterns",),
            help="regular expressions: the whole name of a node matches one of them",
            example="fast[0-9]+",
        ),
        NativeRow(
            key="avoid_patterns",
            value=NAMES,
            fields=("needs.excluded_patterns",),
            help="regular expressions: the name of a node matches none of them",
        ),
        NativeRow(
            key="feature_patterns",
            value=NAMES,
            fields=("needs.feature_patterns",),
            help="regular expressions: for each, the node has a feature that matches it",
        ),
        NativeRow(
            key="node_memory",
            value=MEMORY,
            fields=("needs.minimum_memory",),
            help=f"memory {of_each}",
            example="64 GB",
        ),
        NativeRow(
            key="node_disk",
            value=MEMORY,
            fields=("needs.minimum_disk",),
            help=f"disk where tasks write {of_each}",
            example="1 TB",
        ),
        NativeRow(key="node_swap", value=MEMORY, fields=("needs.minimum_swap",), help=f"swap {of_each}"),
        NativeRow(
            key="node_virtual",
            value=MEMORY,
            fields=("needs.minimum_virtual",),
            help=f"memory and swap together {of_each}",
        ),
        NativeRow(
            key="node_speed",
            value=SPEED,
            fields=("needs.minimum_speed",),
            help=f"speed {of_each}",
            example="2.4 GHz",
        ),
        NativeRow(
            key="node_processors",
            value=WHOLE,
            fields=("needs.minimum_processors",),
            help=f"processors {of_each}",
            example=16,
        ),
    )


JOB_KEYS = by_key(
    NativeRow(key="name", value=TEXT, help="name of the job", example="first sweep"),
    NativeRow(key="description", value=TEXT, help="free description of the job"),
    NativeRow(key="job_group", value=TEXT, help="job group of the job", example="night run"),
    NativeRow(key="project", value=TEXT, help="project of the job"),
    NativeRow(key="template", value=TEXT, help="job template"),
    NativeRow(key="priority", value=PRIORITY, help="place in the queue", example="AboveNormal"),
    NativeRow(key="run_time", value=SPAN, help="run time limit of the job", example="1h30m"),
    NativeRow(key="processors", value=BOUNDS, fields=_SIZE, help=f"processors {_JOB_SIZE}", example="4-16"),
    NativeRow(key="sockets", value=BOUNDS, fields=_SIZE, help=f"sockets {_JOB_SIZE}"),
    NativeRow(key="nodes", value=BOUNDS, fields=_SIZE, help=f"whole nodes {_JOB_SIZE}"),
    NativeRow(key="exclusive", value=FLAG, help="the nodes run no other job"),
    NativeRow(key="single_node", value=FLAG, help="the whole job runs on one node"),
    NativeRow(key="together", value=FLAG, help="all tasks start at the same time"),
    NativeRow(key="run_until_canceled", value=FLAG, help="keep the resources until the job is canceled"),
    NativeRow(key="requested_nodes", value=NODES, help="use only nodes from this list", example="node[1-5]"),
    NativeRow(key="excluded_nodes", value=NODES, help="exclude these nodes"),
    NativeRow(key="node_groups", value=NAMES, help="use only nodes of these groups"),
    NativeRow(key="node_group_op", value=GROUP_OP, help="combination of several node groups"),
    NativeRow(
        key="processors_per_node",
        value=AT_LEAST,
        fields=("minimum_processors_per_node", "maximum_processors_per_node"),
        help="processors that each node must have: a minimum, or minimum-maximum",
        example=8,
    ),
    NativeRow(
        key="memory_per_node",
        value=MEMORY_BOUNDS,
        fields=("minimum_memory", "maximum_memory"),
        help="memory that each node must have: a minimum, or minimum - maximum",
        example="4 GB",
    ),
    NativeRow(key="process_memory", value=MEMORY, help="estimated memory of each process"),
    NativeRow(
        key="held",
        value=HELD,
        help="memory, disk and swap of each node that are reserved for the job while it runs",
        example={"memory": "20 GB"},
    ),
    *_needs("the job"),
    NativeRow(key="order_by", value=ORDER, help="which nodes first", example=["memory", "-speed"]),
    NativeRow(key="licences", value=LICENCES, help="licences of the cluster", example={"solver": 2}),
    NativeRow(key="parents", value=JOBS, help=f"{_AFTER} have finished", example=[12, 13]),
    NativeRow(
        key="after_failure",
        value=JOBS,
        help=f"{_AFTER} have failed, or were canceled",
        example=12,
    ),
    NativeRow(key="after_exit", value=JOBS, help=f"{_AFTER} have ended, with any result"),
    NativeRow(key="after_start", value=JOBS, help=f"{_AFTER} have started"),
    NativeRow(
        key="named_parents",
        value=NAMED_JOBS,
        help=f"{_AFTER} of the same user, found by name or by the Id of their SSS job object",
        example=[{"name": "mesh", "condition": "OnSuccess"}],
    ),
    NativeRow(key="hold_until", value=MOMENT, help="do not start before"),
    NativeRow(
        key="holds",
        value=NAMES,
        help="names of holds: the job waits until all are released",
        example=["data"],
    ),
    NativeRow(
        key="end_by", value=MOMENT, help="latest end of the job: it is canceled if it cannot end by then"
    ),
    NativeRow(
        key="reservation",
        value=TEXT,
        help="run only in this reservation of nodes",
        example="course",
    ),
    NativeRow(key="suspendable", value=FLAG, help="the job may be suspended and resumed"),
    NativeRow(key="preemptable", value=FLAG, help="the job may be preempted by jobs of higher priority"),
    NativeRow(key="interactive", value=FLAG, help="interactive: its one program runs in a terminal"),
    NativeRow(
        key="resource_limits",
        value=LIMITS,
        help="limits of every process of every task: a number, or soft:hard",
        example={"nofile": 1024, "cpu": "600:1200"},
    ),
    NativeRow(
        key="valid_exit_codes", value=CODES, help="exit codes that mean success", example=[0, "10..12"]
    ),
    NativeRow(key="fail_on_task_failure", value=FLAG, help="the first failed task fails the job"),
    NativeRow(key="fail_dependent_tasks", value=FLAG, help="a failed task fails those that depend on it"),
    NativeRow(key="task_retry_limit", value=WHOLE, help="how often a task is retried if its program fails"),
    NativeRow(key="notify_on_start", value=FLAG, help="send a notice when the job starts"),
    NativeRow(key="notify_on_completion", value=FLAG, help="send a notice when the job has ended"),
    NativeRow(key="email", value=TEXT, help="e-mail address for notices", example="ann@example.org"),
    NativeRow(key="run_as", value=TEXT, help="user of the job; only administrators may name another user"),
    NativeRow(
        key="group_order",
        value=EDGES,
        fields=("group_edges",),
        help="order of task groups",
        example=["1 -> 2"],
    ),
    NativeRow(key="dialect", value=TEXT, help="language from which the job was converted"),
    NativeRow(
        key="environment", value=PAIRS, help="environment of all tasks", example={"OMP_NUM_THREADS": "1"}
    ),
    NativeRow(key="properties", value=PAIRS, help="your own words"),
    NativeRow(key="extensions", value=PAIRS, help="properties of another language: kept, without effect"),
)
"""Keys of the job.  `tasks` is besides: a table for each task."""

TASK_KEYS = by_key(
    NativeRow(key="name", value=TEXT, help="name of the task, for dependencies", example="prepare"),
    NativeRow(
        key="command",
        value=TEXT,
        help="command line; in a sweep * is replaced by the value",
        example="./run *",
    ),
    NativeRow(
        key="sweep",
        value=SWEEP,
        fields=("start", "end", "increment"),
        help="run once for each number of a range",
        example="1-100",
    ),
    NativeRow(
        key="type", value=TYPE, fields=("kind",), help="kind of the task; a task with a sweep is a sweep"
    ),
    NativeRow(key="processors", value=BOUNDS, fields=_SIZE, help="processors of each instance", example=4),
    NativeRow(key="sockets", value=BOUNDS, fields=_SIZE, help="sockets of each instance"),
    NativeRow(key="nodes", value=BOUNDS, fields=_SIZE, help="whole nodes of each instance"),
    NativeRow(key="run_time", value=SPAN, help="run time limit of each instance", example="20m"),
    NativeRow(key="depends_on", value=NAMES, help="run after all tasks of these names", example=["prepare"]),
    NativeRow(key="work_directory", value=TEXT, help="work directory; default: the home directory"),
    NativeRow(
        key="private_directory",
        value=FLAG,
        help="run in a new directory below the work directory or /tmp; it is removed when the task ends",
    ),
    NativeRow(key="stdin", value=TEXT, fields=("standard_input",), help="file for standard input"),
    NativeRow(
        key="stdout",
        value=TEXT,
        fields=("standard_output",),
        help="file for standard output",
        example="out.***.txt",
    ),
    NativeRow(key="stderr", value=TEXT, fields=("standard_error",), help="file for standard error"),
    NativeRow(
        key="append_stdout",
        value=FLAG,
        fields=("append_output",),
        help="append to the file for standard output; default: overwrite it",
    ),
    NativeRow(
        key="append_stderr",
        value=FLAG,
        fields=("append_error",),
        help="append to the file for standard error",
    ),
    NativeRow(key="exclusive", value=FLAG, help="the nodes run no other task"),
    *_needs("the task"),
    NativeRow(
        key="distribution",
        value=DISTRIBUTION,
        help="distribution of its processes, or of the instances of a sweep, over nodes",
        example={"per_node": 2},
    ),
    NativeRow(
        key="resource_limits",
        value=LIMITS,
        help="limits of every process, in place of the job's of the same name",
        example={"core": 0},
    ),
    NativeRow(key="rerunnable", value=FLAG, help="may run again after a system failure; default: true"),
    NativeRow(key="required_nodes", value=NODES, help="the task needs all of these nodes"),
    NativeRow(key="node_group", value=TEXT, help="run on nodes of this group"),
    NativeRow(key="group", value=WHOLE, help="number of its task group"),
    NativeRow(key="valid_exit_codes", value=CODES, help="exit codes that mean success; else the job's"),
    NativeRow(key="fail_job_on_failure", value=FLAG, help="a failure of this task fails the job"),
    NativeRow(key="fail_job_count", value=WHOLE, help="how many failed instances fail the job"),
    NativeRow(key="environment", value=PAIRS, help="environment of the task"),
    NativeRow(key="properties", value=PAIRS, help="your own words"),
    NativeRow(key="extensions", value=PAIRS, help="properties of another language: kept, without effect"),
)
"""Keys of a task."""

ALTERNATIVE_ROWS = by_key(
    *(JOB_KEYS[key] for key in SIZES),
    *(JOB_KEYS[key] for key in ("run_time", "exclusive", "single_node", "requested_nodes", "excluded_nodes")),
    *(JOB_KEYS[key] for key in ("node_groups", "memory_per_node", "process_memory", "held", "licences")),
    *_needs("the job"),
)
"""Keys of an alternative of the job; a key that is not there is as in the job."""

TASK_ALTERNATIVE_ROWS = by_key(
    *(TASK_KEYS[key] for key in SIZES),
    TASK_KEYS["run_time"],
    NativeRow(key="sweep_end", value=WHOLE, fields=("end",), help="the last number of the sweep's range"),
    *_needs("the task"),
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
