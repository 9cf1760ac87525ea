"""Which attempts could not be started on each node, one after the other, and what started elsewhere since.

Kept in memory only: after a restart of the head the rows begin anew.
"""

from dataclasses import dataclass, replace

from headnode.core.lifecycle import events as e
from headnode.core.model.faults import tells_of_node
from headnode.core.model.quantities import Instant, JobId

MOST_NAMED = 3  # jobs and owners of a row; more are not told apart


@dataclass(frozen=True, slots=True)
class Row:
    """Start failures of one node with no start between them; `jobs` and `owners` name the first few."""

    since: Instant
    count: int = 0
    jobs: frozenset[JobId] = frozenset()
    owners: frozenset[str] = frozenset()

    def longer(self, job: JobId, owner: str) -> "Row":
        """Return the row with one more failure."""
        if len(self.jobs) >= MOST_NAMED and owner in self.owners:
            return replace(self, count=self.count + 1)
        jobs, owners = self.jobs | {job}, self.owners | {owner}
        return Row(self.since, self.count + 1, jobs, owners if len(owners) <= MOST_NAMED else self.owners)


class StartFailures:
    """The rows of all nodes, and when each node and each owner last had something start."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._nodes: dict[str, Instant] = {}
        self._owners: dict[str, Instant] = {}

    def started(self, node: str, owner: str, at: Instant) -> None:
        """Something of an owner has started on a node."""
        self._rows.pop(node, None)
        self._nodes[node] = self._owners[owner] = at

    def ended(self, job: JobId, owner: str, how: e.Ended, at: Instant) -> None:
        """An attempt is over that started, or could not be."""
        if how.started is not None:
            self.started(how.node, owner, at)
        elif tells_of_node(how.trouble):
            self._rows[how.node] = self.row(how.node, at).longer(job, owner)

    def forget(self, node: str) -> None:
        """Begin a new row: the node is gone, or an administrator has resumed it."""
        self._rows.pop(node, None)

    def row(self, node: str, now: Instant) -> Row:
        """Return the row of a node as it is now."""
        return self._rows.get(node) or Row(since=now)

    def started_elsewhere(self, node: str, since: Instant) -> bool:
        """Whether something has started on another node since then."""
        return any(at >= since for name, at in self._nodes.items() if name != node)

    def others_ran(self, owners: frozenset[str], since: Instant) -> bool:
        """Whether something of anybody else has started since then."""
        return any(at >= since for owner, at in self._owners.items() if owner not in owners)
