"""The order of the queue by weighted factors: fair share, age and size, within each priority.

Running jobs, and those that go first, are charged in advance, so that users take turns also within one pass.
"""

from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.priority_factors import JobScore, PriorityFactor, QueuePosition, Shares, Weights
from headnode.core.model.quantities import JobId, Seconds, SortKey
from headnode.core.model.usage_weights import UNIT, UsageWeights
from headnode.core.scheduling.fair_share import OF_PROJECT, Owner, SharedAccount, ShareTree
from headnode.core.scheduling.view import RunningJob, View, WaitingClass

CHARGED = 3600.0  # seconds at most for which a job is charged in advance


class _Waiting(msgspec.Struct, frozen=True, order=True, gc=False):
    """A queued job with what of its score does not depend on other jobs."""

    minus_priority: int
    minus_score: float
    position: QueuePosition
    age: float
    size: float
    charge: float


_Turn = tuple[int, float, QueuePosition]
"""The minus of the priority, that of the score, and the place by submission: the smallest goes first."""


class _User:
    """The queued jobs of a user in a project, the last goes first; `weight` is that of its own fair share."""

    def __init__(self, jobs: list[_Waiting], account: SharedAccount, weight: float) -> None:
        self.jobs, self._account, self._weight = jobs, account, weight
        self.fair_share = weight * account.factor

    @property
    def key(self) -> _Turn:
        """The turn of its first job, in its project."""
        first = self.jobs[-1]
        return first.minus_priority, first.minus_score - self.fair_share, first.position

    def take(self) -> _Waiting:
        """Remove its first job, and charge it in advance."""
        first = self.jobs.pop()
        self._account.used += first.charge
        self.fair_share = self._weight * self._account.factor
        return first


class _Project:
    """The users of a project with queued jobs, or one user without a project, whose `account` is None."""

    def __init__(self, users: list[_User], account: SharedAccount | None, weight: float) -> None:
        self._account, self._weight = account, weight
        self._all = users
        self.users = [(user.key, at) for at, user in enumerate(users)]
        heapify(self.users)
        self._fair_share = 0.0 if account is None else weight * account.factor

    @property
    def key(self) -> _Turn:
        """The turn of its first job, in the cluster."""
        minus_priority, minus_score, position = self.users[0][0]
        return minus_priority, minus_score - self._fair_share, position

    def take(self) -> tuple[_Waiting, float]:
        """Remove its first job, and charge it in advance; return the job and its fair share."""
        at = self.users[0][1]
        user = self._all[at]
        fair_share = self._fair_share + user.fair_share
        job = user.take()
        if user.jobs:
            heapreplace(self.users, (user.key, at))
        else:
            heappop(self.users)
        if self._account is not None:
            self._account.used += job.charge
            self._fair_share = self._weight * self._account.factor
        return job, fair_share


