"""The nodes of a view, numbered, and which of them can serve a request: all that a pass does not change.

Source: CCS, "Resource sorting"; HPC Pack job properties (node groups, memory, cores per node, OrderBy)."""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, NamedTuple

from headnode.core.model.job import (
    CountsUnits,
    JobRequest,
    NodeGroupOp,
    OrderKey,
    RequestPart,
    UnitType,
    units_in,
)
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.node_needs import needs_objection as unmet
from headnode.core.scheduling.node_view import (
    NodeTimes,
    NodeView,
    PassCache,
    ReservationAccess,
    closed_as,
    ever_takes,
    looks_of,
    reserved_objection,
    takes,
)

if TYPE_CHECKING:
    from headnode.core.scheduling.switches import SwitchTree

RESOURCE_ORDER = (OrderKey("memory"), OrderKey("speed"))
"""The order of a cluster that says nothing else: memory, then processor speed, larger first."""


class NodeRules(NamedTuple):
    """The requirements of a request on each node.  Equal rules have the same candidate nodes."""

    requested: frozenset[str]  # empty: any node
    excluded: frozenset[str]
    groups: tuple[str, ...]
    group_op: NodeGroupOp
    memory: tuple[int | None, int | None]
    processors: tuple[int | None, int | None]
    order: tuple[OrderKey, ...]
    needs: NodeNeeds = ANY_NODE
    lasts: float = 0.0  # seconds it may run, where nodes will close
    access: ReservationAccess | None = None  # where nodes are reserved
    user: str = ""  # empty: it does not matter who it is
    processors_per_gpu: int = 0  # 0: it needs no GPUs
    spares_gpus: bool = False  # nodes without GPUs are taken first


def folded(names: Iterable[str]) -> frozenset[str]:
    """Return names as they are compared: node names are alike whatever their case, as in Windows."""
    return frozenset(name.casefold() for name in names)


def rules_of(request: JobRequest) -> NodeRules:
    """Return what the request demands of each of its nodes."""
    return NodeRules(
        requested=folded(request.requested_nodes),
        excluded=folded(request.excluded_nodes),
        groups=tuple(dict.fromkeys(group.casefold() for group in request.node_groups)),
        group_op=request.node_group_op,
        memory=(request.minimum_memory, request.maximum_memory),
        processors=(request.minimum_processors_per_node, request.maximum_processors_per_node),
        order=request.order_by or RESOURCE_ORDER,
        needs=request.needs,
        user=request.user,
        processors_per_gpu=request.processors_per_gpu,
        spares_gpus=not (request.order_by or request.processors_per_gpu),
    )


def node_objection(rules: NodeRules, node: NodeFacts) -> str:
    """Return why the node can never serve such requests, or an empty string if it can."""
    name = node.name.casefold()
    if node.processors < 1:
        return "has no processors"
    if rules.requested and name not in rules.requested:
        return "is not among the requested nodes"
    if rules.user and node.only_user not in ("", rules.user):
        return f"serves only user {node.only_user!r}"
    if name in rules.excluded:
        return "is excluded by the job"
    return (
        _outside(rules.memory, node.memory, "MB of memory")
        or _outside(rules.processors, node.processors, "processors")
        or _too_few_gpus(rules, node)
        or _outside_groups(rules, node)
        or unmet(rules.needs, node)
    )


def part_objection(part: RequestPart, node: NodeFacts) -> str:
    """Return why the node can never serve this part of a job, or an empty string if it can."""
    if part.required_nodes and node.name.casefold() not in folded(part.required_nodes):
        return "is not among the nodes that the task requires"
    if part.node_group and part.node_group.casefold() not in folded(node.groups):
        return f"is not in node group {part.node_group!r}"
    return unmet(part.needs, node)


def names_matter(part: RequestPart) -> bool:
    """Tell whether the part can tell nodes apart that are equal but for their names."""
    needs = part.needs
    named = needs.names or needs.excluded or needs.patterns or needs.excluded_patterns
    return bool(named or part.required_nodes)


