"""Format strings of squeue, sinfo and sacct, and the lines that they make.

Source:  Slurm, squeue(1), "--format" and "--Format"; sacct(1), "--format".
"""

from headnode.apps.cli.batch_programs.words import ProgramRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Generic, TypeAlias, TypeVar

    from headnode.apps.cli.batch_programs.words import ProgramWords

    Shown = TypeVar("Shown")
    OutputFields: TypeAlias = "Mapping[str, tuple[str, ...]]"
    """Letter of ``-o`` -> field, heading, names of ``-O``; a field without a letter is under a name."""
else:

    class Generic:  # `typing` costs 4 ms
        def __class_getitem__(cls, _item: object) -> type:
            return cls

    Shown = None

_WIDTH_OF_FIELDS = 20  # characters of a field of -O without a width
MAX_WIDTH = 100_000


class Column(Generic[Shown]):
    """A column: its heading, what it shows, its width, and the text behind it.

    `width` 0: as wide as the value; negative: the value stands left.  `plain` fields are for grouping.
    """

    __slots__ = ("behind", "field", "heading", "show", "width")

    def __init__(
        self, field: str, heading: str, show: "Callable[[Shown], str]", width: int, behind: str = ""
    ) -> None:
        self.field, self.heading, self.show, self.width, self.behind = field, heading, show, width, behind

    def cell(self, text: str) -> str:
        """Return a text cut and filled to the width."""
        if not self.width:
            return text + self.behind
        size = abs(self.width)
        cut = text[:size]
        return (cut.rjust(size) if self.width > 0 else cut.ljust(size)) + self.behind


def letters(
    program: str,
    text: str,
    fields: "OutputFields",
    show: "Callable[[str], Callable[[Any], str]]",
) -> "list[Column[Any]]":
    """Return the columns of ``%[[.]width]letter``.

    What is no field stands as it is, as in Slurm.
    """
    found: list[Column[Any]] = [Column("", "", lambda _: "", 0)]
    at = 0
    while at < len(text):
        if text[at] != "%":
            found[-1].behind += text[at]
            at += 1
            continue
        begin, at = at, at + 1
        right = text[at : at + 1] == "."
        at += right
        digits = at
        while text[at : at + 1].isdigit():
            at += 1
        width = _width(program, text[digits:at])
        letter = text[at : at + 1]
        if letter not in fields:
            found[-1].behind += text[begin : at + 1]
            if letter:
                from sys import stderr

                stderr.write(f"{program}: error: Invalid job format specification: {letter}\n")
        else:
            field, heading, *_ = fields[letter]
            found.append(Column(field, heading, show(field), width if right else -width))
        at += 1
    return found


def _width(program: str, text: str) -> int:
    if text and (len(text) > 6 or int(text) > MAX_WIDTH):
        raise ProgramRefusal(f"{program}: a width of {text[:12]} is too large; at most {MAX_WIDTH}")
    return int(text or 0)


def named(
    program: str,
    text: str,
    fields: "OutputFields",
    show: "Callable[[str], Callable[[Any], str]]",
) -> "list[Column[Any]]":
    """Return the columns of ``name[:[.][width][suffix]],...``; a field without a width has 20 characters."""
    known = {name: (field, heading) for field, heading, *names in fields.values() for name in names}
    found: list[Column[Any]] = []
    for part in text.split(","):
        word, colon, size = part.partition(":")
        meant = known.get(word.lower())
        if meant is None:
            from sys import stderr

            stderr.write(f"{program}: error: Invalid job format specification: {word}\n")
            continue
        right, size = size.startswith("."), size.removeprefix(".")
        digits = 0
        while size[digits : digits + 1].isdigit():
            digits += 1
        width = _width(program, size[:digits]) if digits else 0 if colon and size else _WIDTH_OF_FIELDS
        found.append(Column(*meant, show(meant[0]), width if right else -width, size[digits:]))
    return found


