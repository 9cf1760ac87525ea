"""The environment variables of a task, with those for every kind of mpiexec.

Each of the four launchers reads its hosts from a file and starts its daemons by a program like rsh; both are
told by variables.

Precedence, the later wins: the user's base, the job's, the task's, the scheduler's.

Source: Hydra, "Using the Hydra Process Manager"; Intel MPI, "Hydra Environment Variables"; Open MPI 4
(plm/rsh, orte_default_hostfile); PRRTE, of Open MPI 5 (plm/ssh, prte_default_hostfile).
Source: HPC Pack environment of a task; the names beginning with HEADNODE are our own.
"""

from collections.abc import Mapping
from itertools import groupby

import msgspec

from headnode.core.model.batch_variables import shares_processors
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node import machine_numbers
from headnode.core.model.quantities import FOREVER, JobId, Seconds
from headnode.core.model.task import TEMPORARY_VARIABLES, Distribution, TaskSpec, TaskType, asked_processes
from headnode.core.state.job_events import NodeCores
from headnode.core.state.task_layout import BLOCKS, instance_places, rank_nodes

LAUNCHER = "HEADNODE_LAUNCH"  # the program that starts commands on the other nodes
SECRET = "HEADNODE_LAUNCH_SECRET"  # noqa: S105 (the name of a variable)
HOST_FILE = "CCP_MPI_HOSTFILE"
_HOSTS_ALWAYS = ("pbs", "lsf")  # schedulers that write them for each job


def is_parallel(task: TaskSpec, place: NodeCores) -> bool:
    """Tell whether a task may be started by an mpiexec: it is one program with several processors."""
    return task.kind is TaskType.BASIC and sum(len(taken) for _, taken in place) > 1


def reads_hosts(spec: JobSpec, task: TaskSpec, place: NodeCores) -> bool:
    """Tell whether a task finds files with its hosts: also a script of PBS or LSF with one processor."""
    return is_parallel(task, place) or (spec.dialect in _HOSTS_ALWAYS and task.kind is TaskType.BASIC)


def host_files(place: NodeCores, distribution: Distribution | None) -> tuple[str, str, str]:
    """Return the hosts as Hydra reads them, as Open MPI does, and as PBS writes them, which Intel MPI reads.

    >>> host_files((("n1", (0, 1)), ("n2", (5,))), None)
    ('n1:2\\nn2:1\\n', 'n1 slots=2\\nn2 slots=1\\n', 'n1\\nn1\\nn2\\n')
    >>> host_files((("n1", (0, 1)), ("n2", (5,))), Distribution(round_robin=True))[0]
    'n1:1\\nn2:1\\nn1:1\\n'
    """
    nodes = rank_nodes(distribution or BLOCKS, [len(taken) for _, taken in place])
    counts = [(place[number][0], len(list(ranks))) for number, ranks in groupby(nodes)]
    hydra = "".join(f"{node}:{count}\n" for node, count in counts)
    open_mpi = "".join(f"{node} slots={count}\n" for node, count in counts)
    return hydra, open_mpi, "".join(f"{place[number][0]}\n" for number in nodes)


