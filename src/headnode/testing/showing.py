"""Scenes and histories as the code that makes them, to be pasted into a test."""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

import msgspec

from headnode.core.model.job import JobRequest, Licence, OrderKey
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.decision import Plan, Reservation, Shares, Start
from headnode.core.scheduling.view import NodeView, RunningJob, View
from headnode.testing.histories import Arrival, History
from headnode.testing.scenes import MINUTE, asks

_PLAIN_PRIORITY = 2000


def show_scene(view: View) -> str:
    """Return the code that makes this view, moved to the beginning of time."""
    queue = sorted((turn, each.request) for each in view.queue for turn in each.turns)
    parts = [
        _list("nodes", map(_node, view.nodes.values())),
        _list("running", (_running(job, view.now) for job in view.running)),
        _list("queue", (f"({turn[2]}, {_asks(request)}{_priority(-turn[0])})" for turn, request in queue)),
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
    return f" (option {given.option})" if given.option else ""


def _places(shares: Shares) -> str:
    return ", ".join(f"{name}:{count}" for name, count in shares)


def _list(name: str, items: Iterable[str]) -> str:
    lines = "".join(f"        {item},\n" for item in items)
    return f"    {name}=[\n{lines}    ],\n" if lines else f"    {name}=[],\n"


def _node(node: NodeView) -> str:
    facts = _others(node.facts, {"name": node.facts.name, "processors": node.facts.processors})
    closed = {"closed": node.closed} if node.closed else {}
    return f"node({node.facts.name!r}, {node.facts.processors}{_keywords({**closed, **facts})})"


def _running(job: RunningJob, now: Instant) -> str:
    more = {"minutes_left": (job.end - now) / MINUTE} if job.end < inf else {}
    more |= {"wants": job.wants} if job.wants else {}
    shares = "".join(f", {share!r}" for share in job.allocation)
    return f"runs({job.job}, {_asks(job.request)}{shares}{_keywords(more | _turn(job.turn[0]))})"


def _reserved(each: Reservation, now: Instant) -> str:
    shares = "".join(f", {share!r}" for share in each.allocation)
    more: dict[str, Any] = {"minutes": (each.at - now) / MINUTE} | _turn(each.turn[0])
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
    """Return the fields that are not told yet and not as they are when nothing is said."""
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
