"""Format strings of squeue, sinfo and sacct, and the lines that they make.

Source:  Slurm, squeue(1), "--format" and "--Format"; sacct(1), "--format".
"""

from headnode.apps.cli.batch_programs.words import ProgramRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Generic, TypeAlias, TypeVar

    Shown = TypeVar("Shown")
    Heading: TypeAlias = "tuple[str, str]"  # the field, and its heading
else:

    class Generic:  # `typing` costs 4 ms
        def __class_getitem__(cls, _item: object) -> type:
            return cls

    Shown = None

_WIDTH_OF_FIELDS = 20  # characters of a field of -O without a width
MOST_WIDTH = 100_000


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
    fields: "Mapping[str, Heading]",
    show: "Callable[[str], Callable[[Any], str]]",
) -> "list[Column[Any]]":
    """Return the columns of ``%[[.]width]letter``; `fields`: letter -> field and heading.

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
            field, heading = fields[letter]
            found.append(Column(field, heading, show(field), width if right else -width))
        at += 1
    return found


def _width(program: str, text: str) -> int:
    if text and (len(text) > 6 or int(text) > MOST_WIDTH):
        raise ProgramRefusal(f"{program}: a width of {text[:12]} is too large; at most {MOST_WIDTH}")
    return int(text or 0)


def named(
    program: str,
    text: str,
    fields: "Mapping[str, Heading]",
    show: "Callable[[str], Callable[[Any], str]]",
) -> "list[Column[Any]]":
    """Return the columns of ``name[:[.][width][suffix]],...``; a field without a width has 20 characters."""
    found: list[Column[Any]] = []
    for part in text.split(","):
        word, colon, told = part.partition(":")
        known = fields.get(word.lower())
        if known is None:
            from sys import stderr

            stderr.write(f"{program}: error: Invalid job format specification: {word}\n")
            continue
        right, told = told.startswith("."), told.removeprefix(".")
        digits = 0
        while told[digits : digits + 1].isdigit():
            digits += 1
        width = _width(program, told[:digits]) if digits else 0 if colon and told else _WIDTH_OF_FIELDS
        found.append(Column(known[0], known[1], show(known[0]), width if right else -width, told[digits:]))
    return found


def lines(columns: "Sequence[Column[Any]]", rows: "Sequence[Any]", *, heading: bool) -> str:
    """Return a table."""
    found = ["".join(column.cell(column.heading) for column in columns)] if heading else []
    found += ["".join(column.cell(column.show(row)) for column in columns) for row in rows]
    return "".join(f"{line}\n" for line in found)
