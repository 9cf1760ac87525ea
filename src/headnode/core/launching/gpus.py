"""The GPUs of a task on a node: how many, and the variables by which its programs find them.

The variables are advice: a program that sets them anew reaches all GPUs of the node.
Source: CUDA programming guide, "CUDA Environment Variables"; ROCm, "GPU isolation techniques"; sbatch(1),
"OUTPUT ENVIRONMENT VARIABLES".
"""

from collections.abc import Sequence

from headnode.core.model.job import JobSpec, UnitType

AMD = "amd"


def counts_gpus(spec: JobSpec) -> bool:
    """Tell whether the tasks of a job have GPUs of their own by number."""
    return spec.unit is UnitType.GPU


def has_all_gpus(spec: JobSpec) -> bool:
    """Tell whether a job that counts no GPUs has those of its nodes, because no other job runs there."""
    return spec.unit is not UnitType.GPU and (spec.exclusive or spec.unit is UnitType.NODE)


def processors_of_gpu(spec: JobSpec, held: int, gpus: int) -> int:
    """Return how many processors of a node with `gpus` come with each GPU of a job that holds `held` of them.

    A job that has the node for itself holds all processors, so it may have more than it asks for.
    """
    if not spec.exclusive:
        return spec.processors_per_gpu
    return max(1, held // max(1, min(held // spec.processors_per_gpu, gpus)))


def gpu_variables(dialect: str, vendor: str, numbers: Sequence[int], names: Sequence[str]) -> dict[str, str]:
    """Return the variables of a task on a node with GPUs; `names` are what programs know them by.

    >>> gpu_variables("", "nvidia", [0, 2], ["0", "2"])["CUDA_VISIBLE_DEVICES"]
    '0,2'
    """
    listed, visible = ",".join(map(str, numbers)), ",".join(names)
    variables = {"HEADNODE_GPUS": listed, "CCP_GPUIDS": listed.replace(",", " ")}
    if vendor == AMD:  # with both, HIP would count those of CUDA among those of ROCR
        variables["ROCR_VISIBLE_DEVICES"] = visible
    else:
        variables |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}
    if dialect == "slurm" and numbers:
        variables |= {"SLURM_JOB_GPUS": listed, "SLURM_GPUS_ON_NODE": str(len(numbers))}
    return variables
