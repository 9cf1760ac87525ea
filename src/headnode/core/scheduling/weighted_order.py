"""The order of the queue by weighted factors: fair share, age and size, within each priority.

Running jobs, and those that go first, are charged in advance, so that users take turns also within one pass.
"""

from collections.abc import Collection, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.priority_factors import JobScore, PriorityFactor, Shares, Weights
from headnode.core.model.quantities import JobId, QueuePosition, Seconds, SortKey
from headnode.core.scheduling.fair_share import OF_PROJECT, Owner, SharedAccount, ShareTree
from headnode.core.scheduling.view import View, WaitingClass

CHARGED = 3600.0  # seconds at most for which a job is charged in advance


class _Waiting(NamedTuple):
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

    def take(self) -> tuple[QueuePosition, JobScore]:
        """Remove its first job, and charge it in advance; return what orders it."""
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
        return job.position, JobScore(fair_share, job.age, job.size)


class WeightedOrder(NamedTuple):
    """How a cluster orders its queue.  `max_age` in seconds; a GPU counts as `gpu_weight` processors more."""

    weights: Weights
    shares: Shares
    max_age: Seconds
    gpu_weight: float = 0.0

    def keys(self, view: View) -> Mapping[JobId, SortKey]:
        """Return the key of each queued job: its priority, then its score, the largest first."""
        if len(view.queue) == 1 and len(view.queue[0].turns) == 1:  # as most of the time
            (turn,) = view.queue[0].turns
            return {turn.job: (turn.minus_priority, 0.0)}
        return {turn.job: (turn.minus_priority, -score.total) for turn, score in self._scores(view)}

    def scores(self, view: View) -> dict[JobId, JobScore]:
        """Return what orders each queued job."""
        return {turn.job: score for turn, score in self._scores(view)}

    def _scores(self, view: View) -> Iterator[tuple[QueuePosition, JobScore]]:
        """Yield the queued jobs in this order.

        Cost:  O(jobs * log(jobs)).
        """
        sizes, queues = _NodeSizes(view), dict[Owner, list[_Waiting]]()
        for each in view.queue:
            queues.setdefault((each.owner, each.project), []).extend(self._waiting(view, each, sizes))
        weight = self.weights.get(PriorityFactor.FAIR_SHARE, 0)
        tree = share_tree(self.shares, view, charged=self.gpu_weight)
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
        charge = _with_gpus(processors, each.request, self.gpu_weight) * min(each.request.run_time, CHARGED)
        weight = self.weights.get(PriorityFactor.AGE, 0)
        for turn in each.turns:
            waits = max(0.0, view.now - view.waiting_since.get(turn.job, view.now))
            age = weight * min(1.0, waits / self.max_age)
            yield _Waiting(turn.minus_priority, -age - size, turn, age, size, charge)


def share_tree(
    shares: Shares, view: View, *, charged: float | None, also: Collection[Owner] = ()
) -> ShareTree:
    """Return who shares the cluster, and who of them has jobs now.

    charged:  running jobs count as if they had run on for an hour, or to their end, each GPU as so many
              processors more; None: they do not
    also:     who might have jobs; if nobody has any now, all are compared who ever had, and these
    """
    used, active = dict(view.usage), {(each.owner, each.project) for each in view.queue}
    for job in view.running:
        owner = (job.owner, job.project)
        active.add(owner)
        if charged is not None:
            held = _with_gpus(sum(count for _node, count in job.allocation), job.request, charged)
            used[owner] = used.get(owner, 0.0) + held * min(max(0.0, job.end - view.now), CHARGED)
    return ShareTree(shares, used, active or {*used, *also}, least=_NodeSizes(view).all_processors * CHARGED)


def _with_gpus(processors: float, request: JobRequest, weight: float) -> float:
    """Return as how many processors those of a job count, with the GPUs that come with them."""
    each = request.processors_per_gpu
    return processors + weight * processors / each if each and weight else processors


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
