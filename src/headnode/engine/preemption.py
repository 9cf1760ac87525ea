"""What a pass knows about preemption: which jobs may be preempted, and which release something already."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headnode.core.model.errors import Refused
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.plan import Plan, Reason, Recall, Shares, Why
from headnode.core.scheduling.view import View
from headnode.core.state import preempt as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord, JobRun
from headnode.core.state.preempt import recall, runs_once
from headnode.core.state.transitions import JobState
from headnode.engine.settings import Settings

if TYPE_CHECKING:  # imported when something may be preempted
    from headnode.core.scheduling.preempt import PendingRelease, PreemptionState

Reclaim = c.PreemptJob | c.RecallProcessors
"""What a plan takes from one job."""


def plan_with_preemption(view: View, policy: Callable[[View], Plan], cluster: ClusterState) -> Plan:
    """Return what the policy would do, with who is preempted for whom as the cluster's parameters say.

    Cost:  that of the policy alone where nobody gives anything up, and nobody waits with a priority above
    that of a running job; or where preemption is off.
    """
    settings = Settings(cluster.parameters)
    kind = settings.text("PreemptionType")
    if settings.text("SchedulingMode") != "Queued" or (kind == "None" and not cluster.releasing):
        return policy(view)
    from headnode.core.scheduling.preempt import preempting_plan

    found = preempting_plan(view, policy, _preemption_state(view, cluster, settings, kind))
    return _with_withdrawals(found, cluster)


def withdrawals(cluster: ClusterState) -> list[Reclaim]:
    """Return what lets jobs keep what was recalled for others, of whom nobody waits."""
    if not cluster.releasing or Settings(cluster.parameters).text("SchedulingMode") != "Queued":
        return []
    return reclaims_of(_with_withdrawals(Plan((), (), {}), cluster))


def reclaims_of(found: Plan) -> list[Reclaim]:
    """Return what a plan takes from jobs, as wishes."""
    preempts: list[Reclaim] = [c.PreemptJob(job=each.job, for_job=each.for_job) for each in found.preempts]
    return preempts + [
        c.RecallProcessors(
            job=each.job,
            shares=each.allocation,
            immediate=each.immediate,
            for_jobs=each.for_jobs,
            message=each.why.text,
        )
        for each in found.recalls
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
        wish = c.RecallProcessors(job=job, shares=tuple(both.items()), immediate=True)
        try:
            recall(cluster, wish, view.now)
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
        barred=lambda job: cluster.jobs[job].filtered is not None,
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


def _with_withdrawals(found: Plan, cluster: ClusterState) -> Plan:
    """Return the plan in which jobs may keep what was recalled for those who are not to have it any more."""
    claimed = {claim.job for claim in found.claims}
    kept = [
        Recall(each.job, (), Reason(Why.PREEMPTION, "other jobs no longer need its processors"))
        for each in _giving(cluster)
        if not each.ends and not claimed.intersection(each.for_jobs)
    ]
    again = {recall.job for recall in found.recalls} | {preempt.job for preempt in found.preempts}
    new = tuple(recall for recall in kept if recall.job not in again)
    return replace(found, recalls=(*found.recalls, *new)) if new else found
