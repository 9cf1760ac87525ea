"""ClassAds as programs of HTCondor print them: ``-autoformat``, ``-format``, ``-long``, ``-json``, ``-xml``.

Source:  HTCondor 24, condor_q(1).
"""

import json
import re
import sys
import time

from headnode.apps.cli.condor_programs.options import CondorWords, refusal
from headnode.apps.cli.condor_programs.selection import parsed, value_of
from headnode.core.formats.condor.evaluation import ErrorValue, quoted, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Protocol

    from headnode.core.formats.condor.evaluation import Value
    from headnode.core.formats.condor.expressions import Expression

    class ClassAd(Protocol):
        """Attributes by name, and all that are defined."""

        def __call__(self, name: str) -> Value: ...
        def items(self) -> Iterator[tuple[str, Value]]: ...


OUTPUTS = "autoformat+ af+ format& long! json! jsonl! xml! attributes limit match"
_QUALIFIERS = frozenset("jlhVrTYtng,")
_SPECIFIER = re.compile(r"%(?P<flags>[-+ 0#]*\d*(?:\.\d+)?)(?:l|ll)?(?P<kind>[a-zA-Z])|%%")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\", "\\r": "\r", '\\"': '"'}
_MAX_WIDTH = 4  # digits of the width in a format


def shown(args: CondorWords) -> str:
    """Return which of these outputs a command line asks for; "": none."""
    kinds = {"autoformat": "columns", "af": "columns", "format": "format"}
    kinds |= {name: name for name in ("long", "json", "jsonl", "xml")}
    return next((kinds[name] for name, _, _ in args.uses if name in kinds), "")


def show(
    args: CondorWords, ads: "Iterable[ClassAd]", id_names: "Sequence[str]" = ("ClusterId", "ProcId")
) -> None:
    """Print ads as a command line asks for it."""
    kind = shown(args)
    if kind == "json":
        _show_json(args, ads)
    elif kind == "jsonl":
        for ad in ads:
            sys.stdout.write(
                json.dumps(dict(_wanted(args, ad)), separators=(",", ": "), ensure_ascii=False) + "\n"
            )
    elif kind == "xml":
        _show_xml(args, ads)
    elif kind == "long":
        for ad in ads:
            sys.stdout.write(write_long(_wanted(args, ad)) + "\n")
    else:
        columns = _Columns(args, id_names)
        rows = [columns.row(ad) for ad in ads] if columns.headed else map(columns.row, ads)
        columns.write(rows)


def write_long(attributes: "Iterable[tuple[str, Value]]") -> str:
    """Return attributes as lines."""
    return "".join(f"{name} = {quoted(value)}\n" for name, value in attributes)


def _wanted(args: CondorWords, ad: "ClassAd") -> "Iterator[tuple[str, Value]]":
    names = [name for text in args.values("attributes") for name in re.split(r"[\s,]+", text) if name]
    if not names:
        yield from ad.items()
        return
    for name in names:
        value = ad(name.lower())
        if value is not None:
            yield name, value


def _show_json(args: CondorWords, ads: "Iterable[ClassAd]") -> None:
    before = "[\n"
    for ad in ads:
        sys.stdout.write(before + json.dumps(dict(_wanted(args, ad)), indent=2, ensure_ascii=False))
        before = "\n,\n"
    sys.stdout.write("[\n]\n" if before == "[\n" else "\n]\n")


_XML_HEAD = '<?xml version="1.0"?>\n<!DOCTYPE classads SYSTEM "classads.dtd">\n<classads>\n'
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _show_xml(asked: CondorWords, ads: "Iterable[ClassAd]") -> None:
    sys.stdout.write(_XML_HEAD)
    for ad in ads:
        lines = "".join(f'    <a n="{name}">{_xml_value(value)}</a>\n' for name, value in _wanted(asked, ad))
        sys.stdout.write(f"<c>\n{lines}</c>\n")
    sys.stdout.write("</classads>\n")


def _xml_value(value: "Value") -> str:
    """Return the element of a value: ``<i>1</i>``.

    >>> _xml_value(1), _xml_value(True), _xml_value("a<b"), _xml_value(0.5)
    ('<i>1</i>', '<b v="t"/>', '<s>a&lt;b</s>', '<r>5.000000000000000E-01</r>')
    """
    if isinstance(value, bool):
        return f'<b v="{"t" if value else "f"}"/>'
    if isinstance(value, int):
        return f"<i>{value}</i>"
    if isinstance(value, float):
        return f"<r>{value:.15E}</r>"
    if value is None:
        return "<un/>"
    text = _NOT_IN_XML.sub("?", str(value))
    for mark, name in (("&", "amp"), ("<", "lt"), (">", "gt")):
        text = text.replace(mark, f"&{name};")
    return f"<s>{text}</s>"


