"""Limits, dependencies, placement of tasks, and extensions.

Source: SSS 3.1.0, "ResourceLimit", "Dependency", "TaskDistribution", "Extension".
"""

import re
from enum import StrEnum

from headnode.core.formats.links import Condition as Condition
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.value_types import parse_count
from headnode.core.model.errors import BadRequest

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


class Limit(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A ResourceLimit, spelled as in `LIMITS` where it is one of them."""

    called: str
    kind: LimitKind | None = None


class Designator(StrEnum):
    """How a dependency calls the other job."""

    JOB_ID = "JobId"
    JOB_NAME = "JobName"


class Dependency(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
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


class Distribution(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
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


class Extension(Property, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
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
