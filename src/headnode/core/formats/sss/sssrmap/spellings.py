"""The names of properties as peers of different ages write them.

Objects are made in the spelling of the peer, so that the paths of its request lead into them; other
spellings of a name are taken for the same property.
Source:  SSS 3.1.0 and SSS 3.0.3; for 0.2 what Maui reads and writes.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Final

from headnode.core.formats.sss.property_rows import CHILDREN_OF, NODE_PROPERTIES, ROWS, ElementPlace
from headnode.core.formats.sss.sssrmap.messages import RmapRequest, elements
from headnode.core.formats.sss.sssrmap.paths import Respell, read_path
from headnode.core.formats.text.xml_text import XmlElement


class PeerNames(StrEnum):
    """Whose names a peer uses."""

    V3_1 = "3.1"
    V3_0 = "3.0"
    V0_2 = "0.2"


_PLACES: Final = {"TaskGroup": ElementPlace.TASK_GROUP, "Task": ElementPlace.TASK}
_COMMON: Final = {"User": "UserId", "Project": "ProjectId", "Group": "GroupId", "Machine": "MachineName"}
_IN_0_2: Final = {
    "UserId": "userName",
    "WallDuration": "wallclockLimit",
    "ProjectId": "accountName",
    "GroupId": "groupName",
    "EligibleTime": "eligibleDate",
}
_FLAT_0_2: Final = {"Processors": "requestedProcessors", "NodeCount": "requestedNodes"}
"""What Requested holds in later versions; 0.2 has no such element."""

_ALIKE: Final = (
    *("JobClass", "JobGroup", "NodeList", "Node", "Feature"),
    *("Requested", "Delivered", "TaskGroup", "Task"),
)
"""Elements of a job that 3.1 and 3.0 call alike."""

WITHOUT_VALUE: Final = frozenset(
    (
        *("StepId", "Calendar", "JobFlags", "OpaqueFlags", "RsvAccess", "SubmitString", "SubmitLanguage"),
        *("NodeDisk", "NodeMemory", "NodeProc", "TPN", "CPULimit", "CompletionTime"),
        *("Stage", "CallType", "ReservationList", "NodeAllocationPolicy"),
    )
)
"""Properties of jobs that Maui or Gold ask for and Headnode does not have: no answer has them."""


@cache
def names_3_0(kind: str, place: ElementPlace = ElementPlace.JOB) -> Mapping[str, str]:
    """Return the names of 3.0 by those of 3.1, for the properties of a kind of objects."""
    if kind != "Job":
        nodes = {"Node": "NodeId"} if kind == "Reservation" else {}
        return {"Id": f"{kind}Id", "State": f"{kind}State", "Name": f"{kind}Name", **_COMMON, **nodes}
    rows = [row for row in ROWS if place in row.places and not row.wrapped]
    same = {name: name for name in _ALIKE}
    return {**_COMMON, **same, **{row.name: row.name_3_0 or row.name for row in rows}}


@cache
def _spellings(kind: str, place: ElementPlace) -> Mapping[str, tuple[str, str, str]]:
    """Return every name of a property with the three that it has in 3.1, 3.0 and 0.2."""
    spellings: dict[str, tuple[str, str, str]] = {}
    rows = [row for row in ROWS if place in row.places] if kind == "Job" else []
    also = {name: row.name for row in rows for name in row.also} | {"Nodes": "NodeCount"}  # Gold's
    for now, before in names_3_0(kind, place).items():
        known = (now, before, in_0_2(before))
        spellings |= dict.fromkeys(known, known)
    return {**spellings, **{name: spellings[own] for name, own in also.items() if own in spellings}}


def in_0_2(name: str) -> str:
    """Return a name of 3.0 as 0.2 has it.

    >>> in_0_2("JobId"), in_0_2("UserId")
    ('jobId', 'userName')
    """
    return _IN_0_2.get(name, name[:1].lower() + name[1:])


def respelling(kind: str, names: PeerNames) -> Respell:
    """Return what gives the names of a path the spelling of the objects of a kind."""
    which = [*PeerNames].index(names)

    def respell(path: tuple[str, ...]) -> tuple[str, ...]:
        if NODE_PROPERTIES in path:
            return path
        place, names = ElementPlace.JOB, []
        for name in path:
            known = _spellings(kind, place).get(name)
            names.append(known[which] if known is not None else name)
            place = _PLACES.get(name, place)
        return tuple(names)

    return respell


def peer_names(request: RmapRequest, kind: str, default: PeerNames) -> PeerNames:
    """Return whose names a request uses; `default` if it uses none that differ."""
    used = set(_names_in(request, kind))
    pairs = names_3_0(kind).items()
    if any(name[:1].islower() for name in used):
        return PeerNames.V0_2
    if used & ({before for now, before in pairs if now != before} | {NODE_PROPERTIES}):
        return PeerNames.V3_0
    return PeerNames.V3_1 if used & {now for now, before in pairs if now != before} else default


def _names_in(request: RmapRequest, kind: str) -> Iterator[str]:
    for field in (*request.gets, *request.sets, *request.wheres):
        yield from (name for name in read_path(field.name).names if name != "*")
    for data in request.data:
        for one in elements(data):
            yield from (child.name for child in elements(one) if one.name.lower() == kind.lower())


def is_known_of_jobs(name: str) -> bool:
    """Whether jobs can have a property, or an element, of this name."""
    return name in _NAMES_OF_JOBS


_NAMES_OF_JOBS: Final = frozenset(
    (
        *(name for row in ROWS for name in (row.name, row.name_3_0, *row.also)),
        *(name for place in ElementPlace for name in _spellings("Job", place)),
        *(name for children in CHILDREN_OF.values() for name in children),
        *(name for own in WITHOUT_VALUE for name in (own, in_0_2(own))),
        *_FLAT_0_2.values(),
        *(NODE_PROPERTIES, in_0_2(NODE_PROPERTIES), "*"),
    )
)


def renamed(element: XmlElement, names: PeerNames) -> XmlElement:
    """Return an object that was made with names of 3.1 with those of a peer."""
    table = names_3_0(element.name)
    if names is PeerNames.V3_1:
        return element
    if names is PeerNames.V3_0:
        return _respelled(element, element.name, lambda name: table.get(name, name))
    return in_0_2_whole(_respelled(element, element.name, lambda name: table.get(name, name)))


def in_0_2_whole(element: XmlElement) -> XmlElement:
    """Return an object of 3.0 as 0.2 has it."""
    return XmlElement(
        element.name, element.attributes, _flat(_respelled(element, element.name, in_0_2)), element.text
    )


def _respelled(element: XmlElement, name: str, spell: Callable[[str], str]) -> XmlElement:
    children = [
        child if isinstance(child, str) else _respelled(child, spell(child.name), spell)
        for child in element.children
    ]
    return XmlElement(name, element.attributes, children, element.text)


def _flat(element: XmlElement) -> list[XmlElement | str]:
    """Return what is in an object of 0.2, whose requested properties have names of their own."""
    children: list[XmlElement | str] = []
    flat = {in_0_2(name): name_0_2 for name, name_0_2 in _FLAT_0_2.items()}
    for child in elements(element):
        if child.name != "requested":
            children.append(child)
            continue
        for one in elements(child):
            children.append(XmlElement(flat.get(one.name, one.name), one.attributes, one.children, one.text))
    return children


def from_0_2(element: XmlElement) -> XmlElement:
    """Return a job of 0.2 with names of 3.0."""
    known = {names[2]: names[1] for names in _spellings("Job", ElementPlace.JOB).values()}
    flat = {name_0_2: name for name, name_0_2 in _FLAT_0_2.items()}
    children: list[XmlElement | str] = []
    requested: list[XmlElement | str] = []
    for child in elements(element):
        name = known.get(child.name) or flat.get(child.name) or child.name[:1].upper() + child.name[1:]
        kept = XmlElement(name, child.attributes, child.children, child.text)
        (requested if child.name in flat else children).append(kept)
    children += [XmlElement("Requested", {}, requested)] if requested else []
    return XmlElement(element.name[:1].upper() + element.name[1:], element.attributes, children)
