"""The properties of a job object: plain ones, and those with a structure or attributes of their own."""

import re
from enum import StrEnum
from fractions import Fraction

import msgspec

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.value_types import parse_count
from headnode.core.model.dependency import Condition
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Seconds

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


class SssProperty(
    msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="shape", omit_defaults=True, gc=False
):
    """A property without structure.  `name` is that of 3.1.0, whatever the document writes.

    `value` has the type of its row (`property_rows`); None is an empty element: the property is not set.
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


class UnknownElement(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """An element that is not understood: it has no effect and is written back as it was."""

    xml: str


class SssCategory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The properties of a category: Requested or Delivered."""

    properties: tuple[SssProperty, ...] = ()
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()


class Aggregation(StrEnum):
    """How several names are written in one value."""

    LIST = "List"  # with commas between them
    PATTERN = "Pattern"  # a regular expression for all of the name


class Selection(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A Node or a Feature: a name, or several by `aggregation`.

    A comparison ``Match`` says the same as the aggregation Pattern, and is read as that.
    """

    aggregation: Aggregation | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names in a list, or the one name or pattern there is.

        >>> Selection(name="Feature", value="a, b", aggregation=Aggregation.LIST).names
        ('a', 'b')
        """
        text = str(self.value or "")
        if self.aggregation is Aggregation.LIST:
            return tuple(name.strip() for name in text.split(",") if name.strip())
        return (text,) if text else ()


class Redirect(StrEnum):
    """How a stream is used, beside the name of its file."""

    APPEND = "Append"
    CLOSE = "Close"
    FLUSH = "Flush"
    KEEP = "Keep"
    MERGE = "Merge"  # output and errors go to one place


class SssStream(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """InputFile, OutputFile or ErrorFile.  Several of them take effect in their order."""

    redirects: tuple[Redirect, ...] = ()


class Notifications(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Events, with commas between them, that are told to `uri`."""

    uri: str = ""


class Variable(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A variable; blanks in its value count."""

    name: str
    value: str = ""
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()


class Environment(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Variables of the job or task."""

    name: str = "Environment"
    variables: tuple[Variable, ...] = ()


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


class Charge(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """The amount charged for the job.  `units` is the currency.

    Kept for its owner: Headnode charges no accounts.
    """

    units: str = ""


class Consumable(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
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
        amount: int | Fraction
        if type(self.value) is int:
            amount = self.value
        else:
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


LIMITS = (
    "CoreFileSize",
    "CpuTime",
    "DataSegSize",
    "FileSize",
    "MaxMemorySize",
    "MaxProcesses",
    "MaxSwap",
    "MaxMemLock",
    "MaxProcessors",
    "MaxMemory",
    "MaxDisk",
    "MaxNetwork",
    "MaxFileIO",
    "OpenFiles",
    "Stacksize",
)
"""The names of resource limits in the document, which calls them typical: others may come."""

_GEOMETRY = re.compile(r"(?:\{[0-9,\s]*\}\s*)+\Z")
_BLOCK = re.compile(r"\{([^}]*)\}")


class LimitKind(StrEnum):
    """Whether a process may raise the limit up to the hard one itself."""

    HARD = "Hard"
    SOFT = "Soft"


class SssLimit(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A ResourceLimit, spelled as in `LIMITS` where it is one of them."""

    called: str
    kind: LimitKind | None = None


class Designator(StrEnum):
    """How a dependency calls the other job."""

    JOB_ID = "JobId"
    JOB_NAME = "JobName"


class Dependency(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Another job that must have started or ended first."""

    condition: Condition | None = None
    designator: Designator | None = None

    @property
    def wanted(self) -> Condition:
        """The condition, OnSuccess when none is written."""
        return self.condition or Condition.ON_SUCCESS

    @property
    def by_name(self) -> bool:
        """Whether the other job is called by its name, and not by its id."""
        return self.designator is Designator.JOB_NAME


class DistributionKind(StrEnum):
    """How tasks are mapped to nodes."""

    TASKS_PER_NODE = "TasksPerNode"
    PROCESSORS_PER_TASK = "ProcessorsPerTask"
    RULE = "Rule"  # by name, such as RoundRobin
    GEOMETRY = "Geometry"  # task numbers in braces, a pair of braces for each node


class SssDistribution(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A TaskDistribution."""

    kind: DistributionKind

    @property
    def number(self) -> int:
        """How many tasks for each node, or processors for each task; 0 for a rule or a geometry."""
        by_number = (DistributionKind.TASKS_PER_NODE, DistributionKind.PROCESSORS_PER_TASK)
        return int(str(self.value)) if self.kind in by_number else 0

    @property
    def geometry(self) -> tuple[tuple[int, ...], ...]:
        """The tasks on each node; nothing for the other kinds."""
        return parse_geometry(str(self.value)) if self.kind is DistributionKind.GEOMETRY else ()


class Extension(SssProperty, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A property that the document has no element for, by its name and the `type` of its user."""

    called: str = ""
    type: str = ""


def parse_geometry(text: str) -> tuple[tuple[int, ...], ...]:
    """Read the tasks of each node, in braces.

    Raises:  BadRequest ``geometry`` when it is written otherwise, has an empty node, or a task twice.

    >>> parse_geometry("{1,4}{2}{3,5}")
    ((1, 4), (2,), (3, 5))
    """
    blocks = _BLOCK.findall(text) if _GEOMETRY.match(text) else []
    numbers = [[number.strip() for number in block.split(",")] for block in blocks]
    if not numbers or not all(number.isdigit() for block in numbers for number in block):
        _refuse_geometry(text, "write the tasks of each node in braces, for example {1,4}{2}{3,5}")
    tasks = tuple(tuple(parse_count(number) for number in block) for block in numbers)
    flat = [task for block in tasks for task in block]
    if len(set(flat)) < len(flat):
        _refuse_geometry(text, "write each task once")
    return tasks


def _refuse_geometry(text: str, fix: str) -> None:
    raise BadRequest(code="geometry", what=f"{text[:80]!r} is not a geometry of tasks", fix=fix)


def check_distribution(kind: DistributionKind, text: str) -> str:
    """Return the value of a distribution.

    Raises:  BadRequest ``number``, ``geometry`` or ``rule``.
    """
    if kind is DistributionKind.GEOMETRY:
        parse_geometry(text)
    elif kind is DistributionKind.RULE:
        if not text:
            raise BadRequest(code="rule", what="the rule has no name", fix="write one, such as RoundRobin")
    elif parse_count(text or "?") < 1:
        raise BadRequest(code="number", what=f"{text!r} is not a number of tasks", fix="write 1 or more")
    return text


def kind_of(text: str) -> DistributionKind:
    """Return what a distribution without a type is, by the look of its value.

    >>> kind_of("2").value, kind_of("{1}{2}").value, kind_of("RoundRobin").value
    ('TasksPerNode', 'Geometry', 'Rule')
    """
    if text.isdigit():
        return DistributionKind.TASKS_PER_NODE
    return DistributionKind.GEOMETRY if text.startswith("{") else DistributionKind.RULE
