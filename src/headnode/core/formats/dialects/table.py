"""The dialects in which Headnode reads and writes jobs, by the names that commands give them.

Source: CCS, HPC Pack, SSS 3.1.0 and SSS 3.0.3, grid; the native form is Headnode's own.
"""

from enum import StrEnum

import msgspec

from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest


class Language(StrEnum):
    """What one reader understands: dialects of one language are told apart by their reader."""

    COMPUTE_CLUSTER = "Compute Cluster XML"
    SSS = "SSS job object"
    GRID = "grid JSON"
    NATIVE = "native form"


class Dialect(msgspec.Struct, frozen=True, gc=False):
    """A dialect: its name in commands, the language it belongs to, and what people call it."""

    name: str
    language: Language
    title: str


_XML, _GRID, _NATIVE = Language.COMPUTE_CLUSTER, Language.GRID, Language.NATIVE
DIALECTS = {
    dialect.name: dialect
    for dialect in (
        Dialect("ccs", _XML, "Compute Cluster Server 2003, XML"),
        Dialect("hpcpack-2008", _XML, "HPC Server 2008, XML"),
        Dialect("hpcpack", _XML, "HPC Pack 2008 R2 and later, XML"),
        Dialect("sss", Language.SSS, "SSS job object 3.1.0, XML"),
        Dialect("sss-3.0", Language.SSS, "SSS job object 3.0.3, XML"),
        Dialect("grid", _GRID, "grid job description version 2, JSON"),
        Dialect("grid-task", _GRID, "grid task description version 2, JSON"),
        Dialect("native", _NATIVE, "Headnode's own form, TOML"),
        Dialect("native-json", _NATIVE, "Headnode's own form, JSON"),
    )
}


def dialect_named(name: str) -> Dialect:
    """Return the dialect that a user names, in any case.

    Raises:  BadRequest ``dialect`` with the nearest right one.
    """
    found = DIALECTS.get(name.strip().lower())
    if found is None:
        meant = nearest(name, DIALECTS)
        hint = f"did you mean {meant!r}? " if meant else ""
        raise BadRequest(
            code="dialect",
            what=f"there is no job language {name[:60]!r}",
            fix=f"{hint}choose from: {', '.join(DIALECTS)}",
        )
    return found
