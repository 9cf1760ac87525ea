"""Histories: jobs that come, run and end, pass by pass under a policy; and the code that makes one.

Everything happens at its instant: what ends, then what comes, then one pass, and more as long as a pass still
starts something.  A plan that asks to be woken is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import msgspec

from headnode.core.model.job import JobRequest, Licence, OrderKey
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Grow, Plan, Reservation, Shares, Start
from headnode.core.scheduling.view import RunningJob, View
from headnode.testing.scenes import MINUTE, NOW, Queued, asks, scene, turn_of
from headnode.testing.specification import broken_unless

Policy = Callable[[View], Plan]
"""What plug-ins are: a function from what is, to what should happen."""

MAX_ROUNDS = 3
"""Passes at one instant: the plan, and what it gives rise to."""


class Arrival(NamedTuple):
    """A job to come.  Its id says in which order it was submitted; times are in minutes."""

    job: int
    request: JobRequest
    at: float  # after the beginning
    lasts: float  # how long it runs, whatever its limit says
    priority: int = 2000
    wants: int = 0  # how many processors more it would take while it runs


class History(NamedTuple):
    """Nodes that stay as they are, and the jobs that come.  Ids are ascending, and so are the times."""

    nodes: Sequence[NodeView]
    arrivals: Sequence[Arrival]
    licences: Mapping[str, int] = {}
    depth: float = inf

    @property
    def keeps_limits(self) -> bool:
        """Whether no job runs longer than its limit."""
        return all(each.lasts * MINUTE <= each.request.run_time for each in self.arrivals)


class Moment(NamedTuple):
    """A pass: the view, the plan, and the jobs that were submitted since the pass before."""

    view: View
    plan: Plan
    came: tuple[Arrival, ...]


def live(history: History, policy: Policy) -> Iterator[Moment]:
    """Yield every pass.  What a plan says is done when the next is asked for; so check it before."""
    life = _Life(history)
    while life.now < inf:
        for _ in range(MAX_ROUNDS):
            came, view = life.came, life.view()
            plan = policy(view)
            yield Moment(view, plan, came)
            life.do(plan)
            if not (plan.starts or plan.grows):
                break
        life.go_on()


class _Life:
    """Where a history stands."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._coming = list(history.arrivals)
        self._arrivals = {each.job: each for each in history.arrivals}
        self._waiting: list[Arrival] = []
        self._running: dict[JobId, RunningJob] = {}
        self._ends: dict[JobId, float] = {}
        self._before: Plan | None = None
        self._freed = True
        self.came: tuple[Arrival, ...] = ()
        self.now = self._next_arrival()
        self._arrive()

    def view(self) -> View:
        """Return the picture of now."""
        nodes = [_idle(each) for each in self._history.nodes]
        queue: list[Queued] = [(each.job, each.request, each.priority) for each in self._waiting]
        running = list(self._running.values())
        licences = {name: (total, total) for name, total in self._history.licences.items()}
        view = scene(nodes, running, queue, now=Instant(self.now), depth=self._history.depth)
        return msgspec.structs.replace(
            view,
            before=None if self._before is None else _forgetful(self._before),
            freed=self._freed,
            licences={**view.licences, **_left(licences, running)},
        )

    def do(self, plan: Plan) -> None:
        """Let happen what the plan says.

        Raises:  PromiseBroken when it is about a job that does not wait or run.
        """
        self._before, self._freed, self.came = plan, False, ()
        for grow in plan.grows:
            self._grow(grow)
        for start in plan.starts:
            self._start(start)

    def go_on(self) -> None:
        """Go to the next instant at which something happens."""
        wake = NEVER if self._before is None else self._before.wake
        wake = wake if wake > self.now else NEVER
        self.now = min([self._next_arrival(), wake, *self._ends.values()])
        if self.now < inf:
            self._end()
            self._arrive()

    def _next_arrival(self) -> float:
        return NOW + self._coming[0].at * MINUTE if self._coming else inf

    def _end(self) -> None:
        for job in [job for job, end in self._ends.items() if end <= self.now]:
            self._freed = self._freed or self._running[job].end > self.now
            del self._ends[job], self._running[job]

    def _arrive(self) -> None:
        while self._coming and self._next_arrival() <= self.now:
            self.came += (self._coming[0],)
            self._waiting.append(self._coming.pop(0))

    def _start(self, start: Start) -> None:
        found = [each for each in self._waiting if each.job == start.job]
        broken_unless(len(found) == 1, f"the plan starts job {start.job}, which is not queued")
        arrival = found[0]
        self._waiting.remove(arrival)
        turn, taken = turn_of(arrival.job, arrival.priority), _taken(arrival, start)
        end = Instant(self.now + taken.run_time)
        self._running[start.job] = RunningJob(start.job, turn, taken, end, start.allocation, arrival.wants)
        lasts, is_other = arrival.lasts * MINUTE, start.option or start.lowered_limit is not None
        self._ends[start.job] = self.now + (min(lasts, taken.run_time) if is_other else lasts)

    def _grow(self, grow: Grow) -> None:
        job = self._running.get(grow.job)
        if job is None:
            broken_unless(False, f"the plan grows job {grow.job}, which does not run")
            return
        held = _together(job.allocation, grow.allocation)
        more = sum(count for _, count in grow.allocation) // (job.request.processors_per_gpu or 1)
        self._running[grow.job] = msgspec.structs.replace(
            job, allocation=held, wants=max(0, job.wants - more)
        )


