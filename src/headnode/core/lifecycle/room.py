"""Where in the free processors of its job a task may go."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, repeat

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.gang import TAKE_TASKS
from headnode.core.lifecycle.parts import groups_of
from headnode.core.lifecycle.records import TaskProgress
from headnode.core.lifecycle.seating import nodes_of
from headnode.core.lifecycle.units import units_in
from headnode.core.model.job import UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.node_objections import meets
from headnode.core.model.task import Distribution, TaskSpec, TaskType

Offer = tuple[str, list[int], int]
"""A node, its free processors, and how many of the job's units these are."""


def places_in_use(progress: TaskProgress) -> dict[Place, None]:
    """Return the places where instances of a task are."""
    return dict.fromkeys(live.place for live in progress.live.values())


def uses_from(place: Place, node: str, usable: int) -> bool:
    """Whether a place has a processor of a node with this number or a higher one."""
    return any(name == node and max(numbers) >= usable for name, numbers in place if numbers)


def all_could_run(cluster: Cluster, flow: Flow, held: Mapping[str, Sequence[int]]) -> bool:
    """Whether each task that is not over and asks for nodes of a kind finds room in `held`, were it idle.

    Else the job would wait for ever for what it does not hold any more.
    """
    return all(
        _could_run(cluster, flow, index, held)
        for index, progress in enumerate(flow.run.tasks)
        if _asks(flow.spec.tasks[index]) and (progress.queued or progress.live)
    )


def _asks(task: TaskSpec) -> bool:
    laid_out = task.distribution is not None and task.kind is not TaskType.SWEEP
    return laid_out or bool(task.node_group or task.required_nodes) or task.needs != ANY_NODE


def _could_run(cluster: Cluster, flow: Flow, index: int, held: Mapping[str, Sequence[int]]) -> bool:
    room = Room(cluster, flow, index, {node: list(numbers) for node, numbers in held.items()}, lent=True)
    return room.place() is not None


