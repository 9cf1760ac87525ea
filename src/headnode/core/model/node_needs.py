"""What a job or task demands of every node that serves it, and why a node does not meet it.

Source: SSS 3.1.0, "Node", "Feature", Tables 25-2 and 25-4 (Architecture, OperatingSystem, Memory, Disk);
grid, requirements (hostname, platform, os_name, ram_size, virtual_size, cpu_hz, smp_size).
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from headnode.core.model.node import NodeFacts
from headnode.core.model.patterns import matching


class NodeNeeds(
    msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False, forbid_unknown_fields=True
):
    """Requirements on a node; an empty field accepts every node.  Names are compared without regard to case.

    Memory, disk and swap are in MB that the node has in all, speed in MHz.
    """

    names: tuple[str, ...] = ()  # the node is one of these; empty: any
    excluded: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()  # regular expressions: the whole name matches at least one
    excluded_patterns: tuple[str, ...] = ()  # and it matches none of these
    features: tuple[tuple[str, ...], ...] = ()  # of each inner tuple the node has at least one
    feature_patterns: tuple[str, ...] = ()  # for each of these, one of its features matches all of it
    lacking: tuple[str, ...] = ()  # features that it must not have
    architectures: tuple[str, ...] = ()  # one of these; empty: any
    systems: tuple[str, ...] = ()  # operating systems: one of these
    minimum_memory: int = 0
    minimum_disk: int = 0
    minimum_swap: int = 0
    minimum_virtual: int = 0  # memory and swap together
    minimum_speed: int = 0
    minimum_processors: int = 0
    minimum_sockets: int = 0
    minimum_cores_per_socket: int = 0
    minimum_threads_per_core: int = 0


ANY_NODE = NodeNeeds()


_KINSHIP = (
    ("x86_64", "amd64", "x64", "x86-64", "em64t", "intel64"),
    ("i386", "i486", "i586", "i686", "x86", "ia32"),
    ("aarch64", "arm64", "armv8"),
    ("ppc64le", "powerpc64le", "power"),
    ("linux", "gnu/linux", "gnu-linux", "linux2"),
    ("darwin", "macos", "osx", "mac os x"),
)
_SAME_AS = {name: kin[0] for kin in _KINSHIP for name in kin}
"""Names of architectures and operating systems that mean the same, and the one that stands for them."""


def needs_objection(needs: NodeNeeds, node: NodeFacts) -> str:
    """Return why the node does not meet the needs, as it goes on after its name; nothing if it does."""
    if needs is ANY_NODE:
        return ""
    return _by_name(needs, node.name) or _by_features(needs, node) or _by_machine(needs, node)


def meets(needs: NodeNeeds, node: NodeFacts) -> bool:
    """Tell whether the node meets the needs."""
    return not needs_objection(needs, node)


def _by_name(needs: NodeNeeds, name: str) -> str:
    folded = name.casefold()
    if needs.names and folded not in _folded(needs.names):
        return "is not among the requested nodes"
    if folded in _folded(needs.excluded):
        return "is excluded"
    if needs.patterns and not any(_matches(pattern, (name,)) for pattern in needs.patterns):
        return f"has a name that does not match {_or(needs.patterns)}"
    for pattern in needs.excluded_patterns:
        if _matches(pattern, (name,)):
            return f"has a name that matches {pattern!r}, which is excluded"
    return ""


def _by_features(needs: NodeNeeds, node: NodeFacts) -> str:
    has = _folded((*node.features, *node.groups))
    for choice in needs.features:
        if not has & _folded(choice):
            return f"has no feature {_or(choice)}"
    for pattern in needs.feature_patterns:
        if not _matches(pattern, (*node.features, *node.groups)):
            return f"has no feature that matches {pattern!r}"
    unwanted = [name for name in needs.lacking if name.casefold() in has]
    return f"has the feature {unwanted[0]!r}, which is excluded" if unwanted else ""


_NOT_KNOWN = -1  # cores or threads, of which each node has one


def _by_machine(needs: NodeNeeds, node: NodeFacts) -> str:
    for wanted, there, what in (
        (needs.architectures, node.architecture, "architecture"),
        (needs.systems, node.system, "operating system"),
    ):
        if wanted and _standard(there) not in map(_standard, wanted):
            return f"has the {what} {there!r}, not {_or(wanted)}" if there else f"does not report its {what}"
    for least, amount, what in (
        (needs.minimum_memory, node.memory, "MB of memory"),
        (needs.minimum_disk, node.disk, "MB of disk"),
        (needs.minimum_swap, node.swap, "MB of swap"),
        (needs.minimum_virtual, node.memory + node.swap, "MB of memory and swap together"),
        (needs.minimum_speed, node.speed, "MHz"),
        (needs.minimum_processors, node.processors, "processors"),
        (needs.minimum_sockets, node.sockets, "sockets"),
        (needs.minimum_cores_per_socket, node.cores_per_socket or _NOT_KNOWN, "cores per socket"),
        (needs.minimum_threads_per_core, node.threads_per_core or _NOT_KNOWN, "threads per core"),
    ):
        if amount < least and (amount != _NOT_KNOWN or least > 1):
            if amount == _NOT_KNOWN:
                return f"does not report its {what}; at least {least} are requested"
            return f"has {_counted(amount, what)}; at least {least} are requested"
    return ""


def _counted(amount: int, what: str) -> str:
    """Return ``1 core per socket``, ``2 cores per socket``."""
    unit, _, rest = what.partition(" ")
    return " ".join(filter(None, (str(amount), unit.removesuffix("s") if amount == 1 else unit, rest)))


def _folded(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


def _matches(pattern: str, names: tuple[str, ...]) -> bool:
    """A pattern is tried on names as they are and in small letters: names differ by more than their case."""
    folded = tuple([name.casefold() for name in names])
    return matching(pattern, names) or (folded != names and matching(pattern, folded))


def _standard(name: str) -> str:
    folded = name.strip().casefold()
    return _SAME_AS.get(folded, folded)


def _or(names: tuple[str, ...]) -> str:
    return " or ".join(map(repr, names))


_MAX_NAMED = 4


def needs_in_words(needs: NodeNeeds) -> str:
    """Return the needs as the end of a sentence; nothing for any node.

    >>> needs_in_words(NodeNeeds(features=(("gpu", "tpu"),), minimum_memory=64, lacking=("slow",)))
    "with feature 'gpu' or 'tpu', without feature 'slow', with at least 64 MB of memory"
    """
    return ", ".join((*_names(needs), *_features(needs), *_machines(needs)))


def _names(needs: NodeNeeds) -> Iterator[str]:
    if needs.names:
        yield f"named {_any_of(needs.names)}"
    if needs.excluded:
        yield f"not named {_any_of(needs.excluded)}"
    if needs.patterns:
        yield f"with a name that matches {_any_of(needs.patterns)}"
    if needs.excluded_patterns:
        yield f"with a name that does not match {_any_of(needs.excluded_patterns)}"


def _features(needs: NodeNeeds) -> Iterator[str]:
    for choice in needs.features:
        yield f"with feature {_any_of(choice)}"
    for pattern in needs.feature_patterns:
        yield f"with a feature that matches {pattern!r}"
    if needs.lacking:
        yield f"without feature {_any_of(needs.lacking)}"


def _machines(needs: NodeNeeds) -> Iterator[str]:
    if needs.architectures:
        yield f"of architecture {_any_of(needs.architectures)}"
    if needs.systems:
        yield f"with operating system {_any_of(needs.systems)}"
    for least, what in (
        (needs.minimum_memory, "MB of memory"),
        (needs.minimum_disk, "MB of disk"),
        (needs.minimum_swap, "MB of swap"),
        (needs.minimum_virtual, "MB of memory and swap together"),
        (needs.minimum_speed, "MHz"),
        (needs.minimum_processors, "processors"),
        (needs.minimum_sockets, "sockets"),
        (needs.minimum_cores_per_socket, "cores per socket"),
        (needs.minimum_threads_per_core, "threads per core"),
    ):
        if least:
            yield f"with at least {least} {what}"


def _any_of(names: Sequence[str]) -> str:
    listed = " or ".join(map(repr, names[:_MAX_NAMED]))
    return listed + (f" or {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else "")