class _Column:
    """An expression of a line, and how it is written."""

    def __init__(self, text: str, form: str = "", qualifiers: str = "") -> None:
        self.text, self.form, self.qualifiers = text, form, qualifiers
        self.expression: Expression = parsed(text)

    def value(self, ad: "ClassAd") -> str | None:
        """Return its text; None for a format of an undefined value, which is left out."""
        if self.form:
            return formatted(self.form, value_of(self.expression, ad, time.time()))
        if "r" in self.qualifiers:
            raw = ad(self.expression.name) if self.expression.name else None
            if self.expression.name == "leavejobinqueue":
                return written(raw)
            return quoted(raw) if self.expression.name else self.text
        value = value_of(self.expression, ad, time.time())
        if isinstance(value, ErrorValue):
            return "error"
        if "T" in self.qualifiers and isinstance(value, int | float):
            return run_time(float(value))
        if "Y" in self.qualifiers and isinstance(value, int | float):
            return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
        return quoted(value) if "V" in self.qualifiers else written(value)


class _Columns:
    """The columns of ``-autoformat``, or the pieces of ``-format``."""

    def __init__(self, args: CondorWords, id_names: "Sequence[str]") -> None:
        self._columns: list[_Column] = []
        self._own: set[str] = set()
        self._id_names = id_names
        for name, qualifiers, values in args.uses:
            if name in ("autoformat", "af"):
                self._own |= _refused_qualifiers(qualifiers)
                self._columns += (
                    _Column(each, qualifiers=qualifiers) for text in values for each in _split(text)
                )
            elif name == "format":
                self._columns.append(_Column(values[1], form=values[0]))
        self._is_format = not any(name in ("autoformat", "af") for name, _, _ in args.uses)

    @property
    def headed(self) -> bool:
        """Whether there are headings, so that widths are needed."""
        return "h" in self._own

    def row(self, ad: "ClassAd") -> "list[str]":
        """Return the texts of a line."""
        found = [each.value(ad) for each in self._columns]
        if self._is_format:
            return [text for text in found if text is not None]
        if "j" in self._own:
            found.insert(0, ".".join(written(ad(name.lower())) for name in self._id_names))
        return [text or "" for text in found]

    def write(self, rows: "Iterable[list[str]]") -> None:
        """Print the lines."""
        if self._is_format:
            for row in rows:
                sys.stdout.write("".join(row))
        elif self.headed:
            self._write_table(list(rows))
        else:
            for row in rows:
                sys.stdout.write(self._line(row))

    def _names(self) -> "list[str]":
        return [*(["ID"] if "j" in self._own else []), *(each.text for each in self._columns)]

    def _line(self, row: "list[str]") -> str:
        texts = row
        if "l" in self._own:
            texts = [f"{name} = {text}" for name, text in zip(self._names(), row, strict=True)]
        comma = "," if "," in self._own else ""
        if "n" in self._own:
            body = "".join(f"{text}\n" for text in texts)
            return body + ("\n" if "g" in self._own else "")
        if "g" in self._own:
            return "".join(texts) + "\n"
        gap = "\t" if "t" in self._own else " "
        return f"{comma}{gap}".join(texts) + f"{comma}\n"

    def _write_table(self, rows: "list[list[str]]") -> None:
        names = self._names()
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        gap = "\t" if "t" in self._own else " "
        for row in (names, *rows):
            line = gap.join(text.ljust(width) for text, width in zip(row, widths, strict=True))
            sys.stdout.write(f"{line}\n")


def _refused_qualifiers(text: str) -> "set[str]":
    unknown = set(text) - _QUALIFIERS
    if unknown:
        raise refusal(f"-autoformat has no qualifier {min(unknown)!r}", "choose from: j l h V r T Y , t n g")
    return set(text)


def _split(text: str) -> "list[str]":
    """Return the expressions of a word: attributes may have commas or blanks between them."""
    names = re.split(r"[\s,]+", text.strip(" ,"))
    return names if all(re.fullmatch(r"[A-Za-z_][\w.]*", name) for name in names) else [text]


def formatted(form: str, value: "Value | ErrorValue") -> str | None:
    """Return a value in a format of printf; None if it is undefined.

    Raises:  ProgramRefusal for a format that is not understood.
    """
    text = re.sub(r'\\[nt\\r"]', lambda found: _ESCAPES[found[0]], form)
    if value is None or isinstance(value, ErrorValue):
        return None
    pieces = [found for found in _SPECIFIER.finditer(text) if found["kind"]]
    if len(pieces) > 1 or any(len(number) > _MAX_WIDTH for number in re.findall(r"\d+", form)):
        raise refusal(
            f"the format {form[:60]!r} is not understood",
            "write one conversion in each: -format '%s\\n' Owner",
        )
    return _SPECIFIER.sub(lambda found: _converted(found, value), text)


def _converted(match: "re.Match[str]", value: "str | float") -> str:
    kind, flags = match["kind"], match["flags"]
    if not kind:
        return "%"
    if kind in "vs":
        return f"%{flags}s" % written(value)
    if kind in "Vr":
        return f"%{flags}s" % quoted(value)
    if kind not in "diuxXofeEgG":
        raise refusal(f"the format %{kind} is not understood", "choose from: %s %d %f %v %V")
    if isinstance(value, str):
        return ""
    if kind in "diuxXo":
        return f"%{flags}{'d' if kind == 'u' else kind}" % int(value)
    return f"%{flags}{kind}" % float(value)


def run_time(seconds: float) -> str:
    """Return a time as HTCondor writes it.

    >>> run_time(90061)
    '1+01:01:01'
    """
    minutes, rest = divmod(int(max(0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}+{hours:02}:{minutes:02}:{rest:02}"
