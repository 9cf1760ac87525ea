"""Where in the free processors of its job a task may go, and why it does not run yet."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, repeat

import msgspec

from headnode.core.model.errors import WrongState
from headnode.core.model.job import UnitType, units_in
from headnode.core.model.node_needs import ANY_NODE, meets, needs_objection
from headnode.core.model.task import Distribution, TaskSpec, TaskType
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord, TaskProgress
from headnode.core.state.task_graph import SERVING_STATES, TaskGraph, has_parts
from headnode.core.state.task_layout import groups_of, rank_nodes
from headnode.core.state.transitions import JobState, NodePhase, phase_on

Offer = tuple[str, list[int], int]
"""A node, its free processors, and how many of the job's units these are."""


def places_in_use(progress: TaskProgress) -> dict[NodeCores, None]:
    """Return the places where instances of a task are."""
    return dict.fromkeys(live.placement for live in progress.live.values())


def uses_from(place: NodeCores, node: str, usable: int) -> bool:
    """Whether a place has a processor of a node with this number or a higher one."""
    return any(name == node and max(numbers) >= usable for name, numbers in place if numbers)


def all_could_run(cluster: ClusterState, graph: TaskGraph, held: Mapping[str, Sequence[int]]) -> bool:
    """Whether each task that is not over and asks for nodes of a kind finds room in `held`, were it idle.

    Else the job would wait for ever for what it does not hold any more.
    """
    return all(
        _could_run(cluster, graph, index, held)
        for index, progress in enumerate(graph.run.tasks)
        if _asks(graph.spec.tasks[index]) and (progress.queued or progress.live)
    )


def _asks(task: TaskSpec) -> bool:
    laid_out = task.distribution is not None and task.kind is not TaskType.SWEEP
    return laid_out or bool(task.node_group or task.required_nodes) or task.needs != ANY_NODE


def _could_run(
    cluster: ClusterState, graph: TaskGraph, index: int, held: Mapping[str, Sequence[int]]
) -> bool:
    room = TaskPlacement(
        cluster, graph, index, {node: list(numbers) for node, numbers in held.items()}, shared=True
    )
    return room.place() is not None


