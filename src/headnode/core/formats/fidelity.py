"""What became of every word of a foreign job file: nothing is dropped silently.

Source: SSS 3.1.0, awarenessPolicy, which Headnode honours for every dialect."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from functools import cache
from typing import get_args, get_type_hints

import msgspec

from headnode.core.model.errors import BadRequest, Path, TextPosition

_SHOWN = 10  # of the things that a refusal names
MAX_REPORT_ITEMS = 1000  # of a report, each with its place; of the others their number is told


class Fidelity(StrEnum):
    """How well something was understood."""

    KEPT = "kept"  # as it stood
    TRANSLATED = "translated"  # another word for the same
    APPROXIMATED = "approximated"  # the nearest thing that can be said
    NOT_SUPPORTED = "not-supported"  # no effect
    NOTE = "note"  # nothing is lost, but it is good to know

    __hash__ = str.__hash__  # each finding is counted by its kind, and the hash of an Enum is slow


class Awareness(StrEnum):
    """What to do with a job that holds something Headnode does not understand."""

    REJECT = "Reject"
    WARN = "Warn"
    IGNORE = "Ignore"


class ReportItem(msgspec.Struct, frozen=True, gc=False):
    """One finding.  `line` counts from 1, `column` is the characters before it; 0, 0 when it has no place."""

    kind: Fidelity
    where: str
    what: str
    line: int = 0
    column: int = 0


FidelityReport = tuple[ReportItem, ...]


def unlisted(kind: Fidelity, number: int) -> ReportItem:
    """Return the finding that stands for so many more of its kind."""
    return ReportItem(
        kind, "document", f"{number} more of this kind, after the first {MAX_REPORT_ITEMS} findings"
    )


_POLICIES = {policy.lower(): policy for policy in Awareness}


def parse_awareness(text: str) -> Awareness:
    """Read an awareness policy: Reject, Warn or Ignore, in any case.

    Raises:  BadRequest ``awareness``.
    """
    policy = _POLICIES.get(text.strip().lower())
    if policy is not None:
        return policy
    raise BadRequest(
        code="awareness",
        what=f"awareness policy {text!r} is not known",
        fix=f"write {', '.join(Awareness)}",
    )


def lossy_items(report: FidelityReport) -> FidelityReport:
    """Return the findings that say something has no effect, or not the same effect."""
    return tuple(item for item in report if item.kind in (Fidelity.NOT_SUPPORTED, Fidelity.APPROXIMATED))


def apply_awareness(policy: Awareness, items: Iterable[ReportItem], path: Path = ()) -> FidelityReport:
    """Return the report the submitter gets under `policy`.  `path` leads to the first item without effect.

    Raises:  BadRequest ``not-understood`` under Reject when anything has no effect; it lists what.
    Source:  SSS 3.1.0, awarenessPolicy: Reject refuses the job, Warn lists, Ignore is silent.
    """
    report = tuple(items)
    unknown = [item for item in report if item.kind is Fidelity.NOT_SUPPORTED]
    if policy is Awareness.REJECT and unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        first, *others = unknown[:_SHOWN]
        raise BadRequest(
            code="not-understood",
            what="; ".join([f"{first.where}: {first.what}", *map(describe, others)]) + more,
            fix="correct them, or submit the job with awareness warn or ignore: /awareness:warn",
            path=path,
            place=TextPosition(first.line, first.column) if first.line else None,
        )
    if policy is Awareness.IGNORE:
        return tuple(item for item in report if item.kind is not Fidelity.NOT_SUPPORTED)
    return report


def describe(item: ReportItem) -> str:
    """Write one finding on a line.

    >>> describe(ReportItem(Fidelity.NOTE, "Job", "attribute 'Id' is not input", 3, 5))
    "line 3, column 5: Job: attribute 'Id' is not input"
    """
    place = f"line {item.line}, column {item.column}: " if item.line else ""
    return f"{place}{item.where}: {item.what}"


WrittenParts = Mapping[type[msgspec.Struct], frozenset[str]]
"""The fields that a writer knows of the structs inside fields, such as node needs."""

NO_PARTS: WrittenParts = {}


def lost_fields(
    spec: msgspec.Struct, defaults: object, written: Set[str], parts: WrittenParts = NO_PARTS
) -> list[str]:
    """Return the fields that are set and that a writer does not know, such as new ones.

    A field that is written is searched too, if it holds structs of `parts`: ``needs.colour`` is a field that
    is lost of the needs.
    """
    lost: dict[str, None] = {}
    holding = _holding_structs(type(spec)) if parts else ()
    for field in spec.__struct_fields__:
        value = getattr(spec, field)
        if value == getattr(defaults, field, None):
            continue
        if field not in written:
            lost[field] = None
        elif field in holding:
            lost |= {f"{field}.{inner}": None for inner in _lost_inside(value, parts)}
    return list(lost)


def _lost_inside(value: object, parts: WrittenParts) -> Iterator[str]:
    for part in value if isinstance(value, tuple) else (value,):
        if not isinstance(part, msgspec.Struct):
            continue
        kind = type(part)
        known = next((parts[one] for one in kind.__mro__ if one in parts), None)
        if known is None:
            continue
        for field, default in _unknown_fields(kind, known):
            if getattr(part, field) != default:
                yield field
        for field in _holding_structs(kind):
            if field in known:
                yield from (f"{field}.{inner}" for inner in _lost_inside(getattr(part, field), parts))


@cache
def _unknown_fields(kind: type[msgspec.Struct], known: frozenset[str]) -> tuple[tuple[str, object], ...]:
    """Return the fields of a struct that a writer does not know, with their defaults; None if it has none."""
    defaults = dict(zip(reversed(kind.__struct_fields__), reversed(kind.__struct_defaults__), strict=False))
    return tuple((field, defaults.get(field)) for field in kind.__struct_fields__ if field not in known)


@cache
def _holding_structs(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a struct whose values are structs, or tuples of them."""
    hints = get_type_hints(kind)
    return tuple(field for field in kind.__struct_fields__ if _is_struct(hints[field]))


