"""What releases keep and send: every tag and field as a line, and a sample of every kind in bytes.

`python -m documents.released_format VERSION` writes `tests/golden/format`: the new lines of the lock, and the
samples of a release that has none yet.  A line that is there is never changed or removed.
"""

import enum
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from headnode.adapters.journal.backup import Manifest
from headnode.adapters.journal.ended_tables import _Body as ArchiveRow
from headnode.adapters.journal.journal_file import _TABLES, VERSION
from headnode.adapters.nodes.membership import Membership
from headnode.adapters.processes.job_journal import EndedRecord, Header
from headnode.adapters.processes.shepherd_protocol import ShepherdMessage
from headnode.adapters.wire.messages import FromAgent, FromHead, FromStranger, ToStranger
from headnode.apps.agent.prolog_epilog import NodeVisit
from headnode.core.model.job import JobSpec
from headnode.core.model.template import JobTemplate
from headnode.core.state.cluster_state import Snapshot
from headnode.core.state.events import EVENTS
from headnode.core.state.job_events import InstanceEnd
from headnode.core.state.job_record import JobRecord
from headnode.engine.ports import Prediction

FORMAT = Path(__file__).parents[1] / "golden" / "format"
LOCK = FORMAT / "lock.txt"

ROOTS: Mapping[str, tuple[Any, ...]] = {
    "journal": EVENTS,
    "described": (JobSpec, JobTemplate, JobRecord, Snapshot),
    "archive": (ArchiveRow, InstanceEnd, Prediction),
    "backup": (Manifest,),
    "agent": (NodeVisit, Membership),
    "shepherd": (Header, EndedRecord, *get_args(ShepherdMessage)),
    "wire": tuple(dict.fromkeys(sum(map(get_args, (FromStranger, ToStranger, FromAgent, FromHead)), ()))),
}
"""What is kept and sent, by where.  Structures inside are found from these."""
IN_JSON = ("backup", "shepherd")
RELEASED_NAMES: Mapping[type, str] = {ArchiveRow: "ArchiveRow"}
"""Names in the lock of structures without a tag whose class is called otherwise."""


def name_of(kind: type) -> str:
    """Return how the lock calls a structure: by its tag, else by the class."""
    tag = kind.__struct_config__.tag if issubclass(kind, msgspec.Struct) else None
    return str(tag) if tag is not None else RELEASED_NAMES.get(kind, kind.__name__)


class FieldOf(NamedTuple):
    """A field as bytes have it; `default` is NODEFAULT if it is required."""

    attribute: str
    name: str
    hint: Any
    default: Any


def fields_of(kind: type) -> list[FieldOf]:
    """Return the fields of a struct or named tuple, in their order."""
    hints = get_type_hints(kind)
    if issubclass(kind, msgspec.Struct):
        return [
            FieldOf(
                each.name,
                each.encode_name,
                hints[each.name],
                each.default_factory() if each.default_factory is not msgspec.NODEFAULT else each.default,
            )
            for each in msgspec.structs.fields(kind)
        ]
    defaults = kind._field_defaults  # type: ignore[attr-defined]
    names = kind._fields  # type: ignore[attr-defined]
    return [FieldOf(name, name, hints[name], defaults.get(name, msgspec.NODEFAULT)) for name in names]


def is_structure(kind: Any) -> bool:
    """Return whether a type has fields of its own."""
    return isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or hasattr(kind, "_fields"))


def plain(hint: Any) -> Any:
    """Return a type without names of this program for it."""
    while True:
        if hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif hasattr(hint, "__metadata__"):
            hint = hint.__origin__
        else:
            return hint


def type_text(hint: Any) -> str:
    """Return a type as bytes have it."""
    hint = plain(hint)
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_text(each) for each in inside))
    if origin is Literal or (isinstance(hint, type) and issubclass(hint, enum.Enum)):
        return "word"
    if origin in (tuple, list, set, frozenset):
        several = inside[:-1] if inside[-1:] == (Ellipsis,) else inside
        text = ", ".join(map(type_text, several))
        return f"[{text}]" if origin is tuple and inside[-1:] != (Ellipsis,) else f"list of {text}"
    if origin is dict:
        return f"map of {type_text(inside[0])} to {type_text(inside[1])}"
    if hint is type(None):
        return "null"
    if is_structure(hint):
        return name_of(hint)
    return {int: "int", float: "number", str: "text", bytes: "bytes", bool: "bool"}.get(hint, str(hint))


def words_of(hint: Any) -> Iterator[str]:
    """Yield the words that a type allows."""
    hint = plain(hint)
    if get_origin(hint) is Literal:
        yield from map(str, get_args(hint))
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        yield from (str(each.value) for each in hint)
    else:
        for part in get_args(hint):
            yield from words_of(part)


