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


CONSUMED: Mapping[str, str] = {"memory": "least_memory", "disk": "disk", "swap": "swap"}
"""The fields of `Wishes` for what a job holds of its nodes while it runs, by those of `Held`."""

_TOGETHER = {field: (field,) for field in NOTHING.__struct_fields__} | {
    field: fields for fields in OF_NODES.values() for field in fields
}
_UNSAID = tuple((field, getattr(NOTHING, field)) for field in NOTHING.__struct_fields__)


def said(wishes: Wishes) -> list[str]:
    """Return the fields in which anything is said.

    >>> said(Wishes(disk=5, names=("n1",)))
    ['disk', 'names']
    """
    each = zip(_UNSAID, astuple(wishes), strict=True)
    return [field for (field, unsaid), value in each if value is not unsaid and value != unsaid]


class Said(msgspec.Struct, frozen=True, gc=False):
    """What is asked for, and the fields that this says something of."""

    wishes: Wishes = NOTHING
    fields: frozenset[str] = frozenset()


def said_in(fields: Mapping[str, Any]) -> Said:
    """Return what `fields`, in each of which something is said, ask for."""
    return Said(Wishes(**fields), together(fields)) if fields else NOTHING_SAID


def said_by(wishes: Wishes) -> Said:
    """Return `wishes` with the fields that they say something of."""
    return NOTHING_SAID if wishes is NOTHING else Said(wishes, together(said(wishes)))


NOTHING_SAID = Said()


def says(wishes: Wishes, fields: Iterable[str]) -> bool:
    """Whether anything is said in one of `fields`."""
    return any(getattr(wishes, field) != getattr(NOTHING, field) for field in fields)


def together(fields: Iterable[str]) -> frozenset[str]:
    """Return `fields` with those that say more of the same property of nodes."""
    return frozenset([each for field in fields for each in _TOGETHER[field]])


_COUNTED = frozenset({"processors", "nodes"})


def within(own: Said, job: Said, nodes: Bounds | None) -> Said:
    """Return what a part of a job asks for: `own`, on `nodes`, and what its job does besides, but counts."""
    more = job.fields - own.fields - _COUNTED
    added = {field: getattr(job.wishes, field) for field in more}
    if own.wishes.nodes != nodes:
        added["nodes"] = nodes
    return Said(replace(own.wishes, **added), own.fields | more) if added else own


def overridden(own: Said, far: Said) -> Said:
    """Return what `own` asks for, and what `far` does of which `own` says nothing."""
    more = far.fields - own.fields
    if not more:
        return own
    if not own.fields:
        return far
    added = {field: getattr(far.wishes, field) for field in more}
    return Said(replace(own.wishes, **added), own.fields | more)
