"""The rules of parts said a second time, by trying everything: gangs, tasks that share, needs of nodes."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

from headnode.core.model.job import JobRequest, Part, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.scheduling.decision import Shares

Units = Mapping[str, int]
"""How many units of a request a job holds of each node."""


def meets(needs: NodeNeeds, facts: NodeFacts) -> bool:
    """Return whether a node is what is needed."""
    name = facts.name.casefold()
    has = {each.casefold() for each in (*facts.features, *facts.groups)}
    return (
        (not needs.names or name in _folded(needs.names))
        and name not in _folded(needs.excluded)
        and (not needs.patterns or any(re.fullmatch(each, name) for each in needs.patterns))
        and not any(re.fullmatch(each, name) for each in needs.excluded_patterns)
        and all(_folded(choice) & has for choice in needs.features)
        and all(any(re.fullmatch(each, one) for one in has) for each in needs.feature_patterns)
        and not _folded(needs.lacking) & has
        and (not needs.architectures or facts.architecture.casefold() in _folded(needs.architectures))
        and (not needs.systems or facts.system.casefold() in _folded(needs.systems))
        and facts.memory >= needs.minimum_memory
        and facts.disk >= needs.minimum_disk
        and facts.swap >= needs.minimum_swap
        and facts.memory + facts.swap >= needs.minimum_virtual
        and facts.speed >= needs.minimum_speed
        and facts.processors >= needs.minimum_processors
    )


def serves(part: Part, facts: NodeFacts) -> bool:
    """Return whether a part may lie on a node."""
    return (
        meets(part.needs, facts)
        and (not part.node_group or part.node_group.casefold() in _folded(facts.groups))
        and (not part.required_nodes or facts.name.casefold() in _folded(part.required_nodes))
    )


def _folded(names: Sequence[str]) -> set[str]:
    return {name.casefold() for name in names}


def parts_fit(request: JobRequest, held: Units, owned: set[str], facts: Mapping[str, NodeFacts]) -> bool:
    """Return whether what is held has room for the parts; a gang holds nothing that is for none of them.

    `owned` are the nodes that the job holds in full and alone.
    """
    if not request.together:
        return all(_has_room(part, held, owned, facts) for part in request.parts)
    return any(
        _nothing_more(request, used, held) for used in _layouts(request.parts, dict(held), owned, facts)
    )


def _has_room(part: Part, held: Units, owned: set[str], facts: Mapping[str, NodeFacts]) -> bool:
    there = {n: count for n, count in held.items() if serves(part, facts[n])}
    if part.whole:
        there = {n: count for n, count in there.items() if n in owned}
    if not part.apart:
        return sum(there.values()) >= part.units
    lumps = [size for size, times in part.lumps for _ in range(times)]
    return any(
        all(count >= size for count, size in zip(nodes, lumps, strict=True))
        for nodes in permutations(there.values(), len(lumps))
    )


def _nothing_more(request: JobRequest, used: Counter[str], held: Units) -> bool:
    if request.exclusive or request.unit is UnitType.NODE:
        return all(used[node] for node in held)
    return all(used[node] == count for node, count in held.items())


def _layouts(
    parts: Sequence[Part], left: dict[str, int], owned: set[str], facts: Mapping[str, NodeFacts]
) -> Iterator[Counter[str]]:
    """Yield how much of each node is used, for every way to lay the parts beside each other."""
    if not parts:
        yield Counter()
        return
    part, *others = parts
    for mine in _ways_of(part, left, owned, facts):
        untouched = {n for n in owned if not mine[n]}
        for used in _layouts(others, {n: left[n] - mine[n] for n in left}, untouched, facts):
            yield used + mine


def _ways_of(
    part: Part, left: Mapping[str, int], owned: set[str], facts: Mapping[str, NodeFacts]
) -> Iterator[Counter[str]]:
    """Yield what one part may take of what is left, each way once."""
    nodes = [n for n, count in left.items() if count and serves(part, facts[n])]
    if part.whole:
        nodes = [n for n in nodes if n in owned]
    lumps = [size for size, times in part.lumps for _ in range(times)]
    required = {n for n in facts if n.casefold() in _folded(part.required_nodes)}
    seen = set()
    for places in _placements(part, lumps, nodes, dict(left)):
        if not required <= set(places):
            continue
        mine: Counter[str] = Counter()
        for node, size in zip(places, lumps, strict=True):
            mine[node] = left[node] if part.whole else mine[node] + size
        if frozenset(mine.items()) not in seen:
            seen.add(frozenset(mine.items()))
            yield mine


def _placements(
    part: Part, lumps: Sequence[int], nodes: Sequence[str], left: dict[str, int]
) -> Iterator[tuple[str, ...]]:
    """Yield the node of every lump."""
    if not lumps:
        yield ()
        return
    size, *others = lumps
    for node in nodes:
        if left[node] < size:
            continue
        after = {**left, node: 0 if part.apart else left[node] - size}
        for rest in _placements(part, others, nodes, after):
            yield (node, *rest)


def division_fits(
    request: JobRequest,
    parts: Sequence[Shares],
    shares: Shares,
    owned: set[str],
    facts: Mapping[str, NodeFacts],
) -> bool:
    """Return whether the parts of a start are what each task needs, and lie within what the job is given.

    For processors and whole nodes.
    """
    if not request.together:
        return not parts
    if len(parts) != len(request.parts):
        return False
    given = Counter[str]()
    for mine in parts:
        given.update(dict(mine))
    held = dict(shares)
    if set(given) != set(held) or any(given[node] > held[node] for node in given):
        return False
    if not request.exclusive and given != held:
        return False
    return all(
        any(
            _units(request, dict(used), facts) == _units(request, dict(mine), facts)
            for used in _ways_of(part, _units(request, dict(mine), facts), owned, facts)
        )
        or not (mine or part.lumps)
        for part, mine in zip(request.parts, parts, strict=True)
    ) and not _touching_owners(request, parts)


def _units(request: JobRequest, mine: Units, facts: Mapping[str, NodeFacts]) -> dict[str, int]:
    return {n: 1 if request.unit is UnitType.NODE else mine.get(n, 0) for n in facts if mine.get(n)}


def _touching_owners(request: JobRequest, parts: Sequence[Shares]) -> bool:
    """Return whether somebody else is on a node that one part has for itself."""
    for number, (part, mine) in enumerate(zip(request.parts, parts, strict=True)):
        others = [node for other, shares in enumerate(parts) if other != number for node, _ in shares]
        if part.whole and any(node in others for node, _ in mine):
            return True
    return False
