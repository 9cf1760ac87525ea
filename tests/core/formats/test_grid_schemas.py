"""The JSON Schemas of grid descriptions, and the golden files."""

import json
from pathlib import Path
from typing import Any

import pytest

from documents.job_languages import grid_reference
from headnode.core.formats.grid import job_schema, read_job, task_schema, write_job
from headnode.core.formats.grid.keys import ITEM_ROWS, JOB_ROWS, REQUIREMENT_ROWS, TASK_ROWS

GOLDEN = Path(__file__).parents[2] / "golden" / "grid"
TABLES = (JOB_ROWS, ITEM_ROWS, TASK_ROWS, REQUIREMENT_ROWS)


def objects(schema: Any) -> list[dict[str, Any]]:
    """Return every part of a schema that describes an object with named keys."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    found = [one for part in inner for one in objects(part)]
    own = [schema] if isinstance(schema, dict) and "properties" in schema and "type" in schema else []
    return own + found


@pytest.mark.parametrize("schema", [job_schema(), task_schema()], ids=["job", "task"])
def test_a_schema_is_closed_and_refers_to_nothing_that_is_not_there(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert all(part["additionalProperties"] is False for part in objects(schema))
    text = json.dumps(schema)
    for name in ("item", "task", "requirements"):
        assert (f'"#/$defs/{name}"' in text) <= (name in schema["$defs"])


def test_the_schema_of_a_job_has_the_keys_that_must_be_there() -> None:
    schema = job_schema()
    assert schema["required"] == ["version", "tasks"]
    assert schema["$defs"]["item"]["required"] == ["id"]
    assert schema["$defs"]["task"]["required"] == ["version", "executable"]
    assert list(schema["$defs"]["requirements"]["properties"]) == list(REQUIREMENT_ROWS.by_key)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_every_key_has_its_source_and_a_line_on_the_reference_page(table: Any) -> None:
    page = grid_reference()
    for row in table.rows:
        assert row.help
        assert f"| {row.key} |" in page or f"| **{row.key}** |" in page


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.name)
def test_every_golden_file_is_written_to_the_letter(path: Path) -> None:
    spec, _ = read_job(path.read_bytes())
    assert write_job(spec, spec.dialect)[0].decode() == path.read_text()


def test_there_are_golden_files_of_both_forms() -> None:
    assert {read_job(path.read_bytes())[0].dialect for path in GOLDEN.glob("*.json")} == {"grid", "grid-task"}
