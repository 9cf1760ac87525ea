"""The schemas that are shipped are those of the code, in the package and beside the documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from headnode.apps.cli.schemas import schema_of
from headnode.core.formats.dialects import DIALECTS, JobLanguage
from headnode.core.model.errors import BadRequest

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize(
    "dialect",
    [
        name
        for name, one in DIALECTS.items()
        if not name.startswith("sss") and one.language not in (JobLanguage.BATCH, JobLanguage.CONDOR)
    ],
)
def test_every_language_that_has_a_schema_prints_it(dialect: str) -> None:
    text = schema_of(dialect)
    assert (b"json-schema.org" if text.startswith(b"{") else b"XMLSchema") in text


def test_who_asks_for_a_schema_that_is_not_there_is_told_which_are() -> None:
    with pytest.raises(BadRequest, match="no-schema") as refused:
        schema_of("sss")
    assert "native" in refused.value.fix


def keys_of(schema: dict[str, Any], part: Any) -> set[str]:
    """Return the keys that a schema knows for an object, whether it is written there or referred to."""
    found = schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
    return set(found["properties"])


def test_the_schema_of_the_native_form_knows_the_keys_of_every_table_of_the_golden_file() -> None:
    schema = json.loads(schema_of("native-json"))
    document = json.loads((GOLDEN / "native_form" / "every_key.json").read_text())
    job = schema["$defs"]["job"]
    assert set(document) <= keys_of(schema, schema["else"])
    for task in document["tasks"]:
        assert set(task) <= keys_of(schema, job["properties"]["tasks"]["items"])
    for other in document["alternatives"]:
        assert set(other) <= keys_of(schema, job["properties"]["alternatives"]["items"])
        for task in other.get("tasks", ()):
            assert set(task) <= keys_of(
                schema, schema["$defs"]["alternative"]["properties"]["tasks"]["items"]
            )
