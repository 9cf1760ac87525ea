"""The schemas of job languages, for editors and other programs: JSON Schema and XML Schema.

``python -m headnode.apps.cli.schemas`` writes the JSON Schemas into the files that are shipped."""

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from headnode.core.formats import grid, native
from headnode.core.formats.dialects import dialect_named
from headnode.core.model.errors import BadRequest

_PACKAGE, _FOLDER = "headnode.core.formats", "schemas"
MADE: Mapping[str, Callable[[], dict[str, Any]]] = {
    "native": native.json_schema,
    "grid": grid.job_schema,
    "grid-task": grid.task_schema,
}
"""JSON Schemas by the names of their dialects, made from the rows that read and write them."""

_SAME = {"native-json": "native"}
_XML = {"ccs": "ccs-job", "hpcpack-2008": "hpcpack-2008", "hpcpack": "hpcpack"}


def schema_of(dialect: str) -> bytes:
    """Return the schema of a dialect, JSON Schema or XML Schema.

    Raises:  BadRequest ``dialect``, and ``no-schema`` for SSS, whose text has none.
    """
    name = dialect_named(dialect).name
    if name in _XML:
        folder = files(f"{_PACKAGE}.hpc_xml") / _FOLDER
        return (folder / f"{_XML[name]}.xsd").read_bytes()
    made = _SAME.get(name, name)
    if made not in MADE:
        raise BadRequest(
            code="no-schema",
            what=f"there is no schema of {name}",
            fix=f"hn check tells what is wrong with a file; there are schemas of {', '.join([*MADE, *_XML])}",
        )
    return (files(_PACKAGE) / _FOLDER / file_name(made)).read_bytes()


def file_name(dialect: str) -> str:
    """Return the name of the file with a JSON Schema."""
    return f"{dialect}.schema.json"


def text_of(dialect: str) -> str:
    """Return the JSON Schema of a dialect as its file has it."""
    return json.dumps(MADE[dialect](), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    place = Path(str(files(_PACKAGE) / _FOLDER))
    place.mkdir(exist_ok=True)
    for one in MADE:
        (place / file_name(one)).write_text(text_of(one), encoding="utf-8")
