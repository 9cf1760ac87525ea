"""The files of ``-print-format``: which columns are printed, and how.

Source:  HTCondor 24, manual, "Print Formats".
"""

import re
import sys
import time
from pathlib import Path

from headnode.apps.cli.condor_programs.ad_output import formatted, run_time
from headnode.apps.cli.condor_programs.options import refusal
from headnode.apps.cli.condor_programs.processes import LETTERS
from headnode.apps.cli.condor_programs.selection import holds, parsed, value_of
from headnode.core.formats.condor.evaluation import ErrorValue, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from headnode.apps.cli.condor_programs.ad_output import ClassAd
    from headnode.core.formats.condor.evaluation import Value

_MAX_BYTES = 1 << 20
_MAX_WIDTH = 4  # digits
_WORD = re.compile(r"""'([^']*)'|"([^"]*)"|(\S+)""")
_FLAGS = ("FIT", "TRUNCATE", "LEFT", "RIGHT", "NOPREFIX", "NOSUFFIX", "ALWAYS")
_OF_COLUMN = ("AS", "PRINTF", "PRINTAS", "WIDTH", "OR", *_FLAGS)
_SEPARATORS = ("RECORDPREFIX", "RECORDSUFFIX", "FIELDPREFIX", "FIELDSUFFIX")
_NO_SORT = "sort the output, or use -autoformat"


class PrintColumn:
    """A column: its expression, its heading, and how its values are printed."""

    def __init__(self, text: str, words: "Mapping[str, str]") -> None:
        self.expression = parsed(text)
        self.label = words.get("AS", text)
        self.form, self.function = words.get("PRINTF", ""), words.get("PRINTAS", "")
        if self.function and self.function not in FUNCTIONS:
            raise refusal(
                f"PRINTAS {self.function[:40]} is not supported here", f"choose from: {' '.join(FUNCTIONS)}"
            )
        width = words.get("WIDTH", "")
        if width != "AUTO" and width and not re.fullmatch(rf"-?\d{{1,{_MAX_WIDTH}}}", width):
            raise refusal(f"WIDTH {width[:40]} is no width", "write WIDTH 10, WIDTH -10 or WIDTH AUTO")
        self.fits = width in ("", "AUTO") and not self.form
        self.width = 0 if width in ("", "AUTO") else abs(int(width))
        by_default = not width and not self.form
        self.left = "RIGHT" not in words and (width.startswith("-") or "LEFT" in words or by_default)
        self.truncates = "TRUNCATE" in words
        self.prefix, self.suffix = "NOPREFIX" not in words, "NOSUFFIX" not in words
        self.otherwise = words.get("OR", "")

    def text(self, ad: "ClassAd") -> str:
        """Return what an ad shows."""
        value = value_of(self.expression, ad, time.time())
        if self.function:
            shown = FUNCTIONS[self.function](ad, None if isinstance(value, ErrorValue) else value)
        elif self.form:
            shown = formatted(self.form, value)
        else:
            shown = "error" if isinstance(value, ErrorValue) else None if value is None else written(value)
        if shown is None:
            return (
                self.otherwise[0] * self.width if len(self.otherwise) > 1 else self.otherwise
            ) or "undefined"
        return shown

    def cell(self, text: str, width: int) -> str:
        """Return a text at its place in a column."""
        cut = text[:width] if self.truncates and width else text
        return cut.ljust(width) if self.left else cut.rjust(width)


