"""On which nodes a job runs where nodes are under switches: as few leaf switches as can be.

A job that asks for at most so many leaf switches waits for them, but only for a time: `with_timeout`.
All others run under the smallest switch that holds them; for them it decides only which of several nodes
are taken, never whether the job starts.  A node under no switch counts as under one of its own.

Source:  Slurm, "Topology Guide" (topology/tree: best fit under the lowest switch); sbatch(1), `--switches`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, combinations, islice
from typing import NamedTuple

MAX_COMBINATIONS = 1000  # sets of leaf switches that are tried where counting units does not suffice

Offers = list[tuple[int, int]]
"""Nodes by number, and how many units of a need each has."""


class SwitchTree(NamedTuple):
    """The leaf switch of each node, by number, and the leaf switches under each switch above them."""

    leaf_of: Sequence[int]
    domains: Sequence[frozenset[int]]  # with several leaf switches each


def switch_tree(paths: Sequence[tuple[str, ...]], names: Sequence[str]) -> SwitchTree:
    """Return the tree of these nodes, by the switches above each of them; whatever their order, the same."""
    leaves = [(path[0], "") if path else ("", name) for path, name in zip(paths, names, strict=True)]
    numbers = {leaf: number for number, leaf in enumerate(sorted(set(leaves)))}
    under: dict[str, set[int]] = {}
    for path, leaf in zip(paths, leaves, strict=True):
        for switch in path[1:]:
            under.setdefault(switch, set()).add(numbers[leaf])
    domains = [frozenset(under[switch]) for switch in sorted(under)]
    return SwitchTree([numbers[leaf] for leaf in leaves], [each for each in domains if len(each) > 1])


def under_own_switches(
    tree: SwitchTree, most: int, held: Iterable[int], alternatives: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the nodes on which a job grows that has what it asked for: those under its own switches.

    held:  its nodes; -1 is one that has been removed
    """
    leaves = {tree.leaf_of[node] for node in held if node >= 0}
    if len(leaves) > most:
        return alternatives
    return tuple(tuple(node for node in order if tree.leaf_of[node] in leaves) for order in alternatives)


def leaves_used(tree: SwitchTree, nodes: Iterable[int]) -> int:
    """Return under how many leaf switches these nodes are."""
    return len({tree.leaf_of[node] for node in nodes})


def by_switch(tree: SwitchTree, offers: Offers, most: int, each: int) -> tuple[Offers, Offers]:
    """Return the offers of the fewest leaf switches that have so many units, and all others.

    each:  units of a node that count, at most
    """
    units = units_by_leaf(tree, [(node, min(count, each)) for node, count in offers])
    if len(units) < 2:
        return offers, []
    wanted = min(most, sum(units.values()))
    chosen = fewest_leaves(tree, units, wanted)
    first = [offer for offer in offers if tree.leaf_of[offer[0]] in chosen]
    return first, [offer for offer in offers if tree.leaf_of[offer[0]] not in chosen]


def units_by_leaf(tree: SwitchTree, offers: Offers) -> dict[int, int]:
    """Return how many units are offered under each leaf switch, in the order of the offers."""
    units: dict[int, int] = {}
    for node, count in offers:
        leaf = tree.leaf_of[node]
        units[leaf] = units.get(leaf, 0) + count
    return units


def fewest_leaves(tree: SwitchTree, units: Mapping[int, int], needed: int) -> Set[int]:
    """Return the fewest leaf switches that have so many units, under the smallest switch that has them.

    Of one leaf switch, the one with the fewest units is taken that has enough.  Cost:  O(switches).
    """
    best: tuple[int, int] | None = None
    found: Set[int] = units.keys()
    for domain in (*tree.domains, frozenset(units)):
        there = {leaf: units[leaf] for leaf in units if leaf in domain}
        total = sum(there.values())
        if total < needed:
            continue
        chosen = _fill(there, needed)
        size = len(chosen), total if len(chosen) > 1 else sum(there[leaf] for leaf in chosen)
        if best is None or size < best:
            best, found = size, chosen
    return found


def _fill(units: Mapping[int, int], needed: int) -> Set[int]:
    """Return leaf switches with so many units: the largest first, and at last the smallest that will do."""
    left, chosen = dict(units), set[int]()
    while needed > 0:
        enough = [leaf for leaf, count in left.items() if count >= needed]
        leaf = min(enough, key=left.__getitem__) if enough else max(left, key=left.__getitem__)
        chosen.add(leaf)
        needed -= left.pop(leaf)
    return chosen


def most_under(units: Mapping[int, int], leaves: int) -> int:
    """Return the most units that so many leaf switches have together."""
    return sum(sorted(units.values(), reverse=True)[:leaves])


def sets_of_leaves(
    tree: SwitchTree, units: Mapping[int, int], least: int, most: int, needed: Iterable[int]
) -> Iterator[frozenset[int]]:
    """Yield sets of at most so many leaf switches with at least so many units, the smallest sets first.

    `needed` are nodes that must be among them.  At most `MAX_COMBINATIONS` sets are tried, those with most
    units first.
    """
    must = frozenset(tree.leaf_of[node] for node in needed)
    if not must <= units.keys() or len(must) > most:
        return
    others = sorted(units.keys() - must, key=lambda leaf: (-units[leaf], leaf))
    owned = sum(units[leaf] for leaf in must)
    sizes = range(min(most - len(must), len(others)) + 1)
    tried = chain.from_iterable(combinations(others, size) for size in sizes)
    for some in islice(tried, MAX_COMBINATIONS):
        if owned + sum(units[leaf] for leaf in some) >= least:
            yield must.union(some)
