"""Queries: which objects, which of their properties, in which order; sums and groups of them.

Source:  SSSRMAP Message Format 3.0.4, "Get" and "Option"; Gold's server for the options.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any, Final, NamedTuple

from headnode.core.formats.sss.sssrmap.conditions import as_number, condition_of
from headnode.core.formats.sss.sssrmap.messages import RmapField, RmapRequest, canonical, elements, leaf
from headnode.core.formats.sss.sssrmap.paths import (
    ObjectPath,
    PathMatch,
    Respell,
    as_written,
    find,
    picked,
    read_path,
    respelled,
)
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.formats.sss.value_types import format_float
from headnode.core.formats.text.xml_text import XmlElement
from headnode.core.model.bounds import RMAP_CONDITIONS

Row = tuple[XmlElement, ...]
"""One object of each kind of a query."""


class AskedColumn(NamedTuple):
    """A Get: where its property is."""

    get: RmapField
    path: ObjectPath
    place: int = 0  # of the object in a row


MAX_KINDS: Final = 4  # that one query joins
_PLAIN, _SORT, _TROS, _GROUP = "", "sort", "tros", "groupby"
_TRUE: Final = ("true", "1", "yes")
_KNOWN_OPTIONS: Final = frozenset(("showhidden", "unique", "limit", "offset"))


def answer_query(
    request: RmapRequest, objects: Sequence[XmlElement], respell: Respell = as_written
) -> list[XmlElement]:
    """Return the answer to a query over objects.

    respell:  how the objects spell the names of properties
    Raises:  MessageFault 236, 310, 316, 317, 318.
    """
    refuse_many(request)
    fulfils = condition_of(request.wheres, respell)
    columns = [AskedColumn(get, respelled(read_path(get.name), respell)) for get in request.gets]
    return answer_rows(request, [(one,) for one in objects if fulfils(one)], columns)


def answer_rows(request: RmapRequest, found: list[Row], columns: Sequence[AskedColumn]) -> list[XmlElement]:
    """Return the answer to a query whose conditions these rows fulfil; they are sorted in their place.

    Raises:  MessageFault 310, 317, 318.
    """
    ops = {_op(get) for get in request.gets}
    if ops & _AGGREGATES.keys() or _GROUP in ops:
        rows = _grouped(row_name(request), columns, found)
    else:
        for column in reversed(columns):
            if _op(column.get) in (_SORT, _TROS):
                found.sort(key=partial(_rank, column), reverse=_op(column.get) == _TROS)
        rows = [_answer_object(request, one, columns) for one in found]
    if options_of(request).get("unique", "").lower() in _TRUE:
        rows = list({canonical(row): row for row in rows}.values())
    return _some(request, rows)


def row_name(request: RmapRequest) -> str:
    """Return what the objects of an answer are called; those of several kinds have all names.

    >>> row_name(RmapRequest(action="Query", actor="ann", objects=("Job", "User")))
    'Job_User'
    """
    return "_".join(request.objects)


def _answer_object(request: RmapRequest, row: Row, columns: Sequence[AskedColumn]) -> XmlElement:
    """Return the object of an answer: what was asked of a row, in the order of the request."""
    if len(row) == 1:
        return _picked(row[0], columns) if columns else row[0]
    inside: list[XmlElement | str] = []
    for place, some in groupby(columns, key=lambda column: column.place):
        inside += _picked(row[place], [*some]).children
    if not columns:
        inside += [child for one in row for child in elements(one)]
    return XmlElement(row_name(request), {}, inside)


def refuse_many(request: RmapRequest) -> None:
    """Refuse a request of too many parts.

    Raises:  MessageFault 236.
    """
    if len(request.gets + request.sets + request.wheres + request.options) > RMAP_CONDITIONS.most:
        raise MessageFault(
            StatusCode.TOO_LARGE, f"the request has more than {RMAP_CONDITIONS} of Get and Where"
        )
    if len(request.objects) > MAX_KINDS:
        raise MessageFault(
            StatusCode.TOO_LARGE, f"the request has more than {MAX_KINDS} Objects", "ask several times"
        )


def options_of(request: RmapRequest) -> Mapping[str, str]:
    """Return the options of a request, by their names in small letters."""
    return {option.name.lower(): option.value for option in request.options}


def unknown_options(request: RmapRequest) -> list[str]:
    """Return the options of a query that have no effect here."""
    return [option.name for option in request.options if option.name.lower() not in _KNOWN_OPTIONS]


def _some(request: RmapRequest, rows: list[XmlElement]) -> list[XmlElement]:
    options = options_of(request)
    limits = [_whole(options[name], name) for name in ("limit", "offset") if name in options]
    begin = limits[-1] if "offset" in options else 0
    most = [limits[0]] if "limit" in options else []
    most += [request.count] if request.count is not None else []
    return list(islice(rows, begin, begin + min(most) if most else None))


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise MessageFault(StatusCode.WRONG_VALUE, f"option {what} is {text[:40]!r}", "write a whole number")
    return int(text)


def _op(get: RmapField) -> str:
    op = get.op.lower()
    if op not in (_PLAIN, _SORT, _TROS, _GROUP, *_AGGREGATES):
        raise MessageFault(
            StatusCode.OPERATOR,
            f"op {get.op[:40]!r} of Get is not known",
            "use Sort, Tros, Count, Sum, Average, Max, Min or GroupBy",
        )
    return op


def _found(row: Row, column: AskedColumn) -> list[PathMatch]:
    return find(row[column.place], column.path)


def _rank(column: AskedColumn, row: Row) -> tuple[int, Any]:
    """Return what objects are sorted by: numbers before words before nothing."""
    matches = _found(row, column)
    if not matches:
        return 2, 0
    number = as_number(text := matches[0].text)
    return (1, text) if number is None else (0, number)


def _picked(one: XmlElement, columns: Sequence[AskedColumn]) -> XmlElement:
    return picked(one, [(find(one, path), _name_of(get, path)) for get, path, _ in columns])


def _name_of(get: RmapField, path: ObjectPath) -> str:
    """Return how the answer calls a property: as it was asked for; "" as the object has it."""
    return get.alias or (
        get.name if path.is_plain and path.steps[0].name != "*" and not path.anchored else ""
    )


# ---------------------------------------------------------------- sums and groups


def _numbers(texts: Sequence[str]) -> list[int | float]:
    return [number for text in texts if (number := as_number(text)) is not None]


def _average(texts: Sequence[str]) -> str:
    numbers = _numbers(texts)
    return _text(sum(numbers) / len(numbers)) if numbers else ""


def _most(choose: Callable[..., Any]) -> Callable[[Sequence[str]], str]:
    def chosen(texts: Sequence[str]) -> str:
        keys = [((0, number) if (number := as_number(text)) is not None else (1, text)) for text in texts]
        return texts[keys.index(choose(keys))] if texts else ""

    return chosen


def _text(number: int | float) -> str:
    return str(number) if isinstance(number, int) else format_float(number)


_AGGREGATES: Final[Mapping[str, Callable[[Sequence[str]], str]]] = {
    "count": lambda texts: str(len(texts)),
    "sum": lambda texts: _text(sum(numbers)) if (numbers := _numbers(texts)) else "",
    "average": _average,
    "max": _most(max),
    "min": _most(min),
}


def _grouped(name: str, columns: Sequence[AskedColumn], rows: Sequence[Row]) -> list[XmlElement]:
    """Return one object for each group of rows; without GroupBy one for all."""
    if any(_op(column.get) in (_PLAIN, _SORT, _TROS) for column in columns):
        raise MessageFault(
            StatusCode.COMBINATION, "a Get without an op beside a sum or a group", 'write op="GroupBy" in it'
        )
    keys = [column for column in columns if _op(column.get) == _GROUP]
    groups: dict[tuple[str, ...], list[Row]] = {} if keys else {(): []}
    for row in rows:
        groups.setdefault(tuple(_first(row, column) for column in keys), []).append(row)
    return [_group_row(name, key, group, columns) for key, group in groups.items()]


def _first(row: Row, column: AskedColumn) -> str:
    matches = _found(row, column)
    return matches[0].text if matches else ""


def _group_row(
    name: str, key: tuple[str, ...], group: Sequence[Row], columns: Sequence[AskedColumn]
) -> XmlElement:
    values, of_key = [], iter(key)
    for column in columns:
        get, path = column.get, column.path
        if _op(get) == _GROUP:
            value = next(of_key)
        else:
            texts = [matches[0].text for row in group if (matches := _found(row, column))]
            value = _AGGREGATES[_op(get)](texts)
        values.append(leaf(get.alias or (get.name if path.is_plain else path.steps[-1].name), value))
    return XmlElement(name, {}, [*values])