class Room:
    """Where in the job's free processors one task may go."""

    def __init__(
        self, cluster: Cluster, flow: Flow, index: int, free: dict[str, list[int]], *, lent: bool = False
    ) -> None:
        """`free` holds the free processors of each node; its lists are replaced, never changed.

        `lent`: it is asked what would be: nodes that take no tasks now count, instances that run do not.
        """
        self._lent = lent
        self._flow, self._task, self._free = flow, flow.spec.tasks[index], free
        task = self._task
        self._cluster = cluster
        self._named = {name.lower() for name in task.required_nodes}
        self.nodes = [node for node in flow.run.allocation if self._may_use(node)]
        self._load: Counter[str] = Counter()  # of a distributed sweep: places of it on each node
        if task.distribution is not None and task.kind is TaskType.SWEEP and not lent:
            self._load.update(node for place in places_in_use(flow.run.tasks[index]) for node, _ in place)

    def is_in_service(self, place: Place) -> bool:
        """Whether all processors of a place may be kept."""
        reduced = self._cluster.reduced
        return not reduced or not any(
            uses_from(place, node, self._cluster.usable(node)) for node, _ in place if node in reduced
        )

    def _may_use(self, node: str) -> bool:
        record = self._cluster.nodes.get(node)
        if record is None or not (self._lent or record.state in TAKE_TASKS):
            return False
        if self._named and node.lower() not in self._named:
            return False
        group = self._task.node_group.lower()
        if group and group not in {known.lower() for known in record.facts.groups}:
            return False
        return meets(self._task.needs, record.facts)

    def count_places(self) -> int:
        """Return about how many instances fit beside each other."""
        return sum(len(self._free.get(node, ())) for node in self.nodes) // max(1, self._task.minimum)

    def claim(self) -> None:
        """Keep what is free of this task's nodes from the tasks behind it."""
        for node in self.nodes:
            self._free[node] = []

    def place(self) -> Place | None:
        """Take room for one instance out of the free processors; None when there is not enough."""
        distribution, offers = self._task.distribution, self._offers()
        if distribution is None or self._flow.spec.unit is UnitType.NODE:
            return self._filled(offers)
        if self._task.kind is not TaskType.SWEEP:
            return self._laid_out(distribution, offers)
        place = self._filled(self._spread(distribution, offers))
        self._load.update(node for node, _ in place or ())
        return place

    def _filled(self, offers: list[Offer]) -> Place | None:
        """Take as many as the task may have, node by node."""
        required = len(self._named)
        if required > 1 and len(offers) < required:
            return None
        if sum(units for _, _, units in offers) < self._task.minimum:
            return None
        place: list[tuple[str, tuple[int, ...]]] = []
        wanted = max(self._task.maximum, required)
        must = required > 1
        for at, (node, numbers, units) in enumerate(offers):
            later = len(offers) - at - 1 if must else 0
            if wanted <= later:
                break
            used = min(units, wanted - later)
            place.append(self._take(node, numbers, used))
            wanted -= used
            if wanted == 0:
                break
        return tuple(place)

    def _take(self, node: str, numbers: list[int], units: int) -> tuple[str, tuple[int, ...]]:
        whole = self._task.exclusive or units == self._held_units(node)
        taken = len(numbers) if whole else units * self._per_unit(node)
        self._free[node] = numbers[taken:]
        return node, tuple(numbers[:taken])

    def _laid_out(self, distribution: Distribution, offers: list[Offer]) -> Place | None:
        """Take room for the processes of one program as they are to lie on nodes."""
        counts = self._counts(distribution, offers)
        if not counts:
            return None
        return tuple(self._take(node, numbers, counts[node]) for node, numbers, _ in offers if counts[node])

    def _counts(self, distribution: Distribution, offers: list[Offer]) -> Counter[str]:
        """Return how many units to take of each node: most where most is free; nothing if it does not fit."""
        groups = groups_of(distribution, self._task.minimum)
        if not groups:
            room = [units for _, _, units in offers]
            wanted = min(sum(room), self._task.maximum)
            order = nodes_of(distribution, room, wanted) if wanted >= self._task.minimum else []
            return Counter(offers[number][0] for number in order)
        fullest = sorted(offers, key=lambda offer: -offer[2])
        sizes = chain.from_iterable(repeat(size, times) for size, times in groups)
        pairs = list(zip(sizes, fullest, strict=False))
        wanted = sum(times for _, times in groups)
        fits = len(pairs) == wanted and all(size <= offer[2] for size, offer in pairs)
        return Counter({offer[0]: size for size, offer in pairs} if fits else {})

    def _spread(self, distribution: Distribution, offers: list[Offer]) -> list[Offer]:
        """Return the nodes for one more instance of a sweep: those with fewest of it first.

        So many nodes as it asks for are kept to unless they are too small for even one instance.
        """
        most, nodes = distribution.per_node, distribution.nodes
        if nodes:
            largest = sorted(self.nodes, key=lambda node: (not self._load[node], -self._held_units(node)))
            chosen = largest[:nodes]
            if sum(map(self._held_units, chosen)) >= self._task.minimum:
                offers = [offer for offer in offers if offer[0] in chosen]
        if most:
            offers = [offer for offer in offers if self._load[offer[0]] < most]
        evenly = nodes or distribution.round_robin
        return sorted(offers, key=lambda offer: self._load[offer[0]]) if evenly else offers

    def _offers(self) -> list[Offer]:
        """Return nodes with their free processors and how many of the job's units these are."""
        offers = []
        for node in self.nodes:
            numbers = self._free.get(node, [])
            held = self._flow.run.allocation[node]
            whole = len(numbers) == len(held)
            if self._task.exclusive and not whole:
                continue
            units = len(numbers) if self._flow.spec.unit is UnitType.PROCESSOR else self._units(node, numbers)
            if units:
                offers.append((node, numbers, units))
        return offers

    def _units(self, node: str, numbers: list[int]) -> int:
        return min(len(numbers) // self._per_unit(node), self._held_units(node))

    def _held_units(self, node: str) -> int:
        """Return how many of the job's units it has on a node; a rest that is less than one counts as one."""
        held = len(self._flow.run.allocation[node])
        return max(1, units_in(self._flow.spec.unit, held, self._cluster.nodes[node].facts))

    def _per_unit(self, node: str) -> int:
        """Return how many processors of a node each of the job's units there has."""
        return max(1, len(self._flow.run.allocation[node]) // self._held_units(node))
