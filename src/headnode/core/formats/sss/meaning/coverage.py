"""The coverage of the SSS job object: every property and part, what becomes of it, and its section.

Source: SSS 3.1.0, Tables 25-1 to 25-6 and the sections of each element.
"""

from collections.abc import Iterator

import msgspec

from headnode.core.formats.sss.meaning.rows import MEANINGS, PARTS, PLACED, Meaning
from headnode.core.formats.sss.rows import NODE_PROPERTIES, Need, Place, Row
from headnode.core.formats.sss.tables import CHILDREN, ROWS
from headnode.core.formats.sss.versions import Version

_PLACES = (Place.JOB_GROUP, Place.JOB, Place.TASK_GROUP, Place.TASK)
_PART_SOURCES = {
    "Variable": "SSS 3.1.0, Variable Element",
    "File": "SSSRMAP, File; SSS 3.1.0, Table 25-2, note on Executable",
    NODE_PROPERTIES: "SSS 3.0.3, its examples",
}


class CoverageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One property or part by its names in both versions, with the word of the column Compliance."""

    name: str
    name_3_0: str
    parent: str
    compliance: Need | None  # None: a part, of which the tables do not say it
    coverage: str  # a word of `Role`
    becomes: str
    source: str


def coverage() -> tuple[CoverageRow, ...]:
    """Return a row for every property of the tables and every element with parts, in their order."""
    return (*(row for one in ROWS for row in _of_row(one)), *_of_parts())


def _of_row(row: Row) -> Iterator[CoverageRow]:
    """Yield one row, and one more for each place where the property means something else."""
    own = {
        place: meaning
        for (place, name), meaning in PLACED.items()
        if name == row.name and place in row.places
    }
    usual = [place for place in _PLACES if place in row.places and place not in own]
    if usual:
        yield _coverage(row, ", ".join(usual), MEANINGS[row.name])
    for place, meaning in own.items():
        yield _coverage(row, place.value, meaning)


def _coverage(row: Row, parent: str, meaning: Meaning) -> CoverageRow:
    return CoverageRow(
        name=row.name,
        name_3_0=row.name_in(Version.V3_0),
        parent=parent,
        compliance=row.compliance,
        coverage=meaning.role.value,
        becomes=meaning.becomes,
        source=row.source,
    )


def _of_parts() -> Iterator[CoverageRow]:
    sources = {child.name: child.source for child in CHILDREN} | _PART_SOURCES
    parents = {
        child.name: ", ".join(place for place in Place if place in child.parents) for child in CHILDREN
    }
    for name, meaning in PARTS.items():
        yield CoverageRow(
            name=name,
            name_3_0=name,
            parent=parents.get(name, ""),
            compliance=None,
            coverage=meaning.role.value,
            becomes=meaning.becomes,
            source=sources[name],
        )
