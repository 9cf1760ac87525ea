"""Joins: queries over several kinds of objects, whose conditions compare the properties of one with another.

Every object of one kind is taken with every object of the others, and the conditions choose among these rows.
`object` of a Get or Where names the kind, or its alias, that the property is of: the first kind by default.
`subject` of a Where names the kind whose property the value is.
Source:  Gold's server, for the meaning and for the names of the rows of an answer.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from headnode.core.formats.sss.sssrmap.conditions import (
    STATES,
    as_number,
    compares,
    comparison,
    joined_conditions,
    op_of,
)
from headnode.core.formats.sss.sssrmap.messages import RmapField, RmapRequest
from headnode.core.formats.sss.sssrmap.paths import (
    ObjectPath,
    PathMatch,
    Respell,
    as_written,
    find,
    read_path,
    respelled,
)
from headnode.core.formats.sss.sssrmap.queries import AskedColumn, Row, answer_rows
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import RMAP_JOINED

_INNER: Final = ("", ",", "join", "inner join", "cross join")


class JoinSide(NamedTuple):
    """The objects of one kind in a join."""

    name: str  # of the kind
    objects: Sequence[XmlElement]
    respell: Respell = as_written


class _Link(NamedTuple):
    """A condition that two properties are equal."""

    earlier: int
    earlier_path: ObjectPath
    later_path: ObjectPath


def place_of(request: RmapRequest, name: str) -> int | None:
    """Return the place of the object that a Get or Where names, by its alias or its own name.

    "" is the first object.  None if the request has no such object.
    """
    if not name:
        return 0
    called = [
        request.aliases[place] if place < len(request.aliases) and request.aliases[place] else kind
        for place, kind in enumerate(request.objects)
    ]
    known = [each.lower() for each in called]
    return known.index(name.lower()) if name.lower() in known else None


def refuse_wrong_join(request: RmapRequest) -> None:
    """Refuse a join that is more than rows and conditions, or that names an object which it does not have.

    Raises:  MessageFault 311, 315, 318.
    """
    if not request.objects:
        raise MessageFault(StatusCode.NO_OBJECT, "the Request has no Object", "write <Object>Job</Object>")
    for join in request.joins:
        if " ".join(join.lower().split()) not in _INNER:
            raise MessageFault(
                StatusCode.COMBINATION,
                f"objects cannot be joined by {join[:40]!r}",
                'leave join out, and write <Where name="..." subject="...">',
            )
    for field in (*request.gets, *request.wheres):
        if place_of(request, field.object) is None:
            raise MessageFault(
                StatusCode.WRONG_OBJECT,
                f"object {field.object[:64]!r} is not an Object of the request",
                "name an Object of the request, or its alias",
            )


def named_of(request: RmapRequest, place: int) -> list[RmapField]:
    """Return the properties of a kind that a join needs, as Gets without an op."""
    gets = [one for one in request.gets if place_of(request, one.object) == place]
    wheres = [one for one in request.wheres if place_of(request, one.object) == place]
    values = [one.value for one in request.wheres if _subject(request, one) == place]
    return [RmapField(name=name) for name in (*(one.name for one in (*gets, *wheres)), *values)]


def conditions_alone(request: RmapRequest, place: int) -> list[RmapField]:
    """Return the conditions that each object of a kind must fulfil by itself.

    There are none if an Or, a Not or a bracket could make another row fulfil the whole.
    """
    if not _is_conjunction(request):
        return []
    return [
        where
        for where in request.wheres
        if place_of(request, where.object) == place and _subject(request, where) is None
    ]


def _is_conjunction(request: RmapRequest) -> bool:
    return not any(one.conj.lower() not in ("", "and") or one.group for one in request.wheres)


def _subject(request: RmapRequest, where: RmapField) -> int | None:
    return place_of(request, where.subject) if where.subject else None


def answer_join(request: RmapRequest, sides: Sequence[JoinSide]) -> list[XmlElement]:
    """Return the answer to a query over several kinds of objects; `sides` are in the order of its Objects.

    Raises:  MessageFault 236, 310, 311, 315, 316, 317, 318.
    """
    refuse_wrong_join(request)
    fulfils = joined_conditions(request.wheres, lambda where: _compare(request, where, sides))
    columns = [
        AskedColumn(get, respelled(read_path(get.name), sides[place].respell), place)
        for get in request.gets
        if (place := place_of(request, get.object)) is not None
    ]
    return answer_rows(request, [row for row in _rows(request, sides) if fulfils(row)], columns)


def _compare(request: RmapRequest, where: RmapField, sides: Sequence[JoinSide]) -> Callable[[Row], bool]:
    """Return the function that tells whether a row fulfils one condition."""
    place = place_of(request, where.object) or 0
    other = _subject(request, where)
    if other is None:
        holds = comparison(where, sides[place].respell)
        return lambda row: holds(row[place])
    op, left = op_of(where), _path(where.name, sides[place])
    right = _path(where.value, sides[other])
    folds = left.steps[-1].name in STATES

    def equal(row: Row) -> bool:
        values = find(row[other], right)
        return any(
            compares(one.text, op, value.text, (_units(one), _units(value)), folds=folds)
            for one in find(row[place], left)
            for value in values
        )

    return equal


def _path(name: str, side: JoinSide) -> ObjectPath:
    return respelled(read_path(name), side.respell)


def _units(match: PathMatch) -> str:
    return match.element.attributes.get("units", "")


# ---------------------------------------------------------------- the rows


def _rows(request: RmapRequest, sides: Sequence[JoinSide]) -> list[Row]:
    """Return the rows that may fulfil the conditions.

    Raises:  MessageFault 236 if they are more than are tried.
    """
    rows: list[Row] = [()]
    for place, side in enumerate(sides):
        alone = [comparison(where, side.respell) for where in conditions_alone(request, place)]
        objects = [one for one in side.objects if all(holds(one) for holds in alone)]
        links = list(_links(request, sides, place))
        rows = _linked(rows, objects, links[0]) if links else _crossed(rows, objects)
    return rows


def _crossed(rows: Sequence[Row], objects: Sequence[XmlElement]) -> list[Row]:
    _refuse_many(len(rows) * len(objects))
    return [(*row, one) for row in rows for one in objects]


def _linked(rows: Sequence[Row], objects: Sequence[XmlElement], link: _Link) -> list[Row]:
    """Return the rows with each object that can have an equal property."""
    by_value: dict[object, dict[int, XmlElement]] = {}
    for number, one in enumerate(objects):
        for match in find(one, link.later_path):
            if _units(match):
                return _crossed(rows, objects)
            by_value.setdefault(_key(match.text), {})[number] = one
    told: list[Row] = []
    for row in rows:
        matches = find(row[link.earlier], link.earlier_path)
        if any(_units(match) for match in matches):
            return _crossed(rows, objects)
        fitting = {
            number: one for match in matches for number, one in by_value.get(_key(match.text), {}).items()
        }
        _refuse_many(len(told) + len(fitting))
        told += [(*row, fitting[number]) for number in sorted(fitting)]
    return told


def _key(text: str) -> object:
    """Return what two values that are equal in any way have in common."""
    number = as_number(text)
    return text.lower() if number is None else number


def _links(request: RmapRequest, sides: Sequence[JoinSide], later: int) -> Iterable[_Link]:
    """Yield the conditions that a property of a kind equals one of a kind before."""
    if not _is_conjunction(request):
        return
    for where in request.wheres:
        place, other = place_of(request, where.object), _subject(request, where)
        if place is None or other is None or op_of(where) != "EQ" or max(place, other) != later:
            continue
        left, right = _path(where.name, sides[place]), _path(where.value, sides[other])
        if place < later:
            yield _Link(place, left, right)
        elif other < later:
            yield _Link(other, right, left)


def _refuse_many(rows: int) -> None:
    if rows > RMAP_JOINED.most:
        raise MessageFault(
            StatusCode.TOO_LARGE,
            f"the objects join to more than {RMAP_JOINED}",
            "add conditions, such as an equal property",
        )
