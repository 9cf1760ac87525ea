"""What a pass knows in balanced mode: what each job runs and could release, and when it is due again.

Source: HPC Pack cluster parameters SchedulingMode, PriorityBias, RebalancingInterval and
PreemptionBalancedMode."""

import msgspec

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import SPECIAL
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import Balancing, Bias, NodeSurplus, ShareInfo, View
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord
from headnode.core.state.job_request import units_in
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState
from headnode.engine.settings import Settings


def plan_in_mode(policy: Policy, view: View) -> Plan:
    """Return what a policy would do in the mode that the view is of; only then that mode is imported."""
    if view.balancing is None:
        return policy(view)
    from headnode.core.scheduling.balanced.balanced_pass import balanced_plan

    return balanced_plan(view, policy, view.balancing)


def is_balanced(settings: Settings) -> bool:
    """Return whether the cluster is in balanced mode."""
    return settings.text("SchedulingMode") == "Balanced"


class Rebalancing:
    """The last time processors were taken from jobs with more than their share, and the jobs running then."""

    def __init__(self) -> None:
        self._at = Instant(0.0)
        self._running: frozenset[JobId] = frozenset()

    def shown(self, cluster: ClusterState, now: Instant) -> Balancing | None:
        """Return what policies are shown; None in queued mode.

        Cost:  O(running jobs + live instances).
        """
        settings = Settings(cluster.parameters)
        if not is_balanced(settings):
            return None
        again = self._again(settings)
        jobs = sorted(cluster.running)
        return Balancing(
            bias=Bias(settings.text("PriorityBias")),
            immediate=settings.text("PreemptionBalancedMode") == "Immediate",
            due=self._is_due(cluster, now, again),
            next_due=again if now < again else Instant(now + settings.number("RebalancingInterval")),
            sharers={job: seen for job in jobs if (seen := sharer_of(cluster, cluster.jobs[job]))},
        )

    def done(self, cluster: ClusterState, now: Instant) -> None:
        """Take note that a pass has been made, before anybody has started by it."""
        if self._is_due(cluster, now, self._again(Settings(cluster.parameters))):
            self._at, self._running = now, frozenset(cluster.running)

    def _again(self, settings: Settings) -> Instant:
        return Instant(self._at + settings.number("RebalancingInterval"))

    def _is_due(self, cluster: ClusterState, now: Instant, again: Instant) -> bool:
        """Return whether time is up, a clock was set back, or a job has come or gone."""
        return not self._at <= now < again or self._running != cluster.running


def sharer_of(cluster: ClusterState, record: JobRecord) -> ShareInfo | None:
    """Return what a running job could use and give up; None if it has no share: a gang, or one that ends."""
    request = cluster.request(record)
    if record.state is not JobState.RUNNING or request.together:
        return None
    graph = cluster.graph(record.id)
    if graph.run.end is not None:
        return None
    used, idle, waiting = _units(cluster, graph, request)
    return ShareInfo(
        job=record.id,
        could_use=used + waiting,
        waits=max(0, waiting - idle),
        held=tuple(_held(graph, request)),
        lasting=any(not graph.spec.tasks[index].rerunnable for index in graph.ready)
        or not graph.spec.preemptable,
    )


def _units(cluster: ClusterState, graph: TaskGraph, request: JobRequest) -> tuple[int, int, int]:
    """Return how many units tasks use, are idle, and waiting tasks could use: the maximum at most."""
    unit, used, idle = request.unit, 0, 0
    free = graph.idle()
    for node, numbers in graph.run.allocation.items():
        facts, left = cluster.nodes[node].facts, max(0, len(free[node]) - graph.run.recalled.get(node, 0))
        if unit is UnitType.NODE:
            used += len(free[node]) < len(numbers)
            idle += left == len(numbers)
        else:
            used += units_in(unit, len(numbers), facts) - units_in(unit, len(free[node]), facts)
            idle += units_in(unit, left, facts)
    if graph.service in graph.ready:
        return used, idle, request.maximum
    waiting = 0
    for index in graph.ready:
        waiting += graph.spec.tasks[index].maximum * len(graph.run.tasks[index].queued)
        if waiting >= request.maximum:
            return used, idle, request.maximum
    return used, idle, waiting


def _held(graph: TaskGraph, request: JobRequest) -> list[NodeSurplus]:
    """Return what it holds of each node that none of its tasks asks for, or that it is to give up already."""
    named = {name.lower() for name in request.required_nodes}
    counts = _by_ease(graph)
    found = []
    for node, numbers in graph.run.allocation.items():
        recalled = graph.run.recalled.get(node, 0)
        stays = node.lower() in named or bool(request.parts)
        if recalled or not stays:
            seen = _held_on(node, len(numbers), recalled, len(graph.free[node]), *counts.get(node, (0, 0)))
            if request.exclusive or request.unit is UnitType.NODE:
                seen = _whole(seen)
            found.append(msgspec.structs.replace(seen, idle=0, stoppable=0) if stays else seen)
    return found


def _held_on(node: str, held: int, recalled: int, free: int, ending: int, stoppable: int) -> NodeSurplus:
    leaving = min(recalled, free + ending)
    awaited = recalled - leaving
    return NodeSurplus(node, held, leaving, awaited, max(0, free - recalled), max(0, stoppable - awaited))


def _whole(seen: NodeSurplus) -> NodeSurplus:
    """Return what is held of a node that goes as a whole."""
    if not seen.leaving and not seen.awaited:
        return seen
    if seen.awaited:
        return NodeSurplus(seen.node, seen.processors, awaited=seen.processors)
    return NodeSurplus(seen.node, seen.processors, leaving=seen.processors)


def _by_ease(graph: TaskGraph) -> dict[str, tuple[int, int]]:
    """Return how many processors of each node are being vacated, and could be: what runs there may rerun."""
    ending: set[NodeCores] = set(graph.lanes)
    fixed: set[NodeCores] = set()
    for index, progress in enumerate(graph.run.tasks):
        task = graph.spec.tasks[index]
        stays = task.kind in SPECIAL or not task.rerunnable or not graph.spec.preemptable
        for live in progress.live.values():
            if live.outcome is None:
                ending.discard(live.place)
                if stays:
                    fixed.add(live.place)
    found: dict[str, tuple[int, int]] = {}
    for place in graph.lanes:
        for node, numbers in place:
            soon, stoppable = found.get(node, (0, 0))
            soon += len(numbers) if place in ending else 0
            stoppable += len(numbers) if place not in ending and place not in fixed else 0
            found[node] = (soon, stoppable)
    return found


def resting(balancing: Balancing | None, jobs: set[JobId]) -> Balancing | None:
    """Return what policies are shown while these jobs must not grow: activation filters have a say."""
    if balancing is None or not jobs & balancing.sharers.keys():
        return balancing
    sharers = {
        job: msgspec.structs.replace(seen, rests=True) if job in jobs else seen
        for job, seen in balancing.sharers.items()
    }
    return msgspec.structs.replace(balancing, sharers=sharers)
