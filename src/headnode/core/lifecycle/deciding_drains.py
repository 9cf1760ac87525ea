"""Decide which nodes close: because an administrator says so, their health check, or the age of their agent.

Whoever runs there goes on, unless the node is taken offline by force.  Each cause is lifted by itself: an
administrator's drain outlasts a health check that is well again.  To resume a node lifts both; a check that
still fails closes it again.  An agent that knows no hooks keeps its node closed while the site has some.

Source: HPC Pack, node offline without ``/force``: running tasks finish, no new ones start; with it they are
canceled.
"""

from collections.abc import Mapping

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_vacating import vacated
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.hook_settings import has_hooks
from headnode.core.lifecycle.permission import must_administer
from headnode.core.lifecycle.records import LONGEST_REASON, Drain, NodeRecord
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import NEVER, Instant
from headnode.core.model.user import User

OLD_AGENT = "its agent is older than the hooks of this cluster and runs none: update Headnode there"


def drain(cluster: Cluster, command: c.DrainNode, now: Instant) -> list[Event]:
    """Close a node, now or later; saying it twice changes nothing.

    Raises:  NotAllowed; NotFound ``no-such-node``; BadRequest ``drain-reason`` or ``drain-date``.
    """
    must_administer(command.by, "drain nodes")
    known = cluster.node(command.node)
    if len(command.reason) > LONGEST_REASON:
        raise BadRequest(
            code="drain-reason",
            what=f"the reason has {len(command.reason)} characters",
            fix=f"use up to {LONGEST_REASON}",
        )
    if command.closes is not None and not now < command.closes < NEVER:
        raise BadRequest(
            code="drain-date",
            what="a node cannot drain at a date in the past",
            fix="choose a date in the future, or leave it out to drain the node now",
        )
    if command.force and command.closes is not None:
        raise BadRequest(
            code="drain-date",
            what="force and a date exclude each other",
            fix="leave out the date to kill tasks now, or the force to drain it then",
        )
    before = _of("asked", known)
    force = command.force or (before is not None and before.force)
    closes = now if command.closes is None else command.closes
    if before is not None and command.closes is None:
        closes = min(before.closes, now)  # it may be closed already
    said = (closes, command.reason, force)
    if before is not None and (before.closes, before.reason, before.force) == said:
        return []
    drained = e.NodeDrained(
        at=now, node=command.node, closes=closes, reason=command.reason, by=command.by.name, force=force
    )
    if not command.force:
        return [drained]
    why = f"node {command.node} was taken offline by {command.by.name}"
    message = f"{why}: {command.reason}" if command.reason else why
    return [drained, *vacated(cluster, command.node, 0, message, now, force=True)]


def health(cluster: Cluster, command: c.ReportHealth, now: Instant) -> list[Event]:
    """Close a node that is not well, and open it again when it is, if nothing else closes it."""
    known = cluster.nodes.get(command.node)
    before = None if known is None else _of("health", known)
    if known is None or (command.well and before is None):
        return []
    if command.well:
        return [e.NodeDrainLifted(at=now, node=command.node, cause="health")]
    reason = command.said[:LONGEST_REASON]
    if before is not None and before.reason == reason:
        return []
    closes = now if before is None else before.closes
    return [e.NodeDrained(at=now, node=command.node, closes=closes, cause="health", reason=reason)]


def nonsense(cluster: Cluster, command: c.ReportNonsense, now: Instant) -> list[Event]:
    """Close a node that says what cannot be, until an administrator resumes it."""
    known = cluster.nodes.get(command.node)
    if known is None or _of("report", known) is not None:
        return []
    reason = f"it sent an impossible report: {command.said}"[:LONGEST_REASON]
    return [e.NodeDrained(at=now, node=command.node, closes=now, cause="report", reason=reason)]


def by_age(
    known: NodeRecord | None, facts: NodeFacts, parameters: Mapping[str, str | None], now: Instant
) -> list[Event]:
    """Close a node whose agent cannot do what these parameters ask of it, and open it when it can."""
    closed = known is not None and _of("agent", known) is not None
    unfit = has_hooks(parameters) and not facts.hooks
    if unfit == closed:
        return []
    if closed:
        return [e.NodeDrainLifted(at=now, node=facts.name, cause="agent")]
    return [e.NodeDrained(at=now, node=facts.name, closes=now, cause="agent", reason=OLD_AGENT)]


def lifted(known: NodeRecord, by: User, now: Instant) -> list[Event]:
    """Return what lets a node stay open, whoever closed it.

    Raises:  WrongState ``old-agent`` where only the age of its agent closes it: nobody can lift that.
    """
    name, causes = known.facts.name, [each.cause for each in known.drains]
    if causes == ["agent"] and known.state is NodeState.READY:
        raise WrongState(
            code="old-agent",
            what=f"node {name!r} stays drained: its agent is older than the hooks of this cluster",
            fix="update Headnode on the node, or clear PrologProgram, EpilogProgram and NodeFilterDirectory",
        )
    return [
        e.NodeDrainLifted(at=now, node=name, cause=cause, by=by.name) for cause in causes if cause != "agent"
    ]


def _of(cause: e.DrainCause, known: NodeRecord) -> Drain | None:
    return next((each for each in known.drains if each.cause == cause), None)