class TaskPlacement:
    """The placement of one task on the free processors of its job."""

    def __init__(
        self,
        cluster: ClusterState,
        graph: TaskGraph,
        index: int,
        free: dict[str, list[int]],
        *,
        shared: bool = False,
    ) -> None:
        """`free` holds the free processors of each node; its lists are replaced, never changed.

        `shared`: it is asked what would be: nodes that take no tasks now count, instances that run do not.
        """
        self._lent = shared
        self._flow, self._task, self._free = graph, graph.spec.tasks[index], free
        task = self._task
        self._cluster = cluster
        self._named = {name.lower() for name in task.required_nodes}
        self.nodes = [node for node in graph.run.allocation if self._may_use(node)]
        self._load: Counter[str] = Counter()  # of a distributed sweep: places of it on each node
        if task.distribution is not None and task.kind is TaskType.SWEEP and not shared:
            self._load.update(node for place in places_in_use(graph.run.tasks[index]) for node, _ in place)

    def is_in_service(self, place: NodeCores) -> bool:
        """Whether all processors of a place may be kept."""
        reduced = self._cluster.cores.reduced
        return not reduced or not any(
            uses_from(place, node, self._cluster.cores.usable(node)) for node, _ in place if node in reduced
        )

    def _may_use(self, node: str) -> bool:
        record = self._cluster.nodes.get(node)
        if record is None or not (self._lent or record.state in SERVING_STATES):
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

    def place(self) -> NodeCores | None:
        """Take room for one instance out of the free processors; None when there is not enough."""
        distribution, offers = self._task.distribution, self._offers()
        if distribution is None or self._flow.spec.unit is UnitType.NODE:
            return self._filled(offers)
        if self._task.kind is not TaskType.SWEEP:
            return self._laid_out(distribution, offers)
        place = self._filled(self._spread(distribution, offers))
        self._load.update(node for node, _ in place or ())
        return place

    def _filled(self, offers: list[Offer]) -> NodeCores | None:
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

    def _laid_out(self, distribution: Distribution, offers: list[Offer]) -> NodeCores | None:
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
            order = rank_nodes(distribution, room, wanted) if wanted >= self._task.minimum else []
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
        return max(1, units_in(self._flow.spec, held, self._cluster.nodes[node].facts))

    def _per_unit(self, node: str) -> int:
        """Return how many processors of a node each of the job's units there has."""
        return max(1, len(self._flow.run.allocation[node]) // self._held_units(node))


WAY_OUT = "cancel the task, and submit it as a job of its own"
"""What to do about a task that its job can never run."""


class TaskReason(msgspec.Struct, frozen=True):
    """A reason why a task waits: `why` is its kind, `text` the sentence, `what` the object it is about."""

    why: str
    text: str
    what: str = ""


def task_reasons(cluster: ClusterState, record: JobRecord, index: int) -> list[TaskReason]:
    """Return every reason why queued instances of a task wait; none when nothing of it is queued."""
    if record.state is JobState.HANDED and record.run is not None and not record.run.tasks[index].queued:
        return []
    if record.state is not JobState.RUNNING or record.run is None:
        return [TaskReason("job", f"its job is {record.state.value}")] if not record.state.is_final else []
    graph = cluster.graph(record.id)
    progress = record.run.tasks[index]
    waits = progress.endless and not progress.live
    awaited = graph.awaited(index) if index in graph.blocks else []
    if not (progress.queued or waits or (awaited and progress.live)):
        return []  # what is dispatched to start after its parents has reasons, too
    if awaited:
        return [_dependency(graph.remaining.get(key, 0), key) for key in awaited]
    return [_room_reason(cluster, record, index)]


def _dependency(unfinished: int, key: str | int) -> TaskReason:
    what = f"task {key!r}" if isinstance(key, str) else f"task group {key}"
    number = f"; {unfinished} tasks of that name have not ended" if unfinished > 1 else ""
    return TaskReason("dependency", f"it waits for {what} to end{number}", str(key))


def _room_reason(cluster: ClusterState, record: JobRecord, index: int) -> TaskReason:
    graph = cluster.graph(record.id)
    unready = [node for node in graph.run.allocation if not graph.is_usable(node)]
    if graph.tends_nodes and unready:
        return _unready(graph, unready)
    if has_parts(graph):
        return _gang_reason(cluster, graph, index)
    task = graph.spec.tasks[index]
    first = graph.ready[0] if graph.ready else index
    free = sum(map(len, graph.free.values()))
    held = sum(map(len, graph.run.allocation.values()))
    if first < index:
        return TaskReason(
            "order",
            f"tasks are dispatched in list order, and task {first + 1} is still queued",
            str(first + 1),
        )
    if task.required_nodes:
        return _required_nodes(graph, task)
    if task.node_group or task.needs != ANY_NODE:
        return _suitable(cluster, graph, task)
    if task.distribution is not None and task.kind is not TaskType.SWEEP:
        return TaskReason(
            "processors",
            f"its {task.minimum} processes need a distribution over nodes that is not free yet; "
            f"{free} of the job's {held} processors are free",
        )
    if graph.run.tasks[index].endless and free >= task.minimum:
        return TaskReason("service", "its program ended within a second; it starts again a second later")
    unit, each = graph.spec.unit.word, graph.spec.processors_per_gpu
    several = f" with {each} processors each" if each > 1 else ""
    return TaskReason(
        "processors",
        f"it needs {task.minimum} {unit}{'s' if task.minimum != 1 else ''}{several}; "
        f"{free} of the job's {held} processors are free",
    )


def _required_nodes(graph: TaskGraph, task: TaskSpec) -> TaskReason:
    """The task waits for nodes that it names: other tasks use them, or the job does not hold them."""
    nodes, gone = ", ".join(task.required_nodes), not_held(graph.run.allocation, task)
    if gone:
        what = f"it requires {', '.join(gone)}, which its job does not hold and will not get: {WAY_OUT}"
        return TaskReason("node", what, gone[0])
    return TaskReason("node", f"it needs free processors on {nodes}, which other tasks of its job use", nodes)


def _unready(graph: TaskGraph, nodes: list[str]) -> TaskReason:
    """Tasks wait for nodes that are being prepared, or released."""
    phase = phase_on(graph.run.holdings, nodes[0])
    leaving = phase in (NodePhase.RELEASING, NodePhase.RELEASED, NodePhase.CLEANING)
    index, done = (graph.release, "released") if leaving else (graph.prep, "prepared")
    task = f" by task {index + 1}" if index is not None else ""
    which = f"{', '.join(nodes)} {'are' if len(nodes) > 1 else 'is'}"
    return TaskReason("preparing", f"it waits until {which} {done}{task}", nodes[0])


def _gang_reason(cluster: ClusterState, graph: TaskGraph, index: int) -> TaskReason:
    """Tasks that start together wait for a node of their part, or for a process that has their place."""
    for node, _ in graph.run.parts[index]:
        known = cluster.nodes.get(node)
        if known is None or known.state not in SERVING_STATES:
            return TaskReason("node", f"node {node}, which holds its processors, accepts no tasks now", node)
    return TaskReason("processors", "its processors are in use; it starts when they are free")


def _suitable(cluster: ClusterState, graph: TaskGraph, task: TaskSpec) -> TaskReason:
    """The task asks for nodes of a kind: say which of the job's nodes are, or why none is."""
    reasons = {node: unsuitable(cluster, node, task) for node in graph.run.allocation}
    fitting = ", ".join(node for node, reason in reasons.items() if not reason)
    if fitting:
        what = f"it needs free processors on {fitting}: no other node of its job is eligible"
        return TaskReason("node", what, fitting)
    node, reason = next(iter(reasons.items()), ("", "it holds none"))
    return TaskReason("node", f"no node of its job is eligible: {node} {reason}; {WAY_OUT}", node)


def not_held(held: Collection[str], task: TaskSpec) -> list[str]:
    """Return the nodes that a task requires and that are not among those its job holds."""
    there = {node.casefold() for node in held}
    return [node for node in task.required_nodes if node.casefold() not in there]


def check_could_run(cluster: ClusterState, record: JobRecord, task: TaskSpec, whose: str) -> None:
    """Refuse a task for which a job that was started has no node.

    Raises:  WrongState ``not-held``.
    """
    held = record.run.places if record.run is not None else {}
    gone = not_held(held, task)
    reasons = {node: unsuitable(cluster, node, task) for node in held}
    if gone:
        what = f"{whose} requires node {gone[0]!r}, which job {record.id} does not hold"
    elif reasons and all(reasons.values()):
        node, reason = next(iter(reasons.items()))
        what = f"{whose} needs a node that job {record.id} does not hold: {node} {reason}"
    else:
        return
    there = ", ".join(held)
    raise WrongState(
        code="not-held",
        what=what,
        fix="submit it as a job of its own" + (f", or ask for what {there} can give" if there else ""),
    )


def unsuitable(cluster: ClusterState, node: str, task: TaskSpec) -> str:
    """Return why a node does not meet the task's requirements; empty if it does."""
    facts = cluster.nodes[node].facts if node in cluster.nodes else None
    if facts is None:
        return "is gone"
    if task.node_group and task.node_group.lower() not in {name.lower() for name in facts.groups}:
        return f"is not in node group {task.node_group!r}"
    return needs_objection(task.needs, facts)
