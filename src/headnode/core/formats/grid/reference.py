"""The tables of the reference page, printed from the rows."""

from collections.abc import Iterator

from headnode.core.formats.grid.keys import ITEM_ROWS, JOB_ROWS, REQUIREMENT_ROWS, TASK_ROWS
from headnode.core.formats.grid.rows import Role, Row, Table

_TITLES = {
    "Job": JOB_ROWS,
    "Task of a job": ITEM_ROWS,
    "Definition of a task": TASK_ROWS,
    "Requirements": REQUIREMENT_ROWS,
}


def reference_tables() -> str:
    """Return every key of grid descriptions as tables in Markdown."""
    return "\n".join(line for title, table in _TITLES.items() for line in _section(title, table))


def _section(title: str, table: Table) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| key | value | becomes | source |"
    yield "|---|---|---|---|"
    for row in table.rows:
        key = f"**{row.key}**" if row.required else row.key
        yield f"| {key} | {row.value.title} | {_meaning(row)} | {row.source} |"
    yield ""


def _meaning(row: Row) -> str:
    if row.field:
        return ("" if row.role is Role.FIELD else "kept; ") + row.field
    return {Role.FORM: "the form of the document", Role.KEPT: row.becomes or "kept", Role.FIELD: row.becomes}[
        row.role
    ]
