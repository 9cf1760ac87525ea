"""The three dialects of HPC job files, and the rows of the tables: an attribute, its name in each dialect."""

from collections.abc import Iterable, Mapping
from enum import Enum, auto

import msgspec

from headnode.core.formats.hpc_values import TEXT, ValueFormat

CCS, HPC_2008, HPC = "ccs", "hpcpack-2008", "hpcpack"


class HpcDialect(msgspec.Struct, frozen=True):
    """A dialect.  The defaults are those of what a file does not say."""

    name: str
    title: str
    namespace: str
    version: str
    exclusive: bool  # default of IsExclusive of the job
    rerunnable: bool  # default of IsRerunnable of its tasks


DIALECTS = {
    CCS: HpcDialect(
        CCS, "Compute Cluster Server 2003", "http://www.microsoft.com/ComputeCluster/", "", True, False
    ),
    HPC_2008: HpcDialect(
        HPC_2008,
        "HPC Server 2008",
        "http://schemas.microsoft.com/HPCS2008/scheduler/",
        "2.000",
        False,
        True,
    ),
    HPC: HpcDialect(
        HPC,
        "HPC Pack 2008 R2 and later",
        "http://schemas.microsoft.com/HPCS2008R2/scheduler/",
        "3.000",
        False,
        True,
    ),
}
"""The dialects by the names that jobs and commands give them."""

BY_NAMESPACE = {dialect.namespace: dialect for dialect in DIALECTS.values()}


class HpcRole(Enum):
    """What an attribute is to a reader."""

    FIELD = auto()  # it has a place in the job
    LIVE = auto()  # written by the scheduler into exports; not input
    KEPT = auto()  # it has no effect, but is kept and written back


class HpcRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute.  Rows stand in the order in which exports write them."""

    field: str  # of JobSpec or TaskSpec; with a dot: of what is folded from several attributes, or of Live
    hpc: str = ""  # its name in HPC Pack; "" when it has none
    ccs: str = ""  # its name in CCS
    also: tuple[str, ...] = ()  # other spellings that are read
    value: ValueFormat = TEXT
    ccs_value: ValueFormat | None = None  # where CCS writes the same name another way
    source: str
    role: HpcRole = HpcRole.FIELD
    since: str = HPC_2008  # the first HPC dialect that has it
    always: bool = False  # write it even when it is the default
    width: int = 0  # characters in the CCS table; 0: no limit there

    def name_in(self, dialect: str) -> str:
        """Return its name in `dialect`, or "" when the dialect cannot say it."""
        if dialect == CCS:
            return self.ccs
        return self.hpc if dialect == HPC or self.since == HPC_2008 else ""

    def words_in(self, dialect: str) -> ValueFormat:
        """Return how its values are written in `dialect`."""
        return self.ccs_value or self.value if dialect == CCS else self.value


def by_spelling(rows: Iterable[HpcRow]) -> Mapping[str, HpcRow]:
    """Return the rows by every spelling that is read, in lower case."""
    return {name.lower(): row for row in rows for name in (row.hpc, row.ccs, *row.also) if name}


def scheduler_row(
    field: str, hpc: str = "", ccs: str = "", *, value: ValueFormat = TEXT, width: int = 0, source: str = ""
) -> HpcRow:
    """Return the row of something only the scheduler writes."""
    return HpcRow(
        field=f"live.{field}",
        hpc=hpc,
        ccs=ccs,
        value=value,
        role=HpcRole.LIVE,
        width=width,
        source=source or "exports of HPC Pack: written by the scheduler, not input",
    )


def kept_row(hpc: str, source: str, *, since: str = HPC_2008) -> HpcRow:
    """Return the row of something that is kept and has no effect."""
    return HpcRow(field="", hpc=hpc, role=HpcRole.KEPT, source=source, since=since)
