"""Queries of jobs, and of what jobs name: users, projects, job groups.

Most queries are answered from the list of jobs of the head.  Properties that it does not have are read from
the whole descriptions of the jobs that fulfil the other conditions.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from ClusterShell.NodeSet import NodeSet, NodeSetException

from headnode.apps.web.sssrmap.queries import Collected, SharedObjects, refuse_other_names
from headnode.apps.web.sssrmap.service import RmapCall
from headnode.core.formats.sss.sssrmap.conditions import condition_of
from headnode.core.formats.sss.sssrmap.messages import (
    RmapField,
    child_of,
    compacted,
    elements,
    leaf,
    parsed,
)
from headnode.core.formats.sss.sssrmap.paths import read_path
from headnode.core.formats.sss.sssrmap.queries import options_of
from headnode.core.formats.sss.sssrmap.spellings import (
    PeerNames,
    in_0_2_whole,
    is_known_of_jobs,
    renamed,
    respelling,
)
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import PAGE, RMAP_DETAILS, RMAP_ROWS
from headnode.protocol.state_names import ENDED_STATES, OPEN_STATES

Row = Mapping[str, Any]

HIDDEN: Final = ("jobclass", "jobgroup")
"""Properties, in small letters, that are sent only if the request names them."""
_STATES: Final = {
    "Configuring": "Hold",
    "Queued": "Idle",
    "Running": "Running",
    "Suspended": "Suspended",
    **dict.fromkeys(ENDED_STATES, "Completed"),
}
_STATES_OF: Final = {
    "idle": ("Queued",),
    "hold": ("Configuring", "Queued"),
    "held": ("Configuring", "Queued"),
    "running": ("Running",),
    "suspended": ("Suspended",),
    "completed": ENDED_STATES,
}
LISTED: Final = frozenset(
    (
        *("Id", "Name", "State", "User", "Project", "Priority", "SubmitTime", "StartTime", "EndTime"),
        *("StatusMessage", "Machine", "Requested", "Delivered", "Duration", "NodeCount"),
        *("Processors", "NodeList", "JobClass", "JobGroup"),
    )
)
"""The properties that the head's list of jobs has, with their names in 3.1."""


# ---------------------------------------------------------------- the objects


def job_object(row: Row, machine: str, names: PeerNames) -> XmlElement:
    """Return a job of the head's list as a peer reads it."""
    properties = [leaf("Id", row["id"])]
    properties += [leaf("JobGroup", row["group"])] if row["group"] else []
    properties += [leaf("Name", row["name"])] if row["name"] else []
    held = row["state"] == "Queued" and row["held"]
    state = "Hold" if held else _STATES[row["state"]]
    old = {"Hold": "held"}.get(state, state.lower())
    properties += [leaf("State", old if names is PeerNames.V0_2 else state), leaf("User", row["owner"])]
    properties += [leaf("Project", row["project"])] if row["project"] else []
    properties += [leaf("Priority", row["priority"]), leaf("Machine", machine)]
    for name, field in (("SubmitTime", "submitted"), ("StartTime", "started"), ("EndTime", "ended")):
        properties += [leaf(name, round(row[field]))] if row[field] is not None else []
    message = row["message"] or row["pending_reason"]
    properties += [leaf("StatusMessage", message)] if message else []
    properties.append(leaf("JobClass", "completed" if row["state"] in ENDED_STATES else "active"))
    properties += [
        XmlElement("Requested", {}, [*_requested(row)]),
        XmlElement("Delivered", {}, [*_delivered(row, names)]),
    ]
    return renamed(XmlElement("Job", {}, [one for one in properties if one.children or one.text]), names)


def _requested(row: Row) -> Iterator[XmlElement]:
    name = {"processor": "Processors", "node": "NodeCount"}.get(row["unit"].lower())
    if name is not None and row["minimum"] == row["maximum"]:
        yield leaf(name, row["minimum"])
    elif name is not None:
        yield leaf(name, row["minimum"], op="GE")
        yield leaf(name, row["maximum"], op="LE")
    if row["run_time"] is not None:
        yield leaf("Duration", round(row["run_time"]))


def _delivered(row: Row, names: PeerNames) -> Iterator[XmlElement]:
    if row["started"] is None:
        return
    if row["allocated"]:
        yield leaf("Processors", row["allocated"])
    nodes = [leaf("Node", node) for node in _names(row["nodes"])]
    if names is PeerNames.V3_1:
        yield from nodes
    elif nodes:
        yield XmlElement("NodeList", {}, [*nodes])


def _names(nodes: str) -> list[str]:
    try:
        return [str(node) for node in NodeSet(nodes)]
    except NodeSetException:
        return [nodes]