def lines(columns: "Sequence[Column[Any]]", rows: "Sequence[Any]", *, heading: bool) -> str:
    """Return a table."""
    found = ["".join(column.cell(column.heading) for column in columns)] if heading else []
    found += ["".join(column.cell(column.show(row)) for column in columns) for row in rows]
    return "".join(f"{line}\n" for line in found)


class TableField(Generic[Shown]):
    """A field of a table whose format is ``name%width,...``: its name, heading and width, what it shows.

    The width is below 0 if the field stands left.
    """

    __slots__ = ("heading", "name", "show", "width")

    def __init__(self, heading: str, width: int, show: "Callable[[Shown], str]", name: str = "") -> None:
        self.heading, self.width, self.show, self.name = heading, width, show, name or heading.lower()

    def cell(self, text: str) -> str:
        """Return a text in the width; a plus sign says that its end is left out.

        >>> TableField("A", 4, str).cell("chemistry"), TableField("A", -4, str).cell("c")
        ('che+', 'c   ')
        """
        size = abs(self.width)
        if len(text) > size:
            text = text[: size - 1] + "+"
        return text.ljust(size) if self.width < 0 else text.rjust(size)


def of_rows(heading: str, width: int, name: str = "") -> "TableField[Mapping[str, str]]":
    """Return a field that shows what a row has under its name; empty if it has nothing."""
    key = name or heading.lower()
    return TableField(heading, width, lambda row: row.get(key, ""), key)


def fields_of(
    text: str, known: "Sequence[TableField[Shown]]", refuse: "Callable[[str], ProgramRefusal]"
) -> "list[TableField[Shown]]":
    """Return the fields of ``name[%[-]width],...``; a name may be cut short.

    Raises:  what `refuse` makes of a name that is unknown; ProgramRefusal for a width that is none.
    """
    found = []
    for word in filter(None, text.split(",")):
        name, percent, size = word.partition("%")
        low = name.strip().lower()
        exact = [one for one in known if one.name == low]
        meant = exact or [one for one in known if low and one.name.startswith(low)]
        if not meant:
            raise refuse(name[:40])
        digits = size.removeprefix("-")
        if percent and not (digits.isascii() and digits.isdigit() and int(digits[:7]) <= MAX_WIDTH):
            raise ProgramRefusal(f"a width of {size[:12]} is no number up to {MAX_WIDTH}")
        width = (percent and int(size)) or meant[0].width  # 0 says nothing, as in Slurm
        found.append(TableField(meant[0].heading, width, meant[0].show, meant[0].name))
    return found


def table(args: "ProgramWords", fields: "Sequence[TableField[Any]]", rows: "Iterable[Any]") -> str:
    """Return a table, in columns or with ``-p`` or ``-P`` with a mark between the values."""
    heading = not args.has("noheader")
    if args.has_any(("parsable", "parsable2")):
        mark = args.text("delimiter") or "|"
        end = "" if args.has("parsable2") else mark
        cells = [[one.heading for one in fields]] if heading else []
        cells += [[one.show(row) for one in fields] for row in rows]
        return "".join(mark.join(line) + end + "\n" for line in cells)
    lines: list[str] = []
    if heading:
        lines.append("".join(one.cell(one.heading[: abs(one.width)]) + " " for one in fields))
        lines.append("".join("-" * abs(one.width) + " " for one in fields))
    lines += ["".join(one.cell(one.show(row)) + " " for one in fields) for row in rows]
    return "".join(f"{line}\n" for line in lines)


def field_names(fields: "Iterable[TableField[Any]]", width: int) -> str:
    """Return the headings of all fields in alphabetical order, four in a line: ``--helpformat``."""
    names = sorted((one.heading for one in fields), key=str.lower)
    rows = [names[at : at + 4] for at in range(0, len(names), 4)]
    return "".join(" ".join(f"{name:<{width}}" for name in row) + "\n" for row in rows)
