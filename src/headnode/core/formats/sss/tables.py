"""The rows of consumables and structured properties, and which element of which version stands where."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from headnode.core.formats.sss.properties import (
    Consumable,
    Dependency,
    Environment,
    Extension,
    Notifications,
    Resource,
    Selection,
    SssDistribution,
    SssLimit,
    SssStream,
)
from headnode.core.formats.sss.property_rows import (
    ANYWHERE,
    CATEGORIES,
    JOB_GROUP_ROWS,
    JOB_ROWS,
    NODE_PROPERTIES,
    TASK_GROUP_ROWS,
    TASK_ROWS,
    WORK,
    ElementPlace,
    RequirementLevel,
    SssRow,
)
from headnode.core.formats.sss.value_types import AMOUNT, COUNT, SssVersion

_MAY, _SHOULD, _MUST = RequirementLevel.MAY, RequirementLevel.SHOULD, RequirementLevel.MUST


def _consumable(name: str, support: RequirementLevel, **more: Any) -> SssRow:
    """Return the row of a consumable; several with different metrics may stand together."""
    fields = {
        "shape": Consumable,
        "type": AMOUNT,
        "places": WORK | CATEGORIES,
        "many": True,
        "shared": True,
        "source": "SSS 3.1.0, Table 25-4",
        **more,
    }
    return SssRow(name=name, compliance=support, **fields)


def _section(name: str, **more: Any) -> SssRow:
    """Return the row of an element that has a section, not a line in a table."""
    fields = {"places": WORK, "shared": True, "source": f"SSS 3.1.0, {name} Element", **more}
    return SssRow(name=name, **fields)


CONSUMABLE_ROWS = (
    _consumable("Disk", _SHOULD),
    _consumable("Memory", _SHOULD),
    _consumable("Processors", _MUST, type=COUNT),
    _consumable("Swap", _MAY, also=("NodeSwap",)),
    _consumable(
        "Resource",
        _MAY,
        shape=Resource,
        source="SSS 3.1.0, Resource Element",
    ),
)

NETWORK = _consumable("Network", _MAY)
"""Network with a number, a unit or a metric is a consumable."""

ADAPTER = SssRow(
    name="Network",
    places=WORK | CATEGORIES,
    shared=True,
    source="SSS 3.1.0, Table 25-2",
)
"""Network with a word is the type of adapter."""

STRUCTURED_ROWS = (
    _section(
        "Node",
        name_3_0="Name",
        shape=Selection,
        places=WORK | CATEGORIES,
        many=True,
        wrapped=True,
        compliance=_MUST,
        source="SSS 3.1.0, Node Element and Table 25-6",
    ),
    _section(
        "Feature",
        shape=Selection,
        places=WORK | CATEGORIES,
        many=True,
        wrapped=True,
    ),
    _section("InputFile", shape=SssStream),
    _section("OutputFile", shape=SssStream),
    _section("ErrorFile", shape=SssStream),
    _section(
        "NotificationList",
        shape=Notifications,
        also=("Notification",),
        many=True,
        shared=False,
    ),
    _section(
        "ResourceLimit",
        shape=SssLimit,
        many=True,
    ),
    _section("Environment", shape=Environment, many=True),
    _section(
        "TaskDistribution",
        shape=SssDistribution,
        places=frozenset({ElementPlace.JOB, ElementPlace.TASK_GROUP}),
    ),
    _section(
        "Dependency",
        shape=Dependency,
        many=True,
        shared=False,
        compliance=_SHOULD,
    ),
    _section(
        "Extension",
        shape=Extension,
        places=ANYWHERE,
        many=True,
        shared=False,
    ),
)


ROWS: tuple[SssRow, ...] = (
    *JOB_GROUP_ROWS,
    *JOB_ROWS,
    ADAPTER,
    *CONSUMABLE_ROWS,
    NETWORK,
    *TASK_GROUP_ROWS,
    *TASK_ROWS,
    *STRUCTURED_ROWS,
)


class ChildElement(msgspec.Struct, frozen=True, kw_only=True):
    """An element that holds others, and the field of its parent that it fills."""

    name: str
    parents: frozenset[ElementPlace]
    place: ElementPlace  # where what is in it stands
    field: str
    least: int = 0
    many: bool = False
    reference: bool = False  # may be an id alone
    defaults: bool = False
    source: str = ""


_WORK = frozenset({ElementPlace.JOB, ElementPlace.TASK_GROUP, ElementPlace.TASK})
CHILDREN = (
    ChildElement(
        name="Requested",
        parents=_WORK,
        place=ElementPlace.REQUESTED,
        field="requested",
        source="SSS 3.1.0, Requested Element",
    ),
    ChildElement(
        name="Delivered",
        parents=_WORK,
        place=ElementPlace.DELIVERED,
        field="delivered",
        source="SSS 3.1.0, Delivered Element",
    ),
    ChildElement(
        name="JobDefaults",
        parents=frozenset({ElementPlace.JOB_GROUP}),
        place=ElementPlace.JOB,
        field="job_defaults",
        defaults=True,
        source="SSS 3.1.0, JobGroup Element",
    ),
    ChildElement(
        name="Job",
        parents=frozenset({ElementPlace.JOB_GROUP, ElementPlace.DATA}),
        place=ElementPlace.JOB,
        field="jobs",
        least=1,
        many=True,
        reference=True,
        source="SSS 3.1.0, JobGroup Element",
    ),
    ChildElement(
        name="JobGroup",
        parents=frozenset({ElementPlace.DATA}),
        place=ElementPlace.JOB_GROUP,
        field="entries",
        many=True,
        reference=True,
        source="SSS 3.1.0, JobGroup Element",
    ),
    ChildElement(
        name="TaskGroupDefaults",
        parents=frozenset({ElementPlace.JOB}),
        place=ElementPlace.TASK_GROUP,
        field="task_group_defaults",
        many=True,
        defaults=True,
        source="SSS 3.1.0, Job Element",
    ),
    ChildElement(
        name="TaskGroup",
        parents=frozenset({ElementPlace.JOB}),
        place=ElementPlace.TASK_GROUP,
        field="task_groups",
        many=True,
        reference=True,
        source="SSS 3.1.0, Job Element",
    ),
    ChildElement(
        name="TaskDefaults",
        parents=frozenset({ElementPlace.TASK_GROUP}),
        place=ElementPlace.TASK,
        field="task_defaults",
        many=True,
        defaults=True,
        source="SSS 3.1.0, TaskGroup Element",
    ),
    ChildElement(
        name="Task",
        parents=frozenset({ElementPlace.TASK_GROUP}),
        place=ElementPlace.TASK,
        field="tasks",
        many=True,
        reference=True,
        source="SSS 3.1.0, TaskGroup Element",
    ),
)
"""In the order of the published examples."""


class Spelling(msgspec.Struct, frozen=True):
    """A row as one of its names says it.  `version` is None when both versions, or neither, say it so."""

    row: SssRow
    version: SssVersion | None
    alias: bool = False  # read, but in neither version


def stands_wrapped(row: SssRow, place: ElementPlace) -> bool:
    """Whether 3.0.3 puts the property into NodeProperties there; the node of a task is its own element."""
    return row.wrapped and not (place is ElementPlace.TASK and row.name == "Node")


def _spellings(place: ElementPlace) -> dict[str, Spelling]:
    """Return the names of a place; where two rows share a name, the later one has it."""
    here = [row for row in ROWS if place in row.places]
    found = {name: Spelling(row, None, alias=True) for row in here for name in row.also}
    for row in here:
        if row.wrapped:
            version = SssVersion.V3_1 if stands_wrapped(row, place) else None
        else:
            version = SssVersion.V3_1 if row.name_3_0 else None
        if row.name_3_0 and not row.wrapped:
            found[row.name_3_0] = Spelling(row, SssVersion.V3_0)
        found[row.name] = Spelling(row, version)
    return found


SPELLINGS: Mapping[ElementPlace, Mapping[str, Spelling]] = {
    place: _spellings(place) for place in ElementPlace
}
"""The properties of each place by every name that is read; Network as a consumable."""

WRAPPED: Mapping[str, SssRow] = {row.name_3_0 or row.name: row for row in ROWS if row.wrapped}
"""The properties inside of NodeProperties, by their names there."""

CHILDREN_OF: Mapping[ElementPlace, Mapping[str, ChildElement]] = {
    place: {child.name: child for child in CHILDREN if place in child.parents} for place in ElementPlace
}
"""The elements with content of their own that may stand in each place, by their names."""

ROW_OF: Mapping[tuple[ElementPlace, str], SssRow] = {
    (place, row.name): row for row in ROWS for place in row.places if row is not ADAPTER
}
"""The row of each property by its place and its name in 3.1.0; of Network the consumable."""


@cache
def names_in(place: ElementPlace, version: SssVersion) -> list[str]:
    """Return the names of all that may stand in `place`, for hints."""
    names = [row.name_in(version) for row in ROWS if place in row.places]
    wrapper = (
        [NODE_PROPERTIES] if version is SssVersion.V3_0 and place in _WORK | {ElementPlace.REQUESTED} else []
    )
    return [*dict.fromkeys(names), *CHILDREN_OF[place], *wrapper]