def _is_struct(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return True
    return any(map(_is_struct, get_args(hint)))


class CountedItems:
    """Findings in the order in which they are made, beginning with `items`."""

    def __init__(self, items: Iterable[ReportItem] = ()) -> None:
        self._items = list(items)
        self._first: dict[Hashable, int] = {}
        self._times: dict[Hashable, int] = {}
        self._unlisted: Counter[Fidelity] = Counter()

    def add(self, kind: Fidelity, made: Callable[[], ReportItem], key: Hashable = None) -> None:
        """Add the finding that `made` makes; one of a `key` that was there before is only counted.

        What is not listed is not made, since finding its place costs most.
        """
        if self.again(key):
            return
        if self.is_full:
            self._unlisted[kind] += 1
        else:
            if key is not None:
                self._times[key] = 1
                self._first[key] = len(self._items)
            self._items.append(made())

    def reword(self, key: Hashable, what: str) -> None:
        """Let the listed finding of a key say something else."""
        if key in self._first:
            one = self._items[self._first[key]]
            self._items[self._first[key]] = ReportItem(one.kind, one.where, what, one.line, one.column)

    @property
    def is_full(self) -> bool:
        """Whether no more findings are listed, but only counted."""
        return len(self._items) >= MAX_REPORT_ITEMS

    def count(self, kind: Fidelity, times: int = 1) -> None:
        """Count findings without keys that are not listed, because there are too many: `is_full`."""
        self._unlisted[kind] += times

    def again(self, key: Hashable, times: int = 1) -> bool:
        """Count a finding so many times if one of its key was made before, and return whether it was."""
        before = self._times.get(key)
        if before is None:
            return False
        self._times[key] = before + times
        return True

    def report(self) -> tuple[ReportItem, ...]:
        """Return all findings, each with the number of times that it came."""
        items = list(self._items)
        for key, at in self._first.items():
            if self._times[key] > 1:
                one = items[at]
                what = f"{one.what} ({self._times[key]} times, here first)"
                items[at] = ReportItem(one.kind, one.where, what, one.line, one.column)
        return (*items, *(unlisted(kind, number) for kind, number in self._unlisted.items()))


class LossReport:
    """The report in the making: the same sentence about several tasks is said once, with their number."""

    def __init__(self) -> None:
        self._found = CountedItems()

    def add(self, kind: Fidelity, where: str, what: str) -> None:
        """Add a finding."""
        self._found.add(kind, lambda: ReportItem(kind, where, what), (kind, what))

    def report(self) -> FidelityReport:
        """Return all findings, in the order in which they were made."""
        return self._found.report()


MAX_ERRORS = 100  # of one file; of the others their number is told


class FileErrors(BadRequest):
    """A file with several faults of one kind; `each` has them in the order of the file."""

    def __init__(self, each: Sequence[BadRequest], unlisted: int = 0) -> None:
        first, more = each[0], len(each) - 1 + unlisted
        what = f"{first.sentence} (and {more} more)"
        super().__init__(code=first.code, what=what, fix=first.fix, place=first.place, file=first.file)
        self.each, self.unlisted = tuple(each), unlisted
