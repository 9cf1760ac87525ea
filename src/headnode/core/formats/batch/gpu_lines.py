"""Write the GPUs of a job as options of each scheduler; say what it cannot."""

from collections.abc import Iterator

from headnode.core.formats.fidelity import Fidelity, LossReport
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, asked_processes


def slurm_gpus(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    """Yield processes, GPUs and their processors, and the GPUs of each node if the job says so."""
    per_node = task.distribution.per_node if task.distribution is not None else 0
    yield f"--ntasks={asked_processes(task, spec.dialect) or task.minimum}"
    yield f"--gpus={task.minimum}"
    yield f"--cpus-per-gpu={spec.processors_per_gpu}"
    if per_node and task.minimum % per_node:
        what = f"distribution: {task.minimum} GPUs on as many nodes as {per_node} on each need"
        losses.add(Fidelity.APPROXIMATED, "task", what)
        yield f"--nodes={-(-task.minimum // per_node)}"
    elif per_node:
        yield f"--gpus-per-node={per_node}"
        yield f"--nodes={task.minimum // per_node}"


def grid_engine_gpus(spec: JobSpec, losses: LossReport) -> Iterator[str]:
    """Yield a GPU for each slot, which is all that a consumable resource can say."""
    if spec.processors_per_gpu > 1:
        losses.add(Fidelity.NOT_SUPPORTED, "job", "gpus: Grid Engine counts GPUs for each slot")
        return
    losses.add(Fidelity.APPROXIMATED, "job", "gpus: -l gpu: the name of the resource is that of the site")
    yield "-l gpu=1"


def _gpus_of_node(spec: JobSpec, task: TaskSpec) -> int:
    """Return how many GPUs are on each node; 1 where that is left open."""
    layout = task.distribution
    if layout is not None and layout.nodes:
        return -(-task.minimum // layout.nodes)
    if layout is not None and layout.per_node:
        return layout.per_node
    return task.minimum if spec.single_node else 1


def lsf_gpus(spec: JobSpec, task: TaskSpec, losses: LossReport) -> Iterator[str]:
    """Yield the processors of the GPUs, and the GPUs of each node, which is how LSF counts them."""
    each = _gpus_of_node(spec, task)
    yield f"-n {task.minimum * spec.processors_per_gpu}"
    yield f"-gpu num={each}"
    if task.minimum % each or (task.distribution is None and not spec.single_node and task.minimum > 1):
        what = f"gpus: {each} on each node; LSF counts them for each node"
        losses.add(Fidelity.APPROXIMATED, "task", what)


def lsf_span(spec: JobSpec, task: TaskSpec) -> str:
    """Return how many processors are on each node, so that the nodes have the GPUs of the job."""
    each = _gpus_of_node(spec, task)
    return "span[hosts=1]" if each == task.minimum else f"span[ptile={each * spec.processors_per_gpu}]"
