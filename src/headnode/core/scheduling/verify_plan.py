"""Whether a plan may be carried out: for plans that our own policies and placement did not make."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.candidates import resolve_now
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.plan import (
    Grow,
    LazyReasons,
    Plan,
    Reason,
    Reservation,
    Shares,
    Start,
    Wait,
    Why,
)
from headnode.core.scheduling.request import ResolvedPart, ResolvedRequest, resolve_growth, units_in
from headnode.core.scheduling.task_cover import is_bounded
from headnode.core.scheduling.view import View

Units = Mapping[int, int]
"""How many units a job holds of each node."""


def no_room_for_tasks(need: ResolvedRequest, units: Units, resources: FreeResources) -> str:
    """Return why tasks that share what the job holds do not all find room in it; nothing if they do."""
    owned = {node for node, count in units.items() if need.whole or _is_all(need, node, count, resources)}
    for number, part in enumerate(need.parts, start=1):
        if not _has_room(part, {n: c for n, c in units.items() if not part.whole or n in owned}):
            return f"its tasks do not all find eligible nodes in it (kind {number})"
    return ""


def _has_room(part: ResolvedPart, units: Units) -> bool:
    there = sorted((count for node, count in units.items() if node in part.nodes), reverse=True)
    if not part.apart:
        return sum(there) >= part.units
    lumps = [size for size, times in part.lumps for _ in range(min(times, len(there) + 1))]
    return len(lumps) <= len(there) and all(map(int.__ge__, there, lumps))


def wrongly_divided(
    need: ResolvedRequest, fit: Placement, parts: Sequence[Placement], resources: FreeResources
) -> str:
    """Return what is wrong with how a gang's share are divided among its tasks; nothing if all is well."""
    if not need.together:
        return "it has parts, but is not a gang" if parts else ""
    if len(parts) != len(need.parts):
        return f"it needs {len(need.parts)} parts, one for each task"
    given = Counter[int]()
    for mine in parts:
        given.update(dict(mine))
    held = dict(fit)
    if any(len(dict(mine)) < len(mine) for mine in parts):
        return "a part has a node twice"
    if given.keys() != held.keys() or any(given[node] > held[node] for node in given):
        return "its parts do not add up to its allocation"
    if given != held and not need.exclusive:
        return "some of it belongs to no task"
    for number, (part, units) in enumerate(
        zip(need.parts, _in_units(need, parts, resources), strict=True), start=1
    ):
        if not _is_right(need, part, units, resources):
            return f"part {number} of it is not what task {number} needs"
    return ""


def _in_units(need: ResolvedRequest, parts: Sequence[Placement], resources: FreeResources) -> Iterator[Units]:
    """Yield the units of each part by node; sockets of several sizes are counted in that order."""
    taken: Counter[int] = Counter()
    for mine in parts:
        before = {node: units_in(need, (node, taken[node]), resources.node_table) for node, _ in mine}
        taken.update(dict(mine))
        yield {
            node: units_in(need, (node, taken[node]), resources.node_table) - before[node] for node, _ in mine
        }


def _is_right(need: ResolvedRequest, part: ResolvedPart, units: Units, resources: FreeResources) -> bool:
    """Return whether a part has what its lumps need, and nothing more."""
    if not part.nodes >= units.keys() >= part.required or 0 in units.values():
        return False
    if part.whole:
        lumps = sum(times for _, times in part.lumps)
        as_many = len(units) == lumps if part.apart else len(units) <= lumps
        return (
            as_many
            and _has_room(part, units)
            and all(_is_all(need, n, c, resources) for n, c in units.items())
        )
    if sum(units.values()) != part.units:
        return False
    if part.apart:
        sizes = [size for size, times in part.lumps for _ in range(times)]
        return sorted(units.values(), reverse=True) == sizes
    return not part.size or all(count % part.size == 0 for count in units.values())


def _is_all(need: ResolvedRequest, node: int, units: int, resources: FreeResources) -> bool:
    """Return whether so many units are all of a node, with no other job on it."""
    return units == resources.node_table.units_of(need)[node] and resources.is_idle(node)


_Part = tuple[int, int]
"""A node's number and processors of it."""


