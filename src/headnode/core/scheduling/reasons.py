"""Why a job does not fit, in words.  Counts what the placement was offered; decides nothing itself.

`explain` asks the same placement code as the pass did, on the nodes as the plan leaves them."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import nsmallest
from math import inf

import msgspec

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.node import folded_names, natural_order
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.candidates import lowest, resolve_at_last, resolved_at_some_time
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.limit_checks import limit_reasons
from headnode.core.scheduling.node_table import NodeOrder, NodeTable, node_objection, rules_of
from headnode.core.scheduling.node_view import NodeView, held_with, typed_span
from headnode.core.scheduling.placement import at_minimum, find_placement, node_offers
from headnode.core.scheduling.plan import Plan, Reason, Shares, Why
from headnode.core.scheduling.request import ResolvedRequest, resolve
from headnode.core.scheduling.view import View, counted_licences, with_limits

MAX_NODES_NAMED = 8
"""How many nodes the short reasons of a pass name one by one."""

_NONE: Mapping[str, tuple[int, int]] = {}
_TOGETHER = Reason(
    Why.PROCESSORS, "the eligible nodes together cannot meet all requirements of the job at once"
)


def never_fits(
    request: JobRequest,
    nodes: Mapping[str, NodeView],
    licences: Mapping[str, tuple[int, int]] = _NONE,
    reopened: NodeTable | None = None,
) -> tuple[Reason, ...]:
    """Return why the job could not run even on the whole cluster when empty; nothing if it could.

    Closed nodes count, because they may open again; removed ones do not.
    reopened:  the table of the nodes with the closed ones open, if there is one already
    """
    node_table = NodeTable(nodes, reopened=True) if reopened is None else reopened
    there = with_limits(licences, request)
    resources = FreeResources.empty(node_table, {name: total for name, (total, _) in there.items()})
    need = resolve_at_last(request, node_table)
    limits = tuple(limit_reasons(need, resources))
    if not limits and find_placement(need, resources) is not None:
        return ()
    reasons = limits or (
        *_unknown_nodes(request, node_table),
        *_too_many_required(request, need),
        *_shortages(need, request, resources, now=False),
    )
    return tuple(Reason(Why.NEVER_FITS, reason.text, reason.what) for reason in reasons or (_TOGETHER,))


def shortage(need: ResolvedRequest, request: JobRequest, resources: FreeResources) -> tuple[Reason, ...]:
    """Return the short reasons why a request does not fit now; never none."""
    return tuple(_shortages(need, request, resources, now=True)) or (_TOGETHER,)


def _shortages(
    need: ResolvedRequest, request: JobRequest, resources: FreeResources, *, now: bool
) -> Iterator[Reason]:
    kept = tuple(_reserved(need, request, resources))
    some_time = resolved_at_some_time(need, resources.node_table) if now and kept else None
    if some_time is not None and find_placement(at_minimum(some_time), resources) is not None:
        yield from kept  # nothing else keeps it from starting
        kept = ()
    yield from _too_few(need, request, resources, now=now)
    if need.parts and not need.single:
        from headnode.core.scheduling.explain.part_reasons import parts_short

        yield from parts_short(need, request, resources, now=now)
    if need.switches:
        from headnode.core.scheduling.explain.switch_reasons import too_many_switches

        yield from too_many_switches(need, resources)
    if need.contiguous and find_placement(at_minimum(need._replace(contiguous=False)), resources) is not None:
        text = "enough is free, but not on contiguous nodes: the nodes stand in the order of their names"
        yield Reason(Why.CONTIGUOUS, text)
    yield from _too_few_alone(need, resources)
    yield from _licences(need, resources)
    yield from kept
    yield from _nodes_named(need, request, resources, now=now)


def node_by_node(need: ResolvedRequest, request: JobRequest, resources: FreeResources) -> tuple[Reason, ...]:
    """Return for every node that gives this need nothing, or nothing to some of its tasks, why."""
    from headnode.core.scheduling.explain.part_reasons import tasks_not_served

    outs = (
        (n, why_out(need, request, resources, n) or tasks_not_served(need, request, resources, n))
        for n in range(len(resources.node_table.names))
    )
    return tuple(_node(resources.node_table, number, text) for number, text in outs if text)


def why_out(need: ResolvedRequest, request: JobRequest, resources: FreeResources, number: int) -> str:
    """Return why a node gives this need nothing, or an empty string if it gives something."""
    node_table = resources.node_table
    unsuitable = node_objection(rules_of(request), node_table.facts[number])
    if unsuitable or node_table.closed[number]:
        return unsuitable or f"accepts no new jobs: {node_table.closed[number]}"
    if node_table.closes_too_soon(number, request.run_time):
        return _closes(node_table.open_for[number], request.run_time)
    kept = "" if need.access is None else node_table.kept_from(number, need.access)
    if kept:
        return f"is {kept}"
    return "" if node_offers(need, resources, (number,)) else _busy(need, resources, number)


def _closes(left: float, lasts: float) -> str:
    limit = "has no run time limit" if lasts == inf else f"may run {typed_span(lasts)}"
    return f"closes in {typed_span(left // 60 * 60)}, and the job {limit}"


def counted(amount: int, unit: UnitType | str) -> str:
    """Return an amount with its unit, such as `1 processor` or `2 nodes`."""
    word = unit.word if isinstance(unit, UnitType) else unit
    return f"{amount} {word}" if amount == 1 else f"{amount} {word}s"


def _too_few(
    need: ResolvedRequest, request: JobRequest, resources: FreeResources, *, now: bool
) -> Iterator[Reason]:
    units, nodes = max((_given(need, resources, order) for order in need.alternatives), default=(0, 0))
    if units >= need.minimum:
        return
    idle = "idle " if now and need.whole else ""
    there = f"at most {counted(units, need.unit)}"
    if need.unit is not UnitType.NODE:
        there += " on one node" if need.single else f" on {counted(nodes, idle + 'node')}"
    there = (
        f"{there} would fit{' now' if now else ''}" if units else _nothing(need, request, resources, now=now)
    )
    each = f" with {need.processors_per_gpu} processors each" if units and need.processors_per_gpu > 1 else ""
    yield Reason(Why.PROCESSORS, f"needs {counted(need.minimum, need.unit)}{each}; {there}")


def _nothing(need: ResolvedRequest, request: JobRequest, resources: FreeResources, *, now: bool) -> str:
    if not now:
        return "no node is eligible"
    from headnode.core.scheduling.explain.shut_nodes import why_none_accepts

    if shut := why_none_accepts(need, request, resources.node_table):
        return shut
    return "no eligible node is idle" if need.whole else "no eligible node has a free one"


def _given(need: ResolvedRequest, resources: FreeResources, order: NodeOrder) -> tuple[int, int]:
    """Return the units this list of nodes could give, and on how many nodes."""
    units = [units for _, units in node_offers(need, resources, order)]
    if need.single:
        return (max(units, default=0), 1)
    return (sum(units), len(units))


def _too_few_alone(need: ResolvedRequest, resources: FreeResources) -> Iterator[Reason]:
    alone = max(
        (
            sum(
                units
                for number, units in node_offers(need, resources, order)
                if resources.is_idle(number) and units == resources.node_table.units_of(need)[number]
            )
            for order in need.alternatives
        ),
        default=0,
    )
    if alone < need.share:
        asked = f"an exclusive task needs {counted(need.share, need.unit)} on idle nodes"
        yield Reason(Why.PROCESSORS, f"{asked}; they have {alone or 'none'}")


def _licences(need: ResolvedRequest, resources: FreeResources) -> Iterator[Reason]:
    yield from limit_reasons(need, resources)
    for feature in sorted({*need.fixed, *need.each} - {share.key for share in need.limits}):
        asked = need.fixed.get(feature, 0) + (need.minimum if feature in need.each else 0)
        free = resources.licences.get(feature, inf)
        if asked > free:
            yield Reason(Why.LICENCES, f"needs {asked} of licence {feature!r}; {free} available", feature)


def _reserved(need: ResolvedRequest, request: JobRequest, resources: FreeResources) -> Iterator[Reason]:
    """Yield each reservation that keeps nodes from the job which would serve it otherwise."""
    node_table, access = resources.node_table, need.access
    if access is None:
        return
    known = {each.name for times in node_table.reserved for each in times}
    if access.reservation and access.reservation not in known:
        what = f"the job runs only in reservation {access.reservation!r}, which does not exist"
        yield Reason(Why.RESERVED, what, access.reservation)
        return
    rules, kept = rules_of(request), dict[str, list[str]]()
    for number in sorted(range(len(node_table.names)), key=node_table.names.__getitem__):
        if not node_table.closed[number] and not node_objection(rules, node_table.facts[number]):
            text = node_table.kept_from(number, access)
            if text:
                kept.setdefault(text, []).append(node_table.names[number])
    for text, names in kept.items():
        yield Reason(Why.RESERVED, f"{_together(names)} {'is' if len(names) == 1 else 'are'} {text}")


def _nodes_named(
    need: ResolvedRequest, request: JobRequest, resources: FreeResources, *, now: bool
) -> Iterator[Reason]:
    """Yield required nodes that give nothing, closed ones that would serve, and all if none can serve.

    Not `now` but for ever, all that give nothing are told: it must be seen which demand leaves too few.
    """
    if not now:
        yield from _alike(need, request, resources)
        return
    node_table, rules = resources.node_table, rules_of(request)
    among = sorted(need.required) if any(need.alternatives) else range(len(node_table.names))
    missing = [n for n in among if why_out(need, request, resources, n)]
    closed = [
        n
        for n, why in enumerate(node_table.closed)
        if (why or node_table.closes_too_soon(n, request.run_time))
        and not node_objection(rules, node_table.facts[n])
    ]
    outs = list(dict.fromkeys((*missing, *closed)))
    for number in nsmallest(MAX_NODES_NAMED, outs, node_table.names.__getitem__):
        yield _node(node_table, number, why_out(need, request, resources, number))
    if len(outs) > MAX_NODES_NAMED:
        yield Reason(Why.NODE, f"{len(outs) - MAX_NODES_NAMED} more nodes are not available")


def _alike(need: ResolvedRequest, request: JobRequest, resources: FreeResources) -> Iterator[Reason]:
    """Yield why nodes give nothing, alike ones together; `_reserved` tells what reservations take."""
    node_table, alike = resources.node_table, dict[str, list[str]]()
    for number in sorted(range(len(node_table.names)), key=node_table.names.__getitem__):
        text = why_out(need, request, resources, number)
        kept = "" if need.access is None else node_table.kept_from(number, need.access)
        if text and text != f"is {kept}":
            alike.setdefault(text, []).append(node_table.names[number])
    for text, names in list(alike.items())[:MAX_NODES_NAMED]:
        who = f"node {names[0]!r}" if len(names) == 1 else f"each of the nodes {_together(names)}"
        yield Reason(Why.NODE, f"{who} {text}", names[0] if len(names) == 1 else "")
    untold = sum(map(len, list(alike.values())[MAX_NODES_NAMED:]))
    if untold:
        yield Reason(Why.NODE, f"{untold} more nodes are not available")


def _together(names: Iterable[str]) -> str:
    return ", ".join(folded_names(sorted(names, key=natural_order)))


def _busy(need: ResolvedRequest, resources: FreeResources, number: int) -> str:
    if resources.owned[number]:
        return "is used exclusively by one job"
    if need.whole and resources.jobs[number]:
        return f"has {counted(resources.jobs[number], 'job')} running, and this job needs exclusive nodes"
    if need.memory and 0 <= resources.memory[number] < need.memory:
        free = resources.memory[number]
        return f"has {free} MB of memory free; the job needs {need.memory} MB for each processor"
    if lacking := _lacking(need, resources, number):
        return lacking
    gpus = resources.gpus[number]
    if need.unit is UnitType.GPU and not need.whole and gpus < 1:
        all_of = resources.node_table.facts[number].gpus
        return f"has {'its 1 GPU' if all_of == 1 else f'all {all_of} GPUs'} in use"
    if need.unit is UnitType.GPU and not need.whole and resources.free[number] > 0:
        there = f"{counted(gpus, 'GPU')} and {counted(resources.free[number], 'processor')}"
        return f"has {there} free; a GPU needs {need.processors_per_gpu} of them"
    if resources.free[number] > 0:
        return f"has {counted(resources.free[number], 'processor')} free, which is not a whole {need.unit}"
    processors = resources.node_table.processors[number]
    return f"has {'its 1 processor' if processors == 1 else f'all {processors} processors'} in use"


def _lacking(need: ResolvedRequest, resources: FreeResources, number: int) -> str:
    """Return of what a node has too little free, among what the job would hold of it; "" when of nothing."""
    for what, free in zip(("memory", "disk", "swap"), resources.amounts[:3], strict=True):
        wanted = getattr(need.held, what)
        if free[number] < wanted:
            left = max(0, free[number])
            return f"has {left} MB of {what} that no job holds; the job requests {wanted} MB on each node"
    return ""


def _node(node_table: NodeTable, number: int, text: str) -> Reason:
    return Reason(Why.NODE, f"node {node_table.names[number]!r} {text}", node_table.names[number])


def _unknown_nodes(request: JobRequest, node_table: NodeTable) -> Iterator[Reason]:
    for name in dict.fromkeys((*request.required_nodes, *request.requested_nodes)):
        if name.casefold() not in node_table.numbers:
            yield Reason(Why.NODE, f"there is no node {name!r}", name)


def _too_many_required(request: JobRequest, need: ResolvedRequest) -> Iterator[Reason]:
    required = len({name.casefold() for name in request.required_nodes})
    if required > need.maximum:
        wanted = f"its tasks require {counted(required, 'node')}"
        yield Reason(Why.NODE, f"{wanted}, but its maximum is {counted(need.maximum, need.unit)}")


Reasons = tuple[Reason, ...]


def with_alternatives(told: Iterable[Reasons]) -> Reasons:
    """Return the reasons of a job in one list, from those for each of its options, its own first."""
    own, *others = told
    return (*own, *(_line(number, reasons) for number, reasons in enumerate(others, start=1)))


MAX_FOUND = 10_000  # requests of which it is remembered whether they can ever run


class EmptyCluster:
    """What was found of requests on these nodes without jobs, with so many licences in all."""

    def __init__(self) -> None:
        self.node_table: NodeTable | None = None
        self.cache: dict[tuple[JobRequest, tuple[tuple[str, int], ...]], Reasons] = {}


def never_with_any(request: JobRequest, view: View) -> Reasons:
    """Return why the job could not run even on the whole cluster when empty, under none of its options.

    Nothing if it could under one.  It is worked out once for equal requests, as long as the nodes stay.
    """
    empty, asked = view.node_table().cache.of(EmptyCluster), (request, counted_licences(request, view))
    known = empty.cache.get(asked)
    if known is None:
        if len(empty.cache) >= MAX_FOUND:
            empty.cache.clear()
        table = empty.node_table = empty.node_table or NodeTable(view.nodes, reopened=True)
        options = (request, *request.alternatives)
        found = [never_fits(each, view.nodes, view.licences, table) for each in options]
        known = empty.cache[asked] = with_alternatives(found) if all(found) else ()
    return known


def _line(number: int, reasons: Reasons) -> Reason:
    by_node = sorted(reasons, key=lambda reason: reason.what if reason.why is Why.NODE else "")
    text = "; ".join(reason.text for reason in by_node)
    return Reason(Why.ALTERNATIVE, f"alternative {number}: {text or 'it could start'}", str(number))


def explain(view: View, plan: Plan, request: JobRequest) -> tuple[Reason, ...]:
    """Return every reason why jobs of this request wait; nothing if the plan lets none of them wait.

    `plan` must have been made from `view`.
    Cost:  O(nodes + starts).
    """
    wait = plan.waits.get(request)
    if wait is None:
        return ()
    nodes, request = _nodes_after(view, plan), lowest(request)
    node_table = NodeTable(nodes)
    resources = FreeResources.now(node_table, nodes, {})  # what licences remain, the pass itself has told
    told = tuple(reason for reason in wait.reasons if reason.why is not Why.NODE or not reason.what)
    return (*told, *node_by_node(resolve(request, node_table), request, resources))


def _nodes_after(view: View, plan: Plan) -> dict[str, NodeView]:
    """Return the nodes as the plan leaves them."""
    nodes = dict(view.nodes)
    known = {name.casefold(): name for name in nodes}
    grown = {grow.job for grow in plan.grows}
    for job, request, allocation in _given_shares(view, plan):
        for name, taken in allocation:
            own = known[name.casefold()]
            held = held_with(nodes[own], request, taken, first=job not in grown)
            nodes[own] = _held(held, job, request, taken)
    return nodes


def _held(node: NodeView, job: JobId, request: JobRequest, taken: int) -> NodeView:
    return msgspec.structs.replace(
        node,
        free=node.free - taken,
        jobs=node.jobs + 1,
        exclusive_to=job if request.exclusive else node.exclusive_to,
    )


def _given_shares(view: View, plan: Plan) -> Iterator[tuple[JobId, JobRequest, Shares]]:
    started = {start.job: start for start in plan.starts}
    for waiting in view.queue:
        for turn in waiting.turns:
            job = turn.job
            if job not in started:
                break  # the jobs of a class start in turn
            start = started[job]
            yield job, start.taken(waiting.request), start.allocation
    requests = {running.job: running.request for running in view.running}
    yield from ((grow.job, requests[grow.job], grow.allocation) for grow in plan.grows)
