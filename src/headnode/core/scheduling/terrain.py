"""The nodes of a view, numbered, with everything about them that a pass does not change."""

from bisect import bisect_left
from collections.abc import Mapping
from math import inf
from typing import Any, NamedTuple, TypeVar

from headnode.core.model.job import JobRequest, NodeGroupOp, OrderKey, Part, UnitType
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.reserved_times import (
    Access,
    ever_takes,
    instants_of,
    objection_in_words,
    takes,
)
from headnode.core.scheduling.suitability import (
    Rules,
    fold,
    names_matter,
    objection,
    part_objection,
    resource_key,
    rules_of,
)

_MOST_SERVING = 10_000  # of what parts ask of nodes, for one terrain

Order = tuple[int, ...]
"""Numbers of nodes in the order in which they are taken."""

Cached = TypeVar("Cached")


class PassCache:
    """What passes have worked out on the same nodes: one object of each class that is asked for.

    It only saves work: a pass with an empty cache makes the same plan.
    """

    def __init__(self) -> None:
        self._by_class: dict[type[object], Any] = {}

    def of(self, cached: type[Cached]) -> Cached:
        """Return the object of this class; it is made, without arguments, when first asked for."""
        known: Cached | None = self._by_class.get(cached)
        if known is None:
            known = self._by_class[cached] = cached()
        return known


