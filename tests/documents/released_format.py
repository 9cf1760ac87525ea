"""What releases keep and send: every tag and field as a line, and a sample of every kind in bytes.

`python -m documents.released_format VERSION` writes `tests/golden/format`: the lock, and the samples of
VERSION while it is not released.  With `--release` it releases VERSION: the lock is copied to
`releases/VERSION.txt`, with the digest of every golden file of this version.  What a release has is never
changed or removed, and gets no additions: the version must be raised with the first addition after it.
"""

import argparse
import enum
import hashlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from headnode.adapters.files import copied_tables
from headnode.adapters.journal.backup import Manifest
from headnode.adapters.journal.journal_file import _TABLES, VERSION
from headnode.adapters.nodes.membership import Membership
from headnode.adapters.notify import outbox
from headnode.adapters.processes.job_journal import EndedRecord, Header
from headnode.adapters.processes.shepherd_protocol import ShepherdMessage
from headnode.adapters.wire.messages import FromAgent, FromHead, FromStranger, OpenJob, ToStranger
from headnode.apps.agent.client_door import TaskEntry
from headnode.apps.agent.launch_client import Request as LaunchRequest
from headnode.apps.agent.launch_server import _Exit as LaunchExit
from headnode.apps.agent.prolog_epilog import NodeVisit
from headnode.apps.server.api.pipeline import VERBS
from headnode.apps.server.api.verbs import VerbKind
from headnode.apps.server.doors.gateway import SpeakForUserRequest
from headnode.apps.server.doors.tasks import SpeakForTaskRequest
from headnode.apps.server.doors.tls import LogInRequest, TakeLoginRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.template import JobTemplate
from headnode.core.state.events import EVENTS
from headnode.core.state.job_events import InstanceEnd
from headnode.core.state.job_record import JobRecord
from headnode.core.state.notices import Notice
from headnode.core.state.snapshot import Snapshot
from headnode.engine.ports import EndedJob as ArchiveRow
from headnode.engine.ports import Prediction
from headnode.protocol.stream_frames import ClientFrame, HeadFrame

FORMAT = Path(__file__).parents[1] / "golden" / "format"
LOCK = FORMAT / "lock.txt"
RELEASES = FORMAT / "releases"

RELEASED_NAMES: Mapping[type, str] = {ArchiveRow: "ArchiveRow"}
"""Names in the lock of structures without a tag whose class is called otherwise."""


def name_of(kind: type) -> str:
    """Return how the lock calls a structure: by its tag, else by the class."""
    tag = kind.__struct_config__.tag if issubclass(kind, msgspec.Struct) else None
    return str(tag) if tag is not None else RELEASED_NAMES.get(kind, kind.__name__)


def _named(*kinds: Any) -> dict[str, Any]:
    return {name_of(kind): kind for kind in kinds}


def _answers() -> dict[str, Any]:
    """Return what each verb answers, by its name; several times, or once."""
    found = {name: verb for name, verb in VERBS.items() if verb.kind is not VerbKind.STREAM}
    updates = {name for name, verb in found.items() if verb.kind is VerbKind.UPDATES}
    return {
        name: get_args(verb.answer)[0] if name in updates else verb.answer for name, verb in found.items()
    }


ROOTS: Mapping[str, Mapping[str, Any]] = {
    "journal": _named(*EVENTS),
    "described": _named(JobSpec, JobTemplate, JobRecord, Snapshot),
    "archive": _named(ArchiveRow, InstanceEnd, Prediction),
    "outbox": _named(Notice),
    "backup": _named(Manifest),
    "agent": _named(NodeVisit, Membership, OpenJob),
    "shepherd": _named(Header, EndedRecord, *get_args(ShepherdMessage)),
    "launch": {"LaunchRequest": LaunchRequest, "LaunchExit": LaunchExit},
    "wire": _named(*sum(map(get_args, (FromStranger, ToStranger, FromAgent, FromHead)), ())),
    "greeting": _named(TaskEntry, SpeakForUserRequest, SpeakForTaskRequest, LogInRequest, TakeLoginRequest),
    "request": {name: verb.request for name, verb in VERBS.items()},
    "answer": _answers(),
    "conversation": _named(ClientFrame, *get_args(HeadFrame)),
}
"""What is kept and sent, by where and by name.  Structures inside are found from these."""
IN_JSON = ("backup", "shepherd", "launch", "greeting", "request", "answer", "conversation")
MAY_REQUIRE = ("answer", "conversation")
"""What a client reads, which is never newer than its head: a new field needs no default, and no samples."""


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
        kinds = [each for each in inside if each is not msgspec.UnsetType]
        return " or ".join(dict.fromkeys(map(type_text, kinds)))
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
    names = {int: "int", float: "number", str: "text", bytes: "bytes", bool: "bool", Any: "any"}
    return names.get(hint, str(hint))


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
    found = list(_statements())
    for where, roots in ROOTS.items():
        waiting, seen = [*roots.items()], set(roots.values())
        while waiting:
            name, kind = waiting.pop(0)
            found += _lines(where, name, kind)
            for field in fields_of(kind):
                fresh = [each for each in structures_in(field.hint) if each not in seen]
                seen.update(fresh)
                waiting += [(name_of(each), each) for each in fresh]
    return list(dict.fromkeys(found))


def _statements() -> Iterator[str]:
    """Yield the statements that make the tables of the head."""
    tables = {
        f"tables {VERSION}": _TABLES,
        "outbox tables": outbox.TABLES,
        "webhook tables": copied_tables.CURSORS.schema,
        "event log tables": copied_tables.EVENT_LOGS.schema,
        "delegation tables": copied_tables.DELEGATIONS.schema,
    }
    for where, script in tables.items():
        text = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
        yield from (f"{where}: {' '.join(each.split())}" for each in text.split(";") if each.strip())


