"""What the head remembers of nodes and standby heads, and of invitations, logins and tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as dataclasses_replace
from types import MappingProxyType
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from headnode.core.model.errors import NotAllowed
from headnode.core.model.faults import may_be_fault_of_node
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.core.model.user import TokenRole
from headnode.core.state import job_events as e
from headnode.core.state.events import DrainCause, SuspectJob

MAX_REASON = 500  # characters, of a drain


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A drain of a node: its cause, and from when the node takes no new jobs."""

    cause: DrainCause
    since: Instant  # when the drain was set
    closes: Instant
    reason: str = ""
    by: str = ""
    force: bool = False  # jobs give up what they hold there
    suspect: SuspectJob | None = None  # the job whose prolog failed, while that may be the fault of the job

    @property
    def empties(self) -> bool:
        """Whether jobs on the node start nothing more, and release idle processors."""
        return self.force or self.cause in ("fault", "failures")


class NodeRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A node and its state."""

    facts: NodeFacts  # as its machine says, but for what an administrator has set
    state: NodeState
    since: Instant  # when it came into this state
    key: str = ""  # digest of the key it is known by; empty: it is on the head's own machine
    groups: tuple[str, ...] | None = None  # set by an administrator; None: as its machine says
    features: tuple[str, ...] | None = None
    comment: str = ""
    drains: tuple[Drain, ...] = ()  # at most one of each cause
    suspect: SuspectJob | None = None  # after a job was held for it: until a prolog ends well

    @property
    def drain(self) -> Drain | None:
        """What closes it first; None if nothing does."""
        return min(self.drains, key=lambda drain: drain.closes) if self.drains else None

    @property
    def closes(self) -> Instant:
        """When the node takes no more jobs; NEVER if it is not drained."""
        return min([drain.closes for drain in self.drains]) if self.drains else NEVER

    @property
    def usable(self) -> int:
        """How many of its processors jobs may keep, those with the lowest numbers."""
        if self.drains and any(drain.empties for drain in self.drains):
            return 0
        return self.facts.processors

    def with_settings(self, facts: NodeFacts) -> NodeFacts:
        """Return what its machine says, with what an administrator has set in its place."""
        groups = facts.groups if self.groups is None else self.groups
        features = facts.features if self.features is None else self.features
        return replace(facts, groups=groups, features=features)


class InvitationRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An invitation: the secret with this digest admits one node, once, or each of `names` once."""

    digest: str
    expires: Instant
    approve: bool
    name: str
    standby: bool = False  # it admits a standby head, and no node
    names: tuple[str, ...] = ()  # of the nodes that have not joined yet, if it is for several

    def admits(self, node: str) -> bool:
        """Whether a node of this name may use it."""
        return node in self.names if self.names else self.name in ("", node)


class StandbyRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A standby head: a machine with a live copy of the journal, which can become the head."""

    name: str
    address: str  # HOST:PORT, where it listens before and after that
    since: Instant
    takeover_after: Seconds = Seconds(0.0)  # without the head, it takes over by itself; 0: never


class LoginRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A login: its secret can be exchanged for a token, once; the token is valid for `lifetime` seconds."""

    digest: str  # of its secret
    user: str
    expires: Instant
    lifetime: Seconds
    name: str = ""  # of the token
    role: TokenRole = "all"  # of the token


class TokenRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token, which authenticates its user on connections from other machines."""

    number: int
    digest: str
    user: str
    created: Instant
    expires: Instant
    last_used: Instant | None = None
    address: str = ""  # from where it was made, or used last
    name: str = ""  # what it is for
    role: TokenRole = "all"  # the rights of the user that it gives


class OneTimeSecret(Protocol):
    """A secret that is valid until `expires`."""

    @property
    def expires(self) -> Instant:
        """When it does not count any more."""


Known = TypeVar("Known", bound=OneTimeSecret)


def valid_secret(secrets: Mapping[str, Known], digest: str, now: Instant, noun: str, fix: str) -> Known:
    """Return what has this digest.

    `noun` is what it is called, and the code of the refusal; `fix` what to do without it.
    Raises:  NotAllowed of that code when it is not known, any more or at all, or its time is over.
    """
    found = secrets.get(digest)
    if found is None:
        what = f"this {noun} was used already or revoked, or was never made by this cluster"
        raise NotAllowed(code=noun, what=what, fix=fix)
    if now >= found.expires:
        raise NotAllowed(code=noun, what=f"this {noun} has expired", fix=fix)
    return found


MAX_NAMED = 3  # jobs and owners of a row; more are not told apart


@dataclass(frozen=True, slots=True)
class FailureStreak:
    """Successive start failures of one node; `jobs` and `owners` are the first few."""

    since: Instant
    count: int = 0
    jobs: frozenset[JobId] = frozenset()
    owners: frozenset[str] = frozenset()

    def longer(self, job: JobId, owner: str) -> "FailureStreak":
        """Return the row with one more failure."""
        if len(self.jobs) >= MAX_NAMED and owner in self.owners:
            return dataclasses_replace(self, count=self.count + 1)
        jobs, owners = self.jobs | {job}, self.owners | {owner}
        return FailureStreak(
            self.since, self.count + 1, jobs, owners if len(owners) <= MAX_NAMED else self.owners
        )


class StartFailures:
    """The failure streaks of all nodes, and the last start on each node and for each owner."""

    def __init__(self) -> None:
        self._rows: dict[str, FailureStreak] = {}
        self._nodes: dict[str, Instant] = {}
        self._owners: dict[str, Instant] = {}

    def started(self, node: str, owner: str, at: Instant) -> None:
        """Record that an attempt of an owner has started on a node."""
        self._rows.pop(node, None)
        self._nodes[node] = self._owners[owner] = at

    def ended(self, job: JobId, owner: str, how: e.InstanceEnd, at: Instant) -> None:
        """An attempt is over that started, or could not be."""
        if how.outcome.started is not None:
            self.started(how.node, owner, at)
        elif may_be_fault_of_node(how.outcome.fault):
            self._rows[how.node] = self.row(how.node, at).longer(job, owner)

    def forget(self, node: str) -> None:
        """Begin a new row: the node is gone, or an administrator has resumed it."""
        self._rows.pop(node, None)

    def row(self, node: str, now: Instant) -> FailureStreak:
        """Return the row of a node as it is now."""
        return self._rows.get(node) or FailureStreak(since=now)

    def started_elsewhere(self, node: str, since: Instant) -> bool:
        """Return whether an attempt has started on another node since then."""
        return any(at >= since for name, at in self._nodes.items() if name != node)

    def others_ran(self, owners: frozenset[str], since: Instant) -> bool:
        """Return whether an attempt of another owner has started since then."""
        return any(at >= since for owner, at in self._owners.items() if owner not in owners)


class PrologSuccesses:
    """The last successful prolog of each owner."""

    def __init__(self) -> None:
        self._owners: dict[str, Instant] = {}

    def ended(self, owner: str, at: Instant) -> None:
        """A prolog of an owner's job has ended well."""
        self._owners[owner] = at

    def others_since(self, owner: str, since: Instant) -> bool:
        """Return whether a prolog of another owner has succeeded since then."""
        return any(at >= since for other, at in self._owners.items() if other != owner)


_CLOSED = MappingProxyType(
    {
        NodeState.READY: "",
        NodeState.PENDING: "not yet approved by an administrator",
        NodeState.PAUSED: "paused, except for jobs of administrators",
        NodeState.UNREACHABLE: "unreachable",
        NodeState.LOST_PAUSED: "unreachable and paused",
        NodeState.REMOVED: "removed",
    }
)
"""Why a node takes no new work; empty: it does."""
_THERE = (NodeState.READY, NodeState.PAUSED)
"""A drain keeps out administrators' jobs, too, which may start on a paused node: of both it is told."""


def closed_reason(node: NodeRecord, now: Instant) -> str:
    """Return why a node takes nothing new at all; what closes it later is not told."""
    drain = node.drain
    if node.state not in _THERE or drain is None or drain.closes > now:
        return _CLOSED[node.state]
    if drain.cause in ("hook", "bad-report", "failures"):
        return f"drained: {drain.reason}"
    if drain.cause == "fault":
        return f"drained by a fault of the node: {drain.reason}"
    cause = f"drained by {drain.by}" if drain.cause == "request" else "drained: its health check failed"
    return f"{cause}: {drain.reason}" if drain.reason else cause
