"""A fidelity report as a page: what is lost first, equal findings about many tasks together."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Item = dict[str, Any]

GROUPS = {
    "not-supported": "not supported: without effect there",
    "approximated": "approximated: the nearest that can be written",
    "translated": "translated: other words for the same",
    "note": "good to know",
}
"""The kinds that are told, and what each means; the rest was kept as it stood."""


def page(report: "dict[str, Any]") -> str:
    """Return the report of a conversion."""
    items: list[Item] = report["items"]
    lost = any(item["kind"] in ("not-supported", "approximated") for item in items)
    verdict = "not all of it is the same there" if lost else "nothing is lost"
    lines = [f"{report['file']}, from {report['from']} to {report['to']}: {verdict}"]
    for kind, title in GROUPS.items():
        found = [item for item in items if item["kind"] == kind]
        if found:
            lines += [f"  {title}", *(f"    {line}" for line in _together(found))]
    return "\n".join(lines)


def _together(items: "Iterable[Item]") -> "Iterator[str]":
    """Yield a line for each sentence, with the first place it is said of and how many more there are."""
    first: dict[str, Item] = {}
    more: dict[str, int] = {}
    for item in items:
        what = item["what"]
        more[what] = more[what] + 1 if what in first else 0
        first.setdefault(what, item)
    for what, item in first.items():
        place = f"{item['line']}:{item['column']}: " if item["line"] else ""
        others = f" and {more[what]} more" if more[what] else ""
        yield f"{place}{item['where']}{others}: {what}"
