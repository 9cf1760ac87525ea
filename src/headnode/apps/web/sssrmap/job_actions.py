"""What SSSRMAP requests do with jobs: submit, change, start, stop."""

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from headnode.apps.web.sssrmap.service import RmapCall
from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.sss.sssrmap.conditions import as_number
from headnode.core.formats.sss.sssrmap.messages import (
    RmapField,
    RmapResponse,
    RmapStatus,
    canonical,
    child_of,
    elements,
    leaf,
    text_of,
)
from headnode.core.formats.sss.sssrmap.paths import read_path
from headnode.core.formats.sss.sssrmap.spellings import PeerNames, from_0_2, renamed, respelling
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import JOBS
from headnode.core.model.errors import HeadnodeError, NotFound, WrongState

SCHEDULER_HOLD: Final = "scheduler"
"""The hold of jobs that wait until another scheduler starts them."""
_IDS: Final = ("Id", "JobId", "JobGroupId")


# ---------------------------------------------------------------- which jobs


def _job_ids(call: RmapCall) -> list[int]:
    """Return the jobs that a request names, in Data or by Where.

    Raises:  MessageFault 314, 236; NotFound ``no-such-job``.
    """
    inside = [one for data in call.request.data for one in elements(data) if one.name.lower() == "job"]
    texts = [text_of(one, *_IDS) or one.text.strip() for one in inside]
    to_3_1 = respelling("Job", PeerNames.V3_1)
    for where in call.request.wheres:
        if to_3_1(read_path(where.name).names) != ("Id",) or where.op.lower() not in ("", "eq"):
            raise MessageFault(
                StatusCode.COMBINATION, "a change names its jobs by Id", 'write <Where name="JobId">5</Where>'
            )
        texts.append(f"{where.subject}.{where.value}" if where.subject else where.value)
    ids = [text for text in dict.fromkeys(texts) if text]
    if not ids:
        raise MessageFault(StatusCode.MISSING, "the Request names no job", "write its JobId into Data/Job")
    if len(ids) > JOBS.most:
        raise MessageFault(StatusCode.TOO_LARGE, f"the Request names more than {JOBS}")
    return [_job_id(text) for text in ids]


def _job_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise NotFound(code="no-such-job", what=f"there is no job {text[:64]!r}", fix="ids here are numbers")
    return int(text)


async def _for_each(call: RmapCall, done: str, act: Callable[[int], Awaitable[str | None]]) -> RmapResponse:
    """Do something with each job; a later one that is refused makes it a part of what was asked."""
    changed: list[int] = []
    notes: list[str] = []
    for job in _job_ids(call):
        try:
            note = await act(job)
        except HeadnodeError as error:
            if not changed:
                raise
            status = RmapStatus(str(StatusCode.PARTLY_DONE), f"job {job}: {error.what}")
            return _jobs_response(call, changed, status)
        changed.append(job)
        notes += [note] if note else []
    message = "; ".join([f"Successfully {done} {len(changed)} Job", *notes])
    return _jobs_response(call, changed, RmapStatus(message=message[:4096]))


def _jobs_response(call: RmapCall, jobs: list[int], status: RmapStatus) -> RmapResponse:
    objects = [renamed(XmlElement("Job", {}, [leaf("Id", job)]), call.names) for job in jobs]
    return RmapResponse(status=status, count=len(objects), data=tuple(objects))


# ---------------------------------------------------------------- submission


async def submit(call: RmapCall) -> RmapResponse:
    """Put the jobs in Data into the queue."""
    return await _make(call, "submit_job", "submitted")


async def create(call: RmapCall) -> RmapResponse:
    """Create the jobs in Data; they wait for Start."""
    return await _make(call, "create_job", "created")


