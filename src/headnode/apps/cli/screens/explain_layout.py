"""How an explanation is laid out: lines that keep to the width, points, nodes that share a line."""

from textwrap import wrap

from headnode.apps.cli.sheet import printable
from headnode.apps.cli.words import span
from headnode.core.model.node_runs import as_counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Told = Mapping[str, Any]

POINT, BELOW = "  - ", "    "
MOST_NODES = 3  # named one by one


def laid_out(text: str, width: int, lead: str = "") -> list[str]:
    """Return the lines of a text; those after the first begin below the end of `lead`."""
    return wrap(
        printable(text),
        max(width, len(lead) + 20),
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_on_hyphens=False,
        break_long_words=False,
    )


def section(title: str, points: "Iterable[str | tuple[str, str]]", width: int) -> str:
    """Return a heading with its points; nothing when there are none.

    A point may have something to type, which is never broken: behind it where there is room, or below.
    """
    lines: list[str] = []
    for point in points:
        text, typed = (point, "") if isinstance(point, str) else point
        said = laid_out(text + (":" if typed else ""), width, POINT)
        if typed and len(said) == 1 and len(said[0]) + 1 + len(typed) <= width:
            lines.append(f"{said[0]} {printable(typed)}")
        else:
            lines += [*said, f"{BELOW}  {printable(typed)}"] if typed else said
    return "\n".join([title, *lines] if title else lines) if lines else ""


def node_rows(title: str, reasons: "Iterable[Told]", now: float, width: int) -> str:
    """Return the nodes with why each is out and who holds it; those with the same reason share a line."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        text = _without(reason["text"], reason["what"]) + _held(reason, now)
        alike.setdefault(text, []).append(reason["what"])
    if not alike:
        return ""
    rows = [(printable(_together(sorted(nodes, key=as_counted))), text) for text, nodes in alike.items()]
    column = min(max(len(names) for names, _ in rows), width // 2)
    return "\n".join(
        [title, *(line for names, text in rows for line in laid_out(text, width, f"  {names:<{column}}  "))]
    )


def _held(reason: "Told", now: float) -> str:
    """Return who holds processors of a busy node, and until when at the latest."""
    parts = []
    for each in reason.get("holders") or ():
        until = each["until"]
        when = (
            "has no run time limit"
            if until is None
            else f"ends in {span(max(0.0, until - now))} at the latest"
        )
        parts.append(f"job {each['job']} of {each['owner']} holds {each['processors']} and {when}")
    if parts and reason.get("more_holders"):
        parts.append(f"{reason['more_holders']} more jobs hold some")
    return f": {'; '.join(parts)}" if parts else ""


def places(nodes: "Iterable[Told]") -> str:
    """Return where processors are, such as ``node1 (4), node2 (2)``; of many nodes the first and the rest."""
    each = [(place["node"], place["processors"]) for place in nodes]
    shown = ", ".join(f"{node} ({processors})" for node, processors in each[:MOST_NODES])
    left = each[MOST_NODES:]
    if not left:
        return shown
    count = f"{len(left)} more node" + ("s" if len(left) > 1 else "")
    return f"{shown} and {count} ({sum(processors for _, processors in left)})"


def _without(text: str, node: str) -> str:
    """Return the reason without the name of its node in front, so that equal ones are seen to be equal."""
    for start in (f"node {node!r}", f"node {node}", repr(node), node):
        if text.startswith(start) and not text[len(start) : len(start) + 1].isalnum():
            return text[len(start) :].lstrip(" :,")
    return text


def _together(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NODES])
    return shown + (f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else "")
