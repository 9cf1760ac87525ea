"""The order of the queue by weighted factors: fair share, age and size, within each priority.

Running jobs, and those that go first, are charged in advance, so that users take turns also within one pass.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.priority_factors import JobScore, PriorityFactor, Shares, Weights
from headnode.core.model.quantities import JobId, QueuePosition, Seconds, SortKey
from headnode.core.scheduling.fair_share import Owner, ShareTree
from headnode.core.scheduling.view import View, WaitingClass

CHARGED = 3600.0  # seconds at most for which a job is charged in advance


class _Waiting(NamedTuple):
    """A queued job with what of its score does not depend on other jobs."""

    minus_priority: int
    minus_score: float
    position: QueuePosition
    owner: Owner
    age: float
    size: float
    charge: float


class WeightedOrder(NamedTuple):
    """How a cluster orders its queue.  `max_age` in seconds."""

    weights: Weights
    shares: Shares
    max_age: Seconds

    def keys(self, view: View) -> Mapping[JobId, SortKey]:
        """Return the key of each queued job: its priority, then its score, the largest first."""
        return {turn.job: (turn.minus_priority, -score.total) for turn, score in self._scores(view)}

    def scores(self, view: View) -> dict[JobId, JobScore]:
        """Return what orders each queued job."""
        return {turn.job: score for turn, score in self._scores(view)}

    def _scores(self, view: View) -> Iterator[tuple[QueuePosition, JobScore]]:
        sizes = _NodeSizes(view)
        waiting = sorted(one for each in view.queue for one in self._waiting(view, each, sizes))
        weight = self.weights.get(PriorityFactor.FAIR_SHARE, 0)
        if not weight:
            yield from ((one.position, JobScore(0.0, one.age, one.size)) for one in waiting)
            return
        tree = share_tree(self.shares, view, charged=True)
        for one in waiting:
            yield one.position, JobScore(weight * tree.factor(one.owner), one.age, one.size)
            tree.charge(one.owner, one.charge)

    def _waiting(self, view: View, each: WaitingClass, sizes: "_NodeSizes") -> Iterator[_Waiting]:
        processors = sizes.processors(each.request)
        size = self.weights.get(PriorityFactor.SIZE, 0) * min(1.0, processors / sizes.all_processors)
        charge = processors * min(each.request.run_time, CHARGED)
        weight, owner = self.weights.get(PriorityFactor.AGE, 0), (each.owner, each.project)
        for turn in each.turns:
            waits = max(0.0, view.now - view.waiting_since.get(turn.job, view.now))
            age = weight * min(1.0, waits / self.max_age)
            yield _Waiting(turn.minus_priority, -age - size, turn, owner, age, size, charge)


def share_tree(shares: Shares, view: View, *, charged: bool) -> ShareTree:
    """Return who shares the cluster, those with jobs in the queue too.

    charged:  running jobs count as if they had run on for an hour, or to their end
    """
    used: dict[Owner, float] = dict(view.usage)
    for each in view.queue:
        used.setdefault((each.owner, each.project), 0.0)
    for job in view.running:
        processors = sum(count for _node, count in job.allocation) if charged else 0
        owner = (job.owner, job.project)
        used[owner] = used.get(owner, 0.0) + processors * min(max(0.0, job.end - view.now), CHARGED)
    return ShareTree(shares, used, least=_NodeSizes(view).all_processors * CHARGED)


class _NodeSizes:
    """How many processors the nodes have: what jobs that count nodes or sockets will hold, on average."""

    def __init__(self, view: View) -> None:
        facts = [node.facts for node in view.nodes.values()]
        self.all_processors = max(1, sum(each.processors for each in facts))
        self._of_node = self.all_processors / max(1, len(facts))
        self._of_socket = self.all_processors / max(1, sum(each.sockets for each in facts))

    def processors(self, request: JobRequest) -> float:
        """Return how many processors a job holds at its minimum."""
        each = {
            UnitType.PROCESSOR: 1.0,
            UnitType.SOCKET: self._of_socket,
            UnitType.NODE: self._of_node,
            UnitType.GPU: float(max(1, request.processors_per_gpu)),
        }[request.unit]
        return request.minimum * each