class Terrain:
    """Nodes by number.  `units` says how much of each unit a whole node is.

    With `reopened`, closed nodes count as open; removed ones never do.  A node that will close serves those
    who are over by then: of `open_for` seconds from the view's now, infinite where nobody closes it.
    `reserved` are the times that each is kept for some; whoever asks what is `reopened` asks for no time.
    Cost:  O(nodes) to make; candidates are worked out once for each kind of rules.  What others work out
    on these nodes is remembered with them, in `cache`.
    """

    def __init__(self, nodes: Mapping[str, NodeView], *, reopened: bool = False) -> None:
        self.facts: list[NodeFacts] = [node.facts for node in nodes.values()]
        self.names = [node.name for node in self.facts]
        self.numbers = {name.casefold(): number for number, name in enumerate(self.names)}
        self.closed = [_closed(node, reopened) for node in nodes.values()]
        self.open_for = [inf if reopened else node.open_for for node in nodes.values()]
        self.closing = any(left < inf for left in self.open_for)
        self.reserved = [node.reserved for node in nodes.values()]
        self.reserving = any(self.reserved)
        self._edges = sorted(instants_of(self.reserved)) if self.reserving else []
        self.changes = self.closing or self.reserving  # with time, though nothing happens
        self._at_any_time = reopened
        self.processors = [node.processors for node in self.facts]
        self.sockets = [max(1, min(node.sockets, node.processors)) for node in self.facts]
        self.units: dict[UnitType, list[int]] = {
            UnitType.PROCESSOR: self.processors,
            UnitType.SOCKET: self.sockets,
            UnitType.NODE: [1] * len(self.facts),
        }
        self.alike, self.alike_of = self._grouped()
        self._sorted: dict[tuple[OrderKey, ...], list[int]] = {}
        self._alternatives: dict[Rules, tuple[Order, ...]] = {}
        self._rules: dict[Rules, int] = {}
        self._serving: dict[tuple[object, ...], Serving] = {}
        self.cache = PassCache()

    def _grouped(self) -> tuple[list[Order], list[int]]:
        """Return the open nodes that are equal but for their names, by name; and the group of each, or -1."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, facts in enumerate(self.facts):
            if not self.closed[number] and facts.processors > 0:
                groups.setdefault((*_looks(facts), self.open_for[number], self.reserved[number]), []).append(
                    number
                )
        of = [-1] * len(self.facts)
        for group, numbers in enumerate(groups.values()):
            for number in numbers:
                of[number] = group
        names = self.names
        return [tuple(sorted(numbers, key=names.__getitem__)) for numbers in groups.values()], of

    def alternatives(self, request: JobRequest) -> tuple[Order, ...]:
        """Return the open nodes the request may use, in resource order.

        There are several lists, of which one must be chosen, only when groups must be uniform.
        """
        return self._listed(self._rules_of(request))

    def anywhere(self, request: JobRequest) -> tuple[Order, ...]:
        """Return the same whatever is reserved when: what it may use at some time."""
        return self._listed(self._rules_of(request)._replace(access=None))

    def access(self, request: JobRequest) -> Access | None:
        """Return what matters of a request because of reservations; None: nothing does."""
        if not self.reserving and not request.reservation:
            return None
        return Access(request.reservation, request.welcome, request.run_time)

    def _now_alike(self, request: JobRequest) -> Access:
        """Return the access with the longest time that meets the same reservations, if it begins now.

        So requests of many run times have the same candidates.
        """
        if self._at_any_time:
            return Access(request.reservation, request.welcome, request.run_time)
        place = bisect_left(self._edges, request.run_time)
        lasts = self._edges[place] if place < len(self._edges) else inf
        return Access(request.reservation, request.welcome, lasts)

    def takes(self, number: int, access: Access, begin: float) -> bool:
        """Return whether a node takes the job, as far as reservations go, so long from now (seconds)."""
        if self._at_any_time:
            return self.ever_takes(number, access)
        return takes(self.reserved[number], access, begin)

    def ever_takes(self, number: int, access: Access) -> bool:
        """Return whether it does at some time."""
        return ever_takes(self.reserved[number], access)

    def kept_from(self, number: int, access: Access) -> str:
        """Return why a node does not take the job now, as far as reservations go; nothing if it does."""
        if self._at_any_time and self.ever_takes(number, access):
            return ""
        return objection_in_words(self.reserved[number], access)

    def _listed(self, rules: Rules) -> tuple[Order, ...]:
        known = self._alternatives.get(rules)
        if known is None:
            known = self._alternatives[rules] = self._worked_out(rules)
            self._rules[rules] = len(self._rules)
        return known

    def rules(self, request: JobRequest) -> int:
        """Return the number of what the request demands of nodes: the same for the same alternatives."""
        self.alternatives(request)
        return self._rules[self._rules_of(request)]

    def _rules_of(self, request: JobRequest) -> Rules:
        rules = rules_of(request)
        if self.reserving or request.reservation:
            rules = rules._replace(access=self._now_alike(request))
        return rules._replace(lasts=request.run_time) if self.closing else rules

    def closes_too_soon(self, number: int, lasts: float) -> bool:
        """Return whether a node closes before what starts now and runs so long (seconds) is surely over."""
        return lasts > self.open_for[number]

    def serving(self, part: Part) -> "Serving":
        """Return the open nodes that can serve this part, whatever else its job demands of them.

        Cost:  O(groups of equal nodes) where their names do not matter, O(nodes) else.
        """
        asked = (part.needs, part.node_group, part.required_nodes)
        known = self._serving.get(asked)
        if known is None:
            if len(self._serving) >= _MOST_SERVING:
                self._serving.clear()
            known = self._serving[asked] = self._served(part)
        return known

    def _served(self, part: Part) -> "Serving":
        found: list[int] = []
        split: list[int] = []
        named = names_matter(part)
        for group, nodes in enumerate(self.alike):
            some = nodes if named else nodes[:1]
            good = [node for node in some if not part_objection(part, self.facts[node])]
            found += good if named or not good else nodes
            if named and 0 < len(good) < len(nodes):
                split.append(group)
        return Serving(frozenset(found), frozenset(split))

    def _worked_out(self, rules: Rules) -> tuple[Order, ...]:
        access = rules.access
        if access is not None:
            whole = self._listed(rules._replace(access=None))
            return tuple(tuple(n for n in order if self.takes(n, access, 0.0)) for order in whole)
        fit = tuple(
            number
            for number in self._in_order(rules.order)
            if not self.closed[number]
            and not self.closes_too_soon(number, rules.lasts)
            and not objection(rules, self.facts[number])
        )
        if not rules.groups or rules.group_op is not NodeGroupOp.UNIFORM:
            return (fit,)
        return tuple(
            tuple(number for number in fit if group in fold(self.facts[number].groups))
            for group in rules.groups
        )

    def _in_order(self, order: tuple[OrderKey, ...]) -> list[int]:
        known = self._sorted.get(order)
        if known is None:
            known = sorted(range(len(self.facts)), key=lambda number: resource_key(order, self.facts[number]))
            self._sorted[order] = known
        return known


class Serving(NamedTuple):
    """Nodes that can serve a part of a job, and the groups of equal nodes of which only some can."""

    nodes: frozenset[int]
    split: frozenset[int]


class Ground(NamedTuple):
    """Nodes, and what was worked out about them."""

    nodes: Mapping[str, NodeView]
    terrain: Terrain


def _looks(facts: NodeFacts) -> tuple[object, ...]:
    """Return everything a request can tell of a node, but its name."""
    return (
        facts.processors,
        facts.sockets,
        facts.memory,
        facts.speed,
        facts.groups,
        facts.features,
        facts.architecture,
        facts.system,
        facts.disk,
        facts.swap,
        facts.serves,
    )


def _closed(node: NodeView, reopened: bool) -> str:
    if reopened and node.closed != NodeState.REMOVED:
        return ""
    return node.closed
