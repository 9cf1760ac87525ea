"""What can be consumed in measurable amounts: processors, memory, disk, swap, network, and named resources.

Source: SSS 3.1.0, Table 25-4, "Resource", and the appendix of units.
"""

from enum import StrEnum
from fractions import Fraction

from headnode.core.formats.sss.properties import Property
from headnode.core.model.quantities import Seconds


class Unit(StrEnum):
    """A unit of bytes: each is 1024 times the one before it."""

    B = "B"
    KB = "KB"
    MB = "MB"
    GB = "GB"
    TB = "TB"
    PB = "PB"
    EB = "EB"
    ZB = "ZB"
    YB = "YB"
    NB = "NB"
    DB = "DB"

    @property
    def size(self) -> int:
        """How many bytes it is.

        >>> Unit.KB.size, Unit.DB.size == 2**100
        (1024, True)
        """
        return _SIZES[self]


_SIZES: dict[str, int] = {unit: 1 << 10 * number for number, unit in enumerate(Unit)}

UNWRITTEN = Unit.MB  # the documents leave it open; their examples (Memory 1024) only make sense so
MEASURED_IN_BYTES = ("Disk", "Memory", "Swap")


class Charge(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """The amount charged for the job.  `units` is the currency.

    Kept for its owner: Headnode charges nobody.
    """

    units: str = ""


class Consumable(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A consumable: its amount, the unit and the metric of it, for how long and at which rate it was used.

    `metric` is Total, Average, Min, Max or a word of the resource's own; `consumption_rate` is the fraction
    really used.
    """

    units: str = ""
    metric: str = ""
    duration: Seconds | None = None
    consumption_rate: float | None = None

    @property
    def quantity(self) -> int | Fraction | None:
        """The amount in bytes where bytes are counted, else as it is; None when it is not set.

        A unit that is not known is no reason to guess: the amount is None then, too.
        """
        if self.value is None:
            return None
        number = float(self.value)
        amount = int(number) if number.is_integer() else Fraction(number)
        if self.name not in MEASURED_IN_BYTES:
            return amount
        size = _SIZES.get(self.units.upper() or UNWRITTEN)
        return None if size is None else amount * size


class Resource(Consumable, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A consumable by name, such as ``License`` of type ``MATLAB``."""

    called: str
    type: str = ""
