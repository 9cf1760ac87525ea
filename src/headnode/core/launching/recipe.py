"""The recipe of a task instance: its argv, environment, directories and files.

Batch scripts get the variables that they expect of their scheduler.
Source: CCS, "Standard job and task options"; HPC Pack parametric sweeps; sbatch(1), "OUTPUT ENVIRONMENT
VARIABLES"; PBS, qsub(1B), "ENVIRONMENT VARIABLES"; Grid Engine, qsub(1), "ENVIRONMENTAL VARIABLES"; LSF,
"Environment variables set for job execution"; HTCondor, "Environment Variables for HTCondor Jobs"."""

import posixpath
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Final

import msgspec

from headnode.core.launching.environment import (
    TASK_MARKER,
    LaunchContext,
    host_list,
    instance_variables,
    place_variables,
    process_order,
    process_places,
    ranks_of,
    task_variables,
    temporary_variables,
    users_variables,
)
from headnode.core.launching.expansion import expand_path, expand_percent
from headnode.core.model.batch_variables import ALL_NODES, shares_processors
from headnode.core.model.job import UnitType
from headnode.core.model.node import folded_names
from headnode.core.model.staging import FileTransfer
from headnode.core.model.task import (
    ARRAY_INDEX,
    TaskSpec,
    TaskType,
    argv_of,
    is_far,
    script_argv,
    substitute,
)
from headnode.core.state.job_events import NodeCores
from headnode.core.state.task_layout import BLOCKS


def batch_variables(
    around: LaunchContext, task: TaskSpec, place: NodeCores, instance: int, retries: int
) -> dict[str, str]:
    """Return the variables of the dialect in which the job was written; none for other jobs."""
    made = _OF_DIALECT.get(around.spec.dialect)
    if made is None:
        return {}
    index = ARRAY_INDEX[around.spec.dialect]
    value = str(task.value(instance)) if task.kind is TaskType.SWEEP else task.environment.get(index)
    if not shares_processors(around.spec, task):
        return made(around, place, place, value, retries)
    ranks = process_places(around.spec, task, place)
    counts = {node: len(taken) for node, taken in ranks}
    hosts = host_list(ranks, counts, process_order(around.spec, task) or BLOCKS)
    return {**made(around, place, ranks, value, retries), "HEADNODE_HOSTS": hosts}


def _slurm(
    around: LaunchContext, place: NodeCores, ranks: NodeCores, value: str | None, restarts: int
) -> dict[str, str]:
    job, counts = str(around.job), [len(taken) for _, taken in place]
    nodes = ",".join(folded_names(node for node, _ in place))
    processors = len(dict(place).get(around.node, ()))
    variables = {
        "SLURM_JOB_ID": job,
        "SLURM_JOBID": job,
        "SLURM_CLUSTER_NAME": around.cluster,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(place)),
        "SLURM_NNODES": str(len(place)),
        "SLURM_JOB_CPUS_PER_NODE": _counted(counts),
        "SLURM_TASKS_PER_NODE": _counted([len(taken) for _, taken in ranks]),
        "SLURM_CPUS_ON_NODE": str(processors),
        "SLURMD_NODENAME": around.node,
        "SLURM_JOB_USER": around.base.get("USER", ""),
        "SLURM_RESTART_COUNT": str(restarts),
        "SLURM_JOB_PARTITION": ",".join(around.spec.node_groups) or ALL_NODES,
        "SLURM_GTIDS": "0",
        **_where_set(
            {
                "SLURM_JOB_ACCOUNT": around.spec.project,
                "SLURM_JOB_QOS": around.spec.template,
                "SLURM_JOB_RESERVATION": around.spec.reservation,
                "SLURM_MEM_PER_CPU": str(around.spec.process_memory or ""),
            }
        ),
    }
    return (
        variables if value is None else {**variables, "SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": value}
    )


def _where_set(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if value}


def _counted(counts: list[int]) -> str:
    """Return numbers as Slurm writes them.

    >>> _counted([4, 4, 2])
    '4(x2),2'
    """
    runs = [(count, len(list(same))) for count, same in groupby(counts)]
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def _pbs(
    around: LaunchContext,
    place: NodeCores,
    ranks: NodeCores,
    value: str | None,
    restarts: int,  # noqa: ARG001
) -> dict[str, str]:
    array, base = "" if value is None else f"[{value}]", around.base
    variables = {
        **_where_set({f"PBS_O_{name}": base.get(name, "") for name in ("HOME", "LOGNAME", "PATH", "SHELL")}),
        "PBS_JOBID": f"{around.job}{array}.{around.cluster}",
        "PBS_NP": str(sum(len(taken) for _, taken in ranks)),
        "PBS_NUM_NODES": str(len(place)),
        "PBS_NUM_PPN": str(max(len(taken) for _, taken in ranks)),
        "PBS_NODENUM": "0",
    }
    return variables if value is None else {**variables, "PBS_ARRAY_INDEX": value, "PBS_ARRAYID": value}


