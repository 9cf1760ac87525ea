"""The attributes that jobs of a submit file would have: for ``condor_submit -dry-run``."""

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from headnode.core.formats.condor.evaluation import Value
    from headnode.core.model.job import JobSpec
    from headnode.core.model.task import TaskSpec


def dry_ads(cluster: int, spec: "JobSpec") -> "Iterator[list[tuple[str, Value]]]":
    """Yield the attributes of each process of a job."""
    number = 0
    for task in spec.tasks:
        for instance in range(1, task.instances + 1):
            ad = {"ClusterId": cluster, "ProcId": number, **_attributes(cluster, spec, task, instance)}
            yield sorted(((name, value) for name, value in ad.items() if value is not None), key=_name)
            number += 1


def _name(attribute: "tuple[str, Value]") -> str:
    return attribute[0].lower()


def _attributes(cluster: int, spec: "JobSpec", task: "TaskSpec", instance: int) -> "dict[str, Value]":
    from headnode.core.model.task import TaskType, substitute

    def swept(text: str) -> str:
        found = substitute(text, task.value(instance)) if task.kind is TaskType.SWEEP else text
        return found.replace("%CCP_JOBID%", str(cluster))

    program, *arguments = shlex.split(swept(task.command))
    held = spec.held
    return {
        "JobStatus": 5 if spec.holds else 1,
        "JobBatchName": spec.name or None,
        "JobPrio": int(spec.priority) - 2000,
        "Cmd": program,
        "Arguments": " ".join(arguments),
        "Iwd": swept(task.work_directory) or None,
        "In": swept(task.standard_input) or "/dev/null",
        "Out": swept(task.standard_output) or "/dev/null",
        "Err": swept(task.standard_error) or "/dev/null",
        "UserLog": swept(task.properties["UserLog"]) if "UserLog" in task.properties else None,
        "Environment": " ".join(f"{name}={shlex.quote(value)}" for name, value in task.environment.items())
        or None,
        "RequestCpus": task.minimum,
        "RequestMemory": held.memory or (spec.process_memory or 0) * task.minimum or None,
        "RequestDisk": held.disk * 1024 or None,
        "AcctGroup": spec.project or None,
        **spec.properties,
    }
