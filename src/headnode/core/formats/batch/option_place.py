"""Where an option of a batch script stands, and the values that it may have."""

import re
from typing import NoReturn

from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.formats.text.source_text import SourceText
from headnode.core.model.quantities import Seconds

_UNITS = {"": 1024**2, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_AMOUNT = re.compile(r"(\d+)(?:\.(\d+))?([bkmgtp]?)(?:i?b)?\Z", re.IGNORECASE)
MAX_NUMBER = 2**31 - 1


class OptionPlace:
    """Where an option stands, and under which name; refusals and findings begin from here."""

    def __init__(self, script: SourceText, start: int, name: str, items: list[ReportItem]) -> None:
        self._script, self.start, self.name, self._items = script, start, name, items

    def refuse(self, what: str, fix: str, code: str = "value") -> NoReturn:
        """Refuse the script for this option.

        Raises:  BadRequest, always, with line and column.
        """
        self._script.refuse(self.start, code, f"{self.name}: {what}", fix, ("options", self.name))

    def report(self, kind: Fidelity, what: str) -> None:
        """Add a finding about this option; a later one of the same option replaces it."""
        item = ReportItem(kind, self.name, what, *self._script.place(self.start))
        self._items[:] = [each for each in self._items if each.where != self.name]
        self._items.append(item)

    def named(self, name: str) -> "OptionPlace":
        """Return the same place under another name: that of a part of the option."""
        return OptionPlace(self._script, self.start, name, self._items)

    def number(self, text: str, least: int = 0) -> int:
        """Return a whole number.

        Raises:  BadRequest ``value``.
        """
        if not (text.isascii() and text.isdigit()) or not least <= int(text[:12]) <= MAX_NUMBER:
            self.refuse(f"{text[:60]!r} is not a number of at least {least}", "write a whole number")
        return int(text)

    def megabytes(self, text: str, *, plain: str = "m", whole: bool = False) -> int:
        """Return an amount of memory in MB, rounded up; `plain` is the unit of a number without one.

        Raises:  BadRequest ``value``.
        """
        match = _AMOUNT.match(text)
        if match is None or (whole and match[2]):
            self.refuse(f"{text[:60]!r} is not an amount of memory", "write a number with K, M, G or T: 4G")
        unit = _UNITS[(match[3] or plain).lower()]
        scale = 10 ** len(match[2] or "")
        size = int(match[1] + (match[2] or "")) * unit
        return int(min(-(-size // (scale * 1024**2)), MAX_NUMBER))

    def clock(self, text: str) -> Seconds:
        """Return a time of ``[[hours:]minutes:]seconds``.

        Raises:  BadRequest ``value``.
        """
        fields = text.split(":")
        if len(fields) > 3 or not all(field.isascii() and field.isdigit() for field in fields):
            self.refuse(f"{text[:60]!r} is not a time", "write seconds, or HOURS:MINUTES:SECONDS")
        seconds = 0
        for field in fields:
            seconds = seconds * 60 + int(field[:9])
        return Seconds(float(seconds))