class PrintFormat:
    """What a file says: the columns, the condition, and whether there are a title, headings and a summary."""

    def __init__(self, lines: "Iterable[str]") -> None:
        self.columns: list[PrintColumn] = []
        self.title = self.headings = self.summary = True
        self.constraint = ""
        self.label: str | None = None  # between label and value; None: there are headings
        self.separators = {
            "RECORDPREFIX": "", "RECORDSUFFIX": "\n", "FIELDPREFIX": "", "FIELDSUFFIX": " ",
        }  # fmt: skip
        place = ""
        for line in lines:
            first = line.split(None, 1)[0]
            if first in ("SELECT", "WHERE", "GROUP", "SUMMARY"):
                place = first
                self._begin(first, line.split(None, 1)[1] if " " in line.strip() else "")
            elif place == "SELECT":
                self.columns.append(PrintColumn(*_column_words(line)))
            elif place == "WHERE":
                self.constraint += f" {line.strip()}"
            else:
                raise refusal(f"the print format has {line.strip()[:60]!r} out of place", "begin with SELECT")
        if not place:
            raise refusal("the print format is empty", "begin with SELECT")

    def _begin(self, keyword: str, rest: str) -> None:
        if keyword == "SELECT":
            self._read_select(_words(rest))
        elif keyword == "WHERE":
            self.constraint = rest
        elif keyword == "GROUP":
            raise refusal("GROUP BY is not supported here", _NO_SORT)
        elif rest.strip() == "NONE":
            self.summary = False

    def _read_select(self, words: "list[str]") -> None:
        while words:
            word = words.pop(0)
            if word in ("BARE", "NOTITLE"):
                self.title = False
            if word in ("BARE", "NOHEADER"):
                self.headings = False
            if word in ("BARE", "NOSUMMARY"):
                self.summary = False
            if word == "LABEL":
                self.label = " = "
            elif word == "SEPARATOR" and words:
                self.label = _unescaped(words.pop(0))
            elif word in _SEPARATORS and words:
                self.separators[word] = _unescaped(words.pop(0))
            elif word not in ("BARE", "NOTITLE", "NOHEADER", "NOSUMMARY"):
                raise refusal(
                    f"SELECT {word[:40]} is not supported here", "use BARE, NOTITLE, LABEL and the like"
                )

    def show(self, ads: "Iterable[ClassAd]") -> None:
        """Print the ads that meet the condition."""
        wanted = parsed(self.constraint) if self.constraint.strip() else None
        now = time.time()
        rows = [
            [column.text(ad) for column in self.columns]
            for ad in ads
            if wanted is None or holds(wanted, ad, now)
        ]
        if not self.columns:
            return
        headings = [column.label for column in self.columns]
        shown = [*([headings] if self.headings and self.label is None else []), *rows]
        widths = [
            max(column.width, *(len(row[at]) for row in shown)) if column.fits and shown else column.width
            for at, column in enumerate(self.columns)
        ]
        for number, row in enumerate(shown):
            is_heading = self.label is None and self.headings and number == 0
            sys.stdout.write(self._line(row, widths, is_heading=is_heading))

    def _line(self, row: "Sequence[str]", widths: "Sequence[int]", *, is_heading: bool) -> str:
        text = "" if is_heading else self.separators["RECORDPREFIX"]
        for column, cell, width in zip(self.columns, row, widths, strict=True):
            text += self.separators["FIELDPREFIX"] if column.prefix else ""
            text += "" if self.label is None else column.label + self.label
            text += column.cell(cell, 0 if self.label is not None else width)
            text += self.separators["FIELDSUFFIX"] if column.suffix else ""
        if self.separators["FIELDSUFFIX"] == " ":
            text = text.rstrip(" ")
        return text + ("\n" if is_heading else self.separators["RECORDSUFFIX"])


def read_print_format(path: str) -> PrintFormat:
    """Read a file; ``-`` is standard input.

    Raises:  ProgramRefusal.
    """
    try:
        if path == "-":
            text = sys.stdin.read(_MAX_BYTES + 1)
        else:
            with Path(path).open(errors="replace") as file:
                text = file.read(_MAX_BYTES + 1)
    except OSError as trouble:
        raise refusal(f"the print format {path} cannot be read: {trouble.strerror}") from None
    if len(text) > _MAX_BYTES:
        raise refusal(f"the print format {path} is larger than 1 MB")
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return PrintFormat(lines)


