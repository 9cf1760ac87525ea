"""The machine that past jobs are replayed on: its nodes and reservations, as typed or read from a file."""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from headnode.adapters.files.opening import open_named
from headnode.core.formats.text.quantities import parse_nodes
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import FOREVER, Instant, parse_run_time
from headnode.core.model.reservation import NodeReservation

MAX_NODES = 100_000
MAX_PROCESSORS = 10_000_000  # of all nodes: the head knows each by its number, and 80 bytes


class SimulatedMachine(NamedTuple):
    """Nodes, in the words of the production model.  `whole_nodes`: no job shares a node with another.

    The times of `reservations` count from when the first job comes.
    """

    nodes: tuple[NodeFacts, ...]
    whole_nodes: bool = False
    reservations: tuple[NodeReservation, ...] = ()

    @property
    def processors(self) -> int:
        """How many processors all nodes have together."""
        return sum(node.processors for node in self.nodes)

    @property
    def counts_memory(self) -> bool:
        """Whether any node says how much memory it has."""
        return any(node.memory for node in self.nodes)


def machine_of(nodes: tuple[NodeFacts, ...], *, whole_nodes: bool = False) -> SimulatedMachine:
    """Return the machine made of these nodes.

    Raises:  BadRequest ``machine-size`` when it is larger than the head can hold.
    """
    machine = SimulatedMachine(nodes, whole_nodes)
    if len(nodes) > MAX_NODES or machine.processors > MAX_PROCESSORS:
        raise BadRequest(
            code="machine-size",
            what=f"a machine of {len(nodes)} nodes with {machine.processors} processors is too large",
            fix=f"describe at most {MAX_NODES} nodes and {MAX_PROCESSORS} processors",
        )
    return machine


def pool(processors: int) -> SimulatedMachine:
    """Return a machine without borders between its processors: one node that all jobs share.

    Raises:  BadRequest ``machine-size``.
    """
    return machine_of((NodeFacts(name="pool", processors=processors),))


_PART = re.compile(r"(?P<who>\S+)x(?P<processors>[0-9]{1,9})(?::(?P<memory>[0-9]{1,15}))?", re.ASCII)
_COMMA = re.compile(r",(?![^\[]*\])")  # not those inside brackets
_NAMES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,\[\]-]*", re.ASCII)
_IN_A_WORD = "write 100x16 for 100 nodes of 16 processors each, 100x16:64000 if each has 64000 MB of memory"
_IN_BRACKETS = "write names such as node[001-100], or node[1-3,7]"


class DescribedNodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that are alike: `count` of them, or those with these `names`.  Memory in MB, speed in MHz.

    Cores and threads: 0 is not known, as of an agent that does not report them.
    """

    processors: int
    count: int | None = None
    names: str | list[str] | None = None
    sockets: int = 1
    memory: int = 0
    speed: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    groups: list[str] = []
    features: list[str] = []


def read_nodes(text: str) -> tuple[NodeFacts, ...]:
    """Return the nodes that `text` describes, or those of the TOML file that it names.

    Raises:  BadRequest ``nodes``, with the part that is wrong and what to write.
    """
    if text.lower().endswith(".toml") or Path(text).is_file():
        return _expand_kinds(_tables(text))
    return _expand_kinds((repr(part), _kind(part)) for part in map(str.strip, _COMMA.split(text)))


def _kind(part: str) -> DescribedNodes:
    match = _PART.fullmatch(part)
    if match is None:
        raise _bad_nodes(f"{part!r} is not a description of nodes", _IN_A_WORD)
    user, processors, memory = match["who"], int(match["processors"]), int(match["memory"] or 0)
    if user.isdecimal():
        return DescribedNodes(processors, count=int(user[:10]), memory=memory)
    return DescribedNodes(processors, names=user, memory=memory)


def _tables(path: str) -> Iterator[tuple[str, DescribedNodes]]:
    try:
        with os.fdopen(open_named(path), encoding="utf-8") as file:
            document = tomllib.loads(file.read())
    except OSError as trouble:
        raise _bad_nodes(
            f"file {path!r} cannot be read: {trouble.strerror or trouble}", "name a TOML file"
        ) from trouble
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as trouble:
        raise _bad_nodes(f"file {path!r} is not TOML: {trouble}", "write tables [[nodes]]") from trouble
    tables = document.pop("nodes", None)
    if document or not isinstance(tables, list) or not tables:
        wrong = f"has {next(iter(document))!r}" if document else "has no nodes"
        raise _bad_nodes(f"file {path!r} {wrong}", "write tables [[nodes]], and nothing else")
    for number, table in enumerate(tables, 1):
        where = f"[[nodes]] table {number} of {path!r}"
        yield where, _kind_of_table(where, table)


def _kind_of_table(where: str, table: object) -> DescribedNodes:
    known = DescribedNodes.__struct_fields__
    unknown = [key for key in table if key not in known] if isinstance(table, dict) else []
    if unknown:
        near = nearest_name(unknown[0], known)
        fix = f"did you mean {near!r}?" if near else f"there are {', '.join(known)}"
        raise _bad_nodes(f"{where} has {unknown[0]!r}", fix)
    try:
        return msgspec.convert(table, DescribedNodes)
    except msgspec.ValidationError as trouble:
        wrong = str(trouble).replace("$.", "")
        raise _bad_nodes(
            f"{where}: {wrong}", 'write, for example, names = "node[1-9]" and processors = 16'
        ) from None


def _expand_kinds(kinds: Iterable[tuple[str, DescribedNodes]]) -> tuple[NodeFacts, ...]:
    """Return every node; those without a name are numbered on, with as many digits as the last needs."""
    expanded = [(where, kind, _names(where, kind)) for where, kind in kinds]
    unnamed = sum(_count(where, kind) for where, kind, names in expanded if names is None)
    numbers = iter(range(1, unnamed + 1))
    nodes: dict[str, NodeFacts] = {}
    for where, kind, names in expanded:
        if names is None:
            names = [f"node{next(numbers):0{len(str(unnamed))}}" for _ in range(_count(where, kind))]
        for name in names:
            if name.casefold() in nodes:
                raise _bad_nodes(
                    f"{where} describes node {name!r}, which was already described", "name each node once"
                )
            nodes[name.casefold()] = _facts(where, kind, name)
    return tuple(nodes.values())


def _count(where: str, kind: DescribedNodes) -> int:
    if kind.count is None or not 1 <= kind.count <= MAX_NODES:
        raise _bad_nodes(
            f"{where} describes {kind.count} nodes", f"write a count from 1 to {MAX_NODES}, or names"
        )
    return kind.count


def _names(where: str, kind: DescribedNodes) -> list[str] | None:
    """Return the names of nodes that have some."""
    if kind.names is None:
        return None
    if kind.count is not None:
        raise _bad_nodes(f"{where} has both a count and names", "write one of them")
    texts = [kind.names] if isinstance(kind.names, str) else kind.names
    names = [name for text in texts for name in _expanded(where, text)]
    if not 1 <= len(names) <= MAX_NODES:
        raise _bad_nodes(f"{where} names {len(names)} nodes", f"name 1 to {MAX_NODES}")
    return names


def _expanded(where: str, text: str) -> tuple[str, ...]:
    """Return the names that ``node[1-3]`` stands for."""
    if not _NAMES.fullmatch(text):
        raise _bad_nodes(f"{text!r} in {where} is not a name of nodes", _IN_BRACKETS)
    try:
        return parse_nodes(text)
    except BadRequest as wrong:
        raise _bad_nodes(f"{where}: {wrong.what}", _IN_BRACKETS) from None


def _facts(where: str, kind: DescribedNodes, name: str) -> NodeFacts:
    if kind.processors < 1 or kind.sockets < 1 or kind.memory < 0 or kind.speed < 0:
        raise _bad_nodes(
            f"{where} describes nodes of {kind.processors} processors, {kind.sockets} sockets, "
            f"{kind.memory} MB of memory and {kind.speed} MHz",
            "give each at least one processor and one socket, and no negative numbers",
        )
    if not 0 <= kind.cores_per_socket * kind.sockets <= kind.processors or kind.threads_per_core < 0:
        raise _bad_nodes(
            f"{where} describes nodes of {kind.sockets} sockets of {kind.cores_per_socket} cores with "
            f"{kind.threads_per_core} threads, and of {kind.processors} processors",
            "write cores_per_socket so that all cores are at most as many as the processors",
        )
    return NodeFacts(
        name=name,
        processors=kind.processors,
        sockets=kind.sockets,
        memory=kind.memory,
        speed=kind.speed,
        cores_per_socket=kind.cores_per_socket,
        threads_per_core=kind.threads_per_core,
        groups=tuple(kind.groups),
        features=tuple(kind.features),
    )


def _bad_nodes(what: str, fix: str) -> BadRequest:
    return BadRequest(code="nodes", what=what, fix=fix)


_RESERVATION = re.compile(r"(?P<nodes>.+)@(?P<after>[0-9:]+)\+(?P<lasts>[0-9:]+)\Z")


def read_reservations(texts: Sequence[str], machine: SimulatedMachine) -> tuple[NodeReservation, ...]:
    """Read reservations for maintenance, in seconds after the first job of a log comes.

    Unit:    ``NODES@AFTER+LASTS``, both times as ``[[days:]hours:]minutes``.
    Raises:  BadRequest ``reservation``, ``nodes`` or ``run-time``.
    """
    known = {node.name.lower(): node.name for node in machine.nodes}
    reservations: list[NodeReservation] = []
    for number, text in enumerate(texts, start=1):
        form = _RESERVATION.match(text.strip())
        if form is None:
            raise _bad_reservation(text, "is not understood")
        after, lasts = parse_run_time(form["after"]), parse_run_time(form["lasts"])
        if lasts in (0, FOREVER):
            raise _bad_reservation(text, "takes no time")
        names = parse_nodes(form["nodes"])
        strange = [name for name in names if name.lower() not in known]
        if strange:
            raise _bad_reservation(text, f"names {strange[0]!r}, which --nodes does not describe")
        nodes = tuple(known[name.lower()] for name in names)
        begins, ends = Instant(after), Instant(after + lasts)
        reservations.append(NodeReservation(name=f"reservation{number}", start=begins, end=ends, nodes=nodes))
    return tuple(reservations)


def _bad_reservation(text: str, what: str) -> BadRequest:
    return BadRequest(
        code="reservation",
        what=f"reservation {text!r} {what}",
        fix="write nodes, its begin after the first job arrives, and its duration, for "
        "example node[1-4]@1:18:00+2:00 for two hours from 1 day and 18 hours on",
    )
