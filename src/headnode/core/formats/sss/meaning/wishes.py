"""What a job or task group asks for, in the words that Headnode has: the meeting point of both directions.

Source: SSS 3.1.0, "Requested", Tables 25-2 to 25-4, "Node", "Feature", "Resource".
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from headnode.core.model.job import Licence
from headnode.core.model.quantities import FOREVER, Seconds

LICENSE = "License"
"""How a Resource that is a licence is called; another consumable is a licence called ``name:type``."""

Bounds = tuple[int, int]


class Wishes(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked for.  Memory, disk and swap are in MB for each node; None and empty: nothing is said."""

    processors: Bounds | None = None
    nodes: Bounds | None = None
    least_memory: int | None = None
    most_memory: int | None = None
    disk: int = 0
    swap: int = 0
    run_time: Seconds = FOREVER
    names: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()
    features: tuple[tuple[str, ...], ...] = ()  # of each inner tuple one
    feature_patterns: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    partition: str = ""
    licences: tuple[Licence, ...] = ()
    project: str = ""
    reservation: str = ""
    user: str = ""
    queue: str = ""
    quality: str = ""
    machine: str = ""


NOTHING = Wishes()
OF_NODES: Mapping[str, tuple[str, ...]] = {
    "Memory": ("least_memory", "most_memory"),
    "Disk": ("disk",),
    "Swap": ("swap",),
    "Node": ("names", "excluded", "patterns", "excluded_patterns"),
    "Feature": ("features", "feature_patterns", "lacking"),
    "Architecture": ("architectures",),
    "OperatingSystem": ("systems",),
}
"""The fields of `Wishes` for each property that says which nodes will do."""


_TOGETHER = {field: fields for fields in OF_NODES.values() for field in fields}
_UNSAID = tuple((field, getattr(NOTHING, field)) for field in NOTHING.__struct_fields__)


def said(wishes: Wishes) -> list[str]:
    """Return the fields in which anything is said.

    >>> said(Wishes(disk=5, names=("n1",)))
    ['disk', 'names']
    """
    each = zip(_UNSAID, astuple(wishes), strict=True)
    return [field for (field, unsaid), value in each if value is not unsaid and value != unsaid]


def says(wishes: Wishes, fields: Iterable[str]) -> bool:
    """Whether anything is said in one of `fields`."""
    return any(getattr(wishes, field) != getattr(NOTHING, field) for field in fields)


def together(fields: Iterable[str]) -> set[str]:
    """Return `fields` with those that say more of the same property of nodes."""
    return {each for field in fields for each in _TOGETHER.get(field, (field,))}


def overridden(own: Wishes, far: Wishes, fields: Iterable[str], **fixed: Any) -> Wishes:
    """Return what `own` asks for in `fields`, and what `far` does of all others; `fixed` counts for both."""
    return replace(far, **{**{field: getattr(own, field) for field in fields}, **fixed})
