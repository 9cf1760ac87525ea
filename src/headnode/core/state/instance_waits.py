"""Instances of tasks that are held, or wait for those of other jobs.

Source:  Slurm, scontrol(1), hold and release of an element of an array; sbatch(1), --dependency, aftercorr.
"""

from collections.abc import Iterable, Mapping, Sequence

from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import TaskType
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.corresponding import Spans, of_spans, overlap, sweeps_of, waiting_in
from headnode.core.state.depend import ParentOutcome, outcome_words
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesAwaiting
from headnode.core.state.job_record import (
    InstanceWaits,
    JobRecord,
    TaskProgress,
    spec_of,
)
from headnode.core.state.start import run_of
from headnode.core.state.stop import cancel_queued
from headnode.core.state.transitions import JobState, TaskState, instance_target, job_target


def await_instances(cluster: ClusterState, record: JobRecord, waits: InstancesAwaiting) -> None:
    """Apply that instances of a job wait for those of other jobs; only what is not over does."""
    run = run_of(cluster, record)
    for parent, tasks in waits:
        for number, spans in tasks:
            progress = run.tasks[number - 1]
            open_ones = [*overlap(spans, progress.queued), *overlap(spans, progress.blocked)]
            if open_ones:
                mine = _waits_of(progress)
                mine.awaiting.setdefault(parent, Ranges())
                for first, last in open_ones:
                    mine.awaiting[parent].add_span(first, last)
                _block(progress, open_ones)
                run.follows = tuple(dict.fromkeys((*run.follows, parent)))
                cluster.followers.setdefault(parent, set()).add(record.id)
    cluster.agenda.dirty_jobs.add(record.id)  # some may wait for what has ended


def _waits_of(progress: TaskProgress) -> InstanceWaits:
    if progress.waits is None:
        progress.waits = InstanceWaits(blocked=Ranges(), held=Ranges(), awaiting={})
    return progress.waits


def _block(progress: TaskProgress, spans: Spans) -> None:
    waits = _waits_of(progress)
    for first, last in spans:
        progress.queued.discard_span(first, last)
        waits.blocked.add_span(first, last)


def _unblock(progress: TaskProgress, waits: InstanceWaits, spans: Spans) -> None:
    """Queue what of these instances is blocked for no reason any more.

    Cost:  by the intervals that are looked at: others of a million may be blocked one by one.
    """
    free = of_spans(overlap(spans, waits.blocked))
    for reason in (waits.held, *waits.awaiting.values()):
        for first, last in overlap(tuple(free.spans()), reason):
            free.discard_span(first, last)
    for first, last in free.spans():
        waits.blocked.discard_span(first, last)
        progress.queued.add_span(first, last)
    if not waits.blocked and not waits.held:
        progress.waits = None


def forget(cluster: ClusterState, record: JobRecord, index: int, spans: Spans) -> None:
    """Apply that instances are over, for which nothing is to be waited for any more."""
    progress = run_of(cluster, record).tasks[index]
    waits = progress.waits
    if waits is None:
        return
    for first, last in spans:
        for numbers in (waits.blocked, waits.held, *waits.awaiting.values()):
            numbers.discard_span(first, last)
    _end_awaiting(cluster, record, progress, waits, spans)


def _end_awaiting(
    cluster: ClusterState, record: JobRecord, progress: TaskProgress, waits: InstanceWaits, spans: Spans
) -> None:
    """Queue what of these instances waits no more; remove the jobs for which nothing of a task waits."""
    done = [parent for parent, numbers in waits.awaiting.items() if not numbers]
    for parent in done:
        del waits.awaiting[parent]
    _unblock(progress, waits, spans)
    if done:
        _leave_followers(cluster, record, done)


def _leave_followers(cluster: ClusterState, record: JobRecord, parents: Iterable[int]) -> None:
    """Put right whether instances of a job wait for those of these parents."""
    run = run_of(cluster, record)
    still = {job for task in run.tasks if task.waits is not None for job in task.waits.awaiting}
    run.follows = tuple(job for job in run.follows if job in still)
    for parent in parents:
        if parent not in still and parent in cluster.followers:
            cluster.followers[parent].discard(record.id)
            if not cluster.followers[parent]:
                del cluster.followers[parent]


