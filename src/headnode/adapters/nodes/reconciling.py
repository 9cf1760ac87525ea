"""Compare what a node has with what the head believes it has, and say what puts them right."""

import msgspec

from headnode.adapters.nodes import messages as m
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import LiveInstance
from headnode.core.lifecycle.states import JobState, TaskState
from headnode.core.model.quantities import NEVER, JobId

Key = tuple[int, int, int, int]


class Catching(msgspec.Struct, frozen=True):
    """What to say to a node, and what to report on its behalf."""

    messages: tuple[m.FromHead, ...]
    lost: tuple[c.ReportEnded, ...]


def standing(cluster: Cluster, job: JobId) -> m.Suspend | m.Continue | None:
    """Return what says whether the processes of a job stand still; None of one that does not run."""
    record = cluster.jobs.get(job)
    run = record.run if record is not None else None
    if record is None or run is None:
        return None
    if record.state is JobState.RUNNING:
        return m.Continue(job=job, deadline=NEVER if run.deadline is None else run.deadline)
    if run.suspension is None or not record.state.is_active:
        return None
    return m.Suspend(job=job, number=run.suspension.number)


def still(cluster: Cluster, node: str, hello: m.Hello) -> list[m.FromHead]:
    """Return what lets jobs stand still on a node that must, and others go on that do not know they may."""
    found: list[m.FromHead] = []
    for job, flow in sorted(cluster.flows.items()):
        message = standing(cluster, job) if node in flow.run.places else None
        if isinstance(message, m.Suspend) or (message is not None and job in hello.suspended):
            found.append(message)
    return found


def unwanted(cluster: Cluster, hello: m.Hello) -> list[m.FromHead]:
    """Return what stops the attempts that the head no longer wants."""
    found: list[m.FromHead] = []
    for live in hello.live:
        if _known(cluster, live) is None:
            attempt = (live.task, live.instance, live.attempt)
            found.append(m.Stop(job=live.job, attempts=(attempt,), force=True))
    return found


def _known(cluster: Cluster, live: m.Live) -> LiveInstance | None:
    record = cluster.jobs.get(live.job)
    if record is None or record.run is None or not 1 <= live.task <= len(record.run.tasks):
        return None
    known = record.run.tasks[live.task - 1].live.get(live.instance)
    return known if known is not None and known.attempt == live.attempt else None


def wanted(cluster: Cluster, node: str, hello: m.Hello) -> Catching:
    """Return what the node must hear again, and which attempts are lost.

    An attempt that the head knows to have started and that the node has neither live nor ended is lost.
    One that is not known to have started never ran there, so it may be handed over again.
    """
    there: set[Key] = {(x.job, x.task, x.instance, x.attempt) for x in (*hello.live, *hello.ended)}
    messages: list[m.FromHead] = []
    lost: list[c.ReportEnded] = []
    for job in sorted(cluster.flows):
        missing, gone, ending = _sort(cluster, job, node, there)
        messages += missing + ending
        if gone:
            lost.append(c.ReportEnded(node=node, job=job, reports=tuple(gone)))
    return Catching(messages=tuple(messages), lost=tuple(lost))


def _sort(
    cluster: Cluster, job: JobId, node: str, there: set[Key]
) -> tuple[list[m.FromHead], list[c.Report], list[m.FromHead]]:
    run = cluster.flow(job).run
    missing: list[m.FromHead] = []
    gone: list[c.Report] = []
    ending: list[m.FromHead] = []
    for index, progress in enumerate(run.tasks):
        for instance, live in sorted(progress.live.items()):
            if live.place[0][0] != node:
                continue
            task, attempt = index + 1, live.attempt
            if (job, task, instance, attempt) in there:
                if live.state is TaskState.ENDING:
                    ending.append(m.Stop(job=job, attempts=((task, instance, attempt),)))
            elif live.state is TaskState.DISPATCHED:
                missing.append(m.Run(job=job, task=task, place=live.place, attempts=((instance, attempt),)))
            else:
                kind = "lost" if live.started is not None else "never-ran"
                gone.append(
                    c.Report(
                        task=task,
                        instance=instance,
                        attempt=attempt,
                        kind=kind,
                        started=live.started,
                        message="the node no longer has the task" if kind == "lost" else "",
                    )
                )
    return missing, gone, ending
