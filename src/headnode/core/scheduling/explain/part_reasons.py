"""Why a job's tasks do not find room, task by task: for gangs, and for tasks with nodes of their own."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial

from headnode.core.model.job import JobRequest, RequestPart, UnitType
from headnode.core.model.node_needs import needs_in_words
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.gang_layout import lay_parts, offered_units
from headnode.core.scheduling.gang_search import OfferedUnits
from headnode.core.scheduling.node_table import part_objection
from headnode.core.scheduling.placement import node_offers
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.scheduling.request import ResolvedPart, ResolvedRequest
from headnode.core.scheduling.task_cover import cover_tasks, is_bounded

MAX_TASKS_NAMED = 5


def parts_short(
    need: ResolvedRequest, request: JobRequest, resources: FreeResources, *, now: bool
) -> Iterator[Reason]:
    """Yield what parts need that find no room even alone; else the first that finds none beside others."""
    if need.single or not need.parts or not need.alternatives:
        return
    field = max(
        (offered_units(need, resources, node_offers(need, resources, order)) for order in need.alternatives),
        key=lambda field: sum(field.there.values()),
    )
    alone = [n for n, part in enumerate(need.parts) if part.lumps and lay_parts((part,), field) is None]
    for number in alone[:MAX_TASKS_NAMED]:
        room = _room(need, need.parts[number], field, now=now)
        yield Reason(Why.PROCESSORS, f"{_demand(need, request, number)}; {room}")
    if len(alone) > MAX_TASKS_NAMED:
        yield Reason(Why.PROCESSORS, f"{len(alone) - MAX_TASKS_NAMED} more tasks do not fit")
    if not alone:
        yield from _beside_others(need, request, resources, field)


def _beside_others(
    need: ResolvedRequest, request: JobRequest, resources: FreeResources, field: OfferedUnits
) -> Iterator[Reason]:
    if not need.together:
        if is_bounded(need) and cover_tasks(need, resources, tuple(field.there.items()), {}) is None:
            most = _counted(need.ceiling, need.unit)
            what = f"the nodes of different kinds that its tasks need add up to more than its maximum, {most}"
            yield Reason(Why.PROCESSORS, what)
        return
    parts = need.parts
    fit = bisect_left(
        range(len(parts)), True, key=lambda number: lay_parts(parts[: number + 1], field) is None
    )
    if fit < len(parts):
        what = f"{_demand(need, request, fit)}; it does not fit beside {_before(fit)}"
        yield Reason(Why.PROCESSORS, what)


def _before(number: int) -> str:
    return "task 1" if number == 1 else f"tasks 1 to {number}"


def _demand(need: ResolvedRequest, request: JobRequest, number: int) -> str:
    """Return what a part asks for, such as ``task 2 needs 8 processors on nodes with feature 'gpu'``."""
    who = f"task {number + 1}" if need.together else "a task"
    return f"{who} needs {_size(need, need.parts[number])}{_where(request.parts[number])}"


def _size(need: ResolvedRequest, part: ResolvedPart) -> str:
    if part.whole and not part.apart:
        return f"{_counted(part.units, need.unit)} on exclusive nodes"
    lumps = [
        _counted(size, need.unit) if times == 1 else f"{times} times {_counted(size, need.unit)}"
        for size, times in part.lumps
    ]
    if _is_one(part):
        return f"{lumps[0]} on one node"
    if part.apart:
        return f"{' and '.join(lumps)}, each on a different node"
    if part.size == 1:
        return _counted(part.units, need.unit)
    return f"{' and '.join(lumps)}, each on one node"


def _is_one(part: ResolvedPart) -> bool:
    """Tell whether all that a part needs must lie on one node."""
    lies_whole = part.apart or (part.size != 1 and not part.whole)
    return lies_whole and [times for _, times in part.lumps] == [1]


def _counted(amount: int, unit: UnitType) -> str:
    return f"{amount} {unit.word}" if amount == 1 else f"{amount} {unit.word}s"


def _where(part: RequestPart) -> str:
    said = [f"in node group {part.node_group!r}"] if part.node_group else []
    said += [f"named {' and '.join(map(repr, part.required_nodes))}"] if part.required_nodes else []
    words = needs_in_words(part.needs)
    said += [words] if words else []
    return f" on nodes {', '.join(said)}" if said else ""


def _room(need: ResolvedRequest, part: ResolvedPart, field: OfferedUnits, *, now: bool) -> str:
    """Return for how much of a part there would be room without other jobs."""
    there = [units for node, units in field.there.items() if node in part.nodes]
    if part.whole:
        there = [units for node, units in field.there.items() if node in part.nodes and node in field.alone]
    if not there:
        return "no such node is available now" if now else "there is no such node"
    if part.size == 1 and not part.apart:
        return f"{_counted(sum(there), need.unit)} {'free there' if now else 'there in all'}"
    if _is_one(part):
        return f"{_counted(max(there), need.unit)} at most on one node{' now' if now else ''}"
    fits = _lumps_that_fit(part, there)
    return f"there is room for {fits or 'none'} of them{' now' if now else ''}"


def _lumps_that_fit(part: ResolvedPart, there: Sequence[int]) -> int:
    if part.size and not part.apart:
        return sum(units // part.size for units in there)
    left, fits = sorted(there), 0
    for size, times in reversed(part.lumps):  # the smallest first: more of them fit
        for _ in range(times):
            left = [units for units in left if units >= size]
            if not left:
                return fits
            left.pop(0)
            fits += 1
    return fits


def tasks_not_served(
    need: ResolvedRequest, request: JobRequest, resources: FreeResources, number: int
) -> str:
    """Return which parts a node cannot serve and why, or an empty string if it can serve all."""
    told: dict[str, list[int]] = {}
    for place, (part, asked) in enumerate(zip(need.parts, request.parts, strict=True), start=1):
        if number not in part.nodes and part.lumps:
            told.setdefault(part_objection(asked, resources.node_table.facts[number]), []).append(place)
    who = _tasks if need.together else partial(_those_asking, need, request)
    return "; ".join(f"cannot serve {who(places)}: it {why}" for why, places in told.items() if why)


def _those_asking(need: ResolvedRequest, request: JobRequest, places: Sequence[int]) -> str:
    part = places[0] - 1
    return f"a task that needs {_size(need, need.parts[part])}{_where(request.parts[part])}"


def _tasks(places: Sequence[int]) -> str:
    if len(places) == 1:
        return f"task {places[0]}"
    shown = ", ".join(map(str, places[:MAX_TASKS_NAMED]))
    return f"tasks {shown}" + (" and more" if len(places) > MAX_TASKS_NAMED else "")