async def _make(call: RmapCall, verb: str, done: str) -> RmapResponse:
    inside = [one for data in call.request.data for one in elements(data)]
    if not inside:
        raise MessageFault(StatusCode.MISSING, "the Request has no Data with a Job", "write Data/Job")
    if call.names is PeerNames.V0_2:
        inside = [from_0_2(one) for one in inside]
    text = canonical(XmlElement("Data", {}, [*inside, *call.request.files]))
    key = {"idempotency": call.key} if call.key else {}
    answer = await call.ask(verb, jobfile=text, dialect="sss", lenient=True, **key)
    jobs = answer.get("jobs") or [answer["job"]]
    lost = [f"{one['where']}: {one['what']}" for one in answer["report"] if one["kind"] in _LOST]
    message = f"Successfully {done} {len(jobs)} Job"
    if answer.get("repeated"):
        message = f"{message}, by an earlier request with this id"
    if lost:
        return _jobs_response(
            call, jobs, RmapStatus(str(StatusCode.NOT_UNDERSTOOD), "; ".join([message, *lost])[:4096])
        )
    return _jobs_response(call, jobs, RmapStatus(message=message))


_LOST: Final = (Fidelity.NOT_SUPPORTED.value, Fidelity.APPROXIMATED.value)


# ---------------------------------------------------------------- the life of a job


async def start(call: RmapCall) -> RmapResponse:
    """Submit created jobs, release jobs that another scheduler holds; NodeList says where they run."""
    nodes = {
        _job_id(text_of(one, *_IDS) or one.text.strip()): _nodes(one)
        for data in call.request.data
        for one in elements(data)
        if one.name.lower() == "job"
    }

    async def begin(job: int) -> str:
        answer = (await call.ask("job", job=job))["job"]
        if answer["state"] not in ("Configuring", "Queued"):
            raise WrongState(
                code="job-started",
                what=f"job {job} is not waiting: it is {answer['state']}",
                fix="only queued jobs can be started",
            )
        other = sorted({hold["name"] for hold in answer["holds"]} - {SCHEDULER_HOLD})
        if other:
            raise WrongState(
                code="held", what=f"job {job} has the hold {other[0]!r}", fix="who set it releases it"
            )
        if wanted := nodes.get(job):
            await call.ask("modify_job", job=job, terms={"requestednodes": ",".join(dict.fromkeys(wanted))})
        if answer["holds"]:
            await call.ask("release_job", job=job, name=SCHEDULER_HOLD)
        if answer["state"] == "Configuring":
            await call.ask("submit_job", job=job)
        return f"job {job} starts when its processors are free"

    return await _for_each(call, "released", begin)


def _nodes(job: XmlElement) -> list[str]:
    listed = child_of(job, "NodeList") or XmlElement("NodeList")
    return [text for one in elements(listed) if (text := one.text.strip())]


def _by_verb(verb: str, done: str) -> Callable[[RmapCall], Awaitable[RmapResponse]]:
    async def act(call: RmapCall) -> RmapResponse:
        async def each(job: int) -> None:
            await call.ask(verb, job=job)

        return await _for_each(call, done, each)

    return act


cancel = _by_verb("cancel_job", "canceled")
requeue = _by_verb("requeue_job", "requeued")
suspend = _by_verb("suspend_job", "suspended")
resume = _by_verb("resume_job", "resumed")


async def checkpoint(call: RmapCall) -> RmapResponse:
    """Refuse: Headnode writes no checkpoints.

    Raises:  MessageFault 710, always.
    """
    raise MessageFault(
        StatusCode.NOT_SUPPORTED,
        f"job {_job_ids(call)[0]} has no checkpoint: Headnode writes none",
        "use Suspend, which keeps its memory, or Requeue",
    )


async def notify(call: RmapCall) -> RmapResponse:
    """Set the progress message of jobs to their StatusMessage."""
    texts = {
        _job_id(text_of(one, *_IDS)): text_of(one, "StatusMessage", "Message")
        for data in call.request.data
        for one in elements(data)
    }

    async def report(job: int) -> None:
        if not texts.get(job):
            raise MessageFault(
                StatusCode.MISSING, f"job {job} has no StatusMessage", "write it into Data/Job"
            )
        await call.ask("set_progress", job=job, message=texts[job])

    return await _for_each(call, "notified", report)


async def cancel_group(call: RmapCall) -> RmapResponse:
    """Cancel the jobs of a group of the actor."""
    inside = [one for data in call.request.data for one in elements(data)]
    names = [text_of(one, *_IDS) or one.text.strip() for one in inside]
    names += [where.value for where in call.request.wheres]
    if len(names) != 1 or not names[0]:
        raise MessageFault(StatusCode.MISSING, "the Request names no group, or several", "name one by its Id")
    answer = await call.ask("cancel_group", group=names[0])
    jobs = [one["job"] for one in answer["jobs"]]
    return _jobs_response(call, jobs, RmapStatus(message=f"Successfully canceled {len(jobs)} Job"))


