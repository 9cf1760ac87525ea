"""How a queue goes on if no job is submitted: a policy asked again at each end or arrival of a job to come.

Source of the method: Smith, Taylor and Foster, "Using run-time predictions to estimate queue wait times and
improve scheduler performance", 1999.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import is_spent, limit_owner
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.node_table import KnownNodes
from headnode.core.scheduling.node_view import NodeView, held_with, instants_of
from headnode.core.scheduling.plan import Grow, Plan, Shares, Start
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.request import licences_held, licences_taken
from headnode.core.scheduling.view import QueueArrival, RunningJob, View, WaitingClass, with_limits

SimulatedRunTime = Callable[[JobId, int], float]
"""How long a job will run once it starts under an option, in seconds; infinite if unknown."""


class SimulatedStarts(NamedTuple):
    """The simulated starts of queued jobs.

    `whole` is False if the simulation was cut short: later starts are unknown.
    """

    starts: Mapping[JobId, Instant]
    whole: bool


def to_the_limits(view: View, arrivals: Sequence[QueueArrival] = ()) -> SimulatedRunTime:
    """Return that every job of a view that waits, or arrives, runs until its run time limit."""
    requests = {turn.job: each.request for each in view.queue for turn in each.turns}
    requests |= {each.turn.job: each.request for each in arrivals}
    return lambda job, option: requests[job].option(option).run_time


def simulate_ahead(
    view: View,
    policy: Policy,
    ends: Mapping[JobId, Instant],
    lasts: SimulatedRunTime,
    stop: Callable[[], bool],
    coarse: float = 0.0,
    arrivals: Sequence[QueueArrival] = (),
) -> SimulatedStarts:
    """Simulate the queue: running jobs end as in `ends`, waiting jobs run as long as in `lasts`.

    The policy sees users' limits, as ever.  `stop` is asked before each of its plans.  Ends that are closer
    to each other than the part `coarse` of their distance from now count as one, the last of them.
    `arrivals` come into the queue meanwhile.
    Cost:  one plan for each instant at which jobs end or arrive, until all waiting jobs have started.
    """
    scene = _SimulatedCluster(view, ends, coarse, arrivals)
    starts: dict[JobId, Instant] = {}
    while scene.queue or scene.coming:
        if stop():
            return SimulatedStarts(starts, whole=False)
        plan = policy(scene.view())
        for start in plan.starts:
            starts[start.job] = scene.now
            run_time = lasts(start.job, start.option)
            limit = start.lowered_limit
            scene.start(start, run_time if limit is None else min(run_time, limit))
        for grow in plan.grows:
            scene.grow(grow)
        if not scene.go_on(plan):
            break
    return SimulatedStarts(starts, whole=True)


class _SimulatedCluster:
    """The cluster as it will be: what the view said, and what has happened since."""

    def __init__(
        self, view: View, ends: Mapping[JobId, Instant], coarse: float, arrivals: Sequence[QueueArrival]
    ) -> None:
        self.now, self._coarse = view.now, coarse
        self._view, self._before, self._node_table = view, view.before, view.node_table()
        self._nodes = dict(view.nodes)
        self._running = {job.job: job for job in view.running}
        self._licences = dict(view.licences)
        self.queue: dict[JobRequest, list[QueuePosition]] = {}
        for each in view.queue:
            turns = self.queue.setdefault(each.request, [])
            turns.extend(each.turns)
            turns.sort()  # where classes are divided by owner
        self._request_of = {turn.job: each.request for each in view.queue for turn in each.turns}
        reserved = instants_of(node.reserved for node in view.nodes.values())
        self._edges = sorted(Instant(view.now + edge) for edge in reserved)  # of reservations
        self._ends = [(max(ends.get(job.job, job.end), view.now), job.job) for job in view.running]
        heapify(self._ends)
        self.coming = sorted(arrivals, key=lambda each: (-each.at, each.turn))  # the first is the last
        self._arrive()

    def view(self) -> View:
        """Return what the policy may know now."""
        nodes = self._nodes_now()
        return View(
            now=self.now,
            nodes=nodes,
            queue=[WaitingClass(request, tuple(turns)) for request, turns in self.queue.items()],
            running=tuple(self._running.values()),
            licences=dict(self._licences),
            depth=self._view.depth,
            before=self._before,
            ground=None
            if self._node_table.changes
            else KnownNodes(nodes, self._node_table),  # same whatever runs
            usage=self._view.usage,
            positions=self._view.positions,
        )

    def _nodes_now(self) -> dict[str, NodeView]:
        """Return the nodes as they are by now: some have closed since, or will sooner."""
        gone = self.now - self._view.now
        if not self._node_table.changes or not gone:
            return dict(self._nodes)
        return {name: _later(node, gone) for name, node in self._nodes.items()}

    def start(self, start: Start, lasts: float) -> None:
        """Let a waiting job run for so long."""
        request = self._request_of[start.job]
        turns = self.queue[request]
        turn = next(turn for turn in turns if turn.job == start.job)
        turns.remove(turn)
        if not turns:
            del self.queue[request]
        taken = start.taken(request)
        limit = Instant(self.now + taken.run_time)
        job = RunningJob(start.job, turn, taken, limit, start.allocation)
        self._running[start.job] = job
        self._hold(job, start.allocation, 1, first=True)
        self._take_licences(licences_taken, job, 1)
        for name, _ in start.allocation:
            self._change(name, jobs=1)
        heappush(self._ends, (Instant(self.now + lasts), start.job))

    def grow(self, grow: Grow) -> None:
        """Give a running job more; what it may still want is not known."""
        job = self._running[grow.job]
        held = dict(job.allocation)
        for name, count in grow.allocation:
            if name not in held:
                self._change(name, jobs=1)
            held[name] = held.get(name, 0) + count
        self._hold(job, grow.allocation, 1, first=False)
        self._take_licences(licences_taken, job, -1)
        grown = msgspec.structs.replace(job, allocation=tuple(held.items()), wants=0)
        self._take_licences(licences_taken, grown, 1)
        self._running[grow.job] = grown

    def go_on(self, plan: Plan) -> bool:
        """Advance the time to the next end, arrival or replanning; return False if there is none."""
        self._before = plan
        wake = plan.wake if plan.wake > self.now else NEVER
        edge = bisect_right(self._edges, self.now)
        wake = min([wake, *self._edges[edge : edge + 1]])
        arrival = self.coming[-1].at if self.coming else NEVER
        then = min(self._ends[0][0] if self._ends else NEVER, wake, arrival)
        if then == NEVER:
            return False
        together = then + self._coarse * (then - self._view.now)
        self.now = then
        while self._ends and self._ends[0][0] <= together:
            at, job = heappop(self._ends)
            self.now = max(self.now, at)
            self._end(self._running.pop(job))
        self._arrive()
        return True

    def _arrive(self) -> None:
        """Let jobs into the queue that are there by now."""
        while self.coming and self.coming[-1].at <= self.now:
            job = self.coming.pop()
            insort(self.queue.setdefault(job.request, []), job.turn)
            self._request_of[job.turn.job] = job.request
            self._licences = dict(with_limits(self._licences, job.request))

    def _end(self, job: RunningJob) -> None:
        self._hold(job, job.allocation, -1, first=True)
        self._take_licences(licences_held, job, -1)
        if job.request.limits:
            self._return_minutes(job)
        for name, _ in job.allocation:
            self._change(name, jobs=-1)

    def _return_minutes(self, job: RunningJob) -> None:
        """Give back the minutes that an ended job reserved and did not use; of running jobs' limits all."""
        if job.end == NEVER:
            return  # how much of a limit it reserved is not known
        size = sum(count for _, count in job.allocation)
        since = max(self._view.now, job.end - job.request.run_time)
        for share in job.request.limits:
            if not is_spent(share.key) or share.key not in self._licences:
                continue
            begin = self.now if limit_owner(share.key).amount.counts_usage else since
            total, free = self._licences[share.key]
            back = int(share.count(size) * max(0.0, job.end - begin))
            self._licences[share.key] = total, min(total, free + back)

    def _hold(self, job: RunningJob, shares: Shares, sign: int, *, first: bool) -> None:
        """Take processors for a job and what goes with them, or give them back.

        `first`: all that it has of each of the nodes.
        """
        owner = job.job if job.request.exclusive and sign > 0 else None
        for name, count in shares:
            if name in self._nodes:
                self._nodes[name] = held_with(self._nodes[name], job.request, sign * count, first=first)
            self._change(name, free=-sign * count, owner=owner)

    def _take_licences(
        self, which: Callable[[JobRequest, int], dict[str, int]], job: RunningJob, sign: int
    ) -> None:
        """Take the licences of all that a job holds, or give them back."""
        size = sum(count for _, count in job.allocation)
        for feature, amount in which(job.request, size).items():
            if feature in self._licences:
                total, free = self._licences[feature]
                self._licences[feature] = (total, free - sign * amount)

    def _change(self, name: str, *, free: int = 0, jobs: int = 0, owner: JobId | None = None) -> None:
        node = self._nodes.get(name)
        if node is None:
            return  # it is gone; what it held does not come back
        left = node.jobs + jobs
        self._nodes[name] = NodeView(
            facts=node.facts,
            free=node.free + free,
            jobs=left,
            exclusive_to=owner if owner is not None else node.exclusive_to if left else None,
            closed=node.closed,
            memory_held=node.memory_held,
            open_for=node.open_for,
            reserved=node.reserved,
            disk_held=node.disk_held,
            swap_held=node.swap_held,
            gpus_held=node.gpus_held,
            switches=node.switches,
        )


def _later(node: NodeView, seconds: float) -> NodeView:
    """Return a node as it is after some time in which nothing of it was taken or given back."""
    if node.open_for == inf and not node.reserved:
        return node
    left = node.open_for - seconds
    times = (
        msgspec.structs.replace(each, begins=each.begins - seconds, ends=each.ends - seconds)
        for each in node.reserved
        if each.ends > seconds
    )
    return msgspec.structs.replace(node, open_for=left if left > 0 else 0.0, reserved=tuple(times))