def _taken(arrival: Arrival, start: Start) -> JobRequest:
    """Return the request that a job is given, which ends with its limit when it is not the job's own."""
    request = arrival.request
    there = 0 <= start.option <= len(request.alternatives)
    broken_unless(there, f"the plan gives job {start.job} option {start.option}, which does not exist")
    return msgspec.structs.replace(start.taken(request), alternatives=())


def _together(one: Shares, other: Shares) -> Shares:
    held = dict(one)
    for name, count in other:
        held[name] = held.get(name, 0) + count
    return tuple(held.items())


def _idle(node: NodeView) -> NodeView:
    return NodeView(node.facts, node.facts.processors, closed=node.closed, switches=node.switches)


def _forgetful(plan: Plan) -> Plan:
    """Return the plan with nothing but its reservations, which is what a scene can be written with."""
    reservations: tuple[Reservation, ...] = plan.reservations
    return Plan((), (), {}, reservations)


def _left(totals: Mapping[str, tuple[int, int]], running: Sequence[RunningJob]) -> dict[str, tuple[int, int]]:
    free = {feature: total for feature, (total, _) in totals.items()}
    for job in running:
        for demand in job.request.licences:
            if demand.feature in free:
                held = sum(count for _, count in job.allocation)
                free[demand.feature] -= held if demand.amount is None else demand.amount
    return {feature: (total, free[feature]) for feature, (total, _) in totals.items()}


_PLAIN_PRIORITY = 2000


def show_scene(view: View) -> str:
    """Return the code that makes this view, moved to the beginning of time."""
    queue = sorted((turn, each.request) for each in view.queue for turn in each.turns)
    parts = [
        _list("nodes", map(_node, view.nodes.values())),
        _list("running", (_running(job, view.now) for job in view.running)),
        _list(
            "queue", (f"({turn.job}, {_asks(request)}{_priority(turn.priority)})" for turn, request in queue)
        ),
    ]
    parts += [f"    licences={dict(view.licences)!r},\n"] if view.licences else []
    parts += [f"    depth={view.depth},\n"] if view.depth != inf else []
    if view.before is not None:
        parts.append(_list("before", (_reserved(each, view.now) for each in view.before.reservations)))
    parts += [] if view.freed else ["    freed=False,\n"]
    return f"scene(\n{''.join(parts)})"


def show_history(history: History) -> str:
    """Return the code that makes this history."""
    parts = [_list("nodes", map(_node, history.nodes)), _list("arrivals", map(_arrival, history.arrivals))]
    parts += [f"    licences={dict(history.licences)!r},\n"] if history.licences else []
    parts += [f"    depth={history.depth},\n"] if history.depth != inf else []
    return f"History(\n{''.join(parts)})"


def show_plan(plan: Plan, now: Instant) -> str:
    """Return what a plan says, for a reader."""
    lines = [f"start job {s.job}{_option(s)} on {_places(s.allocation)}" for s in plan.starts]
    lines += [f"grow job {g.job} by {_places(g.allocation)}" for g in plan.grows]
    for r in plan.reservations:
        due = f"{_number((r.at - now) / MINUTE)} minutes"
        lines.append(f"reserve for job {r.job}{_option(r)} in {due} {_places(r.allocation)}")
    for wait in plan.waits.values():
        lines.append("wait: " + "; ".join(reason.text for reason in wait.reasons))
    return "\n".join(lines)


