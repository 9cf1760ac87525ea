"""What a pass knows about what running jobs can give up: for preemption, and in balanced mode."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from headnode.core.model.errors import Refused
from headnode.core.model.job import JobRequest, UnitType, units_in
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import SPECIAL
from headnode.core.scheduling.plan import Plan, Reason, Recall, Shares, Why
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import Balancing, Bias, NodeSurplus, ShareInfo, View
from headnode.core.state import preempt as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord, JobRun
from headnode.core.state.preempt import recall, runs_once
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState
from headnode.engine.settings import Settings

if TYPE_CHECKING:
    from headnode.core.scheduling.preempt import PendingRelease, PreemptionState

Reclaim = c.PreemptJob | c.RecallProcessors
"""What a plan takes from one job."""


def plan_with_preemption(view: View, policy: Callable[[View], Plan], cluster: ClusterState) -> Plan:
    """Return the policy's plan with preemption, as configured by the cluster parameters.

    Cost:  that of the policy alone if no job gives anything up, and no job waits with a priority above
    that of a running job; or where preemption is off.
    """
    settings = Settings(cluster.parameters)
    kind = settings.text("PreemptionType")
    if settings.text("SchedulingMode") != "Queued" or (kind == "None" and not cluster.releasing):
        return policy(view)
    from headnode.core.scheduling.preempt import preempting_plan

    found = preempting_plan(view, policy, _preemption_state(view, cluster, settings, kind))
    return _with_withdrawals(found, cluster)


def plan_of_cluster(view: View, policy: Callable[[View], Plan], cluster: ClusterState) -> Plan:
    """Return the plan with preemption, which is made again when usage has decayed enough for a job."""
    plan = plan_with_preemption(view, policy, cluster)
    if not cluster.limit_index.counts_time:
        return plan
    from headnode.engine.usage_decay import with_decay  # few clusters have such limits

    return with_decay(plan, view, cluster)


def withdrawals(cluster: ClusterState) -> list[Reclaim]:
    """Return commands that let jobs keep processors recalled for jobs that no longer wait."""
    if not cluster.releasing or Settings(cluster.parameters).text("SchedulingMode") != "Queued":
        return []
    return reclaims_of(_with_withdrawals(Plan((), (), {}), cluster))


def reclaims_of(plan: Plan) -> list[Reclaim]:
    """Return what a plan takes from jobs, as wishes."""
    if not plan.preempts and not plan.recalls:
        return []
    preempts: list[Reclaim] = [c.PreemptJob(job=each.job, for_job=each.for_job) for each in plan.preempts]
    return preempts + [
        c.RecallProcessors(
            job=each.job,
            shares=each.allocation,
            immediate=each.immediate,
            for_jobs=each.for_jobs,
            message=each.why.text,
        )
        for each in plan.recalls
    ]


def _preemption_state(view: View, cluster: ClusterState, settings: Settings, kind: str) -> "PreemptionState":
    from headnode.core.scheduling.preempt import PreemptionCandidate, PreemptionState

    graceful = kind == "Graceful"

    def candidates(priority: int) -> list[PreemptionCandidate]:
        lower = (job.job for job in view.running if job.turn.priority < priority)
        records = [cluster.jobs[job] for job in lower if job in cluster.running]
        return [
            PreemptionCandidate(record.id, record.run.started)
            for record in records
            if record.run is not None
            and record.run.started is not None
            and _may_be_preempted(cluster, record, record.run, graceful=graceful)
        ]

    def can_lend(job: JobId, shares: Shares) -> bool:
        run = cluster.graph(job).run
        both = dict(run.recalled)
        for node, count in shares:
            both[node] = both.get(node, 0) + count
        command = c.RecallProcessors(job=job, shares=tuple(both.items()), immediate=True)
        try:
            recall(cluster, command, view.now)
        except Refused:
            return False
        return True

    return PreemptionState(
        giving=_giving(cluster),
        ending=_ending(cluster),
        candidates=None if kind == "None" else candidates,
        graceful=graceful,
        in_parts=settings.text("TaskImmediatePreemption") == "yes",
        can_lend=can_lend,
        barred=lambda job: cluster.jobs[job].filter_reply is not None,
    )


def _ending(cluster: ClusterState) -> dict[JobId, Shares]:
    """Return what jobs hold that release processors and end."""
    return {
        job: _held(cluster.graph(job).run)
        for job in cluster.releasing
        if cluster.jobs[job].state is JobState.ENDING
    }


def _may_be_preempted(cluster: ClusterState, record: JobRecord, run: JobRun, *, graceful: bool) -> bool:
    graph = cluster.graph(record.id)
    if record.state is not JobState.RUNNING or run.end is not None or not graph.spec.preemptable:
        return False
    return not cluster.request(record).together if graceful else not runs_once(graph)


def _giving(cluster: ClusterState) -> "list[PendingRelease]":
    """Return the jobs that release processors or end because of preemption, and the jobs this is for."""
    from headnode.core.scheduling.preempt import PendingRelease

    found: list[PendingRelease] = []
    for job in sorted(cluster.releasing):
        record, run = cluster.jobs[job], cluster.graph(job).run
        if record.state is JobState.ENDING:
            if run.end is not None and run.end.preempted_by:
                found.append(PendingRelease(job, _held(run), (JobId(run.end.preempted_by),), ends=True))
        elif run.recalled_for:
            for_jobs = tuple(map(JobId, run.recalled_for))
            found.append(PendingRelease(job, tuple(run.recalled.items()), for_jobs, ends=False))
    return found


def _held(run: JobRun) -> Shares:
    return tuple((node, len(numbers)) for node, numbers in run.allocation.items())


def _with_withdrawals(plan: Plan, cluster: ClusterState) -> Plan:
    """Return the plan with withdrawn recalls: jobs keep processors that no other job will get any more."""
    claimed = {claim.job for claim in plan.claims}
    kept = [
        Recall(each.job, (), Reason(Why.PREEMPTION, "other jobs no longer need its processors"))
        for each in _giving(cluster)
        if not each.ends and not claimed.intersection(each.for_jobs)
    ]
    again = {recall.job for recall in plan.recalls} | {preempt.job for preempt in plan.preempts}
    new = tuple(recall for recall in kept if recall.job not in again)
    return replace(plan, recalls=(*plan.recalls, *new)) if new else plan


def plan_in_mode(policy: Policy, view: View) -> Plan:
    """Return what a policy would do in the mode that the view is of; only then that mode is imported."""
    if view.balancing is None:
        return policy(view)
    from headnode.core.scheduling.balanced.balanced_pass import balanced_plan

    return balanced_plan(view, policy, view.balancing)


class Rebalancing:
    """The last time processors were taken from jobs with more than their share, and the jobs running then."""

    def __init__(self) -> None:
        self._at = Instant(0.0)
        self._running: frozenset[JobId] = frozenset()

    def shown(self, cluster: ClusterState, now: Instant) -> Balancing:
        """Return what policies are shown in balanced mode.

        Cost:  O(running jobs + live instances).
        """
        settings = Settings(cluster.parameters)
        again = self._again(settings)
        seen = {job: sharer_of(cluster, cluster.jobs[job]) for job in sorted(cluster.running)}
        return Balancing(
            bias=Bias(settings.text("PriorityBias")),
            immediate=settings.text("PreemptionBalancedMode") == "Immediate",
            due=self._is_due(cluster, now, again),
            next_due=again if now < again else Instant(now + settings.number("RebalancingInterval")),
            sharers={job: sharer for job, sharer in seen.items() if sharer is not None},
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
    """Return what a running job could use and give up; None for a gang or an ending job."""
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
        held=tuple(_held_pieces(graph, request)),
        lasting=any(not graph.spec.tasks[index].rerunnable for index in graph.ready)
        or not graph.spec.preemptable,
    )


def _units(cluster: ClusterState, graph: TaskGraph, request: JobRequest) -> tuple[int, int, int]:
    """Return how many units tasks use, are idle, and waiting tasks could use: the maximum at most."""
    used, idle = 0, 0
    free = graph.idle()
    for node, numbers in graph.run.allocation.items():
        facts, left = cluster.nodes[node].facts, max(0, len(free[node]) - graph.run.recalled.get(node, 0))
        if request.unit is UnitType.NODE:
            used += len(free[node]) < len(numbers)
            idle += left == len(numbers)
        else:
            used += units_in(request, len(numbers), facts) - units_in(request, len(free[node]), facts)
            idle += units_in(request, left, facts)
    if graph.service in graph.ready:
        return used, idle, request.maximum
    waiting = 0
    for index in graph.ready:
        waiting += graph.spec.tasks[index].maximum * len(graph.run.tasks[index].queued)
        if waiting >= request.maximum:
            return used, idle, request.maximum
    return used, idle, waiting


def _held_pieces(graph: TaskGraph, request: JobRequest) -> list[NodeSurplus]:
    """Return its processors of each node that no task of it requires, or that are recalled already."""
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
                ending.discard(live.placement)
                if stays:
                    fixed.add(live.placement)
    found: dict[str, tuple[int, int]] = {}
    for place in graph.lanes:
        for node, numbers in place:
            soon, stoppable = found.get(node, (0, 0))
            soon += len(numbers) if place in ending else 0
            stoppable += len(numbers) if place not in ending and place not in fixed else 0
            found[node] = (soon, stoppable)
    return found


def keeping(balancing: Balancing | None, growing: Mapping[JobId, Shares]) -> Balancing | None:
    """Return what policies are shown of jobs for whose growth filters keep processors."""
    if balancing is None or not growing.keys() & balancing.sharers.keys():
        return balancing
    sharers = {
        job: msgspec.structs.replace(seen, kept=growing[job]) if job in growing else seen
        for job, seen in balancing.sharers.items()
    }
    return msgspec.structs.replace(balancing, sharers=sharers)


def resting(balancing: Balancing | None, jobs: set[JobId]) -> Balancing | None:
    """Return what policies are shown while these jobs must not grow: activation filters have a say."""
    if balancing is None or not jobs & balancing.sharers.keys():
        return balancing
    sharers = {
        job: msgspec.structs.replace(seen, rests=True) if job in jobs else seen
        for job, seen in balancing.sharers.items()
    }
    return msgspec.structs.replace(balancing, sharers=sharers)
