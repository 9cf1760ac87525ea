"""Where a job fits that asks for contiguous nodes: no node of the cluster stands between two of its nodes.

The nodes stand in the order of their names, shorter names first: node2 before node10.  A node that the job
cannot use interrupts a row, whatever the reason.

Exact where units are counted: the fewest nodes in a row that have most of what is wanted.  A job whose tasks
need nodes of their own, whose licences or owned nodes count, or of a gang tries rows, with a bound.

Source:  Slurm, sbatch(1), `--contiguous`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import groupby, islice
from operator import itemgetter

from headnode.core.model.node import natural_order
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.node_table import NodeOrder, NodeTable
from headnode.core.scheduling.profile import AmountChanges
from headnode.core.scheduling.request import ResolvedRequest, units_in
from headnode.core.scheduling.switches import Offers

MAX_ROWS = 1000  # that are tried where counting units does not suffice

Find = Callable[[ResolvedRequest, FreeResources], Placement | None]
Offer = Callable[[ResolvedRequest, FreeResources, NodeOrder], Offers]
"""What `placement` calls `find_placement` and `node_offers`."""


class NodePlaces:
    """The place of each node, by number, in the order of all names."""

    def __init__(self) -> None:
        self._places: Mapping[int, int] = {}

    def of(self, node_table: NodeTable) -> Mapping[int, int]:
        """Return the places of these nodes: those of the pass whose cache this is."""
        if not self._places:
            names = node_table.names
            ordered = sorted(range(len(names)), key=lambda number: natural_order(names[number].casefold()))
            self._places = {number: place for place, number in enumerate(ordered)}
        return self._places


def places_of(node_table: NodeTable) -> Mapping[int, int]:
    """Return the place of each node in the order of names."""
    return node_table.cache.of(NodePlaces).of(node_table)


def are_contiguous(node_table: NodeTable, nodes: Iterable[int]) -> bool:
    """Return whether no other node stands between two of these."""
    places = places_of(node_table)
    taken = {places[node] for node in nodes}
    return not taken or max(taken) - min(taken) == len(taken) - 1


class NodeRows:
    """The units on each node as they change, and whether nodes beside each other have enough of them.

    Cost:  a change, and each look, O(nodes of a row that has enough).
    """

    def __init__(self, needed: int, places: Mapping[int, int], nodes: int) -> None:
        self._needed, self._places = needed, places
        self._units = [0] * (nodes + 1)  # by place; the last is no node, and ends rows at both ends
        self._found: list[int] = []  # where nodes got more, and had enough in their row then

    def change(self, node: int, by: int) -> None:
        """Let a node have more units, or fewer."""
        place = self._places[node]
        self._units[place] += by
        if by > 0 and self._has_enough(place):
            self._found.append(place)

    def suffice(self) -> bool:
        """Return whether a row has enough."""
        while self._found and not self._has_enough(self._found[-1]):
            self._found.pop()
        return bool(self._found)

    def _has_enough(self, place: int) -> bool:
        units, needed = self._units, self._needed
        held = units[place]
        if not held:
            return False
        before, behind = place - 1, place + 1
        while held < needed and units[before]:
            held += units[before]
            before -= 1
        while held < needed and units[behind]:
            held += units[behind]
            behind += 1
        return held >= needed


def rows_of(need: ResolvedRequest, node_table: NodeTable) -> NodeRows:
    """Return rows without units, for the minimum of a need."""
    places = places_of(node_table)
    return NodeRows(need.minimum, places, len(places))


def rows_over_time(rows: NodeRows, units: Iterable[tuple[int, AmountChanges]]) -> AmountChanges:
    """Return 1 while a row has enough, and 0 while none has, given the units of nodes over time."""
    changes: list[tuple[float, bool, int, int]] = []
    for node, course in units:
        before = 0
        for at, just_after, amount in course:
            changes.append((at, just_after, node, amount - before))
            before = amount
    changes.sort()
    found: list[tuple[float, bool, int]] = []
    for (at, just_after), group in groupby(changes, key=itemgetter(0, 1)):
        for _, _, node, by in group:
            rows.change(node, by)
        found.append((at, just_after, int(rows.suffice())))
    return found


def find_contiguous(
    need: ResolvedRequest, resources: FreeResources, find: Find, offer: Offer
) -> Placement | None:
    """Return what `find_placement` finds on contiguous nodes, or None.

    Of several alternatives and rows the one that gives most wins, then the first.
    """
    free = need._replace(contiguous=False, near=False)
    best: Placement | None = None
    most = 0
    for order in need.alternatives:
        for row in _rows(need, offer(need, resources, order), places_of(resources.node_table)):
            chosen = frozenset(row)
            forced = free if need.together else free._replace(required=chosen)
            found = find(forced._replace(alternatives=(tuple(n for n in order if n in chosen),)), resources)
            if found is None or not are_contiguous(resources.node_table, _nodes(found)):
                continue
            size = min(need.maximum, sum(units_in(need, part, resources.node_table) for part in found))
            if size > most:
                best, most = found, size
            if size == need.maximum:
                return best
    return best


def _nodes(placement: Placement) -> Iterator[int]:
    return (number for number, _ in placement)


def _rows(need: ResolvedRequest, offers: Offers, places: Mapping[int, int]) -> Iterator[tuple[int, ...]]:
    """Yield rows of nodes that may hold the need if it has something of each of them."""
    plain = not (need.parts or need.share or need.required or need.each or need.timed or need.together)
    runs = _runs(offers, places)
    if plain:
        row = _best_row(need, runs)
        return iter((tuple(node for node, _ in row),) if row else ())
    return islice(_all_rows(need, runs), MAX_ROWS)


def _runs(offers: Offers, places: Mapping[int, int]) -> list[Offers]:
    """Return the longest rows of nodes that offer something."""
    runs: list[Offers] = []
    before = -2
    for place, node, units in sorted([(places[node], node, units) for node, units in offers]):
        if place == before + 1:
            runs[-1].append((node, units))
        else:
            runs.append([(node, units)])
        before = place
    return runs


def _best_row(need: ResolvedRequest, runs: list[Offers]) -> Offers:
    """Return the row with most units up to the maximum, of the fewest nodes, in the shortest run."""
    wanted = need.maximum
    totals = [sum([units for _, units in run]) for run in runs]
    most = max(totals, default=0)
    if most < wanted:
        return runs[totals.index(most)] if most >= need.minimum else []
    enough = sorted([run for run, total in zip(runs, totals, strict=True) if total >= wanted], key=len)
    fewest = -(-wanted // max([units for run in enough for _, units in run]))  # no row has fewer nodes
    best: Offers = []
    for run in enough:
        row = _shortest(run, wanted, fewest)
        if not best or len(row) < len(best):
            best = row
        if len(best) <= fewest:
            break
    return best


def _shortest(run: Offers, wanted: int, fewest: int) -> Offers:
    """Return the first of the shortest rows of a run that have so many units; none has fewer nodes."""
    best, behind, held = run, 0, 0
    for first, (_, units) in enumerate(run):
        while held < wanted and behind < len(run):
            held += run[behind][1]
            behind += 1
        if held < wanted:
            break
        if behind - first < len(best):
            best = run[first:behind]
            if len(best) <= fewest:
                break
        held -= units
    return best


def _all_rows(need: ResolvedRequest, runs: list[Offers]) -> Iterator[tuple[int, ...]]:
    """Yield every row with enough units and all nodes that the job requires, the shortest first.

    Cost:  O(nodes * log nodes), and for each row O(its nodes + log nodes); rows that do not suffice cost
    nothing.
    """
    longest = max(map(len, runs), default=0)
    if not need.whole:  # parts of nodes go beyond the maximum with whole nodes only
        longest = min(longest, need.maximum)
    rows = [
        (length, number, first)
        for number, run in enumerate(runs)
        for first, length in _sufficient_rows(need, run)
        if length <= longest
    ]
    heapify(rows)
    while rows:
        length, number, first = rows[0]
        run = runs[number]
        if length < longest and first + length < len(run):
            heapreplace(rows, (length + 1, number, first))
        else:
            heappop(rows)
        yield tuple([node for node, _ in run[first : first + length]])


def _sufficient_rows(need: ResolvedRequest, run: Offers) -> Iterator[tuple[int, int]]:
    """Yield where rows of a run may begin, and how many nodes from there suffice; longer rows do, too."""
    required = [at for at, (node, _) in enumerate(run) if node in need.required]
    if len(required) < len(need.required):
        return
    last, behind, held = required[0] if required else len(run) - 1, 0, 0
    reaches = required[-1] + 1 if required else 0
    for first, (_, units) in enumerate(run[: last + 1]):
        while behind < len(run) and (held < need.minimum or behind < max(first + 1, reaches)):
            held += run[behind][1]
            behind += 1
        if held < need.minimum:
            return
        yield first, behind - first
        held -= units
