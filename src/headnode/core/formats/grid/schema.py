"""JSON Schemas of grid jobs and grid tasks, made from the tables.

A schema says the form only; that ids are unique, children exist and nobody waits in a circle is checked
besides.  Source: JSON Schema, draft 2020-12.
"""

from typing import Any

from headnode.core.formats.grid.keys import ITEM_ROWS, JOB_ROWS, REQUIREMENT_ROWS, TASK_ROWS
from headnode.core.formats.grid.rows import Table

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PARTS = {"item": ITEM_ROWS, "task": TASK_ROWS, "requirements": REQUIREMENT_ROWS}


def job_schema() -> dict[str, Any]:
    """Return the schema of a job description."""
    parts = {name: _object(table) for name, table in _PARTS.items()}
    parts["item"]["not"] = {"required": ["definition", "filename"]}
    return _document("Grid job description, version 2", JOB_ROWS, parts)


def task_schema() -> dict[str, Any]:
    """Return the schema of the description of a task on its own."""
    parts = {"requirements": _object(REQUIREMENT_ROWS)}
    return _document("Grid task description, version 2", TASK_ROWS, parts)


def _document(title: str, table: Table, parts: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DRAFT, "title": title, **_object(table), "$defs": parts}


def _object(table: Table) -> dict[str, Any]:
    required = [row.key for row in table.rows if row.required]
    return {
        "type": "object",
        "properties": {row.key: {"description": row.source, **row.value.schema} for row in table.rows},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }
