"""Apply events to the cluster: the only code that changes it.  Each event has one function.

A function checks the arrow first and changes things afterwards, so a refused event leaves no trace.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle import fold_instances as instances
from headnode.core.lifecycle import fold_nodes as nodes
from headnode.core.lifecycle.arrows import job_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.records import JobRecord, Run, all_queued, decode_record, decode_spec, untouched
from headnode.core.lifecycle.states import JobState
from headnode.core.model.errors import Broken
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import FOREVER, Instant

_STATES = {state.value: state for state in JobState}  # a look-up costs a tenth of JobState(...)


def apply(cluster: Cluster, event: Event) -> None:
    """Change the cluster as the event says.

    Raises:  Broken when the event cannot follow what went before: a bug, never bad input.
    """
    FOLD[type(event)](cluster, event)


def run_of(cluster: Cluster, record: JobRecord) -> Run:
    """Return the job's run; begin one in which nothing has happened when it has none."""
    if record.run is None:
        record.run = Run(tasks=untouched(cluster.spec(record)))
    return record.run


def _created(cluster: Cluster, event: e.JobCreated) -> None:
    if event.job in cluster.jobs:
        raise Broken(code="job-twice", what=f"job {event.job} was created twice")
    spec = decode_spec(event.spec)
    record = JobRecord(
        id=event.job,
        owner=event.owner,
        uid=event.uid,
        gid=event.gid,
        spec=event.spec,
        state=JobState.CONFIGURING,
        priority=spec.priority,
        created=event.at,
    )
    cluster.next_job = max(cluster.next_job, event.job + 1)
    cluster.adopt(record)


def _modified(cluster: Cluster, event: e.JobModified) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    if state is JobState.QUEUED:
        cluster.dequeue(record)
    spec = decode_spec(event.spec)
    if record.run is not None:
        known = len(record.run.tasks)
        record.run.tasks += [all_queued(task.instances) for task in spec.tasks[known:]]
        _extend_run(cluster, record, record.run, spec)
    record.spec, record.priority = event.spec, spec.priority
    cluster.move(record, state)
    if state is JobState.QUEUED:
        record.hold_until = spec.hold_until
        cluster.enqueue(record)


def _extend_run(cluster: Cluster, record: JobRecord, run: Run, spec: JobSpec) -> None:
    """New tasks join the flow, and a new run time limit counts from the start."""
    flow = cluster.flows.get(record.id)
    if flow is None:
        return
    flow.spec = spec
    flow.work_out()
    cluster.remember_request(record, spec)
    if run.started is not None:
        run.deadline = _deadline(spec, run.started)
        cluster.set_deadline(record.id, run.deadline)


def _deadline(spec: JobSpec, started: Instant) -> Instant | None:
    return None if spec.run_time == FOREVER else Instant(started + spec.run_time)


def _submitted(cluster: Cluster, event: e.JobSubmitted) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    record.submitted, record.order = event.at, event.order
    record.waits_for = event.waits_for
    record.hold_until = cluster.spec(record).hold_until
    record.message = ""
    cluster.next_order = max(cluster.next_order, event.order + 1)
    cluster.move(record, state)
    cluster.enqueue(record)


def _configured(cluster: Cluster, event: e.JobConfigured) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    record.run = _fresh_run(cluster, record)
    record.waits_for, record.message = (), ""
    cluster.move(record, state)


def _fresh_run(cluster: Cluster, record: JobRecord) -> Run | None:
    """All tasks will run again.  Attempt numbers go on: an old report must never be taken for a new one."""
    if record.run is None:
        return None
    fresh = Run(tasks=untouched(cluster.spec(record)), requeues=record.run.requeues)
    for old, new in zip(record.run.tasks, fresh.tasks, strict=True):
        new.used = max(1, old.used, *old.attempts.values())  # not one by one: there may be a million
    return fresh


def _started(cluster: Cluster, event: e.JobStarted) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.dequeue(record)
    spec = cluster.spec(record)
    run = run_of(cluster, record)
    run.allocation = dict(event.allocation)
    run.started, run.ended, run.backfilled = event.at, None, event.backfilled
    record.hold_until = None
    run.deadline = _deadline(spec, event.at)
    cluster.move(record, state)
    cluster.open_run(record)


def _grown(cluster: Cluster, event: e.AllocationGrown) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    for node, processors in event.added:
        run.allocation[node] = tuple(sorted((*run.allocation.get(node, ()), *processors)))
        cluster.take(event.job, node, processors)
    _restock(cluster, event)


def _shrunk(cluster: Cluster, event: e.AllocationShrunk | e.AllocationLost) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    for node, processors in event.removed:
        left = tuple(number for number in run.allocation[node] if number not in processors)
        cluster.give_back(event.job, node, processors)
        if left:
            run.allocation[node] = left
            cluster.take(event.job, node, left)
        else:
            del run.allocation[node]
    _restock(cluster, event)