def _grid_engine(
    around: LaunchContext,
    place: NodeCores,
    ranks: NodeCores,
    value: str | None,
    restarts: int,
) -> dict[str, str]:
    return {
        "JOB_ID": str(around.job),
        "REQUEST": around.spec.name,
        "SGE_O_HOME": around.home,
        "SGE_O_LOGNAME": around.base.get("LOGNAME", ""),
        "SGE_TASK_ID": value or "undefined",
        "NSLOTS": str(sum(len(taken) for _, taken in ranks)),
        "NHOSTS": str(len(place)),
        "SGE_CELL": around.cluster,
        "RESTARTED": str(min(restarts, 1)),
    }


def _lsf(
    around: LaunchContext,
    place: NodeCores,  # noqa: ARG001
    ranks: NodeCores,
    value: str | None,
    restarts: int,
) -> dict[str, str]:
    job, slots = str(around.job), sum(len(taken) for _, taken in ranks)
    variables = {
        "LSB_JOBID": job,
        "LSB_BATCH_JID": job if value is None else f"{job}[{value}]",
        "LSB_JOBINDEX": value or "0",
        "LSB_HOSTS": " ".join(node for node, taken in ranks for _ in taken),
        "LSB_MCPU_HOSTS": " ".join(f"{node} {len(taken)}" for node, taken in ranks),
        "LSB_DJOB_NUMPROC": str(slots),
        "LSB_MAX_NUM_PROCESSORS": str(slots),
        "LSB_EXEC_CLUSTER": around.cluster,
    }
    return {**variables, "LSB_RESTART": "Y"} if restarts else variables


def _condor(
    around: LaunchContext, task: TaskSpec, instance: int, work_directory: str, *, private: bool
) -> dict[str, str]:
    """Return the variables of a process of HTCondor; its number is that in the parallel universe."""
    if around.spec.dialect != "htcondor":
        return {}
    gpus = around.spec.unit is UnitType.GPU
    processors = task.minimum * (around.spec.processors_per_gpu if gpus else 1)
    variables = {"_CONDOR_JOB_IWD": work_directory, "BATCH_SYSTEM": "HTCondor"}
    if "OMP_NUM_THREADS" not in {**around.spec.environment, **task.environment}:
        variables["OMP_NUM_THREADS"] = str(processors)
    if private:
        variables |= temporary_variables("htcondor", work_directory)
    if around.spec.together:
        number = task.value(instance) if task.kind is TaskType.SWEEP else around.spec.tasks.index(task)
        variables["_CONDOR_PROCNO"] = str(number)
        variables["_CONDOR_NPROCS"] = str(sum(each.instances for each in around.spec.tasks))
    return variables


_OF_DIALECT: Final[
    dict[str, Callable[[LaunchContext, NodeCores, NodeCores, str | None, int], dict[str, str]]]
] = {
    "slurm": _slurm,
    "pbs": _pbs,
    "gridengine": _grid_engine,
    "lsf": _lsf,
}


_SPREAD = 1000  # files of a task in one directory, so that a sweep of a million stays quick to list


def captured_path(state_output_dir: str, job: int, task: int, instance: int) -> str:
    """Return the file that holds what an instance wrote and did not redirect.

    >>> captured_path("/state/output", 7, 1, 3)
    '/state/output/7/1.3.out'
    >>> captured_path("/state/output", 7, 2, 41203)
    '/state/output/7/2/41/41203.out'
    """
    return f"{state_output_dir}/{job}/{captured_name(task, instance)}"


def captured_name(task: int, instance: int) -> str:
    """Return the same file relative to the directory of its job."""
    if instance < _SPREAD:  # to make a directory costs as much as to make the file
        return f"{task}.{instance}.out"
    return f"{task}/{instance // _SPREAD}/{instance}.out"


def former_captured_name(task: int, instance: int) -> str:
    """Return how that file was called by Headnode 0.2."""
    return f"{task}/{instance}.out" if instance < _SPREAD else captured_name(task, instance)


TEMPORARY = "/tmp"  # noqa: S108 - where directories of tasks are made; who makes one there must find none
_MAX_NAME = 60  # characters of the name of a script in that of its file
_MARKER_LENGTH = 8  # of the shepherd's marker: enough to tell two heads on one machine apart


