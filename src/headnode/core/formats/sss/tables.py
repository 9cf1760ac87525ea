"""All the rows, and which element of which version stands where.

Source: SSS 3.1.0, the syntax of each element.
"""

from collections.abc import Mapping
from functools import cache

import msgspec

from headnode.core.formats.sss.group_rows import JOB_GROUP_ROWS, TASK_GROUP_ROWS, TASK_ROWS
from headnode.core.formats.sss.job_rows import JOB_ROWS
from headnode.core.formats.sss.rows import NODE_PROPERTIES, Place, Row
from headnode.core.formats.sss.structured_rows import (
    ADAPTER,
    CONSUMABLE_ROWS,
    NETWORK,
    STRUCTURED_ROWS,
)
from headnode.core.formats.sss.versions import Version

ROWS: tuple[Row, ...] = (
    *JOB_GROUP_ROWS,
    *JOB_ROWS,
    ADAPTER,
    *CONSUMABLE_ROWS,
    NETWORK,
    *TASK_GROUP_ROWS,
    *TASK_ROWS,
    *STRUCTURED_ROWS,
)


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """An element that holds others, and the field of its parent that it fills."""

    name: str
    parents: frozenset[Place]
    place: Place  # where what is in it stands
    field: str
    least: int = 0
    many: bool = False
    reference: bool = False  # may be an id alone
    defaults: bool = False
    source: str = ""


_WORK = frozenset({Place.JOB, Place.TASK_GROUP, Place.TASK})
CHILDREN = (
    Child(
        name="Requested",
        parents=_WORK,
        place=Place.REQUESTED,
        field="requested",
        source="SSS 3.1.0, Requested Element",
    ),
    Child(
        name="Delivered",
        parents=_WORK,
        place=Place.DELIVERED,
        field="delivered",
        source="SSS 3.1.0, Delivered Element",
    ),
    Child(
        name="JobDefaults",
        parents=frozenset({Place.JOB_GROUP}),
        place=Place.JOB,
        field="job_defaults",
        defaults=True,
        source="SSS 3.1.0, JobGroup Element",
    ),
    Child(
        name="Job",
        parents=frozenset({Place.JOB_GROUP, Place.DATA}),
        place=Place.JOB,
        field="jobs",
        least=1,
        many=True,
        reference=True,
        source="SSS 3.1.0, JobGroup Element",
    ),
    Child(
        name="JobGroup",
        parents=frozenset({Place.DATA}),
        place=Place.JOB_GROUP,
        field="entries",
        many=True,
        reference=True,
        source="SSS 3.1.0, JobGroup Element",
    ),
    Child(
        name="TaskGroupDefaults",
        parents=frozenset({Place.JOB}),
        place=Place.TASK_GROUP,
        field="task_group_defaults",
        many=True,
        defaults=True,
        source="SSS 3.1.0, Job Element",
    ),
    Child(
        name="TaskGroup",
        parents=frozenset({Place.JOB}),
        place=Place.TASK_GROUP,
        field="task_groups",
        many=True,
        reference=True,
        source="SSS 3.1.0, Job Element",
    ),
    Child(
        name="TaskDefaults",
        parents=frozenset({Place.TASK_GROUP}),
        place=Place.TASK,
        field="task_defaults",
        many=True,
        defaults=True,
        source="SSS 3.1.0, TaskGroup Element",
    ),
    Child(
        name="Task",
        parents=frozenset({Place.TASK_GROUP}),
        place=Place.TASK,
        field="tasks",
        many=True,
        reference=True,
        source="SSS 3.1.0, TaskGroup Element",
    ),
)
"""In the order of the published examples."""


class Spelling(msgspec.Struct, frozen=True):
    """A row as one of its names says it.  `version` is None when both versions, or neither, say it so."""

    row: Row
    version: Version | None
    alias: bool = False  # read, but in neither version


def stands_wrapped(row: Row, place: Place) -> bool:
    """Whether 3.0.3 puts the property into NodeProperties there; the node of a task is its own element."""
    return row.wrapped and not (place is Place.TASK and row.name == "Node")


def _spellings(place: Place) -> dict[str, Spelling]:
    """Return the names of a place; where two rows share a name, the later one has it."""
    here = [row for row in ROWS if place in row.places]
    found = {name: Spelling(row, None, alias=True) for row in here for name in row.also}
    for row in here:
        if row.wrapped:
            version = Version.V3_1 if stands_wrapped(row, place) else None
        else:
            version = Version.V3_1 if row.name_3_0 else None
        if row.name_3_0 and not row.wrapped:
            found[row.name_3_0] = Spelling(row, Version.V3_0)
        found[row.name] = Spelling(row, version)
    return found


SPELLINGS: Mapping[Place, Mapping[str, Spelling]] = {place: _spellings(place) for place in Place}
"""The properties of each place by every name that is read; Network as a consumable."""

WRAPPED: Mapping[str, Row] = {row.name_3_0 or row.name: row for row in ROWS if row.wrapped}
"""The properties inside of NodeProperties, by their names there."""

CHILDREN_OF: Mapping[Place, Mapping[str, Child]] = {
    place: {child.name: child for child in CHILDREN if place in child.parents} for place in Place
}
"""The elements with content of their own that may stand in each place, by their names."""

ROW_OF: Mapping[tuple[Place, str], Row] = {
    (place, row.name): row for row in ROWS for place in row.places if row is not ADAPTER
}
"""The row of each property by its place and its name in 3.1.0; of Network the consumable."""


@cache
def names_in(place: Place, version: Version) -> list[str]:
    """Return the names of all that may stand in `place`, for hints."""
    names = [row.name_in(version) for row in ROWS if place in row.places]
    wrapper = [NODE_PROPERTIES] if version is Version.V3_0 and place in _WORK | {Place.REQUESTED} else []
    return [*dict.fromkeys(names), *CHILDREN_OF[place], *wrapper]