def resource_key(order: tuple[OrderKey, ...], node: NodeFacts) -> tuple[int | str, ...]:
    """Return the key by which nodes are taken, smallest first; ties go by name."""
    amounts = {"memory": node.memory, "processors": node.processors, "speed": node.speed}
    return (*(amounts[key.by] if key.ascending else -amounts[key.by] for key in order), node.name)


def _outside(bounds: tuple[int | None, int | None], amount: int, noun: str) -> str:
    least, most = bounds
    if least is not None and amount < least:
        return f"has {amount} {noun}; the job needs at least {least}"
    if most is not None and amount > most:
        return f"has {amount} {noun}; the job accepts at most {most}"
    return ""


def _too_few_gpus(rules: NodeRules, node: NodeFacts) -> str:
    each = rules.processors_per_gpu
    if not each or (node.gpus and node.processors >= each):
        return ""
    return f"has {node.processors} processors; a GPU needs {each} of them" if node.gpus else "has no GPUs"


def _outside_groups(rules: NodeRules, node: NodeFacts) -> str:
    if not rules.groups:
        return ""
    missing = set(rules.groups) - folded(node.groups)
    if rules.group_op is NodeGroupOp.INTERSECT and missing:
        return f"is not in node group {', '.join(map(repr, sorted(missing)))}"
    if len(missing) == len(rules.groups):
        return f"is in none of the node groups {', '.join(map(repr, rules.groups))}"
    return ""


_MAX_SERVING = 10_000  # of what parts ask of nodes, for one table

NodeOrder = tuple[int, ...]
"""Numbers of nodes in the order in which they are taken."""


