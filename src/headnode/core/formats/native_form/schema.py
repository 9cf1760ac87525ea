"""The JSON Schema of the native form, made from the tables; editors understand it for TOML too.

Source: JSON Schema, draft 2020-12.
"""

from collections.abc import Mapping
from typing import Any

from headnode.core.formats.native_form.keys import JOB_ROWS, TASK_ONLY, TASK_ROWS, TASKS
from headnode.core.formats.native_form.rows import Row

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema of a file in the native form."""
    single = {key: _key(TASK_ROWS[key]) for key in TASK_ONLY}
    tasks = {"description": "a table for each task", "type": "array", "items": {"$ref": "#/$defs/task"}}
    return {
        "$schema": _DRAFT,
        "title": "Headnode job, native form",
        **_object(JOB_ROWS),
        "properties": {**_keys(JOB_ROWS), **single, TASKS: tasks},
        "dependentSchemas": {TASKS: {"not": {"anyOf": [{"required": [key]} for key in TASK_ONLY]}}},
        "$defs": {"task": _object(TASK_ROWS)},
    }


def _object(rows: Mapping[str, Row]) -> dict[str, Any]:
    """Return the schema of a table of keys, which has at most one size."""
    pairs = [["processors", "sockets"], ["processors", "nodes"], ["sockets", "nodes"]]
    one_size = {"not": {"anyOf": [{"required": pair} for pair in pairs]}}
    return {"type": "object", "properties": _keys(rows), "additionalProperties": False, **one_size}


def _keys(rows: Mapping[str, Row]) -> dict[str, Any]:
    return {key: _key(row) for key, row in rows.items()}


def _key(row: Row) -> dict[str, Any]:
    examples = {} if row.example is None else {"examples": [row.example]}
    return {"description": row.help, **row.value.schema, **examples}