class WeightedOrder(NamedTuple):
    """How a cluster orders its queue.  `max_age` in seconds; `counted`: what usage counts."""

    weights: Weights
    shares: Shares
    max_age: Seconds
    counted: UsageWeights | None = None

    def keys(self, view: View) -> Mapping[JobId, SortKey]:
        """Return the key of each queued job: its priority, then its score, the largest first."""
        if len(view.queue) == 1 and len(view.queue[0].turns) == 1:  # as most of the time
            (turn,) = view.queue[0].turns
            return {turn.job: (turn.minus_priority, 0.0)}
        return {
            job.position.job: (job.minus_priority, -(fair_share + job.age + job.size))
            for job, fair_share in self._in_turn(view)
        }

    def scores(self, view: View) -> dict[JobId, JobScore]:
        """Return what orders each queued job."""
        return {
            job.position.job: JobScore(fair_share, job.age, job.size)
            for job, fair_share in self._in_turn(view)
        }

    def _in_turn(self, view: View) -> Iterator[tuple[_Waiting, float]]:
        """Yield the queued jobs in this order, with the weighted fair share of each.

        Cost:  O(jobs * log(jobs)).
        """
        sizes, queues = _NodeSizes(view, self.counted), dict[Owner, list[_Waiting]]()
        for each in view.queue:
            queues.setdefault((each.owner, each.project), []).extend(self._waiting(view, each, sizes))
        weight = self.weights.get(PriorityFactor.FAIR_SHARE, 0)
        tree = share_tree(self.shares, view, self.counted, charged=True)
        together = dict[str | Owner, list[_User]]()  # users of a project by its name, others alone
        for owner, jobs in queues.items():
            jobs.sort(reverse=True)  # the last goes first
            account, project = tree.account(owner), owner[1]
            has_share = account.due > 0 and (not project or tree.account_of_project(project).due > 0)
            shared = project if has_share else ""  # who has no share gets nothing by its project
            own = weight * (1.0 - OF_PROJECT if shared else 1.0) if has_share else 0.0
            together.setdefault(shared or owner, []).append(_User(jobs, account, own))
        of_project = weight * OF_PROJECT
        groups = [
            _Project(users, tree.account_of_project(of) if isinstance(of, str) else None, of_project)
            for of, users in together.items()
        ]
        turns = [(group.key, at) for at, group in enumerate(groups)]
        heapify(turns)
        while turns:
            group = groups[turns[0][1]]
            yield group.take()
            if group.users:
                heapreplace(turns, (group.key, turns[0][1]))
            else:
                heappop(turns)

    def _waiting(self, view: View, each: WaitingClass, sizes: "_NodeSizes") -> Iterator[_Waiting]:
        processors = sizes.processors(each.request)
        size = self.weights.get(PriorityFactor.SIZE, 0) * min(1.0, processors / sizes.all_processors)
        charge = sizes.rate(each.request, processors) * min(each.request.run_time, CHARGED)
        weight, now, since, oldest = (
            self.weights.get(PriorityFactor.AGE, 0),
            view.now,
            view.waiting_since,
            self.max_age,
        )
        for turn in each.turns:
            waits = now - since.get(turn.job, now)
            age = weight * (0.0 if waits <= 0.0 else 1.0 if waits >= oldest else waits / oldest)
            yield _Waiting(turn.minus_priority, -age - size, turn, age, size, charge)


def share_tree(
    shares: Shares,
    view: View,
    counted: UsageWeights | None,
    *,
    charged: bool,
    also: Collection[Owner] = (),
) -> ShareTree:
    """Return the users and projects that share the cluster, and those of them that have jobs now.

    counted:  what usage counts; None: processors
    charged:  running jobs count as if they had run on for an hour, or to their end
    also:     who might have jobs; if nobody has any now, all are compared who ever had, and these
    """
    used, active = dict(view.usage), {(each.owner, each.project) for each in view.queue}
    sizes = _NodeSizes(view, counted)
    for job in view.running:
        owner = (job.owner, job.project)
        active.add(owner)
        if charged:
            held = sizes.held(job)
            used[owner] = used.get(owner, 0.0) + held * min(max(0.0, job.end - view.now), CHARGED)
    return ShareTree(shares, used, active or {*used, *also}, least=sizes.all_used * CHARGED)


class _NodeSizes:
    """What the nodes have, and so what jobs that count nodes or sockets will hold, on average.

    counted:  what usage counts; None: processors
    """

    def __init__(self, view: View, counted: UsageWeights | None) -> None:
        facts = [node.facts for node in view.nodes.values()]
        self._facts, self._counted = {each.name: each for each in facts}, counted
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

    @property
    def all_used(self) -> float:
        """How much is used each second while all nodes are busy."""
        if self._counted is None:
            return self.all_processors
        return max(1.0, sum(self._counted.rate_of_node(each) for each in self._facts.values()) / UNIT)

    def held(self, job: RunningJob) -> float:
        """Return how much a running job uses each second."""
        if self._counted is None:
            return sum(count for _, count in job.allocation)
        rates = (
            self._counted.rate(job.request, count, self._facts.get(node)) for node, count in job.allocation
        )
        return sum(rates) / UNIT

    def rate(self, request: JobRequest, processors: float) -> float:
        """Return how much a queued job will use each second that holds so many processors.

        One that will own its nodes uses as much of all nodes as it has of their processors.
        """
        if self._counted is None:
            return processors
        if request.exclusive or request.unit is UnitType.NODE:
            return self.all_used * processors / self.all_processors
        return self._counted.expected(request, processors) / UNIT
