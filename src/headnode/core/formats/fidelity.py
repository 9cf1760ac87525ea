"""What became of every word of a foreign job file: nothing is dropped silently.

Source: SSS 3.1.0, awarenessPolicy, which Headnode honours for every dialect.
"""

from collections.abc import Iterable, Set
from enum import StrEnum

import msgspec

from headnode.core.model.errors import BadRequest

_SHOWN = 10  # of the things that a refusal names
MOST_ITEMS = 1000  # of a report, each with its place; of the others their number is told


class Kind(StrEnum):
    """How well something was understood."""

    KEPT = "kept"  # as it stood
    TRANSLATED = "translated"  # another word for the same
    APPROXIMATED = "approximated"  # the nearest thing that can be said
    NOT_SUPPORTED = "not-supported"  # no effect
    NOTE = "note"  # nothing is lost, but it is good to know


class Awareness(StrEnum):
    """What to do with a job that holds something Headnode does not understand."""

    REJECT = "Reject"
    WARN = "Warn"
    IGNORE = "Ignore"


class Item(msgspec.Struct, frozen=True, gc=False):
    """One finding.  `line` counts from 1, `column` is the characters before it; 0, 0 when it has no place."""

    kind: Kind
    where: str
    what: str
    line: int = 0
    column: int = 0


Report = tuple[Item, ...]


def unlisted(kind: Kind, number: int) -> Item:
    """Return the finding that stands for so many more of its kind."""
    return Item(kind, "document", f"{number} more of this kind, after the first {MOST_ITEMS} findings")


def parse_awareness(text: str) -> Awareness:
    """Read an awareness policy: Reject, Warn or Ignore, in any case.

    Raises:  BadRequest ``awareness``.
    """
    for policy in Awareness:
        if policy.lower() == text.strip().lower():
            return policy
    raise BadRequest(
        code="awareness",
        what=f"awareness policy {text!r} is not known",
        fix=f"write {', '.join(Awareness)}",
    )


def losses(report: Report) -> Report:
    """Return the findings that say something has no effect, or not the same effect."""
    return tuple(item for item in report if item.kind in (Kind.NOT_SUPPORTED, Kind.APPROXIMATED))


def honour(policy: Awareness, items: Iterable[Item]) -> Report:
    """Return the report the submitter gets under `policy`.

    Raises:  BadRequest ``not-understood`` under Reject when anything has no effect; it lists what.
    Source:  SSS 3.1.0, awarenessPolicy: Reject refuses the job, Warn lists, Ignore is silent.
    """
    report = tuple(items)
    unknown = [item for item in report if item.kind is Kind.NOT_SUPPORTED]
    if policy is Awareness.REJECT and unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        raise BadRequest(
            code="not-understood",
            what="; ".join(describe(item) for item in unknown[:_SHOWN]) + more,
            fix="correct them, or read the job with awareness policy Warn or Ignore",
        )
    if policy is Awareness.IGNORE:
        return tuple(item for item in report if item.kind is not Kind.NOT_SUPPORTED)
    return report


def describe(item: Item) -> str:
    """Write one finding on a line.

    >>> describe(Item(Kind.NOTE, "Job", "attribute 'Id' is not input", 3, 5))
    "line 3, column 5: Job: attribute 'Id' is not input"
    """
    place = f"line {item.line}, column {item.column}: " if item.line else ""
    return f"{place}{item.where}: {item.what}"


def lost_fields(spec: msgspec.Struct, defaults: msgspec.Struct, written: Set[str]) -> list[str]:
    """Return the fields that are set and that a writer does not know, such as new ones."""
    return [
        field
        for field in spec.__struct_fields__
        if field not in written and getattr(spec, field) != getattr(defaults, field, None)
    ]
