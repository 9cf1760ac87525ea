"""What is read from a journal, a file or a connection refuses fields that this version does not know."""

import builtins
import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

import headnode

# Where bytes are turned into structs: `Decoder(T)`, `Decoder[...](T)`, `decode(..., type=T)`.
_DECODED = re.compile(r"\bDecoder(?:\[[^\]]*\])?\(([A-Za-z_][\w.]*)\)|\bdecode\(.*\btype=([A-Za-z_][\w.]*)\)")


# Both ends are processes of one head, or of one agent, of the same installation; nothing of it is stored.
ONE_PROGRAM = (
    "headnode.apps.predict:",
    "headnode.apps.notify:",
    "headnode.apps.server.predicted_starts:",
    "headnode.apps.server.job_notices:",
    "headnode.apps.agent.launch_server:",
)
# The manifest of a backup has a version of its own, which is compared first.
WITH_A_VERSION = (
    "headnode.adapters.journal.backup: Manifest",
    "headnode.adapters.journal.backup: ManifestVersion",
    "headnode.adapters.wire.message_checks: StatedProtocol",
)
# The names of a description that was read whole when it came, or by `recovery` after a restart.
# What decides whether a submission goes together with others: it is read as a whole afterwards.
IN_PART = ("headnode.core.state.job_request: JobNames", "headnode.apps.server.api.verbs: SubmissionOutline")


def decoded_types() -> dict[str, Any]:
    """Return every type that the sources decode, by where they do."""
    found: dict[str, Any] = {}
    root = Path(headnode.__file__).parent
    for info in pkgutil.walk_packages([str(root)], "headnode."):
        spec = importlib.util.find_spec(info.name)
        if spec is None or spec.origin is None:
            continue
        text = Path(spec.origin).read_text()
        for match in _DECODED.finditer(text):
            name = match[1] or match[2]
            at: Any = importlib.import_module(info.name)
            for part in name.split("."):
                at = getattr(at, part, None) or getattr(builtins, part)
            found[f"{info.name}: {name}"] = at
    return found


def structs_in(kind: Any, seen: set[type]) -> Iterator[type[msgspec.Struct]]:
    """Yield every struct that a type can hold, at any depth."""
    for part in get_args(getattr(kind, "__value__", kind)) or (kind,):
        if part is not kind:
            yield from structs_in(part, seen)
        elif isinstance(part, type) and issubclass(part, msgspec.Struct) and part not in seen:
            seen.add(part)
            yield part
            for hint in get_type_hints(part).values():
                yield from structs_in(hint, seen)


def test_every_struct_that_is_read_refuses_fields_that_it_does_not_know() -> None:
    types = decoded_types()
    seen: set[type] = set()
    lax = sorted(
        f"{struct.__module__}.{struct.__qualname__}"
        for where, kind in types.items()
        if not where.startswith((*ONE_PROGRAM, *WITH_A_VERSION, *IN_PART))
        for struct in structs_in(kind, seen)
        if not struct.__struct_config__.forbid_unknown_fields
    )
    assert lax == []
    names = {struct.__qualname__ for struct in seen}
    assert {"JobCreated", "JobSpec", "TaskSpec", "NodeFacts", "JobTemplate", "Hello", "OpenJob"} <= names
    assert {"JobRecord", "_StoredSnapshot", "Prediction", "NodeReservation"} <= names
