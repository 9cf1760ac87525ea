"""Tells the submitter what a job file said that could not be taken as it was."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from headnode.apps.cli.output import Output

LOSSES = ("approximated", "not-supported")
WORTH_TELLING = (*LOSSES, "note")


def tell(report: "Iterable[dict[str, Any]]", source: str, out: "Output") -> None:
    """Note every finding that changes what was asked for.  Harmless ones are left to ``hn check``."""
    for finding in report:
        if finding.get("kind") in LOSSES:
            out.note(line(finding, source))


def line(finding: "dict[str, Any]", source: str) -> str:
    """Return a finding as ``file:line:column: kind: what``."""
    place = [source, *([str(finding["line"]), str(finding["column"])] if finding.get("line") else [])]
    where = f" ({finding['where']})" if finding.get("where") else ""
    return f"{':'.join(place)}: {finding.get('kind', 'note')}: {finding.get('what', '')}{where}"
