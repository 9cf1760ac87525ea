"""The tables of the reference page, printed from the rows."""

from collections.abc import Iterator, Mapping

from headnode.core.formats.native_form.keys import (
    ALTERNATIVE_ROWS,
    JOB_ROWS,
    TASK_ALTERNATIVE_ROWS,
    TASK_ROWS,
)
from headnode.core.formats.native_form.rows import Row
from headnode.core.formats.native_form.toml_writing import toml_value


def reference_tables() -> str:
    """Return every key of the native form as tables in Markdown."""
    sections = {
        "Keys of the job": JOB_ROWS,
        "Keys of a task": TASK_ROWS,
        "Keys of an alternative": ALTERNATIVE_ROWS,
        "Keys of a task in an alternative": TASK_ALTERNATIVE_ROWS,
    }
    return "\n".join(line for title, rows in sections.items() for line in _section(title, rows))


def _section(title: str, rows: Mapping[str, Row]) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| key | meaning | value | example |"
    yield "|---|---|---|---|"
    for row in rows.values():
        example = "" if row.example is None else f"`{row.key} = {toml_value(row.example)}`"
        yield f"| {row.key} | {row.help} | {row.value.title} | {example} |"
    yield ""
