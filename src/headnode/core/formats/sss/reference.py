"""The reference of the SSS job object, printed from the rows."""

from collections.abc import Iterator

from headnode.core.formats.sss.attributes import ATTRIBUTES
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.rows import Need, Place, Row
from headnode.core.formats.sss.tables import CHILDREN, ROWS, stands_wrapped
from headnode.core.formats.sss.versions import Version

_TITLES = {Place.JOB_GROUP: "JobGroup", Place.JOB: "Job", Place.TASK_GROUP: "TaskGroup", Place.TASK: "Task"}


def reference_tables() -> str:
    """Return all properties, parts and attributes as tables in Markdown."""
    tables = {
        "Parts": _parts(),
        "Properties": _properties(),
        "Attributes": _attributes(),
    }
    return "\n".join(f"### {title}\n\n" + "\n".join(lines) + "\n" for title, lines in tables.items())


def _parts() -> Iterator[str]:
    yield "| element | in | how often | may be an id | source |"
    yield "|---|---|---|---|---|"
    for child in CHILDREN:
        most = "any number" if child.many else "once"
        often = f"at least {child.least}" if child.least else most
        parents = ", ".join(place.value for place in Place if place in child.parents)
        yield _line(f"`{child.name}`", parents, often, "yes" if child.reference else "", child.source)


def _properties() -> Iterator[str]:
    yield "| 3.1.0 | 3.0.3 | also read | type | in | how often | support | source |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in ROWS:
        also = ", ".join(f"`{name}`" for name in row.also)
        often = "must" if row.appearance is Need.MUST else "any number" if row.many else "once"
        yield _line(
            f"`{row.name}`",
            f"`{_old_name(row)}`",
            also,
            row.type.name,
            _places(row),
            often,
            row.compliance.value,
            row.source,
        )


def _old_name(row: Row) -> str:
    name = row.name_in(Version.V3_0)
    wrapped = any(stands_wrapped(row, place) for place in row.places)
    return f"NodeProperties/{name}" if wrapped else name


def _places(row: Row) -> str:
    if row.places >= frozenset(Place) - {Place.DATA}:
        return "anywhere"
    named = [title for place, title in _TITLES.items() if place in row.places]
    marks = [place.value for place in (Place.REQUESTED, Place.DELIVERED) if place in row.places]
    return ", ".join([*named, *marks])


def _attributes() -> Iterator[str]:
    yield "| attribute | of | type | words | source |"
    yield "|---|---|---|---|---|"
    for row in ATTRIBUTES:
        elements = [one.name for one in ROWS if one.shape is row.shape or issubclass(one.shape, row.shape)]
        everywhere = "requested properties" if row.requested else "every element"
        of = everywhere if row.shape is Property else ", ".join(dict.fromkeys(elements))
        must = " (must)" if row.required else ""
        yield _line(f"`{row.name}`{must}", of, row.type.name, ", ".join(row.type.words), row.source)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
