"""The switches between nodes: a tree, written as in Slurm's topology.conf.

Source:  Slurm, topology.conf(5): SwitchName, Nodes, Switches; LinkSpeed has no effect there either.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice, product
from math import prod
from types import MappingProxyType

from headnode.core.model.bounds import SWITCHED_NODES
from headnode.core.model.errors import BadRequest

_SHOWN = 60  # characters of a wrong entry that the error repeats
_WORD = re.compile(r"(?i)(switchname|nodes|switches|linkspeed)=(\S+)\Z")
_PIECE = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?\Z")
_ITEM = re.compile(r"(?:[^,\[]++|\[[^\]]*+\]?+)++")

Path = tuple[str, ...]
"""The switches above a node: its leaf switch first, the top last."""


def switch_paths(text: str) -> Mapping[str, Path]:
    """Return the switches above each node, by the node's name in lower case.

    >>> dict(switch_paths("SwitchName=a Nodes=n[1-2]; SwitchName=b Nodes=n3; SwitchName=top Switches=a,b"))
    {'n1': ('a', 'top'), 'n2': ('a', 'top'), 'n3': ('b', 'top')}

    Raises:  BadRequest ``topology`` if the text is no tree of switches.
    """
    return _paths(text) if text else _NO_PATHS


_NO_PATHS: Mapping[str, Path] = MappingProxyType({})


@lru_cache(4)
def _paths(text: str) -> Mapping[str, Path]:
    leaf_of: dict[str, str] = {}
    above: dict[str, str] = {}
    known: set[str] = set()
    below: list[tuple[str, str]] = []  # (entry, switch that it names)
    for entry in filter(None, (line.partition("#")[0].strip() for line in re.split(r"[;\n]", text))):
        name, nodes, switches = _entry(entry)
        if name in known:
            raise _wrong(entry, f"switch {name!r} is defined twice")
        known.add(name)
        for node in names_in(nodes, entry):
            _set_once(leaf_of, node.casefold(), name, entry)
        for switch in names_in(switches, entry):
            _set_once(above, switch, name, entry)
            below.append((entry, switch))
        if len(leaf_of) + len(above) > SWITCHED_NODES.most:
            raise _wrong(entry, f"more than {SWITCHED_NODES.most:,} nodes and switches are named")
    for entry, switch in below:
        if switch not in known:
            raise _wrong(entry, f"switch {switch!r} is not defined")
    chains = {leaf: _chain(leaf, above) for leaf in known}
    return MappingProxyType({node: chains[leaf] for node, leaf in leaf_of.items()})


def _entry(entry: str) -> tuple[str, str, str]:
    """Return the name, the nodes and the switches of one switch."""
    found: dict[str, str] = {}
    for word in entry.split():
        match = _WORD.match(word)
        if match is None or match[1].lower() in found:
            raise _wrong(entry, f"{word[:_SHOWN]!r} is not expected here")
        found[match[1].lower()] = match[2]
    if "switchname" not in found or ("nodes" in found) == ("switches" in found):
        raise _wrong(entry, "a switch has a name, and either nodes or switches")
    return found["switchname"], found.get("nodes", ""), found.get("switches", "")


def _set_once(of: dict[str, str], name: str, switch: str, entry: str) -> None:
    if of.setdefault(name, switch) != switch:
        raise _wrong(entry, f"{name!r} is under {of[name]!r} already")


def _chain(leaf: str, above: Mapping[str, str]) -> Path:
    found = [leaf]
    while (upper := above.get(found[-1])) is not None:
        if upper in found:
            raise _wrong(upper, f"switch {upper!r} is above itself")
        found.append(upper)
    return tuple(found)


def items_of(text: str) -> list[str]:
    """Return what is between the commas of a set of names, but not in brackets; empty items are left out.

    >>> items_of("n[1-3,7],,login")
    ['n[1-3,7]', 'login']
    """
    return _ITEM.findall(text)


def names_in(text: str, entry: str = "") -> Iterator[str]:
    """Yield the names of a set such as ``n[1-3,7],login``.

    Raises:  BadRequest ``topology`` if it is no such set, or has too many names.

    >>> list(names_in("n[08-10],r[1-2]b[1-2]"))
    ['n08', 'n09', 'n10', 'r1b1', 'r1b2', 'r2b1', 'r2b2']
    """
    count = 0
    for item in items_of(text):
        pieces = _PIECE.split(item)
        if any(mark in fixed for fixed in pieces[::2] for mark in "[]"):
            raise _wrong(entry or item, f"the brackets of {item[:_SHOWN]!r} do not match")
        lists = [
            [piece]
            if place % 2 == 0
            else list(islice(_numbers(piece, entry or item), SWITCHED_NODES.most + 1))
            for place, piece in enumerate(pieces)
        ]
        count += prod(map(len, lists))
        if count > SWITCHED_NODES.most:  # a name that is written again counts, too: it takes as long
            raise _wrong(entry or item, f"{item[:_SHOWN]!r} makes more than {SWITCHED_NODES.most:,} names")
        yield from map("".join, product(*lists))


def _numbers(text: str, entry: str) -> Iterator[str]:
    for part in text.split(","):
        match = _RANGE.match(part)
        if match is None:
            raise _wrong(entry, f"{part[:_SHOWN]!r} is no number and no range")
        first, last = match[1], match[2] or match[1]
        if not int(first) <= int(last) < int(first) + SWITCHED_NODES.most:
            raise _wrong(entry, f"the range {part!r} is empty or too long")
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def _wrong(entry: str, why: str) -> BadRequest:
    return BadRequest(
        code="topology",
        what=f"the switches are not understood at {entry[:_SHOWN]!r}: {why}",
        fix="write SwitchName=NAME Nodes=NAMES, or SwitchName=NAME Switches=NAMES, separated by ;",
    )
