"""Tasks and their instances (subtasks) by HPC Pack's REST API."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headnode.apps.web.hpc_pack.jobs import ENVIRONMENT, TERMS
from headnode.apps.web.hpc_pack.property_lists import (
    JobFile,
    Properties,
    date_text,
    listed,
    read_date,
    read_list,
    task_file,
    task_terms,
)
from headnode.apps.web.hpc_pack.requests import (
    DONE,
    HpcReply,
    HpcRequest,
    filters_of,
    in_order,
    objects,
    page,
)
from headnode.apps.web.problems import wrong
from headnode.core.model.errors import NotFound, WrongState

DEFAULT_NAMES: Final = (
    *("TaskId", "Name", "State", "CommandLine"),
    *("ExitCode", "ParentJobId", "JobTaskId", "InstanceId"),
)
MAX_INSTANCES: Final = 5_000  # in one list
SHOWN_OUTPUT: Final = 4096  # bytes, of what a task has written


async def tasks(request: HpcRequest) -> HpcReply:
    """List the tasks of a job, sweeps by their instances unless `expandParametric` is false."""
    job = request.number("job")
    await request.admit_to(job)
    filters = filters_of(request, "TaskState", "TaskStates", "ChangeTimeFrom", "TaskIds", "TaskInstanceIds")
    rows = await _rows(request, job, expand=request.flag("expandParametric", default=True))
    rows = [row for row in rows if _fits(row, filters)]
    rows = in_order(request, rows, "sortTasksBy", lambda row, name: row.get(name, row["TaskId"]))
    chosen, headers = page(request, rows)
    return objects(list(chosen), request.names() or list(DEFAULT_NAMES), headers)


async def _rows(request: HpcRequest, job: int, *, expand: bool) -> list[Properties]:
    file = await request.job_file(job)
    rows: list[Properties] = []
    for task in file.tasks():
        number = int(task["Id"])
        if not expand or task.get("Type") != "ParametricSweep":
            rows.append(_named(task, job, number))
            continue
        after: int | None = 0
        while after is not None:
            answer = await request.ask("tasks", job=job, expand=number, after=after)
            rows += [_instance(task, job, each) for each in answer["tasks"]]
            after = answer["more"]
            if len(rows) > MAX_INSTANCES:
                raise wrong(
                    "rows", f"the job has more than {MAX_INSTANCES} tasks", "use expandParametric=false"
                )
    return rows


def _named(task: Properties, job: int, number: int, instance: int = 0) -> Properties:
    own = {
        "TaskId": f"{job}.{number}" + (f".{instance}" if instance else ""),
        "JobTaskId": str(number),
        "InstanceId": str(instance),
    }
    return own | {name: value for name, value in task.items() if name != "Id"}


def _instance(task: Properties, job: int, answer: Mapping[str, Any]) -> Properties:
    """Return the properties of an instance: those of its task, with its own state."""
    own = {
        "State": _state(answer["state"], answer["started"]),
        "ExitCode": "" if answer["exit_code"] is None else str(answer["exit_code"]),
        "ErrorMessage": answer["message"],
        "CommandLine": answer["command"],
        "StartTime": date_text(answer["started"]),
        "EndTime": date_text(answer["ended"]),
        "AllocatedNodes": answer["node"],
    }
    return _named(task, job, answer["task"], answer["instance"] or 0) | own


def _state(state: str, started: float | None) -> str:
    """Return the word of HPC Pack: a task that was stopped while it ran has failed."""
    if state == "Canceled" and started is not None:
        return "Failed"
    return "Running" if state == "Dispatched" else state


def _fits(row: Properties, filters: Mapping[str, str]) -> bool:
    states = filters.get("taskstate", "") + "," + filters.get("taskstates", "")
    wanted = {state.strip().lower() for state in states.split(",") if state.strip()}
    if wanted and row["State"].lower() not in wanted:
        return False
    for name, key in (("taskids", "JobTaskId"), ("taskinstanceids", "TaskId")):
        if name in filters and row[key] not in {each.strip() for each in filters[name].split(",")}:
            return False
    since = filters.get("changetimefrom")
    changed = row.get("EndTime") or row.get("StartTime") or row.get("SubmitTime") or ""
    return since is None or (bool(changed) and read_date(changed) >= int(read_date(since)))


async def add_task(request: HpcRequest) -> HpcReply:
    """Add a task with properties; return its number."""
    job = request.number("job")
    await request.admit_to(job)
    answer = await request.ask("add_tasks", job=job, jobfile=task_file(read_list(request.body)))
    return HpcReply(answer["tasks"][0])


async def task(request: HpcRequest) -> HpcReply:
    """Show the properties of a task, or of an instance."""
    properties, names = await _properties(request), request.names()
    if not names or "output" in {name.lower() for name in names}:
        properties["Output"] = await _output(request, *_place(request))
    return HpcReply(listed(properties, names))


async def _properties(request: HpcRequest) -> Properties:
    job, number, instance = _place(request)
    await request.admit_to(job)
    known = _task_of(await request.job_file(job), job, number)
    if instance is None:
        return _named(known, job, number)
    answer = await request.ask("task", job=job, task=number, instance=instance)
    return _instance(known, job, answer["task"])


def _place(request: HpcRequest) -> tuple[int, int, int | None]:
    instance = request.number("instance") if "instance" in request.parts else None
    return request.number("job"), request.number("task"), instance


def _task_of(file: JobFile, job: int, number: int) -> Properties:
    if (task := file.task(number)) is None:
        raise NotFound(
            code="no-such-task", what=f"job {job} has no task {number}", fix=f"see /jobs/{job}/tasks"
        )
    return task


async def _output(request: HpcRequest, job: int, task: int, instance: int | None) -> str:
    """Return the beginning of what a task has written; "" if there is nothing."""
    try:
        answer = await request.ask("read_output", job=job, task=task, instance=instance, limit=SHOWN_OUTPUT)
    except NotFound:
        return ""
    return msgspec.convert(answer["data"], bytes).decode(errors="replace") if answer.get("data") else ""


async def set_task(request: HpcRequest) -> HpcReply:
    """Change properties of a task; an instance of a sweep has none of its own, and may be sent those it has.

    Raises:  WrongState ``subtask-properties``.
    """
    job, number, instance = _place(request)
    fields = read_list(request.body)
    if instance is not None:
        known = {name.lower(): value for name, value in (await _properties(request)).items()}
        if all(known.get(name.lower()) == value for name, value in fields.items()):
            return DONE
        raise WrongState(
            code="subtask-properties",
            what="the instances of a sweep have the properties of their task",
            fix=f"change those of the task: PUT /hpc/jobs/{job}/tasks/{number}",
        )
    await request.admit_to(job)
    unit = (await request.ask("job", job=job))["job"]["unit"]
    await request.ask("modify_task", job=job, task=number, terms=task_terms(fields, unit))
    return DONE


async def cancel(request: HpcRequest) -> HpcReply:
    """Cancel a task or an instance."""
    job, number, instance = _place(request)
    await request.admit_to(job)
    await request.ask(
        "cancel_task",
        job=job,
        task=number,
        instance=instance,
        message=request.message,
        force=request.flag("forced"),
    )
    return DONE


async def finish(request: HpcRequest) -> HpcReply:
    """Finish a task or an instance."""
    job, number, instance = _place(request)
    await request.admit_to(job)
    await request.ask("finish_task", job=job, task=number, instance=instance, message=request.message)
    return DONE


async def requeue(request: HpcRequest) -> HpcReply:
    """Run a task or an instance again."""
    job, number, instance = _place(request)
    await request.admit_to(job)
    await request.ask("requeue_task", job=job, task=number, instance=instance)
    return DONE


async def environment(request: HpcRequest) -> HpcReply:
    """Show environment variables of a task."""
    return await _pairs(request, ENVIRONMENT)


async def custom_properties(request: HpcRequest) -> HpcReply:
    """Show custom properties of a task."""
    return await _pairs(request, TERMS)


async def _pairs(request: HpcRequest, kind: str) -> HpcReply:
    job, number, _ = _place(request)
    await request.admit_to(job)
    pairs = (await request.job_file(job)).pairs(kind, number)
    if pairs is None:
        raise NotFound(
            code="no-such-task", what=f"job {job} has no task {number}", fix=f"see /jobs/{job}/tasks"
        )
    return HpcReply(listed(pairs, request.names("names")))


async def set_environment(request: HpcRequest) -> HpcReply:
    """Set environment variables of a task; the others stay."""
    return await _set_pairs(request, ENVIRONMENT, "env")


async def set_custom_properties(request: HpcRequest) -> HpcReply:
    """Set custom properties of a task; the others stay."""
    return await _set_pairs(request, TERMS, "customproperties")


async def _set_pairs(request: HpcRequest, kind: str, term: str) -> HpcReply:
    job, number, _ = _place(request)
    await request.admit_to(job)
    known = (await request.job_file(job)).pairs(kind, number) or {}
    await request.ask("modify_task", job=job, task=number, terms={term: known | read_list(request.body)})
    return DONE
