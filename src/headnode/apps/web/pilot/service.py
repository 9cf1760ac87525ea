"""What each path of the grid service does: jobs and tasks, what ended jobs used, the service itself."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headnode import __version__
from headnode.apps.web.pilot.delegations import (
    CREDENTIALS,
    credential_in,
    keep_for_job,
    refuse_unknown,
    renew_for_job,
)
from headnode.apps.web.pilot.grid_jobs import (
    PAGE,
    GridJob,
    GridTaskPlace,
    Object,
    job_of,
    listed_job,
    task_states,
    time_text,
)
from headnode.apps.web.pilot.records import MAX_OPERATIONS, GridJobKey, GridOperation
from headnode.apps.web.pilot.requests import GridReply, GridRequest
from headnode.apps.web.problems import wrong
from headnode.core.model.errors import NotFound, Refused, WrongState
from headnode.protocol.event_answers import StateChange
from headnode.protocol.state_names import ENDED_STATES

MAX_LISTED: Final = 5_000  # jobs in the list
NEVER: Final = 253402300799.0  # 9999-12-31T23:59:59Z: no job is removed
MAX_OPERATION_ID: Final = 36  # characters: a UUID
_HOLD: Final = "pilot"  # the hold by which a queued job is paused
_STOPPED: Final = ("Suspended", "Suspending")


async def jobs(request: GridRequest) -> GridReply:
    """List the jobs of the user, newest first."""
    keys: list[GridJobKey] = []
    before = None
    while len(keys) < MAX_LISTED:
        answer = await request.ask("jobs", owner="", before=before, limit=PAGE)
        page = [GridJobKey(job["id"], job["created"]) for job in answer["jobs"]]
        deleted = request.records.deleted_of(page)
        keys += [job for job in page if job not in deleted]
        before = answer["more"]
        if before is None:
            break
    return GridReply([listed_job(request, job.id) for job in keys[:MAX_LISTED]])


async def create_job(request: GridRequest) -> GridReply:
    """Create a job; it starts when the operation `start` is asked for."""
    body = request.json_object("definition", optional=CREDENTIALS)
    credential = credential_in(body)
    await refuse_unknown(request, credential)
    once = {"idempotency": request.key} if request.key else {}
    described = _described(_text_of(body["definition"]), credential["name"] if credential else "")
    answer = await request.ask("create_job", **described, **once)
    await keep_for_job(request, credential, answer["job"])
    listed = listed_job(request, answer["job"])
    return GridReply([listed], 201, {"location": listed["uri"]})


def _described(text: str, credential: str) -> Object:
    """Return the fields by which the head reads a description; `credential` is for all its tasks."""
    terms = {"terms": {"credential": credential}} if credential else {}
    return {"jobfile": text, "dialect": "grid", "strict": True, **terms}


def _text_of(definition: object) -> str:
    """Return the text of a description, which may be an object or a text with one."""
    if isinstance(definition, str):
        return definition
    return msgspec.json.encode(definition).decode()


async def job(request: GridRequest) -> GridReply:
    """Show a job: its description, the history of its states, what was asked to be done with it."""
    grid_job = await job_of(request)
    answer = grid_job.shown
    definition = await grid_job.definition()  # first: it refuses a job with too many tasks
    changes = await grid_job.own_changes()
    states = grid_job.states(changes)
    return GridReply(
        {
            "created": time_text(answer["created"]),
            "modified": time_text(max([float(answer["created"]), *(each.at for each in changes)])),
            "expires": time_text(NEVER),
            "server_time": time_text(request.now),
            "server_policy_uri": request.uri("policy/job/"),
            "owner": answer["owner"],
            "vo": answer["project"][:64],
            "definition": definition,
            "state": states,
            "operation": [_operation_object(each) for each in request.records.operations(grid_job.key)],
            "tasks": {
                each["id"]: _task_uri(request, grid_job.id, each["id"]) for each in definition["tasks"]
            },
            "deleted": bool(request.records.deleted_of([grid_job.key])),
        }
    )


def _operation_object(operation: GridOperation) -> Object:
    fields: Object = {"op": operation.op, "id": operation.id, "created": time_text(operation.created)}
    if operation.completed is not None:
        fields |= {"completed": time_text(operation.completed), "success": operation.success}
        fields |= {"result": {"message": operation.result}} if operation.result else {}
    return fields


def _task_uri(request: GridRequest, job: int, task: str) -> str:
    return request.uri(f"jobs/{job}/{task}/")


async def change_job(request: GridRequest) -> GridReply:
    """Describe a new job anew, or start, pause or abort a job."""
    job = await job_of(request)
    body = request.json_object(optional=("definition", "operation", *CREDENTIALS))
    credential = credential_in(body)
    if "definition" in body:
        await _replace(request, job, _text_of(body["definition"]))
    if credential is not None:
        await renew_for_job(request, job, credential)
    if "operation" in body:
        await _operate(request, job, body["operation"])
    return GridReply()


async def _replace(request: GridRequest, job: GridJob, text: str) -> None:
    """Describe a job anew.

    Raises:  BadRequest ``not-new`` when it was started already.
    """
    try:
        described = _described(text, await job.credential())
        await request.ask("replace_job", job=job.id, **described)
    except WrongState as refused:
        if refused.code not in ("already-submitted", "job-over"):
            raise
        what = f"job {job.id} has been started: its definition cannot change"
        raise wrong("not-new", what, "create a new job") from None


async def _operate(request: GridRequest, job: GridJob, operation: object) -> None:
    """Carry out an operation once, and keep how it ended."""
    match operation:
        case {"op": "start" | "pause" | "abort" as op, "id": str(name)} if 0 < len(name) <= MAX_OPERATION_ID:
            pass
        case {"op": "start" | "pause" | "abort"}:
            what = f"the id of the operation is not text of 1 to {MAX_OPERATION_ID} characters"
            raise wrong("operation", what, 'send a UUID as "id"')
        case _:
            what = "the operation is not known"
            raise wrong("operation", what, 'send {"op": "start", "id": UUID}, or pause or abort')
    async with request.records.turn(job.key, name):
        await _operate_once(request, job, op, name)


async def _operate_once(request: GridRequest, job: GridJob, op: str, name: str) -> None:
    known = {each.id: each for each in request.records.operations(job.key)}
    before = known.get(name)
    if before is not None and before.op != op:
        raise wrong("operation", f"the operation {name} was to {before.op}", "use a new id")
    if before is not None and before.completed is not None:
        return
    if before is None and len(known) >= MAX_OPERATIONS:
        raise wrong("operations", f"job {job.id} has had {MAX_OPERATIONS} operations", "create a new job")
    request.records.begin(job.key, name, op)
    try:
        await _OPERATIONS[op](request, job)
    except Refused as refused:
        request.records.complete(job.key, name, success=False, result=refused.what)
        raise
    request.records.complete(job.key, name, success=True)


async def _start(request: GridRequest, job: GridJob) -> None:
    """Submit a new job; let a paused one go on.  A job that runs or waits is left alone."""
    state = job.shown["state"]
    if any(hold["name"] == _HOLD for hold in job.shown["holds"]):
        await request.ask("release_job", job=job.id, name=_HOLD)
    if state == "Configuring":
        await _refuse_undefined(job)
        await request.ask("submit_job", job=job.id)
    elif state in _STOPPED:
        await request.ask("resume_job", job=job.id)


async def _refuse_undefined(job: GridJob) -> None:
    """Refuse to start a job while a task of it has no definition.

    Raises:  BadRequest ``no-definition``.
    """
    missing = [item["id"] for item in (await job.definition())["tasks"] if "definition" not in item]
    if missing:
        what = f"task {missing[0]!r} of job {job.id} has no definition"
        raise wrong(
            "no-definition", what, f"send it with PUT to jobs/{job.id}/{missing[0]}/, then start the job"
        )


async def _pause(request: GridRequest, job: GridJob) -> None:
    """Suspend a job that runs; hold one that waits."""
    if job.shown["state"] in _STOPPED:
        return
    verb = "suspend_job" if job.shown["state"] == "Running" else "hold_job"
    named = {} if verb == "suspend_job" else {"name": _HOLD, "message": "paused by the grid service"}
    await request.ask(verb, job=job.id, **named)


async def _abort(request: GridRequest, job: GridJob) -> None:
    """Cancel a job; one that is over is left alone."""
    if job.shown["state"] not in ENDED_STATES:
        await request.ask("cancel_job", job=job.id, message="aborted by the grid service")


_OPERATIONS: Final = {"start": _start, "pause": _pause, "abort": _abort}


async def delete_job(request: GridRequest) -> GridReply:
    """Cancel a job unless it is over, and leave it out of lists."""
    job = await job_of(request)
    await _abort(request, job)
    request.records.delete(job.key)
    return GridReply(None)


async def task(request: GridRequest) -> GridReply:
    """Show a task: its definition and the history of its states."""
    job = await job_of(request)
    name = request.path("task")
    places = await job.places()
    item = await _item(job, name)
    changes = await job.changes()
    states = task_states(changes, places, [name])[name]
    code = _exit_code(changes, places[name])
    return GridReply(
        {
            "created": time_text(job.shown["created"]),
            "modified": states[-1]["ts"] if states else time_text(job.shown["created"]),
            "job": request.uri(f"jobs/{job.id}/"),
            "definition": item.get("definition"),
            "state": states,
            **({} if code is None else {"exit_code": code}),
        }
    )


async def _item(job: GridJob, name: str) -> Object:
    """Return a task as the description has it.

    Raises:  NotFound ``no-such-task``.
    """
    for item in (await job.definition())["tasks"]:
        if item["id"] == name:
            return dict(item)
    raise NotFound(code="no-such-task", what=f"job {job.id} has no task {name[:60]!r}")


def _exit_code(changes: list[StateChange], place: GridTaskPlace) -> int | None:
    codes = [
        change.exit_code
        for change in changes
        if change.task == place.task and change.first == place.instance and isinstance(change.exit_code, int)
    ]
    return codes[-1] if codes else None


async def define_task(request: GridRequest) -> GridReply:
    """Give a task of a new job its definition: as an object, or in `definition`."""
    found = await job_of(request)
    await _item(found, request.path("task"))
    body = request.json_object()
    definition = body if "executable" in body else body.get("definition")
    if isinstance(definition, str):
        definition = request.decoded(definition.encode())
    job = await found.definition()
    items = [
        item | {"definition": definition} if item["id"] == request.path("task") else item
        for item in job["tasks"]
    ]
    await _replace(request, found, _text_of(job | {"tasks": items}))
    return GridReply()


MAX_ACCOUNTED: Final = 1_000  # jobs in an answer


async def resources(request: GridRequest) -> GridReply:
    """Show where the tasks of a job could run now; nothing is started."""
    job = await job_of(request)
    answer: Mapping[str, Any] = {}
    runnable = job.shown["state"] != "Configuring"
    if not runnable:
        try:
            answer = await request.ask("check_job", job=job.id)
            runnable = True
        except Refused as refused:
            return GridReply({"runnable": False, "resources": [], "reason": refused.what})
    nodes = [each["name"] for each in (await request.ask("nodes"))["nodes"] if each["state"] == "Ready"]
    listed = [
        {"task_id": item["id"], "resources": _hosts(item, nodes)}
        for item in (await job.definition())["tasks"]
    ]
    reasons = answer.get("explanation", {}).get("sentence")
    return GridReply({"runnable": runnable, "resources": listed, **({"reason": reasons} if reasons else {})})


def _hosts(item: Object, nodes: list[str]) -> list[str]:
    """Return the nodes that a task may use by name."""
    wanted = item.get("definition", {}).get("requirements", {}).get("hostname")
    return nodes if wanted is None else [node for node in nodes if node in wanted]


async def last_jobs(request: GridRequest) -> GridReply:
    """Show the use of the last jobs of the user that are over, newest first."""
    most = min(request.number("count"), MAX_ACCOUNTED)
    answer = await request.ask("jobs", owner="", states=list(ENDED_STATES), limit=most)
    return GridReply([_used(request, job) for job in answer["jobs"]])


async def jobs_of_period(request: GridRequest) -> GridReply:
    """Show the use of the jobs of the user that ended in a period, in seconds since 1970."""
    since, until = request.number("since"), request.number("until")
    objects: list[Object] = []
    before = None
    while len(objects) < MAX_ACCOUNTED:
        answer = await request.ask("jobs", owner="", states=list(ENDED_STATES), before=before, limit=PAGE)
        objects += [_used(request, job) for job in answer["jobs"] if since <= (job["ended"] or 0) <= until]
        before = answer["more"]
        if before is None:
            break
    return GridReply(objects[:MAX_ACCOUNTED])


def _used(request: GridRequest, job: Object) -> Object:
    times = {name: time_text(job[name]) for name in ("created", "started", "ended") if job[name] is not None}
    return {
        **listed_job(request, job["id"]),
        "state": "finished" if job["state"] == "Finished" else "aborted",
        **times,
    }


async def version(request: GridRequest) -> GridReply:  # noqa: ARG001
    """Show the version of the service."""
    return GridReply({"service": "headnode", "version": __version__, "schema": 2})


async def policy(request: GridRequest) -> GridReply:  # noqa: ARG001
    """Say how long jobs are kept."""
    return GridReply({"expires": "records of jobs are kept; captured output as long as the cluster keeps it"})
