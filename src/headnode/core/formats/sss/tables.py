"""Which element of which version stands where in a job object."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from headnode.core.formats.sss.property_rows import ADAPTER, NODE_PROPERTIES, ROWS, WORK, ElementPlace, SssRow
from headnode.core.formats.sss.value_types import SssVersion


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
    source: str


def _child(
    name: str, parents: Iterable[ElementPlace], place: ElementPlace, field: str, section: str, **more: Any
) -> ChildElement:
    source = f"SSS 3.1.0, {section} Element"
    return ChildElement(
        name=name, parents=frozenset(parents), place=place, field=field, source=source, **more
    )


_DATA, _GROUP, _JOB, _TASKS, _TASK, *_ = ElementPlace
_MANY = {"many": True, "reference": True}
_DEFAULTS = {"many": True, "defaults": True}
CHILDREN = (
    _child("Requested", WORK, ElementPlace.REQUESTED, "requested", "Requested"),
    _child("Delivered", WORK, ElementPlace.DELIVERED, "delivered", "Delivered"),
    _child("JobDefaults", [_GROUP], _JOB, "job_defaults", "JobGroup", defaults=True),
    _child("Job", [_GROUP, _DATA], _JOB, "jobs", "JobGroup", least=1, **_MANY),
    _child("JobGroup", [_DATA], _GROUP, "entries", "JobGroup", **_MANY),
    _child("TaskGroupDefaults", [_JOB], _TASKS, "task_group_defaults", "Job", **_DEFAULTS),
    _child("TaskGroup", [_JOB], _TASKS, "task_groups", "Job", **_MANY),
    _child("TaskDefaults", [_TASKS], _TASK, "task_defaults", "TaskGroup", **_DEFAULTS),
    _child("Task", [_TASKS], _TASK, "tasks", "TaskGroup", **_MANY),
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
        [NODE_PROPERTIES] if version is SssVersion.V3_0 and place in WORK | {ElementPlace.REQUESTED} else []
    )
    return [*dict.fromkeys(names), *CHILDREN_OF[place], *wrapper]