class Recipe(msgspec.Struct, frozen=True):
    """The command, environment and files of one instance.  Paths are absolute; empty: not redirected."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    work_directory: str
    stdin: str
    stdout: str
    stderr: str
    private: bool = False  # the work directory is to be made, and removed when the attempt is over
    append_stdout: bool = False  # what the file holds already stays before what is written
    append_stderr: bool = False
    transfers: tuple[FileTransfer, ...] = ()  # with paths below the work directory
    temporary: str = ""  # the temporary directory, which is made, and removed when the attempt is over


class RecipeBuilder:
    """Builds the recipes of a task at a place; what its instances share is computed once."""

    def __init__(
        self,
        around: LaunchContext,
        number: int,
        task: TaskSpec,
        place: NodeCores,
        shared: Mapping[str, str] | None = None,
    ) -> None:
        """`shared` are the `place_variables`, if they are known."""
        self._around, self._number, self._task, self._place = around, number, task, place
        shared = place_variables(around, ranks_of(task), place) if shared is None else shared
        self._variables = {
            **users_variables(around, task),
            **task_variables(around, number, task, shared),
        }

    @property
    def script_path(self) -> str:
        """The file with the script of the task."""
        parts = self._task.command.split(None, 1)
        name = posixpath.basename(parts[0].strip("'\"")) if parts else ""
        return f"{self._around.scripts}/{self._around.job}.{self._number}.{name[:_MAX_NAME]}"

    def recipe(
        self,
        instance: int,
        attempt: int,
        unstarted: int = 0,
        gpus: dict[str, str] | None = None,
        temporary: str = "",
    ) -> Recipe:
        """Return the recipe of one attempt of one instance; so many attempts before it never started.

        `gpus` are the variables of its GPUs; None: the node has none.  `temporary` is the path of its
        temporary directory, if it has one.
        """
        task, around = self._task, self._around
        variables = self._of_instance(instance, attempt, max(attempt - 1 - unstarted, 0)) | (gpus or {})
        stages = task.stages
        private = task.private_directory or stages
        work_directory = self._work_directory(instance, variables, temporary, private=private)
        variables["CCP_WORKDIR"] = variables["CCP_MPI_WORKDIR"] = work_directory
        variables |= _condor(around, task, instance, work_directory, private=private)
        stdin, stdout, stderr = self._files(instance, work_directory, variables)
        command = self._swept(task.command, instance)
        transfers: tuple[FileTransfer, ...] = ()
        if stages:
            command, transfers = self._staged(command, instance, variables)
        command = expand_percent(command, variables)
        return Recipe(
            script_argv(task.script, self.script_path, command) if task.script else argv_of(command),
            variables,
            work_directory,
            stdin,
            stdout,
            stderr,
            private=private,
            transfers=transfers,
            append_stdout=task.append_output,
            append_stderr=task.append_error,
            temporary=temporary,
        )

    def _work_directory(
        self, instance: int, variables: dict[str, str], temporary: str, *, private: bool
    ) -> str:
        """Return the work directory; set the variables of the temporary directory, which it may name."""
        users = variables.get("TMPDIR", "")
        if temporary:
            variables |= temporary_variables(self._around.spec.dialect, temporary)
        path = self._path(self._task.work_directory, instance, self._around.home, variables)
        return self._private(path or users, variables) if private else path or self._around.home

    def _files(self, instance: int, work_directory: str, variables: dict[str, str]) -> tuple[str, str, str]:
        """Return the files of standard input, output and error; set their variables."""
        task = self._task
        files = {
            "stdin": task.standard_input, "stdout": task.standard_output, "stderr": task.standard_error
        }  # fmt: skip
        stdin, stdout, stderr = (
            self._stream(key, name, instance, work_directory, variables) for key, name in files.items()
        )
        variables.update(CCP_STDIN=stdin, CCP_STDOUT=stdout, CCP_STDERR=stderr)
        return stdin, stdout, stderr

    def _of_instance(self, instance: int, attempt: int, retries: int) -> dict[str, str]:
        task, around = self._task, self._around
        return {
            **self._variables,
            **instance_variables(around.job, self._number, task, instance, attempt, retries),
            **batch_variables(around, task, self._place, instance, retries),
        }

    def _staged(
        self, command: str, instance: int, variables: dict[str, str]
    ) -> tuple[str, tuple[FileTransfer, ...]]:
        from headnode.core.launching.staging import staged_command, staged_transfers

        transfers = staged_transfers(self._around.spec, self._task, instance, variables)
        return staged_command(command, transfers), transfers

    def _private(self, parent: str, variables: dict[str, str]) -> str:
        """Return the directory of one attempt: below the task's, or where temporary files go."""
        if self._around.scratch:
            return self._around.scratch
        name = f"headnode-{variables[TASK_MARKER]}-{self._around.marker[:_MARKER_LENGTH]}"
        return posixpath.join(parent or TEMPORARY, name)

    def _swept(self, text: str, instance: int) -> str:
        if self._task.kind is not TaskType.SWEEP:
            return text
        return substitute(text, self._task.value(instance))

    def _stream(self, key: str, text: str, instance: int, below: str, variables: dict[str, str]) -> str:
        """Return the file of a standard stream; one that is a URL has a file in the scratch directory."""
        if not is_far(text):
            return self._path(text, instance, below, variables)
        from headnode.core.launching.staging import staged_stream

        return staged_stream(key, below)

    def _path(self, text: str, instance: int, below: str, variables: dict[str, str]) -> str:
        if not text:
            return ""
        return posixpath.normpath(posixpath.join(below, expand_path(self._swept(text, instance), variables)))


def recipe(
    around: LaunchContext, number: int, task: TaskSpec, place: NodeCores, instance: int, attempt: int
) -> Recipe:
    """Return the recipe of one attempt of one instance of task `number`."""
    return RecipeBuilder(around, number, task, place).recipe(instance, attempt)
