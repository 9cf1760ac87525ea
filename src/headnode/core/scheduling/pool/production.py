"""The cluster's own scheduler, asked about a pool: one open node that all jobs share.

The very functions that decide in production, given a picture of the pool at every pass.  Much slower than
the counters of the other policies here, which is what they are for.
"""

from collections.abc import Sequence
from math import inf

from headnode.core.model.job import JobRequest, NodeGroupOp, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.model.workload import Workload
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import NodeView, RunningJob, Turn, View, WaitingClass, turn

NODE = "pool"
_SAME_PRIORITY = Priority(2000)


class Production:
    """Turns what happens into views, and the plans for them into starts."""

    def __init__(self, workload: Workload, processors: int, plan: Policy) -> None:
        self._plan = plan
        self._workload = workload
        self._facts = NodeFacts(name=NODE, processors=processors, memory=0)
        self._requests: dict[tuple[int, float], JobRequest] = {}
        self._queue: dict[JobRequest, list[Turn]] = {}
        self._running: dict[int, RunningJob] = {}
        self._changed = self._freed = False
        self._before: Plan | None = None

    def arrived(self, _now: float, job: int) -> None:
        """Put the job into the queue."""
        self._queue.setdefault(self._request(job), []).append(_turn(job))
        self._changed = True

    def ended(self, now: float, job: int) -> None:
        """Take the job off the node."""
        running = self._running.pop(job, None)
        if running is not None:
            self._changed = True
            self._freed |= running.end > now

    def expected_ends(self, now: float) -> None:
        """Take off the node what is over by the estimates."""
        for job in [job for job, running in self._running.items() if running.end <= now]:
            self.ended(now, job)

    def starts(self, now: float) -> Sequence[int]:
        """Return what the plan for this instant starts."""
        if not (self._changed or self.wakes() <= now) or not self._queue:
            return ()
        plan = self._before = self._plan(self._view(now))
        self._changed = self._freed = False
        return [self._started(now, start.job) for start in plan.starts]

    def wakes(self) -> float:
        """Return when the plan wants to be asked again; other passes follow ends and arrivals."""
        return inf if self._before is None else self._before.wake

    def _view(self, now: float) -> View:
        held = sum(processors for job in self._running.values() for _, processors in job.allocation)
        node = NodeView(self._facts, self._facts.processors - held, len(self._running))
        queue = [WaitingClass(request, turns) for request, turns in self._queue.items()]
        return View(
            Instant(now),
            {NODE: node},
            queue,
            list(self._running.values()),
            before=self._before,
            freed=self._freed,
        )

    def _started(self, now: float, job: int) -> int:
        request = self._request(job)
        turns = self._queue[request]
        turns.remove(_turn(job))
        if not turns:
            del self._queue[request]
        end = Instant(now + self._workload.estimates[job])
        held = ((NODE, self._workload.processors[job]),)
        self._running[job] = RunningJob(JobId(job), _turn(job), request, end, held)
        return job

    def _request(self, job: int) -> JobRequest:
        kind = self._workload.processors[job], self._workload.estimates[job]
        if kind not in self._requests:
            self._requests[kind] = _request(*kind)
        return self._requests[kind]


def _turn(job: int) -> Turn:
    return turn(_SAME_PRIORITY, job, JobId(job))


def _request(processors: int, estimate: float) -> JobRequest:
    return JobRequest(
        unit=UnitType.PROCESSOR,
        minimum=processors,
        maximum=processors,
        exclusive=False,
        single_node=False,
        run_time=Seconds(estimate),
        licences=(),
        node_groups=(),
        node_group_op=NodeGroupOp.INTERSECT,
        requested_nodes=(),
        required_nodes=(),
        excluded_nodes=(),
        order_by=(),
        minimum_memory=None,
        maximum_memory=None,
        minimum_processors_per_node=None,
        maximum_processors_per_node=None,
    )
