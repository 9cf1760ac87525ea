"""The variables that batch scripts expect, as far as they depend on the place.

Source:  Slurm, sbatch(1), "OUTPUT ENVIRONMENT VARIABLES"; PBS, qsub(1B), "ENVIRONMENT VARIABLES"; Grid
         Engine, qsub(1), "ENVIRONMENTAL VARIABLES"; LSF, "Environment variables set for job execution".
"""

from collections.abc import Callable
from itertools import groupby
from typing import Final

from headnode.core.launching.environment import LaunchContext
from headnode.core.model.node import folded_names
from headnode.core.model.task import ARRAY_INDEX, TaskSpec, TaskType
from headnode.core.state.job_events import NodeCores


def batch_variables(
    around: LaunchContext, task: TaskSpec, place: NodeCores, instance: int, retries: int
) -> dict[str, str]:
    """Return the variables of the dialect in which the job was written; none for other jobs."""
    made = _OF_DIALECT.get(around.spec.dialect)
    if made is None:
        return {}
    index = ARRAY_INDEX[around.spec.dialect]
    value = str(task.value(instance)) if task.kind is TaskType.SWEEP else task.environment.get(index)
    return made(around, place, value, retries)


def _slurm(around: LaunchContext, place: NodeCores, value: str | None, restarts: int) -> dict[str, str]:
    job, counts = str(around.job), [len(taken) for _, taken in place]
    nodes = ",".join(folded_names(node for node, _ in place))
    here = len(dict(place).get(around.node, ()))
    found = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_CLUSTER_NAME": around.cluster,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(place)),
        "SLURM_NNODES": str(len(place)),
        "SLURM_JOB_CPUS_PER_NODE": _counted(counts),
        "SLURM_TASKS_PER_NODE": _counted(counts),
        "SLURM_CPUS_ON_NODE": str(here),
        "SLURMD_NODENAME": around.node,
        "SLURM_JOB_USER": around.base.get("USER", ""),
        "SLURM_RESTART_COUNT": str(restarts),
    }
    return found if value is None else {**found, "SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": value}


def _counted(counts: list[int]) -> str:
    """Return numbers as Slurm writes them.

    >>> _counted([4, 4, 2])
    '4(x2),2'
    """
    runs = [(count, len(list(same))) for count, same in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def _pbs(around: LaunchContext, place: NodeCores, value: str | None, restarts: int) -> dict[str, str]:  # noqa: ARG001
    array = "" if value is None else f"[{value}]"
    found = {
        "PBS_JOBID": f"{around.job}{array}.{around.cluster}",
        "PBS_NP": str(sum(len(taken) for _, taken in place)),
        "PBS_NUM_NODES": str(len(place)),
        "PBS_NUM_PPN": str(max(len(taken) for _, taken in place)),
        "PBS_NODENUM": "0",
    }
    return found if value is None else {**found, "PBS_ARRAY_INDEX": value, "PBS_ARRAYID": value}


def _grid_engine(
    around: LaunchContext,
    place: NodeCores,
    value: str | None,
    restarts: int,
) -> dict[str, str]:
    return {
        "JOB_ID": str(around.job),
        "SGE_TASK_ID": value or "undefined",
        "NSLOTS": str(sum(len(taken) for _, taken in place)),
        "NHOSTS": str(len(place)),
        "SGE_CELL": around.cluster,
        "RESTARTED": str(min(restarts, 1)),
    }


def _lsf(around: LaunchContext, place: NodeCores, value: str | None, restarts: int) -> dict[str, str]:
    job, slots = str(around.job), sum(len(taken) for _, taken in place)
    found = {
        "LSB_JOBID": job,
        "LSB_BATCH_JID": job if value is None else f"{job}[{value}]",
        "LSB_JOBINDEX": value or "0",
        "LSB_HOSTS": " ".join(node for node, taken in place for _ in taken),
        "LSB_MCPU_HOSTS": " ".join(f"{node} {len(taken)}" for node, taken in place),
        "LSB_DJOB_NUMPROC": str(slots),
        "LSB_MAX_NUM_PROCESSORS": str(slots),
        "LSB_EXEC_CLUSTER": around.cluster,
    }
    return {**found, "LSB_RESTART": "Y"} if restarts else found


_OF_DIALECT: Final[dict[str, Callable[[LaunchContext, NodeCores, str | None, int], dict[str, str]]]] = {
    "slurm": _slurm,
    "pbs": _pbs,
    "gridengine": _grid_engine,
    "lsf": _lsf,
}
