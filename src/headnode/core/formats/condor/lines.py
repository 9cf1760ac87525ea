"""The lines of a submit file: comments left out, lines that go on joined, values of several lines whole.

Source:  HTCondor 24, "Configuration File Macros": comments, continuation lines, multi-line values.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from headnode.core.formats.text.source_text import SourceText

_BLOCK = re.compile(r"(?P<name>[+\w.]+)\s*@=\s*(?P<tag>\w+)\s*\Z")


class SubmitLine(NamedTuple):
    """A line as it is meant, without white space around it, and where it begins in the file."""

    text: str
    start: int


class SubmitLines:
    """The lines of a file, one after the other."""

    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._physical = self._each()

    def __iter__(self) -> Iterator[SubmitLine]:
        """Yield the lines that say something; a value of several lines is one with newlines.

        Raises:  BadRequest ``block`` for a value of several lines that does not end.
        """
        for line in self._joined():
            block = _BLOCK.match(line.text)
            yield SubmitLine(self._value(line, block), line.start) if block else line

    def listed(self, start: int) -> Iterator[SubmitLine]:
        """Yield the lines of a list in parentheses, up to the line that closes it.

        Raises:  BadRequest ``queue`` if none does.
        """
        for line in self._joined():
            if line.text.startswith(")"):
                return
            yield line
        self._source.refuse(start, "queue", "the list of queue has no end", "close it with a line: )")

    def _each(self) -> Iterator[SubmitLine]:
        text, start = self._source.text, 0
        while start < len(text):
            end = text.find("\n", start)
            end = len(text) if end < 0 else end
            line = text[start:end]
            yield SubmitLine(line.strip(), start + len(line) - len(line.lstrip()))
            start = end + 1

    def _joined(self) -> Iterator[SubmitLine]:
        parts: list[str] = []
        start = 0
        for line in self._physical:
            if line.text.startswith("#"):
                continue
            start = start if parts else line.start
            if line.text.endswith("\\"):
                parts.append(line.text[:-1])
                continue
            parts.append(line.text)
            if whole := "".join(parts).strip():
                yield SubmitLine(whole, start)
            parts = []
        if whole := "".join(parts).strip():
            yield SubmitLine(whole, start)

    def _value(self, line: SubmitLine, block: "re.Match[str]") -> str:
        found: list[str] = []
        end = f"@{block['tag']}"
        for each in self._physical:
            found.append(each.text)
            if each.text == end:
                break
        if found[-1:] != [end]:
            what = f"the value of {block['name'][:60]!r} has no end"
            self._source.refuse(line.start, "block", what, f"end it with a line: {end}")
        return f"{block['name']} = " + "\n".join(found[:-1])
