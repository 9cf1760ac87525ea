"""Scheduling passes: a picture of the cluster for the policy, and its plan turned into commands."""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.allocating import exclusive_holder, held_units, idle_units
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_jobs import closed_nodes
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.view import NodeView, RunningJob, View, WaitingClass
from headnode.engine.settings import Settings


def view_of(cluster: Cluster, now: Instant) -> View:
    """Return what a policy may know."""
    closed = closed_nodes(cluster)
    nodes = {
        name: NodeView(
            facts=node.facts,
            free=len(cluster.free.get(name, ())),
            jobs=len(cluster.holders.get(name, ())),
            exclusive_to=exclusive_holder(cluster, name),
            closed=closed.get(name, ""),
        )
        for name, node in cluster.nodes.items()
    }
    return View(
        now=now,
        nodes=nodes,
        queue=[WaitingClass(request=request, turns=turns) for request, turns in cluster.queue.items()],
        running=[running_job(cluster, cluster.jobs[job]) for job in sorted(cluster.running)],
        licences=licences_of(cluster),
    )


def running_job(cluster: Cluster, record: JobRecord) -> RunningJob:
    """Return what a policy may know of a job that holds processors."""
    request = cluster.request(record)
    run = cluster.flow(record.id).run
    allocation = tuple((node, len(numbers)) for node, numbers in run.allocation.items())
    return RunningJob(
        job=record.id,
        turn=cluster.turn(record),
        request=request,
        end=NEVER if run.deadline is None else run.deadline,
        allocation=allocation,
        wants=_wants(cluster, record, request) if record.state is JobState.RUNNING else 0,
    )


def _wants(cluster: Cluster, record: JobRecord, request: JobRequest) -> int:
    """Return how many units more the job's waiting tasks could use now."""
    flow = cluster.flow(record.id)
    if not flow.ready or flow.run.outcome is not None:
        return 0
    free = sum(map(len, cluster.free.values()))  # more cannot be given, so more need not be counted
    room = min(request.maximum - held_units(cluster, record), free)
    if room <= 0:
        return 0
    wanted = -idle_units(cluster, record)
    for index in flow.ready:
        wanted += flow.spec.tasks[index].maximum * len(flow.run.tasks[index].queued)
        if wanted >= room:
            return room
    return max(0, wanted)


def licences_of(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Return each licence with how many there are and how many are free."""
    total = Settings(cluster.parameters).licences()
    free = dict(total)
    for job in cluster.running if total else ():
        record = cluster.jobs[job]
        held = cluster.flow(job).run.allocation
        for wish in cluster.request(record).licences:
            if wish.feature in free:
                amount = sum(map(len, held.values())) if wish.amount is None else wish.amount
                free[wish.feature] -= amount
    return {feature: (number, free[feature]) for feature, number in total.items()}


def commands_of(plan: Plan) -> list[c.Command]:
    """Return the plan as wishes; `decide` refuses those that are stale."""
    grows: list[c.Command] = [c.GrowJob(job=JobId(g.job), shares=g.allocation) for g in plan.grows]
    return grows + [
        c.StartJob(job=start.job, shares=start.allocation, backfilled=start.ahead_of is not None)
        for start in plan.starts
    ]