# ---------------------------------------------------------------- changes


def _seconds(text: str) -> str:
    """Return a Duration, in seconds, as the option of a job: whole minutes, rounded up."""
    number = as_number(text)
    if number is None or number < 0:
        raise MessageFault(StatusCode.WRONG_VALUE, f"the Duration {text[:40]!r}", "write seconds")
    return str(math.ceil(number / 60))


def _moment(text: str) -> str:
    number = as_number(text)
    if number is None:
        return text
    try:
        return datetime.fromtimestamp(number, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        raise MessageFault(
            StatusCode.WRONG_VALUE, f"the time {text[:40]!r}", "write seconds since 1970"
        ) from None


_TERMS: Final[Mapping[str, tuple[str, Callable[[str], str]]]] = {
    "Name": ("jobname", str),
    "Project": ("projectname", str),
    "Priority": ("priority", str),
    "Duration": ("runtime", _seconds),
    "Queue": ("jobtemplate", str),
    "Description": ("description", str),
    "DeadlineTime": ("endby", _moment),
    "EligibleTime": ("holduntil", _moment),
    "Processors": ("numprocessors", str),
    "NodeCount": ("numnodes", str),
    "Node": ("requestednodes", str),
    "Reservation": ("reservation", str),
    "Suspendable": ("suspendable", str),
}
"""The options of jobs by the names of properties in 3.1, and how their values are written."""
_COUNTED: Final = {"Priority": "priority", "Duration": "run_time", "Processors": "minimum"}
"""What Inc and Dec change, by the fields that have its value now."""


async def modify(call: RmapCall) -> RmapResponse:
    """Change properties of jobs."""
    if not call.request.sets:
        raise MessageFault(StatusCode.MISSING, "the Request has no Set", "write what is to change into Set")
    to_3_1 = respelling("Job", PeerNames.V3_1)
    sets = [(to_3_1(read_path(one.name).names)[-1], one) for one in call.request.sets]
    for name, one in sets:
        if name != "Hold" and name not in _TERMS:
            raise MessageFault(
                StatusCode.WRONG_ATTRIBUTE,
                f"{one.name[:64]!r} cannot be changed",
                f"a job can change {', '.join([*_TERMS, 'Hold'])}",
            )

    if len({name for name, _ in sets}) < len(sets):
        raise MessageFault(StatusCode.COMBINATION, "a property is set twice", "set it once")

    async def change(job: int) -> None:
        terms = {_TERMS[name][0]: await _value(call, job, name, one) for name, one in sets if name != "Hold"}
        if terms:
            await call.ask("modify_job", job=job, terms=terms)
        for name, one in sets:
            if name == "Hold":
                await _set_hold(call, job, one.value)

    return await _for_each(call, "modified", change)


async def _value(call: RmapCall, job: int, name: str, one: RmapField) -> str:
    """Return the new value of an option."""
    op = one.op.lower()
    _, write = _TERMS[name]
    if op in ("", "assign"):
        return write(one.value)
    step = as_number(one.value)
    if op not in ("inc", "dec") or name not in _COUNTED or step is None:
        raise MessageFault(
            StatusCode.OPERATOR,
            f"op {one.op[:40]!r} of {one.name[:64]!r}",
            "use Assign; Inc and Dec for numbers",
        )
    answer: dict[str, Any] = (await call.ask("job", job=job))["job"]
    if answer[_COUNTED[name]] is None:
        raise MessageFault(StatusCode.COMBINATION, f"job {job} has no {name} that could be counted up")
    return write(str(answer[_COUNTED[name]] + (step if op == "inc" else -step)))


async def _set_hold(call: RmapCall, job: int, text: str) -> None:
    """Set the hold of a name; ``None`` releases all."""
    if text.lower() in ("", "none", "false"):
        await call.ask("release_job", job=job, all=True)
    else:
        await call.ask("hold_job", job=job, name=text.lower())
