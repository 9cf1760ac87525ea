"""The JSON Schema of the native form, made from the tables; editors understand it for TOML too.

Source: JSON Schema, draft 2020-12.
"""

from collections.abc import Mapping
from typing import Any

from headnode.core.formats.native_form.alternatives import OF_THE_TASK
from headnode.core.formats.native_form.keys import (
    ALTERNATIVE_ROWS,
    ALTERNATIVES,
    GROUP,
    JOB_ROWS,
    JOBS_TABLE,
    SIZES,
    TASK_ALTERNATIVE_ROWS,
    TASK_ONLY,
    TASK_ROWS,
    TASKS,
)
from headnode.core.formats.native_form.rows import Row

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """Return the schema of a file in the native form: a job, or a table for each of several."""
    return {
        "$schema": _DRAFT,
        "title": "Headnode job, native form",
        "type": "object",
        "if": {"required": [JOBS_TABLE]},
        "then": _several(),
        "else": {"$ref": "#/$defs/job"},
        "$defs": {
            "job": _job(),
            "task": _object(TASK_ROWS),
            "alternative": _alternative(),
            "alternative_task": _object(TASK_ALTERNATIVE_ROWS),
        },
    }


def _several() -> dict[str, Any]:
    jobs = {**_list("a table for each job", "job"), "minItems": 1}
    return {
        "properties": {GROUP: _key(JOB_ROWS[GROUP]), JOBS_TABLE: jobs},
        "additionalProperties": False,
    }


def _job() -> dict[str, Any]:
    single = {key: _key(TASK_ROWS[key]) for key in TASK_ONLY}
    tables = {
        TASKS: _list("a table for each task", "task"),
        ALTERNATIVES: _list("alternative requests, best first", "alternative"),
    }
    return {
        **_object(JOB_ROWS),
        "properties": {**_keys(JOB_ROWS), **single, **tables},
        "dependentSchemas": {TASKS: {"not": {"anyOf": [{"required": [key]} for key in TASK_ONLY]}}},
    }


def _alternative() -> dict[str, Any]:
    found = _object(ALTERNATIVE_ROWS)
    tasks = _list("a table for each task of the job, in their order", "alternative_task")
    of_the_task = {key: _key(TASK_ALTERNATIVE_ROWS[key]) for key in sorted(OF_THE_TASK - SIZES.keys())}
    return {**found, "properties": {**found["properties"], **of_the_task, TASKS: tasks}}


def _list(description: str, part: str) -> dict[str, Any]:
    return {"description": description, "type": "array", "items": {"$ref": f"#/$defs/{part}"}}


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
