"""Apply events to the cluster: the only code that changes it.  Each event has one function.

A function checks the arrow first and changes things afterwards, so a refused event leaves no trace.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle import fold_filters as filters
from headnode.core.lifecycle import fold_hooks as hooks
from headnode.core.lifecycle import fold_instances as instances
from headnode.core.lifecycle import fold_nodes as nodes
from headnode.core.lifecycle import fold_preemption as preemption
from headnode.core.lifecycle import fold_reservations as reservations
from headnode.core.lifecycle import fold_suspension as suspension
from headnode.core.lifecycle import tokens
from headnode.core.lifecycle.arrows import job_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deadlines import last_start
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.parents import all_met, fate_of, hopeless
from headnode.core.lifecycle.records import (
    Hold,
    JobRecord,
    Run,
    Stay,
    decode_record,
    decode_spec,
    have_instances,
    not_begun,
    spec_of,
    untouched,
)
from headnode.core.lifecycle.states import JobState
from headnode.core.model.dependencies import parents
from headnode.core.model.errors import Broken
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.template import decode_template

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


def _given(cluster: Cluster, event: e.JobGiven) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    record.owner, record.uid, record.gid = event.owner, event.uid, event.gid


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
        group=spec.job_group,
    )
    cluster.next_job = max(cluster.next_job, event.job + 1)
    cluster.adopt(record)


def _modified(cluster: Cluster, event: e.JobModified) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    if state.is_queued:
        cluster.dequeue(record)
    spec = decode_spec(event.spec)
    record.spec, record.priority, record.group = event.spec, spec.priority, spec.job_group
    filters.forget_kept(record)
    if record.run is not None:
        known, taken = len(record.run.tasks), spec_of(record)
        record.run.tasks += [not_begun(task) for task in taken.tasks[known:]]
        _extend_run(cluster, record, record.run, taken)
    cluster.move(record, state)
    if state is JobState.QUEUED:
        record.hold_until, record.last_start = spec.hold_until, last_start(spec)
    if state.is_queued:
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
        suspension.set_limits(run, spec)
        cluster.set_deadline(record.id, run.deadline)


def _submitted(cluster: Cluster, event: e.JobSubmitted) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event, JobState.VALIDATING if event.validating else JobState.QUEUED)
    record.submitted, record.order, record.unvalidated = event.at, event.order, event.validating
    record.privileged, record.submit_host = event.privileged, cluster.shared(event.host)
    _wait_for(cluster, record, event.waits_for)
    spec = cluster.written(record)
    record.hold_until, record.last_start = spec.hold_until, last_start(spec)
    record.holds += tuple(
        Hold(name=name, at=event.at, by=event.by)
        for name in spec.holds
        if name not in {hold.name for hold in record.holds}
    )
    record.message = ""
    cluster.next_order = max(cluster.next_order, event.order + 1)
    cluster.move(record, state)
    if not event.validating:
        cluster.enqueue(record)


def _wait_for(cluster: Cluster, record: JobRecord, awaited: tuple[int, ...]) -> None:
    """Of the jobs that it depends on, these may let it go; the others have, and may take that back."""
    record.waits_for = awaited
    record.met = tuple(parent for parent in parents(cluster.spec(record)) if parent not in awaited)


def _configured(cluster: Cluster, event: e.JobConfigured) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    record.run = _fresh_run(cluster, record)
    record.waits_for, record.met, record.skipped, record.skips, record.message = (), (), False, (), ""
    record.filtered = None
    cluster.move(record, state)
    _tell_children(cluster, record)


def _fresh_run(cluster: Cluster, record: JobRecord) -> Run | None:
    """All tasks will run again.  Attempt numbers go on: an old report must never be taken for a new one."""
    if record.run is None:
        return None
    before = record.run
    fresh = Run(tasks=untouched(cluster.written(record)), requeues=before.requeues, starts=before.starts)
    fresh.suspensions, fresh.usage = before.suspensions, before.usage
    fresh.usage.forget_outcome()
    for old, new in zip(before.tasks, fresh.tasks, strict=True):
        new.used = max(1, old.used, *old.attempts.values())  # not one by one: there may be a million
    return fresh


def _started(cluster: Cluster, event: e.JobStarted) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.dequeue(record)
    filters.clear_hold(record)
    run = run_of(cluster, record)
    _give_request(record, run, event.option)
    run.allocation, run.parts = dict(event.allocation), event.parts
    run.usage.begin(run.allocation)
    run.started, run.ended, run.backfilled = event.at, None, event.backfilled
    run.gave_way_to = 0
    run.starts, run.stood_still, run.clock_set = run.starts + 1, Seconds(0.0), Seconds(0.0)
    run.stays, run.refused, run.hurried = {}, {}, False
    hooks.enter(run, event.readied)
    record.hold_until, record.met, record.filtered = None, (), None
    suspension.set_limits(run, spec_of(record))
    cluster.move(record, state)
    cluster.open_run(record)
    _tell_children(cluster, record)


def _give_request(record: JobRecord, run: Run, option: int) -> None:
    """The job has this option from now on: its tasks have the instances that it asks for."""
    if run.option == option:
        return
    run.option = option
    for progress, task in zip(run.tasks, spec_of(record).tasks, strict=True):
        have_instances(progress, task.instances)


def _grown(cluster: Cluster, event: e.AllocationGrown) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    fresh = tuple(node for node, _ in event.added if node not in run.allocation)
    run.unready += fresh if event.readied else ()
    for node, processors in event.added:
        run.allocation[node] = tuple(sorted((*run.allocation.get(node, ()), *processors)))
        cluster.take(event.job, node, processors)
    run.usage.grow(run.allocation)
    record.filtered = None
    _restock(cluster, event)


def _shrunk(cluster: Cluster, event: e.AllocationShrunk | e.AllocationLost) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    for node, processors in event.removed:
        left = tuple(number for number in run.allocation[node] if number not in processors)
        cluster.give_back(event.job, node, processors)
        preemption.was_given(run, node, len(processors), len(left))
        if left:
            run.allocation[node] = left
            cluster.take(event.job, node, left)
        else:
            del run.allocation[node]
            hooks.leave(run, node)
            if run.stays.pop(node, None) is Stay.REFUSED:
                cluster.remember_request(record, cluster.spec(record))
    _restock(cluster, event)


def _lost(cluster: Cluster, event: e.AllocationLost) -> None:
    record = cluster.job(event.job)
    run = run_of(cluster, record)
    if record.id in cluster.aside:
        job_target(record.state, event)
        suspension.lose(cluster, record, run, event)
    else:
        _shrunk(cluster, event)
        if run.suspension is not None:
            run.suspension.awaited = tuple(n for n in run.suspension.awaited if n in run.allocation)
    if event.too_small:
        run.outcome, run.requeue, record.message = "canceled", True, event.message
        run.forgiven = event.forgiven


def _restock(cluster: Cluster, event: e.AllocationGrown | e.AllocationShrunk | e.AllocationLost) -> None:
    cluster.flow(event.job).take_stock()
    cluster.look_what_it_gives(cluster.job(event.job))
    cluster.touched.add(event.job)
    cluster.pass_needed = True


def _ending(cluster: Cluster, event: e.JobEnding) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run = run_of(cluster, record)
    if record.state is JobState.RESUMING:
        cluster.dequeue(record)
    run.outcome, run.requeue = event.outcome, event.requeue
    run.preempted_by = event.preempted_by or run.preempted_by
    run.hurried = run.hurried or event.force or bool(event.preempted_by)
    record.message = event.message
    cluster.move(record, state)
    cluster.look_what_it_gives(record)


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
    suspension.end_suspension(run, event.at)
    run.usage.end(run.started, run.not_run, event.at)
    run.ended, run.outcome, run.requeue, run.deadline = event.at, None, False, None
    record.message, record.hold_until, record.skipped = event.message, None, event.skipped
    decided = cluster.over.get(event.because)
    if decided is not None:  # in the same batch: it goes to the archive with this
        decided.skips += (event.job,)
    cluster.move(record, state)
    _leave(cluster, record)
    _tell_children(cluster, record)


def _leave(cluster: Cluster, record: JobRecord) -> None:
    """An ended job leaves memory; the archive has it."""
    del cluster.jobs[record.id]
    cluster.counts[record.state] -= 1
    cluster.touched.discard(record.id)
    cluster.over[record.id] = record


def _tell_children(cluster: Cluster, parent: JobRecord) -> None:
    """What has become of a job lets those go that wait for it, or takes that back from those not started.

    The engine attends to those that can never start any more.
    """
    children = cluster.children.get(parent.id)
    if children is None:
        return
    fate = fate_of(parent)
    for job in sorted(children):
        child = cluster.jobs[job]
        spec = decode_spec(child.spec)
        if all_met(spec, parent.id, fate) == (parent.id in child.waits_for):
            cluster.dequeue(child)
            _wait_for(cluster, child, _changed(spec, child, parent.id))
            cluster.enqueue(child)
            cluster.let_go = True
        if any(hopeless(spec, {parent.id: fate})):
            cluster.touched.add(child.id)


def _changed(spec: JobSpec, child: JobRecord, parent: int) -> tuple[int, ...]:
    """Return what the child waits for when that has changed for this parent, in the order of its spec."""
    waiting = {parent}.symmetric_difference(child.waits_for)
    return tuple(awaited for awaited in parents(spec) if awaited in waiting)


def _requeued(cluster: Cluster, event: e.JobRequeued) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.close_run(record)
    run = run_of(cluster, record)
    suspension.end_suspension(run, event.at)
    if not record.state.is_final:
        run.usage.end(run.started, run.not_run, event.at)
    for progress in run.tasks:
        instances.run_again(progress, event)
    run.returns = 0
    _wait_again(cluster, record, event)
    _back_in_queue(cluster, record, run, state, event.message)
    _tell_children(cluster, record)


def _wait_again(cluster: Cluster, record: JobRecord, event: e.JobRequeued) -> None:
    """What was over comes as if it was new; what had been running waits for nobody."""
    record.skipped, record.skips = False, ()
    if record.state.is_final:
        _wait_for(cluster, record, event.waits_for)
    else:
        record.waits_for, record.met = event.waits_for, ()


def _returned(cluster: Cluster, event: e.JobReturned) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.close_run(record)
    run = run_of(cluster, record)
    suspension.end_suspension(run, event.at)
    run.usage.end(run.started, run.not_run, event.at)
    run.returns += not (event.preempted_by or event.forgiven)
    run.gave_way_to = event.preempted_by
    _back_in_queue(cluster, record, run, state, event.message)


def _back_in_queue(cluster: Cluster, record: JobRecord, run: Run, state: JobState, message: str) -> None:
    run.outcome, run.requeue, run.deadline, run.started, run.ended = None, False, None, None, None
    _give_request(record, run, 0)
    run.requeues += 1
    record.message, record.filtered = message, None
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


def _template(cluster: Cluster, event: e.TemplateSet) -> None:
    template = decode_template(event.template)
    cluster.templates[template.name.lower()] = template


def _no_template(cluster: Cluster, event: e.TemplateRemoved) -> None:
    del cluster.templates[event.name.lower()]


def _clock(cluster: Cluster, event: e.ClockSet) -> None:
    for job in cluster.running | cluster.aside:
        record = cluster.jobs[job]
        run = run_of(cluster, record)
        if run.started is None or not record.state.is_active:
            continue
        run.clock_set = Seconds(run.clock_set + event.by)
        if run.suspension is not None:
            run.suspension.since = Instant(run.suspension.since + event.by)
        suspension.set_limits(run, cluster.spec(record))
        cluster.set_deadline(job, run.deadline)
        cluster.redraw.add(job)
    cluster.pass_needed = True


def _numbers(cluster: Cluster, event: e.NumbersSkipped) -> None:
    cluster.next_job = max(cluster.next_job, event.next_job)


def _carried_out(cluster: Cluster, event: e.RequestCarriedOut) -> None:
    cluster.keep_receipt(event.receipt, event.at)


def _parameter(cluster: Cluster, event: e.ParameterSet) -> None:
    if event.value is None:
        cluster.parameters.pop(event.name, None)
    else:
        cluster.parameters[event.name] = event.value
    cluster.pass_needed = True


FOLD: Mapping[type, Callable[[Cluster, Any], None]] = MappingProxyType(
    {
        e.JobCreated: _created,
        e.JobGiven: _given,
        e.JobModified: _modified,
        e.JobSubmitted: _submitted,
        e.JobValidated: filters.validated,
        e.FilterAnswered: filters.answered,
        e.JobConfigured: _configured,
        e.JobStarted: _started,
        e.AllocationGrown: _grown,
        e.AllocationShrunk: _shrunk,
        e.AllocationLost: _lost,
        e.NodeReadied: hooks.readied,
        e.NodesCleaning: hooks.cleaning,
        e.ProcessorsRecalled: preemption.recalled,
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
        e.JobHeld: suspension.held,
        e.JobReleased: suspension.released,
        e.JobSuspending: suspension.suspending,
        e.ProcessesStopped: suspension.processes_stopped,
        e.JobSuspended: suspension.suspended,
        e.JobResuming: suspension.resuming,
        e.JobResumed: suspension.resumed,
        e.ProgressSet: _progress,
        e.NodeRegistered: nodes.registered,
        e.NodeApproved: nodes.moved,
        e.NodePaused: nodes.moved,
        e.NodeResumed: nodes.moved,
        e.NodeDrained: nodes.drained,
        e.NodeDrainLifted: nodes.drain_lifted,
        e.NodeUnreachable: nodes.moved,
        e.NodeReachable: nodes.moved,
        e.NodeRemoved: nodes.removed,
        e.NodeInvited: nodes.invited,
        e.NodeKeyPinned: nodes.key_pinned,
        e.LoginOffered: tokens.offered,
        e.TokenMade: tokens.made,
        e.TokenUsed: tokens.used,
        e.TokenRevoked: tokens.revoked,
        e.NodeSet: nodes.described,
        e.ParameterSet: _parameter,
        e.ClockSet: _clock,
        e.NumbersSkipped: _numbers,
        e.RequestCarriedOut: _carried_out,
        e.ReservationMade: reservations.kept,
        e.ReservationChanged: reservations.kept,
        e.ReservationCanceled: reservations.gone,
        e.ReservationEnded: reservations.gone,
        e.TemplateSet: _template,
        e.TemplateRemoved: _no_template,
    }
)