def _words(text: str) -> "list[str]":
    """Return the words of a line; quotes go round a word with blanks."""
    return [next((part for part in found.groups() if part is not None), "") for found in _WORD.finditer(text)]


def _column_words(line: str) -> "tuple[str, dict[str, str]]":
    """Return the expression of a line, and its keywords with their values."""
    at = re.search(rf"\s(?:{'|'.join(_OF_COLUMN)})(?=\s|$)", line)
    text, left = (line, []) if at is None else (line[: at.start()], _words(line[at.start() :]))
    found: dict[str, str] = {}
    while left:
        word = left.pop(0)
        if word in _FLAGS:
            found[word] = ""
        elif word in _OF_COLUMN and left:
            found[word] = left.pop(0)
        else:
            raise refusal(f"the print format has {word[:40]!r} in {line.strip()[:60]!r}", "see the manual")
    return text.strip(), found


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r")


def _readable(value: "Value", units: str) -> str | None:
    """Return a size with its unit: ``1.5 MB``; `units` begins with that of the value."""
    if not isinstance(value, int | float):
        return None
    size, at = float(value), 0
    while size >= 1024 and at + 1 < len(units):
        size, at = size / 1024, at + 1
    return f"{size:.1f} {units[at]}B".replace("BB", "B")


_STATUS_WORDS = ("Unexpanded", "Idle", "Running", "Removed", "Completed", "Held", "Transferring", "Suspended")


def _status_word(_ad: "ClassAd", value: "Value") -> str | None:
    known = isinstance(value, int) and 0 <= value < len(_STATUS_WORDS)
    return _STATUS_WORDS[int(value or 0)] if known else None


def _submitted(_ad: "ClassAd", value: "Value") -> str | None:
    if not isinstance(value, int | float):
        return None
    told = time.localtime(value)
    return f"{told.tm_mon:>2}/{told.tm_mday:<2} {told.tm_hour:02}:{told.tm_min:02}"


def _described(ad: "ClassAd", _value: "Value") -> str:
    command = written(ad("cmd")).rpartition("/")[2]
    arguments = ad("args") or ad("arguments")
    return f"{command} {arguments}" if arguments else command


def _number(form: str) -> "Callable[[ClassAd, Value], str | None]":
    return lambda _ad, value: form.format(value) if isinstance(value, int | float) else None


def _text(_ad: "ClassAd", value: "Value") -> str | None:
    return None if value is None else written(value)


FUNCTIONS: "Mapping[str, Callable[[ClassAd, Value], str | None]]" = {
    "BATCH_NAME": lambda ad, _value: written(ad("jobbatchname") or f"ID: {ad('clusterid')}"),
    "CPU_TIME": lambda ad, _value: run_time(float(ad("remotewallclocktime") or 0)),
    "JOB_DESCRIPTION": _described,
    "JOB_ID": lambda ad, _value: f"{ad('clusterid')}.{ad('procid')}",
    "JOB_STATUS": lambda _ad, value: LETTERS.get(value, "?") if isinstance(value, int) else None,
    "JOB_STATUS_RAW": _status_word,
    "JOB_UNIVERSE": lambda _ad, value: {5: "vanilla"}.get(value) if isinstance(value, int) else None,
    "MEMORY_USAGE": _number("{:.1f}"),
    "OWNER": _text,
    "QDATE": _submitted,
    "READABLE_BYTES": lambda _ad, value: _readable(value, "BKMGT"),
    "READABLE_KB": lambda _ad, value: _readable(value, "KMGT"),
    "READABLE_MB": lambda _ad, value: _readable(value, "MGT"),
    "REMOTE_HOST": lambda ad, _value: written(ad("remotehost")) if ad("remotehost") else None,
}
"""The functions of ``PRINTAS``: what they make of an ad, and of the value of the expression."""