def take_waiting(
    cluster: ClusterState, record: JobRecord, index: int, spans: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Apply that of these instances those that are blocked are over; return the others."""
    progress = run_of(cluster, record).tasks[index]
    others = of_spans(spans)
    for first, last in overlap(spans, progress.blocked):
        others.discard_span(first, last)
    forget(cluster, record, index, spans)
    return tuple(others.spans())


def follow(cluster: ClusterState, parent: JobRecord, ended: Sequence[e.InstanceEnd]) -> None:
    """Apply that instances of a job have finished: those of their number in other jobs may start."""
    spec, run = spec_of(parent), parent.run
    if run is None:
        return
    sweeps = [
        (task, run.tasks[at].finished) for at, task in enumerate(spec.tasks) if task.kind is TaskType.SWEEP
    ]
    done: list[int] = []
    for how in ended:
        task = spec.tasks[how.task - 1]
        if how.state != "finished" or task.kind is not TaskType.SWEEP:
            continue
        number = task.value(how.instance)
        same = ((other.instance_of(number), finished) for other, finished in sweeps)
        if all(instance is None or instance in finished for instance, finished in same):
            done.append(number)
    if not done:
        return
    for job in sorted(cluster.followers[parent.id]):
        child = cluster.jobs[job]
        free = {
            index: [at for number in done if (at := task.instance_of(number)) is not None]
            for index, task in enumerate(spec_of(child).tasks)
            if task.kind is TaskType.SWEEP
        }
        _satisfy(
            cluster, child, parent.id, {index: [(at, at) for at in found] for index, found in free.items()}
        )


def parent_over(cluster: ClusterState, parent: JobRecord) -> None:
    """Apply that a job is over: if it has finished, what has no counterpart there may start."""
    for job in sorted(cluster.followers[parent.id]):
        child = cluster.jobs[job]
        cluster.agenda.dirty_jobs.add(job)
        if parent.state is JobState.FINISHED:
            outcome = ParentOutcome(parent.state, started=True, sweeps=sweeps_of(parent))
            lost = {
                at: waiting_in(task, outcome)
                for at, task in enumerate(spec_of(child).tasks)
                if task.instances
            }
            freed = {}
            for index, numbers in lost.items():
                waits = child.run.tasks[index].waits if child.run is not None else None
                if waits is not None and parent.id in waits.awaiting:
                    left = of_spans(waits.awaiting[parent.id].spans())
                    for first, last in numbers.spans():
                        left.discard_span(first, last)
                    freed[index] = list(left.spans())
            _satisfy(cluster, child, parent.id, freed)


def _satisfy(
    cluster: ClusterState, child: JobRecord, parent: int, freed: Mapping[int, Sequence[tuple[int, int]]]
) -> None:
    run = run_of(cluster, child)
    changed = []
    for index, spans in freed.items():
        waits = run.tasks[index].waits
        if waits is not None and parent in waits.awaiting and overlap(spans, waits.awaiting[parent]):
            changed.append((index, waits, spans))
    if not changed:
        return
    with_queue = child.state is JobState.QUEUED
    if with_queue:
        cluster.dequeue(child)
    for index, waits, spans in changed:
        for first, last in spans:
            waits.awaiting[parent].discard_span(first, last)
        _end_awaiting(cluster, child, run.tasks[index], waits, spans)
    _changed(cluster, child, [index for index, _, _ in changed])
    if with_queue:
        cluster.enqueue(child)
        cluster.agenda.children_released = True


def _changed(cluster: ClusterState, record: JobRecord, tasks: Iterable[int]) -> None:
    """Note what follows after instances were blocked or queued."""
    graph = cluster.graphs.get(record.id)
    if graph is not None:
        for index in tasks:
            graph.task_changed(index)
        cluster.agenda.dirty_jobs.add(record.id)
        cluster.agenda.dirty_job_views.add(record.id)
    cluster.agenda.pass_needed = True


def fail_lost(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """Return the end of instances that wait for those of a job that has ended without them."""
    run = record.run
    if run is None:
        return []
    lost: dict[int, Ranges] = {}
    parents: dict[int, None] = {}
    for index, progress in enumerate(run.tasks):
        for parent, numbers in progress.waits.awaiting.items() if progress.waits is not None else ():
            if JobId(parent) not in cluster.jobs:
                parents[parent] = None
                for first, last in numbers.spans():
                    lost.setdefault(index, Ranges()).add_span(first, last)
    if not lost:
        return []
    message = "; ".join(_in_vain(cluster, parent) for parent in parents)
    left = sum(progress.queued.count + progress.blocked.count for progress in run.tasks)
    left -= sum(len(numbers) for numbers in lost.values())
    events: list[Event] = []
    if record.state is JobState.QUEUED and not left:
        return _end_in_vain(record, lost, message, JobId(next(iter(parents))), now)
    for index, numbers in lost.items():
        spans = tuple(numbers.spans())
        events.append(_failed(record, index, spans, message, now))
    return events


def _failed(
    record: JobRecord, index: int, spans: Sequence[tuple[int, int]], message: str, now: Instant
) -> Event:
    return e.InstancesCanceled(
        at=now, job=record.id, task=index + 1, spans=tuple(spans), outcome="failed", message=message
    )


def _end_in_vain(
    record: JobRecord, lost: Mapping[int, Ranges], message: str, parent: JobId, now: Instant
) -> list[Event]:
    """Return the end of a queued job of which nothing is left that could run."""
    run = record.run
    if run is not None and not run.starts and not any(p.failed or p.finished for p in run.tasks):
        ended = e.JobEnded(
            at=now, job=record.id, outcome="canceled", message=message, skipped=True, parent=parent
        )
        return [*cancel_queued(record, now, message), ended]
    failed = [_failed(record, index, tuple(numbers.spans()), message, now) for index, numbers in lost.items()]
    return [*failed, e.JobEnded(at=now, job=record.id, outcome="failed", message=message)]


def _in_vain(cluster: ClusterState, parent: int) -> str:
    over = cluster.agenda.for_archive.get(JobId(parent))
    became = "has ended" if over is None else outcome_words(ParentOutcome(over.state, True, over.skipped))
    return f"it waits for the instance of its number in job {parent} to finish, and job {parent} {became}"


def hold_changed(cluster: ClusterState, event: e.InstancesHeld | e.InstancesReleased) -> None:
    """Apply that instances are held, or released."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    instance_target(TaskState.QUEUED, event, TaskState.QUEUED)
    progress = run_of(cluster, record).tasks[event.task - 1]
    if state is JobState.QUEUED:
        cluster.dequeue(record)
    if isinstance(event, e.InstancesHeld):
        waits = _waits_of(progress)
        for first, last in event.spans:
            waits.held.add_span(first, last)
        _block(progress, overlap(event.spans, progress.queued))
    elif progress.waits is not None:
        for first, last in event.spans:
            progress.waits.held.discard_span(first, last)
        _unblock(progress, progress.waits, event.spans)
    _changed(cluster, record, [event.task - 1])
    if state is JobState.QUEUED:
        cluster.enqueue(record)
