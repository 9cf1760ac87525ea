"""What every property of an SSS job object is, and the words that requested properties may carry.

Properties stand in the order of the document: redirections, and the algebra of requests, depend on it.
Source: SSS 3.1.0, "Requested", "awarenessPolicy" and the examples.
"""

from enum import StrEnum

import msgspec

from headnode.core.formats.fidelity import Awareness

Value = str | int | float | bool | None


class Op(StrEnum):
    """How a requested value is compared; EQ when nothing is written."""

    EQ = "EQ"
    NE = "NE"
    LT = "LT"
    LE = "LE"
    GT = "GT"
    GE = "GE"
    MATCH = "Match"  # a regular expression for all of the value


class Conj(StrEnum):
    """How a requested property is joined to the one before it; And when nothing is written.

    ``Nand`` and ``Nor`` negate the And and the Or of both; ``AndNot`` and ``OrNot`` negate this one only,
    as in the conditions of SSSRMAP.  And, Nand and AndNot bind tighter than the others.
    """

    AND = "And"
    OR = "Or"
    NAND = "Nand"
    NOR = "Nor"
    AND_NOT = "AndNot"
    OR_NOT = "OrNot"


class Property(
    msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="shape", omit_defaults=True, gc=False
):
    """A property without structure.  `name` is that of 3.1.0, whatever the document writes.

    `value` has the type of its row (`rows`); None is an empty element: the property is not set.
    `group` n opens n parentheses before the property, -n closes n after it.  `preference` above 0 is the
    weight of one of several alternatives, below 0 that of a mere wish.  `performance` is a hint for trading
    resources against an earlier start.  `kept` are attributes nobody understood, for writing back.
    """

    name: str
    value: Value = None
    op: Op | None = None
    conj: Conj | None = None
    group: int = 0
    preference: int = 0
    performance: float | None = None
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()


class Kept(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """An element that is not understood: it has no effect and is written back as it was."""

    xml: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The properties of a category: Requested or Delivered."""

    properties: tuple[Property, ...] = ()
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()
