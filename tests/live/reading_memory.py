"""Reads hostile texts, each in a process of its own, which has imported what it needs already.

Each line of its standard input is ``[name, megabytes, "traced" or "resident"]`` in JSON.  It answers with the
bytes of the text, and those that reading took: traced by tracemalloc, or resident.
"""

import json
import os
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from headnode.core.formats.dialects import read
from headnode.core.model.errors import BadRequest

_SMALL = (
    '<Job><Tasks><Task CommandLine="a" Odd="1"/></Tasks></Job>',
    "<Job><Id>1</Id><X/></Job>",
    '{"version": 2, "executable": "a"}',
    '{"version": 2',
    'command = "a"',
    "a =",
    "<Job>",
)


def filled(start: str, unit: str, end: str = "") -> Callable[[int], str]:
    """Return what makes a text of some size by repeating `unit`; ``{}`` in it becomes a number."""

    def text(size: int) -> str:
        if "{}" not in unit:
            return start + unit * (size // len(unit)) + end
        parts, length, numbers = [start], 0, count()
        while length < size:
            parts.append(unit.replace("{}", str(next(numbers))))
            length += len(parts[-1])
        return "".join(parts) + end

    return text


TASK = '{"version": 2, "executable": "a", '
TEXTS: dict[str, Callable[[int], str]] = {
    "xml, elements": filled("<Job>", "<X/>", "</Job>"),
    "xml, elements of many names": filled("<Job>", "<X{}/>", "</Job>"),
    "xml, tasks": filled("<Job><Tasks>", "<Task/>", "</Tasks></Job>"),
    "xml, tasks of one attribute": filled("<Job><Tasks>", "<Task a='1'/>", "</Tasks></Job>"),
    "xml, tasks and blanks": filled("<Job><Tasks>", "<Task/> ", "</Tasks></Job>"),
    "xml, attributes": filled("<Job ", "a{}='' ", "/>"),
    "xml, namespaces": filled("<Job>", "<X xmlns='0'/>", "</Job>"),
    "xml, variables": filled("<Job><EnvironmentVariables>", "<Variable/>", "</EnvironmentVariables></Job>"),
    "xml, nodes": filled("<Job RequestedNodes='", "a,", "'/>"),
    "xml, exit codes": filled("<Job JobValidExitCodes='", "1,", "'/>"),
    "xml, one attribute": filled("<Job Name='", "x", "'/>"),
    "xml, one text": filled("<Job>", "x", "</Job>"),
    "xml, bidi": filled("<Job Name='", "\u202e", "'/>"),
    "xml, depth": filled("", "<Job>"),
    "xml, comments": filled("<Job>", "<!---->", "</Job>"),
    "xml, CDATA": filled("<Job>", "<![CDATA[]]>", "</Job>"),
    "xml, NUL": filled("<Job>", "\0", "</Job>"),
    "xml, entities": filled('<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Job>', "&b;", "</Job>"),
    "sss, jobs": filled("<JobGroup><Id>1</Id>", "<Job><Id>{}</Id></Job>", "</JobGroup>"),
    "sss, elements": filled("<Job><Id>1</Id>", "<X/>", "</Job>"),
    "sss, elements of many names": filled("<Job><Id>1</Id>", "<X{}/>", "</Job>"),
    "sss, request": filled("<Job><Id>1</Id><Requested>", "<Memory>1</Memory>", "</Requested></Job>"),
    "sss, variables": filled("<Job><Id>1</Id><Environment>", "<Variable name='{}'/>", "</Environment></Job>"),
    "json, lists": filled('{"version": 2, "tasks": [', "[],", "1]}"),
    "json, objects": filled('{"version": 2, "tasks": [', "{},", "1]}"),
    "json, numbers": filled('{"version": 2, "tasks": [', "1,", "1]}"),
    "json, texts": filled('{"version": 2, "tasks": [', '"a",', "1]}"),
    "json, tasks": filled('{"version": 2, "tasks": [', '{"id":"{}"},', '{"id": "z"}]}'),
    "json, variables": filled(TASK + '"environment": {', '"a{}":1,', '"z": ""}}'),
    "json, arguments": filled(TASK + '"arguments": [', '"",', '""]}'),
    "json, one text": filled('{"version": 2, "executable": "', "x", '"}'),
    "json, one number": filled('{"version": ', "9", "}"),
    "json, depth": filled("", '{"a":'),
    "json, surrogates": filled('{"version": 2, "executable": "', "\\ud800", '"}'),
    "native json, tasks": filled('{"tasks": [', '{"command":"a"},', '{"command": "a"}]}'),
    "toml, keys": filled("", "a{}=1\n"),
    "toml, tables": filled("", "[a{}]\n"),
    "toml, tasks": filled("", "[[tasks]]\ncommand=''\n"),
    "toml, numbers": filled("a=[", "1,", "1]"),
    "toml, inline tables": filled("a=[", "{},", "{}]"),
    "toml, one number": filled("a=", "9"),
    "toml, one text": filled("command='", "x", "'"),
}


def attempt(data: bytes | str) -> None:
    """Read it; a refusal is as good as a job."""
    with suppress(BadRequest):
        read(data)


def resident(what: str) -> int:
    """Return the resident size of this process in bytes, now (VmRSS) or at its peak (VmHWM).

    Not that of `getrusage`, which begins with the size of whoever started the process.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"this system does not say {what}")


def take(name: str, megabytes: float, way: str) -> None:
    """Print what reading took."""
    for text in _SMALL:  # also a process that was forked maps the libraries anew
        attempt(text)
    data = TEXTS[name](int(megabytes * 1_000_000)).encode()
    if way == "traced":
        tracemalloc.start()
        attempt(data)
        took = tracemalloc.get_traced_memory()[1]
    else:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = resident("VmRSS")
        attempt(data)
        took = resident("VmHWM") - before
    print(json.dumps({"size": len(data), "took": took}), flush=True)


def main() -> None:
    """Fork for each text; print what failed if it did not end well."""
    for text in _SMALL:
        attempt(text)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            take(*json.loads(line))
            os._exit(0)
        if status := os.waitpid(child, 0)[1]:
            print(json.dumps({"failed": status}), flush=True)


if __name__ == "__main__":
    main()
