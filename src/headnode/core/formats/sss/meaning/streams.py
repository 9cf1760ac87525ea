"""Files that a task reads and writes, with their redirections.

Source: SSS 3.1.0, "OutputFile", "ErrorFile" and "InputFile", redirectList.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headnode.core.formats.grid.command_lines import join
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.streams import Redirect, Stream

NOWHERE = "/dev/null"
_WITHOUT_EFFECT = (Redirect.FLUSH, Redirect.KEEP)


class Streams(NamedTuple):
    """The fields of a task, what its command ends in, and what is told."""

    fields: dict[str, str]
    ending: str
    translated: tuple[str, ...]
    unsaid: tuple[Stream, ...]


def streams_of(properties: Iterable[Property]) -> Streams:
    """Return what the streams among `properties` become."""
    found = {one.name: one for one in properties if isinstance(one, Stream)}
    if not found:
        return _NONE
    reading, writing, errors = (found.get(name) for name in ("InputFile", "OutputFile", "ErrorFile"))
    told: list[str] = []
    ends = [_ending(writing, ">>"), _ending(errors, "2>>")]
    told += [
        f"{one.name}: Append stands in the command"
        for one, end in zip((writing, errors), ends, strict=True)
        if one and end
    ]
    output = "" if ends[0] else _path(writing, told)
    fields = {"standard_input": _input(reading, told), "standard_output": output}
    if errors and Redirect.MERGE in errors.redirects:
        told.append("ErrorFile: Merge is the file of the output")
        fields["standard_error"] = output
        ends[1] = " 2>&1" if ends[0] else ""
    elif writing and Redirect.MERGE in writing.redirects and not writing.value:
        told.append("OutputFile: Merge is the file of the errors")
        fields["standard_error"] = "" if ends[1] else _path(errors, told)
        fields["standard_output"] = fields["standard_error"]
        ends[0] = ""
        ends[1] = f"{ends[1]} >&2" if ends[1] else ""
    else:
        fields["standard_error"] = "" if ends[1] else _path(errors, told)
    unsaid = [one for one in found.values() if any(word in one.redirects for word in _WITHOUT_EFFECT)]
    kept = {name: text for name, text in fields.items() if text}
    return Streams(kept, "".join(ends), tuple(told), tuple(unsaid))


_NONE = Streams({}, "", (), ())


def _ending(one: Stream | None, sign: str) -> str:
    """Return the redirection of a shell that appends to a file; "" when nothing is appended."""
    if one is None or Redirect.APPEND not in one.redirects or not one.value:
        return ""
    path = str(one.value)
    return f" {sign}~/{join([path[2:]])}" if path.startswith("~/") else f" {sign}{join([path])}"


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