async def _objects(call: RmapCall, rows: "JobRows") -> list[XmlElement]:
    """Return the objects of rows, made once for all queries that share the rows."""
    if call.names not in rows.objects:
        machine = (await call.shared(("ping",), lambda: call.ask("ping"), 60.0))["cluster"]
        rows.objects[call.names] = SharedObjects(job_object(row, machine, call.names) for row in rows)
    return rows.objects[call.names]


class JobRows(list[Row]):
    """Jobs of the head's list, newest first; and their objects, by whose names they have."""

    def __init__(self, rows: Sequence[Row], *, whole: bool) -> None:
        """`whole`: these are all that there are."""
        super().__init__(rows)
        self.whole = whole
        self.objects: dict[PeerNames, SharedObjects] = {}

    @cached_property
    def by_id(self) -> Mapping[str, Row]:
        """The same by their ids."""
        return {str(row["id"]): row for row in self}


# ---------------------------------------------------------------- rows of the head


def _sure(call: RmapCall) -> dict[str, str]:
    """Return the properties that must have one value, by their names in 3.1; none where an Or could help."""
    wheres = call.request.wheres
    if any(one.conj.lower() not in ("", "and") or one.group for one in wheres):
        return {}
    to_3_1 = respelling("Job", PeerNames.V3_1)
    equal = [one for one in wheres if one.op.lower() in ("", "eq") and not one.subject and not one.units]
    plain = [one for one in equal if read_path(one.name).is_plain]
    return {to_3_1((one.name,))[0]: one.value for one in plain}


async def rows_of(call: RmapCall, sure: Mapping[str, str]) -> JobRows:
    """Return the jobs of the head that may fulfil a query."""
    if "Id" in sure:
        polled: JobRows | None = call.known(_POLL)
        row = polled.by_id.get(sure["Id"]) if polled is not None else None
        if row is not None:
            return JobRows([row], whole=True)
        return await call.shared(("row", sure["Id"]), lambda: _row(call, sure["Id"]))
    fields: dict[str, Any] = {}
    if (word := sure.get("JobClass", "").lower()) in ("active", "completed"):
        fields["states"] = list(OPEN_STATES if word == "active" else ENDED_STATES)
    if (word := sure.get("State", "").lower()) in _STATES_OF:
        fields["states"] = list(_STATES_OF[word])
    fields |= {"owner": sure["User"]} if sure.get("User") else {}
    fields |= {"project": sure["Project"]} if sure.get("Project") else {}
    return await call.shared(_key(fields), lambda: _all_rows(call, fields))