def plan_violation(plan: Plan, view: View) -> str:
    """Return the first thing given that may not be, or an empty string.

    Cost:  O(nodes + what is given).
    """
    node_table = view.node_table()
    resources = FreeResources.now(
        node_table, view.nodes, {name: free for name, (_, free) in view.licences.items()}
    )
    running = {job.job: job for job in view.running}
    given: list[tuple[JobId, Start | Grow, ResolvedRequest | None]] = []
    for grow in plan.grows:
        job = running.pop(grow.job, None)
        given.append((grow.job, grow, None if job is None else resolve_growth(job, node_table)))
    waiting = {turn.job: each.request for each in view.queue for turn in each.turns}
    for start in plan.starts:
        asked = _asked(waiting.pop(start.job, None), start)
        given.append((start.job, start, None if asked is None else resolve_now(asked, node_table, view.now)))
    for number, each, need in given:
        if need is None:
            return f"its plan gives something to job {number} twice, or the job waits for nothing of the kind"
        parts = each.parts if isinstance(each, Start) else ()
        wrong = allocation_violation(need, each.allocation, resources, parts)
        if wrong:
            return f"its plan gives job {number} {each.allocation!r}: {wrong}"
        resources.put(need.piece(_parts(each.allocation, resources)))
    return ""


def _asked(request: JobRequest | None, start: Start) -> JobRequest | None:
    """Return what a start gives of the request of a waiting job; None if it cannot be given that."""
    if request is None or not 0 <= start.option <= len(request.alternatives):
        return None
    return start.taken(request) if request.option(start.option).allows_limit(start.lowered_limit) else None


def allocation_violation(
    need: ResolvedRequest, shares: Shares, resources: FreeResources, divided: Sequence[Shares] = ()
) -> str:
    """Return why these may not be held now, or an empty string if they may.

    `divided` says, for a gang, what of it is for each task.
    """
    known = resources.node_table.numbers
    if not all(name.casefold() in known for each in (shares, *divided) for name, _ in each):
        return "a node that does not exist"
    parts = _parts(shares, resources)
    nodes = {number for number, _ in parts}
    if len(nodes) < len(parts):
        return "a node twice"
    if need.impossible or not any(nodes <= set(order) for order in need.alternatives):
        return "a node that is not eligible"
    for part in parts:
        if not _is_free(need, part, resources):
            return f"{resources.node_table.names[part[0]]!r} does not have that much free"
    return (
        _size(need, parts, resources)
        or _for_tasks(need, parts, [_parts(each, resources) for each in divided], resources)
        or _licences(need, parts, resources)
    )


def _for_tasks(
    need: ResolvedRequest, held: Placement, divided: Sequence[Placement], resources: FreeResources
) -> str:
    if need.together or divided:
        return wrongly_divided(need, held, divided, resources)
    units = {part[0]: _units(need, part, resources) for part in held}
    return no_room_for_tasks(need, units, resources) if need.parts else ""


def _parts(shares: Shares, resources: FreeResources) -> tuple[_Part, ...]:
    return tuple((resources.node_table.numbers[name.casefold()], count) for name, count in shares)


def _is_free(need: ResolvedRequest, part: _Part, resources: FreeResources) -> bool:
    number, count = part
    if (
        resources.owned[number]
        or not 0 < count <= resources.free[number]
        or not resources.has(number, need.held)
    ):
        return False
    if need.whole:
        alone = count == resources.node_table.processors[number] and resources.is_idle(number)
        return alone and _units(need, part, resources) > 0
    if need.unit is UnitType.GPU and not _is_gpus(need, count, resources.gpus[number]):
        return False
    return count * need.memory <= resources.memory[number] - need.held.memory


def _is_gpus(need: ResolvedRequest, processors: int, free: int) -> bool:
    """Return whether so many processors are those of whole GPUs, which are free."""
    gpus, rest = divmod(processors, need.processors_per_gpu)
    return not rest and gpus <= free


