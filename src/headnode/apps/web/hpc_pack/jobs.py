"""Jobs by HPC Pack's REST API."""

from collections.abc import Mapping
from typing import Any, Final

from headnode.apps.web.hpc_pack.nodes import members_of_groups
from headnode.apps.web.hpc_pack.property_lists import (
    Properties,
    date_text,
    job_file,
    job_terms,
    listed,
    read_date,
    read_list,
)
from headnode.apps.web.hpc_pack.requests import (
    DONE,
    MAX_ROWS,
    HpcReply,
    HpcRequest,
    filters_of,
    in_order,
    objects,
    page,
)
from headnode.apps.web.problems import wrong
from headnode.core.model.errors import WrongState
from headnode.protocol.state_names import ENDED_STATES

DEFAULT_NAMES: Final = ("Id", "Owner", "Name", "State", "Priority")
MAX_SORTED: Final = 5_000  # jobs that one list looks at
MAX_FILES: Final = 200  # jobs on a page with properties that only their files have
ENVIRONMENT, TERMS = "EnvironmentVariables", "ExtendedTerms"


async def jobs(request: HpcRequest) -> HpcReply:
    """List jobs, newest first unless another order is asked for."""
    names = request.names() or list(DEFAULT_NAMES)
    rows = in_order(request, await _rows(request), "sortJobsBy", lambda row, name: _by_name(row, name))
    chosen, headers = page(request, rows)
    if {name.lower() for name in names} <= {name.lower() for name in _BRIEF}:
        return objects(list(chosen), names, headers)
    if len(chosen) > MAX_FILES:
        raise wrong("rows", f"these properties are given of {MAX_FILES} jobs at a time", "use rowsPerRead")
    files = [(await request.job_file(int(row["Id"]))).job for row in chosen]
    return objects([row | file for row, file in zip(chosen, files, strict=True)], names, headers)


async def _rows(request: HpcRequest) -> list[Properties]:
    """Return the jobs that the filters choose."""
    filters = filters_of(request, "JobState", "ChangeTimeFrom", "NodeGroup")
    since = read_date(filters["changetimefrom"]) if "changetimefrom" in filters else None
    states = [each.strip() for each in filters.get("jobstate", "").split(",") if each.strip()]
    nodes = {name.lower() for name in request.names("nodeNames")}
    if (group := filters.get("nodegroup")) is not None:
        members = {name.lower() for name in (await members_of_groups(request)).get(group, ())}
        nodes = nodes & members if nodes else members
        if not nodes:
            return []
    owner = request.query.get("owner", "").rpartition("\\")[2] or None
    rows: list[Properties] = []
    before, seen = None, 0
    while seen < MAX_SORTED:
        answer = await request.ask("jobs", owner=owner, states=states or None, before=before, limit=MAX_ROWS)
        for job in answer["jobs"]:
            if since is not None and _changed(job) < int(since):
                continue
            if not nodes or nodes & {name.lower() for name in job["nodes"].split(",")}:
                rows.append(_brief(job))
        before, seen = answer["more"], seen + len(answer["jobs"])
        if before is None:
            break
    return rows


def _changed(job: Mapping[str, Any]) -> float:
    times = (job["created"], job["submitted"], job["started"], job["ended"])
    return max(float(time) for time in times if time is not None)


def _brief(job: Mapping[str, Any]) -> Properties:
    return {
        "Id": str(job["id"]),
        "Owner": job["owner"],
        "Name": job["name"],
        "State": job["state"],
        "Priority": job["priority_name"],
        "Project": job["project"],
        "ErrorMessage": job["message"],
        "PendingReason": job["pending_reason"],
        "CreateTime": date_text(job["created"]),
        "SubmitTime": date_text(job["submitted"]),
        "StartTime": date_text(job["started"]),
        "EndTime": date_text(job["ended"]),
        "ChangeTime": date_text(_changed(job)),
    }


_BRIEF: Final = (
    *DEFAULT_NAMES,
    *("Project", "ErrorMessage", "PendingReason"),
    *("CreateTime", "SubmitTime", "StartTime", "EndTime", "ChangeTime"),
)


