"""How a command of a submit file is read: what all tables of commands share."""

from collections.abc import Callable
from typing import NamedTuple

from headnode.core.formats.batch.option_place import OptionPlace
from headnode.core.formats.condor.draft import SubmitDraft
from headnode.core.formats.condor.expressions import whole_number
from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.formats.text.source_text import SourceText

_NOT, _KEPT = Fidelity.NOT_SUPPORTED, Fidelity.KEPT
Reader = Callable[[SubmitDraft, OptionPlace, str], None]
"""Reads the value of a command, with its macros expanded, into a draft."""


_TRUE, _FALSE = ("true", "yes", "t", "1"), ("false", "no", "f", "0")


class CommandPlace(OptionPlace):
    """Where a command stands; of the same command in many processes the last finding counts."""

    def __init__(self, source: SourceText, start: int, name: str, found: dict[str, ReportItem]) -> None:
        super().__init__(source, start, name, [])
        self._found = found

    def report(self, kind: Fidelity, what: str) -> None:
        """Add a finding about this command, in place of an earlier one."""
        known = self._found.get(self.name)
        if known is None or (known.kind, known.what) != (kind, what):
            self._found[self.name] = ReportItem(kind, self.name, what, *self._script.place(self.start))


class SubmitCommand(NamedTuple):
    """How a command is read.

    swept:       its text may have the number of the process in it
    calculated:  it is a number that may be calculated from attributes of the job
    """

    read: Reader
    swept: bool = False
    calculated: bool = False


def truth(place: OptionPlace, text: str) -> bool:
    """Return a value that is true or false.

    Raises:  BadRequest ``value``.
    """
    word = text.lower()
    if word not in _TRUE + _FALSE:
        place.refuse(f"{text[:60]!r} is neither true nor false", "write true or false")
    return word in _TRUE


def number(place: OptionPlace, text: str, least: int = 0) -> int:
    """Return a whole number, also one that is calculated: ``4 * 3600``.

    Raises:  BadRequest ``value``.
    """
    found = whole_number(text)
    return place.number(text if found is None else str(found), least)


def sets(
    field: str,
    read: Callable[[OptionPlace, str], object],
    what: str,
    kind: Fidelity = Fidelity.TRANSLATED,
    *,
    swept: bool = False,
    calculated: bool = False,
) -> SubmitCommand:
    """Return a command whose value is a field of the draft, and what it becomes."""

    def set_field(draft: SubmitDraft, place: OptionPlace, text: str) -> None:
        setattr(draft, field, read(place, text))
        place.report(kind, what)

    return SubmitCommand(set_field, swept, calculated)


def as_written(place: OptionPlace, text: str) -> str:  # noqa: ARG001
    """Return a value as it is."""
    return text


def at_least_one(place: OptionPlace, text: str) -> int:
    """Return a whole number of at least 1.

    Raises:  BadRequest ``value``.
    """
    return number(place, text, 1)


def ignored(why: str, kind: Fidelity = _NOT) -> SubmitCommand:
    """Return a command without effect, and why."""

    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
        place.report(kind, why)

    return SubmitCommand(read, swept=True)


def refused(what: str, fix: str = "leave it out") -> SubmitCommand:
    """Return a command that decides what runs, when or where, and has no equivalent."""

    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
        place.refuse(what, fix, "not-supported")

    return SubmitCommand(read, swept=True)


def refused_if(what: str, fix: str, *, value: bool = True) -> SubmitCommand:
    """Return a command that is refused if it is true (or false), and else does nothing."""

    def read(draft: SubmitDraft, place: OptionPlace, text: str) -> None:  # noqa: ARG001
        if truth(place, text) is value:
            place.refuse(what, fix, "not-supported")
        place.report(_KEPT, "it is so here")

    return SubmitCommand(read)
