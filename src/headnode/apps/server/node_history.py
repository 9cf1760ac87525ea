"""What happened to a node, in words: who drained it and why, when it was away, when its machine rebooted."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.events import Event
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant

_COMPARED = ("processors", "sockets", "memory", "disk", "swap", "version", "address", "control_groups")
_TOLD_LATER = ("version", "address")  # a machine that joins has not dialed as a node yet
_DRAINED = {
    "health": "Drained by its health check",
    "hook": "Drained by a hook",
    "agent": "Drained by the age of its agent",
    "report": "Drained by what it reported",
    "fault": "Drained by a fault of the node",
    "failures": "Drained by start failures",
}
_WORDS: dict[type[Event], str] = {
    e.NodeApproved: "Approved",
    e.NodePaused: "Paused",
    e.NodeResumed: "Resumed",
    e.NodeRemoved: "Removed",
    e.NodeUnreachable: "Unreachable",
    e.NodeReachable: "Reachable again",
    e.NodeKeyPinned: "Joined with a key of its own",
}


def told(events: Iterable[Event]) -> Iterator[tuple[Instant, str]]:
    """Yield when something happened to one node, and what, in the order of the events."""
    facts: NodeFacts | None = None
    for event in events:
        if isinstance(event, e.NodeRegistered):
            if text := _registered(facts, event):
                yield event.at, text
            facts = event.facts
        elif text := _sentence(event):
            yield event.at, text
        if isinstance(event, e.NodeRemoved):
            facts = None


def _registered(before: NodeFacts | None, event: e.NodeRegistered) -> str:
    now = event.facts
    if before is None:
        count = f"{now.processors} processor{'s' if now.processors != 1 else ''}"
        return f"Registered with {count}" + ("" if event.approved else ", not yet approved")
    changed = [
        f"{name} {getattr(before, name) or 'none'} to {getattr(now, name) or 'none'}"
        for name in _COMPARED
        if getattr(before, name) != getattr(now, name)
        and not (name in _TOLD_LATER and not getattr(before, name))
    ]
    rebooted = before.boot_id and now.boot_id != before.boot_id
    said = "Its machine was rebooted" if rebooted else "Registered anew"
    return f"{said}: {', '.join(changed)}" if changed else said if rebooted else ""


def _sentence(event: Event) -> str:
    by = f" by {who}" if (who := getattr(event, "by", "")) else ""
    match event:
        case e.NodeDrained(cause=cause, closes=closes, reason=reason, force=force):
            said = _DRAINED.get(cause, f"Drained{by}") + (", by force" if force else "")
            said += f", from {_moment(closes)} on" if closes > event.at else ""
            return f"{said}: {reason}" if reason else said
        case e.NodeDrainLifted(cause=cause) if not by:
            return "Its health check succeeds again" if cause == "health" else f"Drain lifted ({cause})"
        case e.NodeDrainLifted():
            return f"Drain lifted{by}"
        case e.NodeSet(groups=groups, features=features, comment=comment):
            given = {"groups": groups, "features": features, "comment": comment}
            named = [name for name, value in given.items() if value is not None]
            return f"Set{by}: {', '.join(named)}"
        case _:
            return _WORDS[type(event)] + by if type(event) in _WORDS else ""


def _moment(at: Instant) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().isoformat(timespec="seconds")
