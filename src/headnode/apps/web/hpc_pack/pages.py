"""Pages and filters of HPC Pack's lists.

A list is read in one of two ways: `queryId` from the header of the answer before, until there is none; or
`startRow`, with the number of all rows in a header.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from headnode.apps.web.hpc_pack.property_lists import Properties, listed
from headnode.apps.web.hpc_pack.requests import HpcReply, HpcRequest
from headnode.apps.web.problems import wrong

CONTINUATION: Final = "x-ms-continuation-queryId"
ROW_COUNT: Final = "x-ms-row-count"
ROWS: Final = 10
MOST_ROWS: Final = 1000
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_PART: Final = re.compile(r"\s*(\w+)\s+eq\s+(.*?)\s*\Z", re.IGNORECASE | re.DOTALL)
_AND: Final = re.compile(r"\s+and\s+", re.IGNORECASE)
Row = TypeVar("Row")


def filters_of(request: HpcRequest, *known: str) -> dict[str, str]:
    """Return the values of `$filter` by their names in small letters.

    Raises:  BadRequest ``filter``.
    """
    found: dict[str, str] = {}
    text = request.query.get("$filter", "")
    for part in _AND.split(text) if text.strip() else ():
        read = _PART.match(part)
        if read is None or read[1].lower() not in (name.lower() for name in known):
            raise wrong("filter", f"$filter has {part[:64]!r}", f"write {known[0]} eq VALUE", ("$filter",))
        found[read[1].lower()] = read[2].strip("'\"")
    return found


def number_in(request: HpcRequest, name: str, default: int) -> int:
    """Return a number of the query.

    Raises:  BadRequest ``query``.
    """
    text = request.query.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text):
        raise wrong("query", f"{name}={text[:64]!r} is not a number", "", (name,))
    return int(text)


def rows_per_read(request: HpcRequest) -> int:
    """Return how many rows an answer has at most."""
    return min(max(1, number_in(request, "rowsPerRead", ROWS)), MOST_ROWS)


def page(request: HpcRequest, rows: Sequence[Row]) -> tuple[Sequence[Row], Mapping[str, str]]:
    """Return the rows that were asked for, and the headers that say how to go on."""
    size = rows_per_read(request)
    if "startRow" in request.query:
        begin = number_in(request, "startRow", 0)
        return rows[begin : begin + size], {ROW_COUNT: str(len(rows))}
    begin = number_in(request, "queryId", 0)
    more = {CONTINUATION: str(begin + size)} if len(rows) > begin + size else {}
    return rows[begin : begin + size], more


def in_order(
    request: HpcRequest, rows: list[Row], parameter: str, value: Callable[[Row, str], str]
) -> list[Row]:
    """Return rows by the property that a parameter names, numbers as numbers."""
    name = request.query.get(parameter, "")
    if not name and "asc" not in request.query:
        return rows

    def key(row: Row) -> tuple[int, int, str]:
        text = value(row, name or "Id")
        return (0, int(text), "") if _NUMBER.fullmatch(text) else (1, 0, text.lower())

    return sorted(rows, key=key, reverse=not request.flag("asc", default=True))


def objects(rows: Sequence[Properties], names: Sequence[str], headers: Mapping[str, str]) -> HpcReply:
    """Return rows as a list of objects with properties."""
    return HpcReply([{"Properties": listed(row, names)} for row in rows], headers=headers)
