"""What a row of the tables is: one fact of a job or task, and its name in each dialect."""

from collections.abc import Iterable, Mapping
from enum import Enum, auto

import msgspec

from headnode.core.formats.compute_cluster_xml.dialects import CCS, HPC, HPC_2008
from headnode.core.formats.values import TEXT, Words


class Role(Enum):
    """What an attribute is to a reader."""

    FIELD = auto()  # it has a place in the job
    LIVE = auto()  # written by the scheduler into exports; not input
    KEPT = auto()  # it has no effect, but is kept and written back


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute.  Rows stand in the order in which exports write them."""

    field: str  # of JobSpec or TaskSpec; with a dot: of what is folded from several attributes, or of Live
    hpc: str = ""  # its name in HPC Pack; "" when it has none
    ccs: str = ""  # its name in CCS
    also: tuple[str, ...] = ()  # other spellings that are read
    value: Words = TEXT
    ccs_value: Words | None = None  # where CCS writes the same name another way
    source: str
    role: Role = Role.FIELD
    since: str = HPC_2008  # the first HPC dialect that has it
    always: bool = False  # write it even when it is the default
    width: int = 0  # characters in the CCS table; 0: no limit there

    def name_in(self, dialect: str) -> str:
        """Return its name in `dialect`, or "" when the dialect cannot say it."""
        if dialect == CCS:
            return self.ccs
        return self.hpc if dialect == HPC or self.since == HPC_2008 else ""

    def words_in(self, dialect: str) -> Words:
        """Return how its values are written in `dialect`."""
        return self.ccs_value or self.value if dialect == CCS else self.value


def by_spelling(rows: Iterable[Row]) -> Mapping[str, Row]:
    """Return the rows by every spelling that is read, in lower case."""
    return {name.lower(): row for row in rows for name in (row.hpc, row.ccs, *row.also) if name}


def live(
    field: str, hpc: str = "", ccs: str = "", *, value: Words = TEXT, width: int = 0, source: str = ""
) -> Row:
    """Return the row of something only the scheduler writes."""
    return Row(
        field=f"live.{field}",
        hpc=hpc,
        ccs=ccs,
        value=value,
        role=Role.LIVE,
        width=width,
        source=source or "exports of HPC Pack: written by the scheduler, not input",
    )


def kept(hpc: str, source: str, *, since: str = HPC_2008) -> Row:
    """Return the row of something that is kept and has no effect."""
    return Row(field="", hpc=hpc, role=Role.KEPT, source=source, since=since)