def _option(given: Start | Reservation) -> str:
    limit = given.lowered_limit if isinstance(given, Start) else None
    lowered = "" if limit is None else f" (limit {_number(limit / MINUTE)} minutes)"
    return (f" (option {given.option})" if given.option else "") + lowered


def _places(shares: Shares) -> str:
    return ", ".join(f"{name}:{count}" for name, count in shares)


def _list(name: str, items: Iterable[str]) -> str:
    lines = "".join(f"        {item},\n" for item in items)
    return f"    {name}=[\n{lines}    ],\n" if lines else f"    {name}=[],\n"


def _node(node: NodeView) -> str:
    facts = _others(node.facts, {"name": node.facts.name, "processors": node.facts.processors})
    more = {"closed": node.closed} if node.closed else {}
    more |= {"switches": " ".join(node.switches)} if node.switches else {}
    return f"node({node.facts.name!r}, {node.facts.processors}{_keywords({**more, **facts})})"


def _running(job: RunningJob, now: Instant) -> str:
    more = {"minutes_left": (job.end - now) / MINUTE} if job.end < inf else {}
    more |= {"wants": job.wants} if job.wants else {}
    shares = "".join(f", {share!r}" for share in job.allocation)
    return f"runs({job.job}, {_asks(job.request)}{shares}{_keywords(more | _turn(job.turn.minus_priority))})"


def _reserved(each: Reservation, now: Instant) -> str:
    shares = "".join(f", {share!r}" for share in each.allocation)
    more: dict[str, Any] = {"minutes": (each.at - now) / MINUTE} | _turn(each.turn.minus_priority)
    more |= {"option": each.option} if each.option else {}
    return f"reserved({each.job}, {_asks(each.request)}{shares}{_keywords(more)})"


def _arrival(each: Arrival) -> str:
    more: dict[str, Any] = {"at": each.at, "lasts": each.lasts}
    more |= _turn(-each.priority) | ({"wants": each.wants} if each.wants else {})
    return f"Arrival({each.job}, {_asks(each.request)}{_keywords(more)})"


def _asks(request: JobRequest) -> str:
    told = {"minimum": request.minimum, "maximum": request.maximum, "run_time": request.run_time}
    more = {} if request.run_time == inf else {"minutes": request.run_time / MINUTE}
    maximum = "" if request.maximum == request.minimum else f", {request.maximum}"
    return f"asks({request.minimum}{maximum}{_keywords(more | _others(request, told))})"


def _others(struct: msgspec.Struct, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that were not reported yet and do not have their defaults."""
    plain = asks() if isinstance(struct, JobRequest) else type(struct)(**told)
    fields = {field: getattr(struct, field) for field in struct.__struct_fields__ if field not in told}
    return {field: value for field, value in fields.items() if value != getattr(plain, field)}


def _turn(negative_priority: int) -> dict[str, Any]:
    return {} if negative_priority == -_PLAIN_PRIORITY else {"priority": -negative_priority}


def _priority(priority: int) -> str:
    return "" if priority == _PLAIN_PRIORITY else f", {priority}"


def _keywords(values: Mapping[str, Any]) -> str:
    return "".join(f", {name}={_code(value)}" for name, value in values.items())


def _code(value: object) -> str:
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, JobRequest):
        return _asks(value)
    if isinstance(value, Licence):
        return f"Licence({value.feature!r}, {value.amount!r})"
    if isinstance(value, OrderKey):
        return f"OrderKey({value.by!r}, {value.ascending!r})"
    if isinstance(value, msgspec.Struct):
        said = {
            name: each for name, each in _fields(value).items() if each != _unsaid(value).get(name, _code)
        }
        return f"{type(value).__name__}({_keywords(said).removeprefix(', ')})"
    if isinstance(value, tuple):
        return f"({''.join(_code(each) + ', ' for each in value).rstrip(' ')})"
    return repr(value) if type(value) in (int, str, bool, type(None)) else str(_enum(value))


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


def _unsaid(value: msgspec.Struct) -> dict[str, Any]:
    """Return the defaults of those fields of a struct that have one."""
    defaults = value.__struct_defaults__
    return dict(zip(value.__struct_fields__[-len(defaults) :], defaults, strict=True)) if defaults else {}


def _enum(value: object) -> str:
    return f"{type(value).__name__}.{getattr(value, 'name', value)}"


def _number(value: float) -> str:
    return "INF" if value == inf else repr(int(value)) if value == int(value) else repr(value)
