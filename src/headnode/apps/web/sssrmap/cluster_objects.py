"""Nodes, queues and reservations by SSSRMAP."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from headnode.apps.web.sssrmap.queries import Collected, SharedObjects, refuse_other_names
from headnode.apps.web.sssrmap.service import RmapCall
from headnode.core.formats.sss.sssrmap.conditions import as_number
from headnode.core.formats.sss.sssrmap.messages import (
    RmapResponse,
    RmapStatus,
    elements,
    leaf,
    text_of,
)
from headnode.core.formats.sss.sssrmap.paths import read_path
from headnode.core.formats.sss.sssrmap.spellings import PeerNames, renamed, respelling
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement

_NODE_NAMES: Final = (
    *("Id", "State", "Architecture", "OperatingSystem", "Features", "Feature", "Configured", "Available"),
    *("Utilized", "Processors", "Memory", "Swap", "Disk", "StatusMessage"),
)
_OUT_OF_USE: Final = {
    "Pending": "Unknown",
    "Paused": "Draining",
    "Draining": "Draining",
    "Drained": "Drained",
    "Unreachable": "Down",
}
_DRAINS: Final = ("drained", "draining", "offline", "drain", "down")
_RETURNS: Final = ("idle", "ready", "online", "running", "up")


def node_object(node: Mapping[str, Any]) -> XmlElement:
    """Return a node, with names of 3.1; amounts are in MB."""
    state = "Idle" if not node["used"] else "Running" if node["free"] else "Busy"
    properties = [leaf("Id", node["name"]), leaf("State", _OUT_OF_USE.get(node["state"], state))]
    properties += [leaf("Architecture", node["architecture"])] if node["architecture"] else []
    properties += [leaf("OperatingSystem", node["system"])] if node["system"] else []
    properties += [leaf("StatusMessage", drain["reason"]) for drain in node["drains"][:1] if drain["reason"]]
    features = [leaf("Feature", feature) for feature in node["features"]]
    properties += [XmlElement("Features", {}, [*features])] if features else []
    sizes = {"Processors": "processors", "Memory": "memory", "Swap": "swap", "Disk": "disk"}
    configured = [leaf(name, node[field]) for name, field in sizes.items()]
    free = node["free"] if node["state"] == "Ready" else 0
    properties.append(XmlElement("Configured", {}, [*configured]))
    properties.append(XmlElement("Available", {}, [leaf("Processors", free)]))
    properties.append(XmlElement("Utilized", {}, [leaf("Processors", node["used"])]))
    return XmlElement("Node", {}, [*properties])


async def collect_nodes(call: RmapCall) -> Collected:
    """Return the nodes, with their configured, free and used resources."""
    refuse_other_names(call, _NODE_NAMES)

    async def make() -> SharedObjects:
        nodes = (await call.ask("nodes"))["nodes"]
        return SharedObjects(renamed(node_object(each), call.names) for each in nodes)

    return Collected(await call.shared(("nodes", call.names), make))


async def modify_node(call: RmapCall) -> RmapResponse:
    """Drain a node, or return it to service: by its State."""
    to_3_1 = respelling("Node", PeerNames.V3_1)
    sets = {to_3_1(read_path(one.name).names): one.value for one in call.request.sets}
    word = sets.get(("State",), "").lower()
    if len(sets) != 1 or word not in (*_DRAINS, *_RETURNS):
        raise MessageFault(
            StatusCode.WRONG_VALUE, "a node can change its State only", "to Drained or to Idle"
        )
    names = [where.value for where in call.request.wheres if to_3_1(read_path(where.name).names) == ("Id",)]
    if len(names) != 1 or len(call.request.wheres) != 1:
        raise MessageFault(StatusCode.MISSING, "the Request names no node, or several", "name it by its Id")
    if word in _DRAINS:
        await call.ask("drain_node", node=names[0], reason="by SSSRMAP")
    else:
        await call.ask("resume_node", node=names[0])
    return _done(call, names, "modified")


async def collect_queues(call: RmapCall) -> Collected:
    """Return the job templates."""
    refuse_other_names(call, ("Id", "Description", "QueueStarted"))
    queues = [
        XmlElement(
            "Queue",
            {},
            [
                leaf("Id", each["name"]),
                leaf("QueueStarted", "True"),
                *([leaf("Description", each["description"])] if each["description"] else []),
            ],
        )
        for each in (await call.ask("templates"))["templates"]
    ]
    return Collected([renamed(one, call.names) for one in queues])


_LISTS: Final = {"Node": "nodes", "User": "users", "Group": "groups", "Project": "projects"}


def _reservation(each: Mapping[str, Any]) -> Iterator[XmlElement]:
    yield leaf("Id", each["name"])
    yield leaf("State", each["state"])
    yield leaf("StartTime", round(each["start"]))
    yield leaf("EndTime", round(each["end"]))
    for name, field in _LISTS.items():
        yield from (leaf(name, one) for one in each[field])
    if each["reason"]:
        yield leaf("Description", each["reason"])


async def collect_reservations(call: RmapCall) -> Collected:
    """Return the reservations of nodes."""
    refuse_other_names(call, ("Id", "State", "StartTime", "EndTime", "Description", *_LISTS))
    reservations = [
        XmlElement("Reservation", {}, [*_reservation(each)])
        for each in (await call.ask("reservations"))["reservations"]
    ]
    return Collected([renamed(one, call.names) for one in reservations])


async def create_reservation(call: RmapCall) -> RmapResponse:
    """Reserve the nodes in Data."""
    inside = [one for data in call.request.data for one in elements(data)]
    if len(inside) != 1:
        raise MessageFault(StatusCode.MISSING, "Data has no Reservation, or several", "write one into Data")
    options = [(_plain(one.name), one.text.strip()) for one in elements(inside[0])]
    lists = {field: [text for name, text in options if name == kind] for kind, field in _LISTS.items()}
    times = {field: _time(text) for name, text in options if (field := _TIMES.get(name)) is not None}
    texts = {field: text for name, text in options if (field := _TEXTS.get(name)) is not None}
    if "name" not in texts or not lists["nodes"]:
        raise MessageFault(StatusCode.MISSING, "the Reservation has no Id, or no Node", "write both")
    nodes = ",".join(lists.pop("nodes"))
    key = {"idempotency": call.key} if call.key else {}
    filled = {field: names for field, names in lists.items() if names}
    await call.ask("create_reservation", **texts, **times, **filled, nodes=nodes, **key)
    return _done(call, [texts["name"]], "created")


_TIMES: Final = {"StartTime": "start", "EndTime": "end", "Duration": "duration"}
_TEXTS: Final = {"Id": "name", "Description": "reason"}


def _plain(name: str) -> str:
    return respelling("Reservation", PeerNames.V3_1)((name,))[0]


def _time(text: str) -> float:
    number = as_number(text)
    if number is None:
        raise MessageFault(StatusCode.WRONG_VALUE, f"the time {text[:40]!r}", "write seconds since 1970")
    return float(number)


async def cancel_reservation(call: RmapCall) -> RmapResponse:
    """Cancel a reservation of nodes."""
    inside = [one for data in call.request.data for one in elements(data)]
    names = [text_of(one, "Id", "ReservationId") for one in inside]
    names += [where.value for where in call.request.wheres if _plain(where.name) == "Id"]
    if len(names) != 1 or not names[0]:
        raise MessageFault(
            StatusCode.MISSING, "the Request names no reservation, or several", "name it by its Id"
        )
    await call.ask("cancel_reservation", name=names[0])
    return _done(call, names, "canceled")


def _done(call: RmapCall, names: Sequence[str], done: str) -> RmapResponse:
    objects = [renamed(XmlElement(call.kind, {}, [leaf("Id", name)]), call.names) for name in names]
    status = RmapStatus(message=f"Successfully {done} {len(objects)} {call.kind}")
    return RmapResponse(status=status, count=len(objects), data=tuple(objects))