def structures_in(hint: Any) -> Iterator[type]:
    """Yield the structures that a type holds directly."""
    hint = plain(hint)
    if is_structure(hint):
        yield hint
    else:
        for part in get_args(hint):
            yield from structures_in(part)


def lock_lines() -> list[str]:
    """Return every tag, field, word and table of this version, a line each."""
    found = [f"tables {VERSION}: {' '.join(each.split())}" for each in _statements()]
    for where, roots in ROOTS.items():
        waiting, seen = list(roots), set(roots)
        while waiting:
            kind = waiting.pop(0)
            found += _lines(where, kind)
            for field in fields_of(kind):
                fresh = [each for each in structures_in(field.hint) if each not in seen]
                seen.update(fresh)
                waiting += fresh
    return list(dict.fromkeys(found))


def _statements() -> Iterator[str]:
    text = "\n".join(line for line in _TABLES.splitlines() if not line.startswith("--"))
    yield from (each for each in text.split(";") if each.strip())


def _lines(where: str, kind: type) -> Iterator[str]:
    name = name_of(kind)
    config = getattr(kind, "__struct_config__", None)
    by_place = config is None or config.array_like
    form = "list" if by_place else "map"
    tagged = f", {config.tag_field}={config.tag}" if config is not None and config.tag is not None else ""
    yield f"{where} {name}: {form}{tagged}"
    for place, field in enumerate(fields_of(kind)):
        at = f"[{place}]" if by_place else ""
        must = "required" if field.default is msgspec.NODEFAULT else f"default {_default(field.default)}"
        yield f"{where} {name}{at}.{field.name}: {type_text(field.hint)}, {must}"
        yield from (f"{where} {name}{at}.{field.name} may be {word}" for word in words_of(field.hint))


def _default(value: Any) -> str:
    return "of its own" if is_structure(type(value)) else msgspec.json.encode(value).decode()


# ---------------------------------------------------------------- samples


def sample(hint: Any, count: Callable[[], int]) -> Any:
    """Return a value of a type with everything in it, of which no two parts are equal."""
    hint = plain(hint)
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return sample(next(each for each in inside if each is not type(None)), count)
    if origin is Literal:
        return inside[-1]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return list(hint)[-1]
    if origin is tuple and inside[-1:] != (Ellipsis,):
        return tuple(sample(each, count) for each in inside)
    if origin in (tuple, list):
        return origin([sample(inside[0], count)])
    if origin is dict:
        return {sample(inside[0], count): sample(inside[1], count)}
    if is_structure(hint):
        return hint(**{field.attribute: sample(field.hint, count) for field in fields_of(hint)})
    number = count()
    made: dict[Any, Any] = {int: number, float: number + 0.5, str: f"text {number}", bool: True}
    return made[hint] if hint in made else f"bytes {number}".encode()


def encoder(where: str) -> Callable[[Any], bytes]:
    """Return how a part of the format is encoded."""
    return msgspec.json.encode if where in IN_JSON else msgspec.msgpack.encode


def sample_lines() -> list[str]:
    """Return a sample of each root: where it is kept, its name, and its bytes in hexadecimal digits."""
    lines = []
    for where, roots in ROOTS.items():
        for kind in roots:
            numbers = iter(range(1, 1_000_000))
            value = sample(kind, lambda numbers=numbers: next(numbers))  # type: ignore[misc]
            lines.append(f"{where} {name_of(kind)} {encoder(where)(value).hex()}")
    return lines


def broken_promises(locked: list[str], now: list[str]) -> list[str]:
    """Return what the lines of now do not keep of those that are locked, in sentences."""
    gone = [f"it was released and is gone or changed: {line}" for line in locked if line not in set(now)]
    known = {line.partition(":")[0].rpartition(".")[0] for line in locked if line.endswith(", required")}
    known |= {line.partition(":")[0] for line in locked if line.endswith((": map", ": list"))}
    known |= {line.partition(":")[0] for line in locked if ", type=" in line}
    fresh = [line for line in now if line not in set(locked) and line.endswith(", required")]
    return gone + [
        f"a new field needs a default: {line}"
        for line in fresh
        if line.partition(":")[0].rpartition(".")[0].partition("[")[0] in known
    ]


def main(version: str) -> int:
    """Add what is new to the lock, and write the samples of a release; refuse to change what is there."""
    locked = LOCK.read_text().splitlines() if LOCK.exists() else []
    now = lock_lines()
    if problems := broken_promises(locked, now):
        print("\n".join(problems), file=sys.stderr)
        return 1
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    LOCK.write_text("".join(f"{line}\n" for line in now))
    samples = FORMAT / f"{version}.txt"
    if not samples.exists():
        samples.write_text("".join(f"{line}\n" for line in sample_lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