def process_places(spec: JobSpec, task: TaskSpec, place: NodeCores) -> NodeCores:
    """Return the processors of a place on which processes start: not all, if a process has several.

    A node has its share of the processes that a script asks for; without a script one for each GPU.
    """
    processors = sum(len(taken) for _, taken in place)
    if shares_processors(spec, task):
        wanted = asked_processes(task, spec.dialect) or 1
    elif spec.unit is UnitType.GPU:
        wanted = max(1, processors // spec.processors_per_gpu)
    else:
        return place
    places, before = [], 0
    for node, taken in place:
        after = before + len(taken)
        count = _share(wanted, after, processors) - _share(wanted, before, processors)
        places.append((node, taken[:count]))
        before = after
    return tuple(places)


def _share(needed: int, part: int, whole: int) -> int:
    """Return how many of `needed` a part of the whole has, rounded up.

    >>> [_share(3, part, 4) for part in (2, 4)]
    [2, 3]
    """
    return -(-needed * part // whole) if whole else 0


def process_order(spec: JobSpec, task: TaskSpec) -> Distribution | None:
    """Return in which order the processes of a task are dealt to its nodes.

    The distribution of a task counts its processors or GPUs; how many processes a node has, `process_places`
    says.
    """
    layout = task.distribution
    if layout is None or not shares_processors(spec, task):
        return layout
    return Distribution(round_robin=layout.round_robin)


def launcher_variables(launcher: str, secret: str, hydra: str, open_mpi: str, pbs: str) -> dict[str, str]:
    """Return the variables of all launchers: our program, its secret, and the paths of the host files.

    Intel MPI takes from a host file of its own only the names, and fills the nodes; that of PBS it obeys.
    """
    return {
        LAUNCHER: launcher,
        SECRET: secret,
        HOST_FILE: hydra,
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": launcher,
        "HYDRA_HOST_FILE": hydra,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": launcher,
        "I_MPI_HYDRA_RMK": "pbs",
        "PBS_NODEFILE": pbs,
        "OMPI_MCA_plm_rsh_agent": launcher,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",  # only the task's first node may launch
        "OMPI_MCA_orte_leave_session_attached": "1",  # its daemons stay where they can be ended
        "OMPI_MCA_orte_default_hostfile": open_mpi,
        "PRTE_MCA_plm_ssh_agent": launcher,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "PRTE_MCA_prte_default_hostfile": open_mpi,
    }


def is_schedulers(name: str) -> bool:
    """Tell whether a variable is the scheduler's, so that no task can change it."""
    return name.startswith(("CCP_", "HEADNODE_"))


INFINITE_RUN_TIME = 2147483647  # how CCP_RUNTIME says that there is no limit
MAX_NODE_LIST = 2048  # characters; a longer CCP_NODES says OVERFLOW
MAX_HOST_LIST = 65536  # characters; a longer HEADNODE_HOSTS says OVERFLOW
OVERFLOW = "Overflow"

TASK_MARKER = "HEADNODE_TASK"  # job.task.instance.attempt: which instance a process belongs to
SHEPHERD_MARKER = "HEADNODE_SHEPHERD"  # unique on the machine: which shepherd a process belongs to


_TOKEN = 16  # hexadecimal digits in its name that no other user can guess
_HEXADECIMAL = frozenset("0123456789abcdef")


def temporary_variables(dialect: str, path: str) -> dict[str, str]:
    """Return the variables that name the temporary directory of an attempt.

    >>> temporary_variables("gridengine", "/tmp/x")
    {'TMPDIR': '/tmp/x', 'TMP': '/tmp/x'}
    """
    return dict.fromkeys(TEMPORARY_VARIABLES.get(dialect, ("TMPDIR",)), path)


def temporary_name(attempt: str, secret: str) -> str:
    """Return how the temporary directory of an attempt (job.task.instance.attempt) is called on its nodes.

    Another user who could guess the name could make the directory first, and the task could not start.

    >>> temporary_name("7.1.1.1", "0123456789abcdef0123")
    'headnode-7.1.1.1-0123456789abcdef'
    """
    return f"headnode-{attempt}-{secret[:_TOKEN]}"


def is_temporary_name(name: str, attempt: str) -> bool:
    """Tell whether an attempt's temporary directory may have this name, which another node has sent.

    >>> is_temporary_name("headnode-7.1.1.1-0123456789abcdef", "7.1.1.1")
    True
    >>> is_temporary_name("headnode-7.1.1.1-/../../etc/passwd", "7.1.1.1")
    False
    """
    first, token = name[:-_TOKEN], name[-_TOKEN:]
    return first == temporary_name(attempt, "") and len(token) == _TOKEN and set(token) <= _HEXADECIMAL


class LaunchContext(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of a recipe besides the job description: the node, the user's environment and the cluster.

    `base` holds the user's own variables (at least HOME); `marker` is unique for each shepherd.
    """

    job: JobId
    spec: JobSpec
    node: str
    cluster: str
    scheduler: str
    base: dict[str, str]
    marker: str = ""
    previous_job: JobId | None = None
    processors_per_socket: int = 1
    processors_per_gpu: int = 0  # that come with each GPU of the job on this node; 0: as it asks
    machine_processors: tuple[int, ...] = ()  # what the node's machine calls its processors
    parts: tuple[NodeCores, ...] = ()  # of a gang: the processors of each task
    state_directory: str = ""  # of the head: `hn` in a task finds it there
    scripts: str = ""  # where the scripts of its tasks are
    scratch: str = ""  # the directory of staged files, if it has its name from another scheduler
    agent: str = ""  # socket of the agent, by which `hn` reaches a head on another machine

    @property
    def gpu_size(self) -> int:
        """The processors that come with each GPU."""
        return self.processors_per_gpu or self.spec.processors_per_gpu

    @property
    def home(self) -> str:
        """The user's home directory."""
        return self.base["HOME"]


def users_variables(around: LaunchContext, task: TaskSpec) -> dict[str, str]:
    """Return what the user decides: base, job and task; an empty value takes a name away."""
    merged = {**around.base, **around.spec.environment, **task.environment}
    asked_away = {name for own in (around.spec.environment, task.environment) for name in own}
    return {name: value for name, value in merged.items() if value or name not in asked_away}


def ranks_of(task: TaskSpec) -> Distribution:
    """Return how the processes of a task are dealt to its nodes; a sweep deals instances."""
    return BLOCKS if task.kind is TaskType.SWEEP or task.distribution is None else task.distribution


def place_variables(around: LaunchContext, ranks: Distribution, place: NodeCores) -> dict[str, str]:
    """Return the scheduler's variables that are the same for tasks at a place whose ranks are dealt so."""
    return {**_job_variables(around), **_place_variables(around, ranks, place)}


def task_variables(
    around: LaunchContext, number: int, task: TaskSpec, shared: Mapping[str, str]
) -> dict[str, str]:
    """Return the scheduler's variables of all instances of a task; `shared` are those of the place."""
    return {
        **shared,
        **_gang_variables(around, number, task),
        "CCP_TASKID": str(number),
        "CCP_TASKSYSTEMID": str(number),
        "CCP_TASKCONTEXT": f"{around.job}.{number}",
        "CCP_EXCLUSIVE": str(task.exclusive),
        "CCP_RERUNNABLE": str(task.rerunnable),
        "CCP_RUNTIME": _run_time(task.run_time),
        "CCP_ENVLIST": ",".join(sorted({**around.spec.environment, **task.environment})),
    }


def instance_variables(
    job: JobId, number: int, task: TaskSpec, instance: int, attempt: int, retries: int
) -> dict[str, str]:
    """Return the scheduler's variables that differ between the instances of a task.

    A basic task has the instance 0, as HPC Pack says it.
    """
    swept = task.kind is TaskType.SWEEP
    own = {
        "CCP_TASKINSTANCEID": str(0 if task.kind is TaskType.BASIC else instance),
        "CCP_RETRY_COUNT": str(retries),
        TASK_MARKER: f"{job}.{number}.{instance}.{attempt}",
    }
    return {**own, "HEADNODE_VALUE": str(task.value(instance))} if swept else own


def node_list(place: NodeCores, count_of: Mapping[str, int]) -> str:
    """Return ``<nodes> <node> <count> ...``, or Overflow when that is too long for a variable.

    >>> node_list((("n1", (0, 1)), ("n2", (5,))), {"n1": 2, "n2": 1})
    '2 n1 2 n2 1'
    """
    text = " ".join([str(len(place)), *(f"{node} {count_of[node]}" for node, _ in place)])
    return text if len(text) <= MAX_NODE_LIST else OVERFLOW


def host_list(place: NodeCores, count_of: Mapping[str, int], distribution: Distribution) -> str:
    """Return a node for each process, in their order, or Overflow when that is too long for a variable.

    >>> two = (("n1", (0, 1)), ("n2", (5,)))
    >>> host_list(two, {"n1": 2, "n2": 1}, BLOCKS)
    'n1 n1 n2'
    >>> host_list(two, {"n1": 2, "n2": 1}, Distribution(round_robin=True))
    'n1 n2 n1'
    """
    nodes = rank_nodes(distribution, [count_of[node] for node, _ in place])
    text = " ".join(place[number][0] for number in nodes)
    return text if len(text) <= MAX_HOST_LIST else OVERFLOW


def _job_variables(around: LaunchContext) -> dict[str, str]:
    own = {
        "CCP_CLUSTER_NAME": around.cluster,
        "CCP_SCHEDULER": around.scheduler,
        "CCP_JOBID": str(around.job),
        "CCP_JOBNAME": around.spec.name,
        "CCP_JOBTYPE": "Batch",
        "CCP_JOBTEMPLATE": around.spec.template or "Default",
        "HEADNODE_JOB": str(around.job),
        "HEADNODE_NODE": around.node,
        SHEPHERD_MARKER: around.marker,
    }
    if around.state_directory:
        own["HEADNODE_STATE"] = around.state_directory
    if around.agent:
        own["HEADNODE_AGENT"] = around.agent
    if around.previous_job is not None:
        own["CCP_PREVIOUS_JOB_ID"] = str(around.previous_job)
    return own


def _place_variables(around: LaunchContext, ranks: Distribution, place: NodeCores) -> dict[str, str]:
    processors = {node: len(taken) for node, taken in place}
    units = {node: _units(around, count) for node, count in processors.items()}
    cores = dict(place).get(around.node, ())
    return {
        "CCP_NUMCPUS": str(sum(processors.values())),
        "CCP_NODES": node_list(place, units),
        "HEADNODE_HOSTS": host_list(place, units, ranks),
        "CCP_NODES_CORES": node_list(place, processors),
        "CCP_COREIDS": " ".join(map(str, machine_numbers(cores, around.machine_processors))),
    }


def _gang_variables(around: LaunchContext, number: int, task: TaskSpec) -> dict[str, str]:
    """Return the hosts of all instances of a sweep that start together: each is a process of one program."""
    if task.kind is not TaskType.SWEEP or number > len(around.parts):
        return {}
    size = task.minimum * _unit_size(around)
    places = instance_places(
        task, around.spec.unit, around.parts[number - 1], lambda _, held: [size] * max(1, held // size)
    )
    text = " ".join(node for place in places for node, _ in place)
    return {"HEADNODE_HOSTS": text if len(text) <= MAX_HOST_LIST else OVERFLOW}


def _unit_size(around: LaunchContext) -> int:
    match around.spec.unit:
        case UnitType.SOCKET:
            return around.processors_per_socket
        case UnitType.GPU:
            return around.gpu_size
        case _:
            return 1


def _units(around: LaunchContext, processors: int) -> int:
    """Count processors of one node in the job's unit; sockets are taken to be those of this node."""
    match around.spec.unit:
        case UnitType.NODE:
            return 1
        case UnitType.SOCKET:
            return max(1, processors // around.processors_per_socket)
        case UnitType.GPU:
            return max(1, processors // around.gpu_size)
        case UnitType.PROCESSOR:
            return processors


def _run_time(limit: Seconds) -> str:
    return str(INFINITE_RUN_TIME if limit == FOREVER else int(limit))