def _by_name(row: Properties, name: str) -> str:
    named = next((value for known, value in row.items() if known.lower() == name.lower()), row["Id"])
    return str(read_date(named)) if name.lower().endswith("time") and named else named


async def create_job(request: HpcRequest) -> HpcReply:
    """Create a job with properties, without tasks."""
    return await _created(request, job_file(read_list(request.body or [])))


async def create_from_file(request: HpcRequest) -> HpcReply:
    """Create a job of a job file, which is a JSON string."""
    if not isinstance(request.body, str):
        raise wrong("body", "the job file is not a JSON string", 'send "<Job>...</Job>" in quotes')
    return await _created(request, request.body)


async def _created(request: HpcRequest, text: str) -> HpcReply:
    terms = {"user": request.as_user} if request.as_user else {}
    return HpcReply((await request.ask("create_job", jobfile=text, terms=terms))["job"])


async def job(request: HpcRequest) -> HpcReply:
    """Show the properties of a job."""
    number = request.number("job")
    await request.admit_to(number)
    return HpcReply(listed((await request.job_file(number)).job, request.names()))


async def set_job(request: HpcRequest) -> HpcReply:
    """Change properties of a job."""
    number = request.number("job")
    await request.admit_to(number)
    job = (await request.ask("job", job=number))["job"]
    state = job["state"]
    if state in ENDED_STATES:
        raise WrongState(
            code="job-over",
            what=f"job {number} has already ended: {state}",
            fix="clone it, and change the copy",
        )
    await request.ask("modify_job", job=number, terms=job_terms(read_list(request.body), job["unit"]))
    return DONE


async def submit(request: HpcRequest) -> HpcReply:
    """Submit a job that was created; with properties, it is changed first."""
    number = request.number("job")
    await request.admit_to(number)
    if request.body:
        unit = (await request.ask("job", job=number))["job"]["unit"]
        if terms := job_terms(read_list(request.body), unit):
            await request.ask("modify_job", job=number, terms=terms)
    await request.ask("submit_job", job=number)
    return DONE


async def cancel(request: HpcRequest) -> HpcReply:
    """Cancel a job."""
    number = request.number("job")
    await request.admit_to(number)
    await request.ask("cancel_job", job=number, message=request.message, force=request.flag("forced"))
    return DONE


async def finish(request: HpcRequest) -> HpcReply:
    """Finish a job."""
    number = request.number("job")
    await request.admit_to(number)
    await request.ask("finish_job", job=number, message=request.message)
    return DONE


async def requeue(request: HpcRequest) -> HpcReply:
    """Run a job again."""
    number = request.number("job")
    await request.admit_to(number)
    await request.ask("requeue_job", job=number)
    return DONE


async def environment(request: HpcRequest) -> HpcReply:
    """Show environment variables of a job."""
    return await _pairs(request, ENVIRONMENT)


async def custom_properties(request: HpcRequest) -> HpcReply:
    """Show custom properties of a job."""
    return await _pairs(request, TERMS)


async def _pairs(request: HpcRequest, kind: str) -> HpcReply:
    number = request.number("job")
    await request.admit_to(number)
    return HpcReply(listed((await request.job_file(number)).pairs(kind) or {}, request.names("names")))


async def set_environment(request: HpcRequest) -> HpcReply:
    """Set environment variables of a job; the others stay."""
    return await _set_pairs(request, ENVIRONMENT, "jobenv")


async def set_custom_properties(request: HpcRequest) -> HpcReply:
    """Set custom properties of a job; the others stay."""
    return await _set_pairs(request, TERMS, "customproperties")


async def _set_pairs(request: HpcRequest, kind: str, term: str) -> HpcReply:
    number = request.number("job")
    await request.admit_to(number)
    known = (await request.job_file(number)).pairs(kind) or {}
    await request.ask("modify_job", job=number, terms={term: known | read_list(request.body)})
    return DONE
