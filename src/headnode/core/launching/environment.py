"""The variables a task finds around it.

Precedence, the later wins: the user's base, the job's, the task's, the scheduler's.
Source: HPC Pack environment of a task; the names beginning with HEADNODE are our own.
"""

from collections.abc import Mapping

import msgspec

from headnode.core.launching.processors import machine_numbers
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.seating import BLOCKS, nodes_of, seats
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.quantities import FOREVER, JobId, Seconds
from headnode.core.model.task import Distribution, TaskSpec, TaskType

INFINITE_RUN_TIME = 2147483647  # how CCP_RUNTIME says that there is no limit
LONGEST_NODE_LIST = 2048  # characters; a longer CCP_NODES says OVERFLOW
LONGEST_HOST_LIST = 65536  # characters; a longer HEADNODE_HOSTS says OVERFLOW
OVERFLOW = "Overflow"

TASK_MARKER = "HEADNODE_TASK"  # job.task.instance.attempt: which instance a process belongs to
SHEPHERD_MARKER = "HEADNODE_SHEPHERD"  # unique on the machine: which shepherd a process belongs to


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a recipe must know besides the job: who runs it, and where.

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
    machine_processors: tuple[int, ...] = ()  # what the node's machine calls its processors
    parts: tuple[Place, ...] = ()  # of a gang: the processors of each task
    state_directory: str = ""  # of the head: `hn` in a task finds it there
    agent: str = ""  # socket of the agent, by which `hn` reaches a head on another machine

    @property
    def home(self) -> str:
        """The user's home directory."""
        return self.base["HOME"]


def users_variables(around: Surroundings, task: TaskSpec) -> dict[str, str]:
    """Return what the user decides: base, job and task; an empty value takes a name away."""
    merged = {**around.base, **around.spec.environment, **task.environment}
    asked_away = {name for own in (around.spec.environment, task.environment) for name in own}
    return {name: value for name, value in merged.items() if value or name not in asked_away}


def task_variables(around: Surroundings, number: int, task: TaskSpec, place: Place) -> dict[str, str]:
    """Return the scheduler's variables that are the same for every instance of a task at a place."""
    return {
        **_job_variables(around),
        **_place_variables(around, task, place),
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
    job: JobId, number: int, task: TaskSpec, instance: int, attempt: int
) -> dict[str, str]:
    """Return the scheduler's variables that differ between the instances of a task.

    A basic task has the instance 0, as HPC Pack says it.
    """
    swept = task.kind is TaskType.SWEEP
    own = {
        "CCP_TASKINSTANCEID": str(0 if task.kind is TaskType.BASIC else instance),
        "CCP_RETRY_COUNT": str(max(attempt - 1, 0)),
        TASK_MARKER: f"{job}.{number}.{instance}.{attempt}",
    }
    return {**own, "HEADNODE_VALUE": str(task.value(instance))} if swept else own


def node_list(place: Place, count_of: Mapping[str, int]) -> str:
    """Return ``<nodes> <node> <count> ...``, or Overflow when that is too long for a variable.

    >>> node_list((("n1", (0, 1)), ("n2", (5,))), {"n1": 2, "n2": 1})
    '2 n1 2 n2 1'
    """
    text = " ".join([str(len(place)), *(f"{node} {count_of[node]}" for node, _ in place)])
    return text if len(text) <= LONGEST_NODE_LIST else OVERFLOW


def host_list(place: Place, count_of: Mapping[str, int], distribution: Distribution) -> str:
    """Return a node for each process, in their order, or Overflow when that is too long for a variable.

    >>> two = (("n1", (0, 1)), ("n2", (5,)))
    >>> host_list(two, {"n1": 2, "n2": 1}, BLOCKS)
    'n1 n1 n2'
    >>> host_list(two, {"n1": 2, "n2": 1}, Distribution(round_robin=True))
    'n1 n2 n1'
    """
    nodes = nodes_of(distribution, [count_of[node] for node, _ in place])
    text = " ".join(place[number][0] for number in nodes)
    return text if len(text) <= LONGEST_HOST_LIST else OVERFLOW


def _job_variables(around: Surroundings) -> dict[str, str]:
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


def _place_variables(around: Surroundings, task: TaskSpec, place: Place) -> dict[str, str]:
    swept = task.kind is TaskType.SWEEP  # then its distribution is that of its instances
    distribution = BLOCKS if swept or task.distribution is None else task.distribution
    processors = {node: len(taken) for node, taken in place}
    units = {node: _units(around, count) for node, count in processors.items()}
    here = dict(place).get(around.node, ())
    return {
        "CCP_NUMCPUS": str(sum(processors.values())),
        "CCP_NODES": node_list(place, units),
        "HEADNODE_HOSTS": host_list(place, units, distribution),
        "CCP_NODES_CORES": node_list(place, processors),
        "CCP_COREIDS": " ".join(map(str, machine_numbers(here, around.machine_processors))),
    }


def _gang_variables(around: Surroundings, number: int, task: TaskSpec) -> dict[str, str]:
    """Return the hosts of all instances of a sweep that start together: each is a process of one program."""
    if task.kind is not TaskType.SWEEP or number > len(around.parts):
        return {}
    size = task.minimum * (around.processors_per_socket if around.spec.unit is UnitType.SOCKET else 1)
    places = seats(
        task, around.spec.unit, around.parts[number - 1], lambda _, held: [size] * max(1, held // size)
    )
    text = " ".join(node for place in places for node, _ in place)
    return {"HEADNODE_HOSTS": text if len(text) <= LONGEST_HOST_LIST else OVERFLOW}


def _units(around: Surroundings, processors: int) -> int:
    """Count processors of one node in the job's unit; sockets are taken to be those of this node."""
    match around.spec.unit:
        case UnitType.NODE:
            return 1
        case UnitType.SOCKET:
            return max(1, processors // around.processors_per_socket)
        case UnitType.PROCESSOR:
            return processors


def _run_time(limit: Seconds) -> str:
    return str(INFINITE_RUN_TIME if limit == FOREVER else int(limit))