class NodeTable:
    """Nodes by number.  `units` is how many of each unit but GPUs a whole node has.

    With `reopened`, closed nodes count as open; removed ones never do.  A node that will close serves jobs
    that are over by then: within `open_for` seconds of the view's now, infinite if it is not drained.
    `reserved` are the reserved times of each node; they do not matter for what is `reopened`.
    Cost:  O(nodes) to make; candidates are worked out once for each kind of rules.  `cache`: what others do.
    """

    def __init__(self, nodes: Mapping[str, NodeView], *, reopened: bool = False) -> None:
        self.facts: list[NodeFacts] = [node.facts for node in nodes.values()]
        self.names = [node.name for node in self.facts]
        self.numbers = {name.casefold(): number for number, name in enumerate(self.names)}
        self.closed = [closed_as(node, reopened) for node in nodes.values()]
        self.switch_paths = [node.switches for node in nodes.values()]
        self.switched = any(self.switch_paths)
        self._tree: SwitchTree | None = None
        self._at_any_time = reopened
        self.processors = [node.processors for node in self.facts]
        self.sockets = [node.whole_sockets for node in self.facts]
        self.units: dict[UnitType, list[int]] = {
            UnitType.PROCESSOR: self.processors,
            UnitType.SOCKET: self.sockets,
            UnitType.NODE: [1] * len(self.facts),
        }
        self._gpus: dict[int, list[int]] = {}  # that come with so many processors each
        self._sorted: dict[tuple[tuple[OrderKey, ...], bool], list[int]] = {}
        self._looks = self._numbered_looks()
        self.follows = False  # the times of the table of which it was made
        self._see_times(nodes)

    def at_other_times(self, nodes: Mapping[str, NodeView]) -> "NodeTable":
        """Return the table of views of the same nodes that differ only in when they close or are reserved.

        What does not depend on that is shared.
        """
        table = copy(self)
        table._see_times(nodes)
        table.follows = table.times.follow(self.times)
        if table.follows:
            table._alternatives = {table._later(rules): each for rules, each in self._alternatives.items()}
            table._rules = {table._later(rules): number for rules, number in self._rules.items()}
            table._serving = self._serving
        return table

    def _later(self, rules: NodeRules) -> NodeRules:
        """Return rules of the table before at the times of this one, which follow those."""
        access = rules.access and rules.access._replace(lasts=self.times.edge_later(rules.access.lasts))
        return rules._replace(access=access, lasts=self.times.closing_later(rules.lasts))

    def _see_times(self, nodes: Mapping[str, NodeView]) -> None:
        """Note when the nodes close or are reserved, and forget what depends on that."""
        self.times = NodeTimes(nodes.values(), at_any_time=self._at_any_time)
        self.open_for, self.closing = self.times.open_for, bool(self.times.closings)
        self.reserved, self.reserving = self.times.reserved, any(self.times.reserved)
        self.changes = self.closing or self.reserving  # with time, though nothing happens
        self.alike, self.alike_of = self._grouped()
        self._alternatives: dict[NodeRules, tuple[NodeOrder, ...]] = {}
        self._rules: dict[NodeRules, int] = {}
        self._serving: dict[tuple[object, ...], ServingNodes] = {}
        self.cache = PassCache()

    def tree(self) -> "SwitchTree":
        """Return the switches above the nodes, where they are `switched`."""
        if self._tree is None:
            from headnode.core.scheduling.switches import switch_tree  # few clusters have switches

            self._tree = switch_tree(self.switch_paths, self.names)
        return self._tree

    def units_of(self, request: CountsUnits) -> list[int]:
        """Return how many of the unit in which a job counts there are of each node, if it has all of it."""
        if request.unit is not UnitType.GPU:
            return self.units[request.unit]
        each = request.processors_per_gpu
        known = self._gpus.get(each)
        if known is None:
            known = self._gpus[each] = [units_in(request, node.processors, node) for node in self.facts]
        return known

    def _numbered_looks(self) -> list[int]:
        """Return for each node a number, the same for nodes that look the same; -1 for closed nodes."""
        known: dict[tuple[object, ...], int] = {}
        return [
            -1 if closed or facts.processors < 1 else known.setdefault(looks_of(facts), len(known))
            for closed, facts in zip(self.closed, self.facts, strict=True)
        ]

    def _grouped(self) -> tuple[list[NodeOrder], list[int]]:
        """Return the open nodes that are equal but for their names, by name; and the group of each, or -1."""
        groups: dict[tuple[object, ...], list[int]] = {}
        seen = zip(self._looks, self.open_for, self.reserved, strict=True)
        for number, key in enumerate(seen):
            if key[0] >= 0:
                groups.setdefault(key, []).append(number)
        of = [-1] * len(self.facts)
        for group, numbers in enumerate(groups.values()):
            for number in numbers:
                of[number] = group
        names = self.names
        return [tuple(sorted(numbers, key=names.__getitem__)) for numbers in groups.values()], of

    def alternatives(self, request: JobRequest) -> tuple[NodeOrder, ...]:
        """Return the open nodes the request may use, in resource order.

        There are several lists, of which one must be chosen, only when groups must be uniform.
        """
        return self._listed(self._rules_of(request))

    def anywhere(self, request: JobRequest) -> tuple[NodeOrder, ...]:
        """Return the same whatever is reserved when: what it may use at some time."""
        return self._listed(self._rules_of(request)._replace(access=None))

    def access(self, request: JobRequest) -> ReservationAccess | None:
        """Return what matters of a request because of reservations; None: nothing does."""
        if not self.reserving and not request.reservation:
            return None
        return ReservationAccess(request.reservation, request.open_reservations, request.run_time)

    def _now_alike(self, request: JobRequest) -> ReservationAccess:
        """Return the access with the longest time that meets the same reservations, if it begins now."""
        if self._at_any_time:
            return ReservationAccess(request.reservation, request.open_reservations, request.run_time)
        return ReservationAccess(
            request.reservation, request.open_reservations, self.times.meeting_alike(request.run_time)
        )

    def taking(self, order: NodeOrder, access: ReservationAccess, begin: float) -> NodeOrder:
        """Return the nodes that take the job, as far as reservations go, so long from now (seconds).

        Nodes that are reserved for the same times are looked at once.
        """
        if self._at_any_time:
            return self.ever_taking(order, access)
        return self._reserved_as(order, [takes(times, access, begin) for times in self.times.distinct])

    def ever_taking(self, order: NodeOrder, access: ReservationAccess) -> NodeOrder:
        """Return the nodes that take it at some time."""
        return self._reserved_as(order, [ever_takes(times, access) for times in self.times.distinct])

    def _reserved_as(self, order: NodeOrder, good: list[bool]) -> NodeOrder:
        return order if all(good) else tuple([number for number in order if good[self.times.of[number]]])

    def kept_from(self, number: int, access: ReservationAccess) -> str:
        """Return why a node does not take the job now, as far as reservations go; nothing if it does."""
        if self._at_any_time and ever_takes(self.reserved[number], access):
            return ""
        return reserved_objection(self.reserved[number], access)

    def _listed(self, rules: NodeRules) -> tuple[NodeOrder, ...]:
        known = self._alternatives.get(rules)
        if known is None:
            known = self._alternatives[rules] = self._worked_out(rules)
            self._rules[rules] = len(self._rules)
        return known

    def rules(self, request: JobRequest) -> int:
        """Return the number of what the request demands of nodes: the same for the same alternatives."""
        rules = self._rules_of(request)
        self._listed(rules)
        return self._rules[rules]

    def _rules_of(self, request: JobRequest) -> NodeRules:
        rules = rules_of(request)
        if self.reserving or request.reservation:
            rules = rules._replace(access=self._now_alike(request))
        return rules._replace(lasts=self.times.closing_after(request.run_time)) if self.closing else rules

    def closes_too_soon(self, number: int, lasts: float) -> bool:
        """Return whether a node closes before what starts now and runs so long (seconds) is surely over."""
        return lasts > self.open_for[number]

    def serving(self, part: RequestPart) -> "ServingNodes":
        """Return the open nodes that can serve this part, whatever else its job demands of them.

        Cost:  O(groups of equal nodes) where their names do not matter, O(nodes) else.
        """
        asked = (part.needs, part.node_group, part.required_nodes)
        known = self._serving.get(asked)
        if known is None:
            if len(self._serving) >= _MAX_SERVING:
                self._serving.clear()
            known = self._serving[asked] = self._served(part)
        return known

    def _served(self, part: RequestPart) -> "ServingNodes":
        found: list[int] = []
        split: list[int] = []
        named = names_matter(part)
        for group, nodes in enumerate(self.alike):
            some = nodes if named else nodes[:1]
            good = [node for node in some if not part_objection(part, self.facts[node])]
            found += good if named or not good else nodes
            if named and 0 < len(good) < len(nodes):
                split.append(group)
        return ServingNodes(frozenset(found), frozenset(split))

    def _worked_out(self, rules: NodeRules) -> tuple[NodeOrder, ...]:
        access = rules.access
        if access is not None:
            whole = self._listed(rules._replace(access=None))
            return tuple(self.taking(order, access, 0.0) for order in whole)
        if rules.lasts:
            whole, stay = self._listed(rules._replace(lasts=0.0)), self.open_for
            return tuple(tuple(n for n in order if rules.lasts <= stay[n]) for order in whole)
        fit = tuple(
            number
            for number in self._in_order(rules.order, spares_gpus=rules.spares_gpus)
            if not self.closed[number] and not node_objection(rules, self.facts[number])
        )
        if not rules.groups or rules.group_op is not NodeGroupOp.UNIFORM:
            return (fit,)
        return tuple(
            tuple(number for number in fit if group in folded(self.facts[number].groups))
            for group in rules.groups
        )

    def _in_order(self, order: tuple[OrderKey, ...], *, spares_gpus: bool) -> list[int]:
        known = self._sorted.get((order, spares_gpus))
        if known is None:
            facts = self.facts
            known = sorted(range(len(facts)), key=lambda number: resource_key(order, facts[number]))
            if spares_gpus:
                known.sort(key=lambda number: facts[number].gpus > 0)
            self._sorted[order, spares_gpus] = known
        return known


class ServingNodes(NamedTuple):
    """Nodes that can serve a part of a job, and the groups of equal nodes of which only some can."""

    nodes: frozenset[int]
    split: frozenset[int]


class KnownNodes(NamedTuple):
    """Nodes, and their node table from an earlier pass."""

    nodes: Mapping[str, NodeView]
    node_table: NodeTable
