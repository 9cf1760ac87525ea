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


def said_of_nodes(wishes: Wishes) -> set[str]:
    """Return the fields of the properties of nodes that anything is said of."""
    return {field for one in said(wishes) if one in _TOGETHER for field in _TOGETHER[one]}


def overridden(own: Wishes, far: Wishes, **fixed: Any) -> Wishes:
    """Return what `own` asks for, and what `far` does of the properties that `own` says nothing of.

    `fixed` are fields that neither is asked for.
    """
    kept = {field: getattr(own, field) for one in said(own) for field in _TOGETHER.get(one, (one,))}
    return replace(far, **(kept | fixed)) if kept or fixed else far
