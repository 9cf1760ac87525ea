"""Records as a table, or as keys and values."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

KEY_WIDTH = 24  # columns before the colon of a list
GAP = 1  # blanks between the columns of a table
NARROWEST = 40  # columns in which sentences are folded; where there are fewer, below their record
MIN_VALUE_WIDTH = (
    17  # columns that are left of a long value where the terminal is narrow: a time to the minute
)


class RecordTable:
    """Records with one text per key.  A value of several lines is shown in full only as a list.

    `columns` are the keys a table shows, "" of them for something that is always a list; `name` is the key
    that holds the id; `data` is what a program gets; `trailer` follows the records after an empty line.
    `prose`: the last column holds sentences, which a terminal folds and does not cut.
    `cells` are the rows of the table where they are not those of the list; `most` the columns that a value
    takes on a terminal at most, by its key; `right` the keys whose values stand on the right; `colours` the
    SGR code of a value, by its text, in the column `State`.
    """

    __slots__ = (
        "cells", "colours", "columns", "data", "most", "name", "prose", "right", "rows", "trailer", "widths",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        rows: "Sequence[dict[str, str]]",
        data: "Any",
        *,
        columns: "Sequence[str]" = (),
        widths: "dict[str, int] | None" = None,
        trailer: str = "",
        prose: bool = False,
        cells: "Sequence[dict[str, str]] | None" = None,
        most: "dict[str, int] | None" = None,
        right: "Sequence[str]" = (),
        colours: "dict[str, str] | None" = None,
    ) -> None:
        self.name = name
        self.rows = rows
        self.data = data
        self.columns = tuple(columns)
        self.widths = widths or {}
        self.trailer = trailer
        self.prose = prose
        self.cells = rows if cells is None else cells
        self.most = most or {}
        self.right = right
        self.colours = colours or {}


def as_list(sheet: RecordTable, width: int | None = None) -> str:
    """Write the records as ``Key   : Value`` lines; a terminal of `width` columns gets long values folded."""
    keys = max([KEY_WIDTH, *(len(key) for row in sheet.rows for key in row)])
    room = None if width is None else max(width - keys - 2, NARROWEST // 2)
    records = ["".join(_entry(key, value, keys, room) for key, value in row.items()) for row in sheet.rows]
    if sheet.trailer:
        records.append(f"{sheet.trailer}\n")
    return "\n".join(records)


def _entry(key: str, value: str, width: int, room: int | None) -> str:
    lines = [printable(line) for line in value.split("\n")]
    if room is not None:
        lines = [part for line in lines for part in (folded(line, room).split("\n") if line else [line])]
    first = f"{key:<{width}}: {lines[0]}".rstrip()
    return "\n".join([first, *(f"{'':<{width}}  {line}".rstrip() or " " * 4 for line in lines[1:])]) + "\n"


def as_table(sheet: RecordTable, width: int | None = None, *, coloured: bool = False) -> str:
    """Write the records as a table: headings, a dashed rule, one line each; cut at `width` columns."""
    cells = [[printable(_one_line(row.get(column, ""))) for column in sheet.columns] for row in sheet.cells]
    if width is not None:
        cells = [
            [_cut(cell, sheet.most.get(key)) for key, cell in zip(sheet.columns, line, strict=True)]
            for line in cells
        ]
    widths = _widths(sheet, cells, sheet.widths)
    if width is not None and _sum(widths) > width:
        widths = _widths(sheet, cells, {})  # the blanks are for scripts, which read no terminal
    for at, column in enumerate(sheet.columns):
        if column in sheet.right:
            cells = [[*line[:at], line[at].rjust(widths[at]), *line[at + 1 :]] for line in cells]
    lines = [[*sheet.columns], ["-" * size for size in widths], *cells]
    if sheet.prose and width is not None and _sum(widths) > width:
        table = _with_prose(lines, widths, width)
    else:
        table = _lines(lines, _shrunk(widths, width), width)
    if coloured and "State" in sheet.columns:
        table = _painted(sheet, table)
    return table + (f"\n{folded(sheet.trailer, width)}\n" if sheet.trailer else "")


def _painted(sheet: RecordTable, table: str) -> str:
    """Return the table with the states of its records in their colours: the word below the heading."""
    heading, rule, *lines = table.split("\n")
    at = heading.find("State")
    if at < 0:
        return table  # a terminal so narrow that the column is cut
    return "\n".join([heading, rule, *(_with_colour(line, at, sheet.colours) for line in lines)])


def _with_colour(line: str, at: int, colours: "dict[str, str]") -> str:
    state = line[at:].split(" ", 1)[0]
    if state not in colours or line[at - 1 : at] not in ("", " ") or line.startswith("    "):
        return line
    return f"{line[:at]}\033[{colours[state]}m{state}\033[0m{line[at + len(state) :]}"


def _widths(sheet: RecordTable, cells: "Sequence[Sequence[str]]", least: "dict[str, int]") -> list[int]:
    return [
        max([least.get(column, 0), len(column), *(len(line[at]) for line in cells)])
        for at, column in enumerate(sheet.columns)
    ]


def _sum(widths: "Sequence[int]") -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def folded(text: str, width: int | None, indent: str = "") -> str:
    """Return text in lines of at most `width` columns; names with hyphens are left whole, to be copied."""
    if width is None:
        return text
    import textwrap

    fill = textwrap.TextWrapper(
        width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    ).fill
    return "\n".join(map(fill, text.splitlines()))


def _with_prose(lines: "Sequence[Sequence[str]]", widths: "Sequence[int]", width: int) -> str:
    """Write a table whose last column is folded at `width`, beside its record or below it."""
    indent = sum(widths[:-1]) + GAP * (len(widths) - 1)
    if width - indent < NARROWEST:
        return _with_prose_below(lines, _shrunk(widths[:-1], width), width)
    text = ""
    for number, (*cells, sentence) in enumerate(lines):
        parts = folded(sentence, width - indent).split("\n")[: 1 if number < 2 else None]
        text += f"{_line(cells, widths[:-1]):<{indent}}{parts[0]}".rstrip() + "\n"
        text += "".join(f"{'':<{indent}}{line}\n" for line in parts[1:])
    return text


def _with_prose_below(lines: "Sequence[Sequence[str]]", widths: "Sequence[int]", width: int) -> str:
    """Write a table whose last column is below its record, or beside it where there is room for all of it."""
    room = width - sum(widths) - GAP * len(widths)
    beside = room >= len(lines[0][-1])
    result = ""
    for number, (*record, sentence) in enumerate(lines):
        text = "-" * room if number == 1 else sentence
        if beside and len(text) <= room:
            result += _line([*record, text], [*widths, 0]) + "\n"
            continue
        result += _lines([record], widths, width)
        if number > 1 and sentence:
            result += f"{folded(sentence, width, '    ')}\n"
    return result


def _shrunk(widths: "Sequence[int]", width: int | None) -> list[int]:
    """Return the widths with which a line has room, if there are such: of the widest the most is taken."""
    shrunk = [*widths]
    while width is not None and _sum(shrunk) > width and max(shrunk) > MIN_VALUE_WIDTH:
        shrunk[shrunk.index(max(shrunk))] -= 1
    return shrunk


def _lines(lines: "Sequence[Sequence[str]]", widths: "Sequence[int]", width: int | None) -> str:
    cut = [[_cut(cell, size) for cell, size in zip(line, widths, strict=True)] for line in lines]
    return "".join(f"{_cut(_line(line, widths), width)}\n" for line in cut)


def _line(cells: "Sequence[str]", widths: "Sequence[int]") -> str:
    return (" " * GAP).join(f"{cell:<{size}}" for cell, size in zip(cells, widths, strict=True)).rstrip()


def _cut(line: str, width: int | None) -> str:
    return line if width is None or len(line) <= width else line[: max(width - 1, 1)] + "…"


def _one_line(value: str) -> str:
    return value.replace("\n", " ")


def printable(text: str) -> str:
    """Return `text` with control characters spelt out: a job's name must not steer the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
