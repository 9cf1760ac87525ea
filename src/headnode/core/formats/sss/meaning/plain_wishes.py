"""What is asked for when each wish is said once and is an amount or a name, as nearly always.

It means what the constraints of `wish_reading` mean, without building them.
Source: SSS 3.1.0, "Requested", Tables 25-2 to 25-4, "Node", "Feature".
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headnode.core.formats.sss.consumables import Consumable
from headnode.core.formats.sss.meaning.wish_reading import HEARD, MEGABYTE
from headnode.core.formats.sss.meaning.wishes import Said, said_in
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.selections import Selection
from headnode.core.model.small_checks import MOST_CODE


def plain_wishes(properties: Iterable[Property], place: str) -> Said | None:
    """Return what `properties` ask for in `place`; None when one of them is more than a plain wish.

    More is a comparison, a conjunction, a preference, a metric, a list, a fraction, nothing at all, a second
    wish of the same name, and what has no effect.
    """
    readers = _READERS[place]
    fields: dict[str, Any] = {}
    for one in properties:
        reader = readers.get(one.name)
        if (
            reader is None
            or reader[0] in fields
            or one.op is not None
            or one.conj is not None
            or one.group
            or one.preference
            or one.performance is not None
        ):
            return None
        field, read = reader
        value = read(one)
        if not value:
            return None
        fields[field] = value
    return said_in(fields)


def _bounds(one: Property) -> tuple[int, int] | None:
    """Return an exact count that a cluster may have."""
    number = one.value
    if _is_measured(one) or not isinstance(number, int | float):
        return None
    whole = int(number)
    return (whole, whole) if whole == number and 1 <= whole <= MOST_CODE else None


def _megabytes(one: Property) -> int | None:
    """Return whole megabytes."""
    amount = one.quantity if isinstance(one, Consumable) and not _is_measured(one) else None
    return None if amount is None or amount % MEGABYTE else int(amount // MEGABYTE)


def _is_measured(one: Property) -> bool:
    """Whether it is said how, for how long or at which rate an amount is used."""
    return isinstance(one, Consumable) and (
        one.metric != "" or one.duration is not None or one.consumption_rate is not None
    )


def _span(one: Property) -> float | None:
    return one.value if isinstance(one.value, float) else None


def _text(one: Property) -> str:
    return str(one.value or "")


def _name(one: Property) -> tuple[str, ...] | None:
    """Return the one name that is selected."""
    if isinstance(one, Selection) and one.aggregation is not None:
        return None
    return (str(one.value),) if one.value else None


def _choice(one: Property) -> tuple[tuple[str, ...], ...] | None:
    name = _name(one)
    return (name,) if name else None


_Reader = tuple[str, Callable[[Property], Any]]
_ALL: Mapping[str, _Reader] = {
    "Processors": ("processors", _bounds),
    "NodeCount": ("nodes", _bounds),
    "Memory": ("least_memory", _megabytes),
    "Disk": ("disk", _megabytes),
    "Swap": ("swap", _megabytes),
    "Duration": ("run_time", _span),
    "Node": ("names", _name),
    "Feature": ("features", _choice),
    "Architecture": ("architectures", _name),
    "OperatingSystem": ("systems", _name),
    "Partition": ("partition", _text),
    "Project": ("project", _text),
    "Reservation": ("reservation", _text),
    "User": ("user", _text),
    "Queue": ("queue", _text),
    "QualityOfService": ("quality", _text),
    "Machine": ("machine", _text),
}
"""The field that a plain wish fills, and how it is read; nothing when it is not plain."""

_READERS: Mapping[str, Mapping[str, _Reader]] = {
    place: {name: reader for name, reader in _ALL.items() if name in heard} for place, heard in HEARD.items()
}
