"""The variables of a task of a step that has some of the GPUs of its job."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GPU_LISTS = ("HEADNODE_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables that list the GPUs of a task of the job, in the same order."""


def own_variables(numbers: "Sequence[int]", environ: "Mapping[str, str]") -> "dict[str, str]":
    """Return the variables of a task on our node that has the GPUs with these numbers in the lists of ours.

    >>> own_variables([1], {"HEADNODE_GPUS": "0,3", "CUDA_VISIBLE_DEVICES": "0,3"})["CUDA_VISIBLE_DEVICES"]
    '3'
    """
    lists = {name: environ[name].split(",") for name in GPU_LISTS if name in environ}
    found = {
        name: ",".join(devices[number] for number in numbers if number < len(devices))
        for name, devices in lists.items()
    }
    return {
        **found,
        "SLURM_STEP_GPUS": found.get("HEADNODE_GPUS", ""),
        "SLURM_GPUS_ON_NODE": str(len(numbers)),
    }


def shell_variables(numbers: "Sequence[int]") -> str:
    """Return what a shell on another node does first, so that its program has only those GPUs."""
    cut = ",".join(str(number + 1) for number in numbers)
    lines = []
    for name in GPU_LISTS:
        chosen = f'$(echo "${name}" | cut -d, -f{cut})' if cut else ""
        lines.append(f'[ -z "${name}" ] || export {name}="{chosen}"')
    return "; ".join([*lines, f'export SLURM_STEP_GPUS="$HEADNODE_GPUS" SLURM_GPUS_ON_NODE={len(numbers)}; '])
