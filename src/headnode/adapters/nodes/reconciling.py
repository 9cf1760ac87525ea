"""Compare what a node has with what the head believes it has, and say what puts them right."""

from collections.abc import Collection, Iterable

import msgspec

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.tables import Piece, check_text, digest_of
from headnode.adapters.nodes.whereabouts import Known
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord, LiveInstance
from headnode.core.lifecycle.states import JobState, TaskState
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.engine.settings import Settings

Key = tuple[int, int, int, int]


class Catching(msgspec.Struct, frozen=True):
    """What to say to a node, and what to report on its behalf."""

    messages: tuple[m.FromHead, ...]
    reports: tuple[c.ReportStarted | c.ReportEnded, ...]


def standing(cluster: Cluster, job: JobId) -> m.Suspend | m.Continue | None:
    """Return what says whether the processes of a job stand still; None of one that does not run."""
    record = cluster.jobs.get(job)
    run = record.run if record is not None else None
    if record is None or run is None:
        return None
    if record.state is JobState.RUNNING or (run.suspension is not None and releases_nodes(cluster, job)):
        return m.Continue(job=job, deadline=deadline_of(record))
    if run.suspension is None or not record.state.is_active:
        return None
    return m.Suspend(job=job, number=run.suspension.number)


def deadline_of(record: JobRecord) -> Instant:
    """Return when the tasks of a job are ended where they run; what releases its nodes ends by itself."""
    if record.state is JobState.ENDING or record.run is None or record.run.deadline is None:
        return NEVER
    return record.run.deadline


def releases_nodes(cluster: Cluster, job: JobId) -> bool:
    """Whether a job is ending and releases its nodes before it is over."""
    record, flow = cluster.jobs.get(job), cluster.flows.get(job)
    if record is None or flow is None or flow.release is None:
        return False
    return record.state is JobState.ENDING and not flow.run.hurried


def still(cluster: Cluster, node: str, holdings: m.Holdings) -> list[m.FromHead]:
    """Return what lets jobs stand still on a node that must, and others go on that do not know they may."""
    found: list[m.FromHead] = []
    for job in sorted(cluster.on_node(node)):
        message = standing(cluster, job)
        if isinstance(message, m.Suspend) or (message is not None and job in holdings.suspended):
            found.append(message)
    return found


def unwanted(cluster: Cluster, node: str, holdings: m.Holdings) -> list[m.FromHead]:
    """Return what stops the attempts that the head no longer wants."""
    found: list[m.FromHead] = []
    for live in holdings.live:
        known = _known(cluster, live)
        if known is None or known.place[0][0] != node:
            attempt = (live.task, live.instance, live.attempt)
            found.append(m.Stop(job=live.job, attempts=(attempt,), force=True))
    return found


def _known(cluster: Cluster, live: m.Live) -> LiveInstance | None:
    record = cluster.jobs.get(live.job)
    if record is None or record.run is None or not 1 <= live.task <= len(record.run.tasks):
        return None
    known = record.run.tasks[live.task - 1].live.get(live.instance)
    return known if known is not None and known.attempt == live.attempt else None


def wanted(node: str, known: Iterable[Known], holdings: m.Holdings, fresh: Collection[Key] = ()) -> Catching:
    """Return what a node must hear again, and what to report on its behalf of the attempts it should have.

    An attempt that the head knows to have started and that the node has neither live nor ended is lost.
    One that is not known to have started never ran there, so it may be handed over again.  `fresh` are those
    handed over, or heard of, since the node was asked: the answer does not speak of them.
    """
    live = {(x.job, x.task, x.instance, x.attempt): x for x in holdings.live}
    ended = {(x.job, x.task, x.instance, x.attempt) for x in holdings.ended}
    runs: list[m.FromHead] = []
    stops: list[m.FromHead] = []
    begun: dict[JobId, list[e.Begun]] = {}
    gone: dict[JobId, list[c.Report]] = {}
    for each in known:
        attempt = each.live.attempt
        key = (each.job, each.task, each.instance, attempt)
        if key in live:
            since = live[key].since
            if since is not None and each.live.started is None:  # nobody has heard of the start
                begun.setdefault(each.job, []).append(e.Begun(each.task, each.instance, attempt, since))
            if each.live.state is TaskState.ENDING:
                stops.append(m.Stop(job=each.job, attempts=(key[1:],)))
        elif key in ended or key in fresh:
            continue
        elif each.live.state is TaskState.DISPATCHED:
            attempts = ((each.instance, attempt),)
            runs.append(m.Run(job=each.job, task=each.task, place=each.live.place, attempts=attempts))
        else:
            gone.setdefault(each.job, []).append(_gone(each))
    reports: list[c.ReportStarted | c.ReportEnded] = []
    reports += [c.ReportStarted(node=node, job=job, begun=tuple(these)) for job, these in begun.items()]
    reports += [c.ReportEnded(node=node, job=job, reports=tuple(these)) for job, these in gone.items()]
    return Catching(messages=(*runs, *stops), reports=tuple(reports))


def _gone(known: Known) -> c.Report:
    lost = known.live.started is not None
    return c.Report(
        task=known.task,
        instance=known.instance,
        attempt=known.live.attempt,
        kind="lost" if lost else "never-ran",
        started=known.live.started,
        message="the node no longer has the task" if lost else "",
    )


def health_check(cluster: Cluster, node: str) -> m.CheckHealth:
    """Return the health check that a node should run; without a program while it is not approved."""
    settings, record = Settings(cluster.parameters), cluster.nodes.get(node)
    is_in = record is not None and record.state is not NodeState.PENDING
    program = settings.text("HealthCheckProgram") if is_in else ""
    return m.CheckHealth(program=program, every=Seconds(settings.number("HealthCheckInterval")))


def expected_digest(
    cluster: Cluster, node: str, known: Iterable[Known], opened: Iterable[tuple[JobId, int]]
) -> bytes:
    """Return the digest of what a node has if no message was lost and none is on its way."""
    attempts: list[Piece] = [
        (each.job, each.task, each.instance, each.live.attempt, each.live.started is not None)
        for each in known
    ]
    suspended = [job for job in cluster.on_node(node) if isinstance(standing(cluster, job), m.Suspend)]
    check = health_check(cluster, node)
    return digest_of(attempts, opened, suspended, check_text(check.program, check.every))


def awaits_word(cluster: Cluster, node: str, known: Iterable[Known]) -> bool:
    """Whether the head waits for something that a node was told to do: its word may have been lost."""
    if any(each.live.state is TaskState.ENDING for each in known):
        return True
    runs = (cluster.jobs[job].run for job in cluster.on_node(node))
    return any(
        run is not None
        and (node in run.cleaning or (run.suspension is not None and node in run.suspension.awaited))
        for run in runs
    )
