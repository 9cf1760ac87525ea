"""The waiting jobs with what orders them, worked out once for all pages of a list."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headnode.core.model.priority_factors import JobScore, Weights
from headnode.core.model.quantities import Instant, JobId
from headnode.engine.engine import Engine
from headnode.engine.policy_registry import order_in_use

KEPT = 60.0  # seconds for which the pages of a list are of one time


class PriorityList(NamedTuple):
    """The waiting jobs, by number, the weights, and what orders each; nothing if there are no weights."""

    computed: Instant
    weights: Weights
    jobs: Sequence[JobId]
    scores: Mapping[JobId, JobScore]

    def serves(self, after: int, now: Instant) -> bool:
        """Return whether the page behind a job may be of this list: not a first page, nor an old one."""
        return after > 0 and 0.0 <= now - self.computed <= KEPT

    def page(self, engine: Engine, after: int, most: int) -> tuple[list[JobId], int | None]:
        """Return the jobs behind one that wait still, and after which the next page begins; None: no more."""
        begin = bisect_right(self.jobs, after)
        jobs = self.jobs[begin : begin + most]
        waiting = engine.cluster.queue.requests
        more = jobs[-1] if begin + most < len(self.jobs) else None
        return [job for job in jobs if job in waiting], more


def list_priorities(engine: Engine, now: Instant) -> PriorityList:
    """Return the waiting jobs and what orders them now.

    Cost:  O(jobs * log(jobs)), as a scheduling pass.
    """
    order = order_in_use(engine.policies, engine.settings)
    weights = {} if order is None else order.weights
    scores = {} if order is None else order.scores(engine.owners(now))
    by_request = engine.cluster.queue.by_request
    jobs = sorted(turn.job for turns in by_request.values() for turn in turns)
    return PriorityList(now, weights, jobs, scores)
