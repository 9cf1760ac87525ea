"""What a row of the tables is: one property of an SSS job object, in both versions.

The rows drive the reader, the writer and the reference page.
"""

from enum import StrEnum

import msgspec

from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.value_types import STRING, ValueType
from headnode.core.formats.sss.versions import Version

NODE_PROPERTIES = "NodeProperties"
"""The element of 3.0.3 around the name and the features of a node."""


class Place(StrEnum):
    """Where an element may stand.  Defaults are places like what they are defaults of."""

    DATA = "Data"
    JOB_GROUP = "JobGroup"
    JOB = "Job"
    TASK_GROUP = "TaskGroup"
    TASK = "Task"
    REQUESTED = "Requested"
    DELIVERED = "Delivered"


class Need(StrEnum):
    """The words of the columns Appearance and Compliance."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One property.  Rows are tried in their order; two may share a name in different places."""

    name: str  # in 3.1.0
    name_3_0: str = ""  # in 3.0.3, when it is another
    also: tuple[str, ...] = ()  # further spellings that are read
    shape: type[Property] = Property
    type: ValueType = STRING
    places: frozenset[Place]
    many: bool = False  # may stand several times in one place
    wrapped: bool = False  # in 3.0.3 it stands in NodeProperties
    shared: bool = False  # what encloses a task says it for the task, too
    appearance: Need = Need.MAY
    compliance: Need = Need.MAY
    source: str

    def name_in(self, version: Version) -> str:
        """Return its name in `version`."""
        return self.name_3_0 or self.name if version is Version.V3_0 else self.name


WORK = frozenset({Place.JOB, Place.TASK_GROUP, Place.TASK})
CATEGORIES = frozenset({Place.REQUESTED, Place.DELIVERED})
ANYWHERE = frozenset(Place) - {Place.DATA}