def _lost(cluster: Cluster, event: e.AllocationLost) -> None:
    _shrunk(cluster, event)
    if event.too_small:
        record = cluster.job(event.job)
        run = run_of(cluster, record)
        run.outcome, run.requeue, record.message = "canceled", True, event.message


def _restock(cluster: Cluster, event: e.AllocationGrown | e.AllocationShrunk | e.AllocationLost) -> None:
    cluster.flow(event.job).take_stock()
    cluster.touched.add(event.job)
    cluster.pass_needed = True


def _ending(cluster: Cluster, event: e.JobEnding) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run = run_of(cluster, record)
    run.outcome, run.requeue = event.outcome, event.requeue
    record.message = event.message
    cluster.move(record, state)


def _dispatch_stopped(cluster: Cluster, event: e.DispatchStopped) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    run.outcome, run.requeue = event.outcome, False
    record.message = event.message
    cluster.touched.add(event.job)


def _ended(cluster: Cluster, event: e.JobEnded) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event, _STATES[event.outcome])
    if record.state is JobState.QUEUED:
        cluster.dequeue(record)
    cluster.close_run(record)
    run = run_of(cluster, record)
    run.ended, run.outcome, run.requeue, run.deadline = event.at, None, False, None
    record.message, record.hold_until = event.message, None
    cluster.move(record, state)
    _leave(cluster, record)
    if state is JobState.FINISHED:
        _release_children(cluster, record)


def _leave(cluster: Cluster, record: JobRecord) -> None:
    """An ended job leaves memory; the archive has it."""
    del cluster.jobs[record.id]
    cluster.counts[record.state] -= 1
    cluster.touched.discard(record.id)
    cluster.over.append(record)


def _release_children(cluster: Cluster, parent: JobRecord) -> None:
    for job in sorted(cluster.children.get(parent.id, ())):
        child = cluster.jobs[job]
        cluster.dequeue(child)
        child.waits_for = tuple(awaited for awaited in child.waits_for if awaited != parent.id)
        cluster.enqueue(child)


def _requeued(cluster: Cluster, event: e.JobRequeued) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.close_run(record)
    run = run_of(cluster, record)
    for progress in run.tasks:
        instances.run_again(progress, event)
    run.returns = 0
    record.waits_for = event.waits_for
    _back_in_queue(cluster, record, run, state, event.message)


def _returned(cluster: Cluster, event: e.JobReturned) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.close_run(record)
    run = run_of(cluster, record)
    run.returns += 1
    _back_in_queue(cluster, record, run, state, event.message)


def _back_in_queue(cluster: Cluster, record: JobRecord, run: Run, state: JobState, message: str) -> None:
    run.outcome, run.requeue, run.deadline, run.started, run.ended = None, False, None, None, None
    run.requeues += 1
    record.message = message
    cluster.move(record, state)
    cluster.enqueue(record)


def _revived(cluster: Cluster, event: e.JobRevived) -> None:
    if event.job in cluster.jobs:
        raise Broken(code="job-twice", what=f"job {event.job} came back from the archive and was there")
    cluster.adopt(decode_record(event.record))


def _progress(cluster: Cluster, event: e.ProgressSet) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    if event.percent is not None:
        run.percent = event.percent
    if event.message is not None:
        run.progress_message = event.message


def _parameter(cluster: Cluster, event: e.ParameterSet) -> None:
    if event.value is None:
        cluster.parameters.pop(event.name, None)
    else:
        cluster.parameters[event.name] = event.value
    cluster.pass_needed = True


FOLD: Mapping[type, Callable[[Cluster, Any], None]] = MappingProxyType(
    {
        e.JobCreated: _created,
        e.JobModified: _modified,
        e.JobSubmitted: _submitted,
        e.JobConfigured: _configured,
        e.JobStarted: _started,
        e.AllocationGrown: _grown,
        e.AllocationShrunk: _shrunk,
        e.AllocationLost: _lost,
        e.InstancesDispatched: instances.dispatched,
        e.InstancesStarted: instances.started,
        e.InstancesEnded: instances.ended,
        e.InstancesStopping: instances.stopping,
        e.TaskCanceled: instances.canceled,
        e.TaskRequeued: instances.requeued,
        e.JobEnding: _ending,
        e.DispatchStopped: _dispatch_stopped,
        e.JobEnded: _ended,
        e.JobRequeued: _requeued,
        e.JobReturned: _returned,
        e.JobRevived: _revived,
        e.ProgressSet: _progress,
        e.NodeRegistered: nodes.registered,
        e.NodeApproved: nodes.moved,
        e.NodePaused: nodes.moved,
        e.NodeResumed: nodes.moved,
        e.NodeUnreachable: nodes.moved,
        e.NodeReachable: nodes.moved,
        e.NodeRemoved: nodes.removed,
        e.ParameterSet: _parameter,
    }
)