def _key(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    return "rows", tuple(sorted((name, str(value)) for name, value in fields.items()))


_POLL: Final = _key({"states": list(OPEN_STATES)})
"""Where the jobs are that a scheduler polls."""


async def _row(call: RmapCall, text: str) -> JobRows:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        return JobRows([], whole=True)
    jobs = (await call.ask("jobs", before=int(text) + 1, limit=1))["jobs"]
    return JobRows([row for row in jobs if row["id"] == int(text)], whole=True)


async def _all_rows(call: RmapCall, fields: Mapping[str, Any]) -> JobRows:
    rows: list[Row] = []
    before = None
    while len(rows) < RMAP_ROWS.most:
        answer = await call.ask("jobs", **fields, before=before, limit=PAGE.most)
        rows += answer["jobs"]
        before = answer["more"]
        if before is None:
            return JobRows(rows, whole=True)
    return JobRows(rows[: RMAP_ROWS.most], whole=False)


# ---------------------------------------------------------------- queries


async def collect_jobs(call: RmapCall) -> Collected:
    """Return the jobs that may fulfil the conditions, with what is asked of them."""
    _refuse_unknown(call)
    sure = _sure(call)
    rows = await rows_of(call, sure)
    objects = await _objects(call, rows)
    if not _is_listed(call):
        objects = await _described(call, rows, objects, _listed_matches(call, rows, objects))
    return Collected(objects, rows.whole, HIDDEN)


def _refuse_unknown(call: RmapCall) -> None:
    for field in (*call.request.gets, *call.request.wheres):
        path = read_path(field.name)
        name = path.names[1] if path.anchored and len(path.names) > 1 else path.names[0]
        if not (path.anchored and len(path.names) == 1) and not is_known_of_jobs(name):
            near = nearest_name(name, LISTED)
            raise MessageFault(
                StatusCode.WRONG_ATTRIBUTE,
                f"jobs have no property {name!r}",
                f"did you mean {near}?" if near else "see the properties of the SSS job object",
            )


def _steps(fields: Sequence[RmapField]) -> Iterator[str]:
    """Yield the names in 3.1 of the properties that fields begin with."""
    to_3_1 = respelling("Job", PeerNames.V3_1)
    for field in fields:
        path = read_path(field.name)
        yield to_3_1(path.names[1:] if path.anchored and len(path.names) > 1 else path.names)[0]


def _is_listed(call: RmapCall) -> bool:
    """Whether the list of jobs has everything that a query needs."""
    if options_of(call.request).get("showhidden", "").lower() in ("true", "1"):
        return False
    return set(_steps((*call.request.gets, *call.request.wheres))) <= LISTED


def _listed_matches(call: RmapCall, rows: Sequence[Row], elements: Sequence[XmlElement]) -> list[int]:
    """Return which jobs fulfil what the list can tell: their descriptions must be read.

    Raises:  MessageFault 236 if they are many.
    """
    wheres = call.request.wheres
    joined = any(one.conj.lower() not in ("", "and") or one.group for one in wheres)
    listed = [one for one in wheres if not joined and set(_steps([one])) <= LISTED]
    fulfils = condition_of(listed, respelling("Job", call.names))
    chosen = [number for number in range(len(rows)) if fulfils(elements[number])]
    if len(chosen) > RMAP_DETAILS.most:
        raise MessageFault(
            StatusCode.TOO_LARGE,
            f"the descriptions of {len(chosen)} jobs are needed, and a query reads {RMAP_DETAILS.most}",
            "add conditions on Id, State, User or Project, or ask for fewer properties",
        )
    return chosen


async def _described(
    call: RmapCall, rows: Sequence[Row], elements: Sequence[XmlElement], chosen: Sequence[int]
) -> list[XmlElement]:
    """Return jobs with all that their descriptions say, and the state and times of the list."""
    dialect = "sss" if call.names is PeerNames.V3_1 else "sss-3.0"
    asked = (call.ask("export_job", job=rows[number]["id"], dialect=dialect) for number in chosen)
    texts = await asyncio.gather(*asked)
    return [
        _merged(call.names, compacted(parsed(answer["text"])), elements[number])
        for number, answer in zip(chosen, texts, strict=True)
    ]


def _merged(names: PeerNames, document: XmlElement, listed: XmlElement) -> XmlElement:
    """Return a job of a document with what only the list has."""
    job = _job_in(document)
    if job is None:  # a job without a description in this language
        return listed
    if names is PeerNames.V0_2:
        job = in_0_2_whole(job)
    known = {one.name: one for one in elements(listed) if one.name not in _FROM_DOCUMENT}
    own = [child for child in elements(job) if child.name not in known]
    nodes = child_of(child_of(listed, "Delivered") or listed, "NodeList")
    if nodes is not None:
        own = [
            XmlElement(one.name, one.attributes, [*one.children, nodes])
            if one.name.lower() == "delivered"
            else one
            for one in own
        ]
    return XmlElement("Job", {}, [*known.values(), *own])


_FROM_DOCUMENT: Final = ("Requested", "Delivered", "Name", "JobName", *("delivered", "jobName"))
"""What the document of a job says better than the list."""


def _job_in(document: XmlElement) -> XmlElement | None:
    if document.name == "Job":
        return document
    return next((job for one in elements(document) if (job := _job_in(one)) is not None), None)


async def collect_users(call: RmapCall) -> Collected:
    """Return the owners of jobs, and the user of the actor."""
    own = (await call.ask("whoami"))["user"]
    return await _collect_named(call, lambda row: str(row["owner"]), [own])


async def collect_projects(call: RmapCall) -> Collected:
    """Return the projects of jobs."""
    return await _collect_named(call, lambda row: str(row["project"]), [])


async def _collect_named(call: RmapCall, name_of: Callable[[Row], str], more: list[str]) -> Collected:
    refuse_other_names(call, ("Id", "Name", "Jobs"))
    rows = await rows_of(call, {})
    counts = Counter(name for row in rows if row["state"] not in ENDED_STATES and (name := name_of(row)))
    names = sorted({name for row in rows if (name := name_of(row))} | {*more})
    jobs = [
        XmlElement(call.kind, {}, [leaf("Id", name), leaf("Name", name), leaf("Jobs", counts[name])])
        for name in names
    ]
    return Collected([renamed(one, call.names) for one in jobs], rows.whole)


async def collect_groups(call: RmapCall) -> Collected:
    """Return the job groups, with their jobs."""
    refuse_other_names(call, ("Id", "State", "User", "Job"))
    rows = await rows_of(call, {})
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["group"]:
            groups.setdefault((row["owner"], row["group"]), []).append(row)
    states = await asyncio.gather(
        *(call.ask("group", group=group, owner=owner) for owner, group in [*groups][: RMAP_DETAILS.most])
    )
    elements = []
    for (owner, group), state in zip(groups, states, strict=False):
        inside = [leaf("Id", group), leaf("State", state["state"]), leaf("User", owner)]
        elements.append(XmlElement("JobGroup", {}, [*inside, *(leaf("Job", job) for job in state["jobs"])]))
    whole = rows.whole and len(groups) <= RMAP_DETAILS.most
    return Collected([renamed(one, call.names) for one in elements], whole)
