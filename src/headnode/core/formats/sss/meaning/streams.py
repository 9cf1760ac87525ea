"""Files that a task reads and writes, with their redirections.

Source: SSS 3.1.0, "OutputFile", "ErrorFile" and "InputFile", redirectList.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.streams import Redirect, Stream

NOWHERE = "/dev/null"
_WITHOUT_EFFECT = (Redirect.FLUSH, Redirect.KEEP)


class Streams(NamedTuple):
    """The fields of a task, and what is told."""

    fields: Mapping[str, str | bool]
    translated: tuple[str, ...]
    unsaid: tuple[Stream, ...]


def streams_of(properties: Iterable[Property]) -> Streams:
    """Return what the streams among `properties` become."""
    found = {one.name: one for one in properties if isinstance(one, Stream)}
    if not found:
        return _NONE
    reading, writing, errors = (found.get(name) for name in ("InputFile", "OutputFile", "ErrorFile"))
    told: list[str] = []
    output, error = _written(writing, told), _written(errors, told)
    if errors and Redirect.MERGE in errors.redirects:
        told.append("ErrorFile: Merge is the file of the output")
        error = output
    elif writing and Redirect.MERGE in writing.redirects and not writing.value:
        told.append("OutputFile: Merge is the file of the errors")
        output = error
    fields: dict[str, str | bool] = {
        "standard_input": _input(reading, told),
        "standard_output": output.path,
        "standard_error": error.path,
        "append_output": output.append,
        "append_error": error.append,
    }
    kept = {name: value for name, value in fields.items() if value}
    return Streams(kept, tuple(told), tuple(one for one in found.values() if _is_unsaid(one)))


_NONE = Streams({}, (), ())


class _Written(NamedTuple):
    """A file that is written, and whether what it holds stays."""

    path: str
    append: bool = False


def _written(one: Stream | None, told: list[str]) -> _Written:
    path = _path(one, told)
    return _Written(path, bool(path) and one is not None and Redirect.APPEND in one.redirects)


def _is_unsaid(one: Stream) -> bool:
    """Whether a redirection has no effect: flushing, keeping, and appending to what has no name."""
    if any(word in one.redirects for word in _WITHOUT_EFFECT):
        return True
    return Redirect.APPEND in one.redirects and (one.name == "InputFile" or not one.value)


def _input(one: Stream | None, told: list[str]) -> str:
    if one and Redirect.CLOSE in one.redirects:
        told.append("InputFile: Close: nothing is read")
        return ""
    return _path(one, told)


def _path(one: Stream | None, told: list[str]) -> str:
    if one is None:
        return ""
    if Redirect.CLOSE in one.redirects and not one.value:
        told.append(f"{one.name}: Close is {NOWHERE}")
        return NOWHERE
    return home(str(one.value or ""))


def home(path: str) -> str:
    """Return a path as Headnode writes it: the home directory by its variable.

    >>> home("~/my job.out")
    '$HOME/my job.out'
    """
    return f"$HOME/{path[2:]}" if path.startswith("~/") else "$HOME" if path == "~" else path