def _units(need: ResolvedRequest, part: _Part, resources: FreeResources) -> int:
    """Return what a part is worth; of a whole node, what its memory is enough for."""
    number, count = part
    room = count
    if need.memory:
        room = min(count, (resources.memory[number] - need.held.memory) // need.memory)
    return units_in(need, (number, room), resources.node_table)


def _size(need: ResolvedRequest, parts: Sequence[_Part], resources: FreeResources) -> str:
    units = sum(_units(need, part, resources) for part in parts)
    if units < need.minimum:
        return f"it needs at least {need.minimum}"
    if units > need.maximum and is_bounded(need):
        return f"it wants at most {need.maximum}"
    if need.single and len(parts) != 1:
        return "it wants one node"
    if need.switches:
        from headnode.core.scheduling.switches import leaves_used  # few clusters have switches

        if leaves_used(resources.node_table.tree(), (number for number, _ in parts)) > need.switches:
            return f"it wants at most {need.switches} leaf switches"
    if need.contiguous:
        from headnode.core.scheduling.contiguous import are_contiguous  # few jobs ask for it

        if not are_contiguous(resources.node_table, (number for number, _ in parts)):
            return "it wants contiguous nodes"
    if not need.required <= {number for number, _ in parts}:
        return "it needs the nodes that its tasks name"
    alone = [
        part
        for part in parts
        if part[1] == resources.node_table.processors[part[0]] and resources.is_idle(part[0])
    ]
    if sum(_units(need, part, resources) for part in alone) < need.share:
        return "it has too few processors on exclusive nodes"
    return ""


def _licences(need: ResolvedRequest, parts: tuple[_Part, ...], resources: FreeResources) -> str:
    for feature, amount in need.licences(parts).items():
        if amount > resources.licences.get(feature, amount):
            return f"too few licences {feature!r} are free"
    return ""


def plan_fault(answer: object, view: View) -> str:
    """Return what is wrong with the answer, or an empty string."""
    if not isinstance(answer, Plan):
        return f"it answered with {_kind(answer)} instead of a Plan"
    given = [*answer.starts, *answer.grows, *answer.reservations]
    for each in given:
        if not isinstance(each, (Start, Grow, Reservation)):
            return f"its plan has {_kind(each)} among its starts, grows and reservations"
        if type(each.job) is not int or not _are_shares(each.allocation):
            what = f"its plan gives job {each.job!r} {each.allocation!r}"
            return f"{what}; an allocation is pairs of node and processors"
        if not isinstance(each, Grow) and type(each.option) is not int:
            return f"its plan takes option {each.option!r} of job {each.job}, which is not a number"
        if isinstance(each, Start) and type(each.lowered_limit) not in (int, float, type(None)):
            return f"its plan lowers the limit of job {each.job} to {each.lowered_limit!r}; write seconds"
        if isinstance(each, Start) and not _are_parts(each.parts):
            return (
                f"its plan gives job {each.job} the parts {each.parts!r}; each is pairs as an allocation is"
            )
    return (
        _undecided(answer, view)
        or _not_reserved(answer, view)
        or _impatient(answer, view)
        or plan_violation(answer, view)
    )


def _are_shares(allocation: object) -> bool:
    return (
        isinstance(allocation, tuple)
        and bool(allocation)
        and all(
            isinstance(share, tuple)
            and len(share) == 2
            and isinstance(share[0], str)
            and type(share[1]) is int
            and share[1] > 0
            for share in allocation
        )
    )


def _are_parts(parts: object) -> bool:
    return isinstance(parts, tuple) and all(map(_are_shares, parts))


def _undecided(plan: Plan, view: View) -> str:
    """Say which request neither starts nor waits."""
    begun = {start.job for start in plan.starts}
    for waiting in view.queue:
        if waiting.request not in plan.waits:
            left = [turn.job for turn in waiting.turns if turn.job not in begun]
            if left:
                return f"its plan has no entry for job {left[0]}"
    if isinstance(plan.waits, LazyReasons):  # of a built-in policy: computed on first use
        return ""
    strange: list[object] = [each for each in plan.waits if not isinstance(each, JobRequest)]
    strange += [each for each in plan.waits.values() if not isinstance(each, Wait)]
    if strange:
        return f"its plan has {_kind(strange[0])} among its waits"
    unread = [each for each in plan.waits.values() if not _is_readable(each)]
    return f"its plan gives jobs the reason {unread[0]!r}; reasons are Reason(Why, text)" if unread else ""


def _is_readable(wait: Wait) -> bool:
    return (
        isinstance(wait.reasons, tuple)
        and bool(wait.reasons)
        and all(isinstance(each, Reason) and isinstance(each.why, Why) for each in wait.reasons)
        and type(wait.not_before) in (int, float)
    )


def _not_reserved(plan: Plan, view: View) -> str:
    """Return an error text if a reservation is for no waiting job or for no future time."""
    waiting = (
        {turn.job: each.request for each in view.queue for turn in each.turns} if plan.reservations else {}
    )
    for each in plan.reservations:
        if not isinstance(each, Reservation) or waiting.get(each.job) != each.request:
            return f"its plan reserves {each!r}, but no job waits for it"
        if not 0 <= each.option <= len(each.request.alternatives):
            return f"its plan reserves for option {each.option} of job {each.job}, which has no such"
        if type(each.at) not in (int, float) or not each.at >= view.now:
            return f"its plan reserves for job {each.job} at {each.at!r}, and now is {view.now!r}"
    return ""


def _impatient(plan: Plan, view: View) -> str:
    if type(plan.wake) not in (int, float) or not plan.wake > view.now:
        return f"it wants to be woken at {plan.wake!r}, and now is {view.now!r}"
    return ""


def _kind(answer: object) -> str:
    return f"a {type(answer).__name__}"