def _lines(where: str, name: str, kind: type) -> Iterator[str]:
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
    if value is msgspec.UNSET:
        return "absent"
    return "of its own" if is_structure(type(value)) else msgspec.json.encode(value).decode()


# ---------------------------------------------------------------- samples


_NOTHING = (type(None), msgspec.UnsetType)


def sample(hint: Any, count: Callable[[], int]) -> Any:
    """Return a value of a type with everything in it, of which no two parts are equal."""
    hint = plain(hint)
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return sample(next(each for each in inside if each not in _NOTHING), count)
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
    if hint is Any:
        return f"text {number}"
    made: dict[Any, Any] = {int: number, float: number + 0.5, str: f"text {number}", bool: True}
    return made[hint] if hint in made else f"bytes {number}".encode()


def samples_of(kind: Any) -> list[Any]:
    """Return a sample with all fields; of a structure that may have only one of them, a sample with each."""
    numbers = iter(range(1, 1_000_000))

    def count() -> int:
        return next(numbers)

    if kind is not ClientFrame:
        return [sample(kind, count)]
    return [ClientFrame(**{each.attribute: sample(each.hint, count)}) for each in fields_of(kind)]


def encoder(where: str) -> Callable[[Any], bytes]:
    """Return how a part of the format is encoded."""
    return msgspec.json.encode if where in IN_JSON else msgspec.msgpack.encode


def sample_lines() -> list[str]:
    """Return a sample of each root: where it is kept, its name, and its bytes in hexadecimal digits."""
    lines = []
    for where, roots in ROOTS.items():
        for name, kind in roots.items() if where not in MAY_REQUIRE else ():
            for value in samples_of(kind):
                lines.append(f"{where} {name} {encoder(where)(value).hex()}")
    return lines


def broken_promises(locked: list[str], now: list[str]) -> list[str]:
    """Return what the lines of now do not keep of those that are locked, in sentences."""
    gone = [f"it was released and is gone or changed: {line}" for line in locked if line not in set(now)]
    known = {line.partition(":")[0].rpartition(".")[0] for line in locked if line.endswith(", required")}
    known |= {line.partition(":")[0] for line in locked if line.endswith((": map", ": list"))}
    known |= {line.partition(":")[0] for line in locked if ", type=" in line}
    fresh = [
        line
        for line in now
        if line not in set(locked) and line.endswith(", required") and line.split()[0] not in MAY_REQUIRE
    ]
    return gone + [
        f"a new field needs a default: {line}"
        for line in fresh
        if line.partition(":")[0].rpartition(".")[0].partition("[")[0] in known
    ]


def assert_kept(then: Any, now: Any) -> None:
    """Check that everything of then is in what is written now; a later release may add to it."""
    if isinstance(then, dict):
        for key, value in then.items():
            assert_kept(value, now[key])
    elif isinstance(then, list):
        assert len(now) >= len(then)
        for before, after in zip(then, now, strict=False):
            assert_kept(before, after)
    else:
        assert now == then


def version_of(path: Path) -> tuple[int, ...]:
    """Return the version that a file or folder is named by, as numbers."""
    return tuple(int(part) for part in path.name.removesuffix(".txt").split("."))


def releases() -> list[Path]:
    """Return the files of the releases, the oldest first."""
    return sorted(RELEASES.glob("*.txt"), key=version_of)


def golden_lines(version: str) -> list[str]:
    """Return the digest of each golden file of a version, a line each."""
    golden = FORMAT.parent
    named = [FORMAT / f"{version}.txt"]
    for folder in ("journals", "conversations"):
        named += sorted(path for path in (golden / folder / version).rglob("*") if path.is_file())
    return [
        f"golden {path.relative_to(golden)}: sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in named
    ]


def locked_by(release: Path) -> list[str]:
    """Return the lines of the lock as a release had them."""
    return [line for line in release.read_text().splitlines() if not line.startswith("golden ")]


def problems_of(version: str, now: list[str]) -> list[str]:
    """Return what the lines of now break of all releases, and what they add to `version` if it is one."""
    problems = [each for release in releases() for each in broken_promises(locked_by(release), now)]
    own = RELEASES / f"{version}.txt"
    if own.exists() and set(now) - set(locked_by(own)):
        problems.append(
            f"{version} is released: raise __version__ in src/headnode/__init__.py, then add to the format"
        )
    return problems


def main(words: list[str]) -> int:
    """Write the lock and the samples of a version, or release it; refuse to change or extend a release."""
    parser = argparse.ArgumentParser(prog="documents.released_format")
    parser.add_argument("version")
    parser.add_argument("--release", action="store_true")
    asked = parser.parse_args(words)
    own, now = RELEASES / f"{asked.version}.txt", lock_lines()
    problems = problems_of(asked.version, now)
    if asked.release and own.exists():
        problems.append(f"{asked.version} is released already")
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 1
    FORMAT.mkdir(parents=True, exist_ok=True)
    LOCK.write_text("".join(f"{line}\n" for line in now))
    if not own.exists():
        (FORMAT / f"{asked.version}.txt").write_text("".join(f"{line}\n" for line in sample_lines()))
    if asked.release:
        RELEASES.mkdir(exist_ok=True)
        own.write_text("".join(f"{line}\n" for line in [*golden_lines(asked.version), *now]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
