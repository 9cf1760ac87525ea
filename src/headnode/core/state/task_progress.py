"""How the instances of tasks go on: dispatched, started, stopping, ended, queued again."""

from collections.abc import Collection, Iterator, Sequence

from headnode.core.model.errors import Broken
from headnode.core.model.quantities import Seconds
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import job_events as e
from headnode.core.state import prep_release as stays
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import InstancesHanded
from headnode.core.state.job_record import (
    InstanceWaits,
    JobRecord,
    JobRun,
    LiveAttempt,
    TaskProgress,
    spec_of,
    started_run,
    untouched,
)
from headnode.core.state.job_request import set_limits
from headnode.core.state.staging import keep_limit
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState, TaskState, instance_target, job_target

_STATES = {state.value: state for state in TaskState}  # a look-up costs a tenth of TaskState(...)


def _live(progress: TaskProgress, job: int, task: int, instance: int) -> LiveAttempt:
    live = progress.live.get(instance)
    if live is None:
        raise Broken(code="not-live", what=f"task {job}.{task}.{instance} is not live")
    return live


def instances_held(cluster: ClusterState, event: e.InstancesHeld | e.InstancesReleased) -> None:
    """Instances are held, or released."""
    from headnode.core.state.instance_waits import hold_changed  # few are

    hold_changed(cluster, event)


def instances_dispatched(cluster: ClusterState, event: e.InstancesDispatched) -> None:
    """Queued instances went to a place."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    index = event.task - 1
    progress = started_run(record).tasks[index]
    instance_target(TaskState.QUEUED, event, TaskState.DISPATCHED)
    for instance, attempt in event.attempts:
        if progress.instances_made is not None:
            stays.make_special_instance(progress, instance)
        elif instance not in progress.queued:
            raise Broken(code="not-queued", what=f"task {event.job}.{event.task}.{instance} is not queued")
        progress.queued.discard(instance)
        progress.live[instance] = LiveAttempt(attempt=attempt, placement=event.placement, after=event.after)
    keep_limit(cluster, record, started_run(record), event.at)
    graph = cluster.graph(event.job)
    graph.occupy(event.placement, index, len(event.attempts))
    graph.task_changed(index)
    if record.is_elsewhere:  # after the job has left those that wait, so that another one goes on
        cluster.resource_index.count(started_run(record).resource, len(event.attempts), cluster.waiting)
    if graph.tends_nodes:
        stays.prep_or_release_dispatched(graph, index, event)
    if any(graph.free.values()) or graph.parents.soon:
        cluster.agenda.dirty_jobs.add(event.job)  # what is idle now may be more than it needs


def instances_staging(cluster: ClusterState, event: e.InstancesStaging) -> None:
    """Files of live instances are transferred."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    for stage in event.staging:
        live = _live(started_run(record).tasks[stage.task - 1], event.job, stage.task, stage.instance)
        instance_target(live.state, event, live.state)
        live.staging = stage.direction
    started_run(record).stages = True
    cluster.agenda.dirty_jobs.add(event.job)
    keep_limit(cluster, record, started_run(record), event.at)


def instances_started(cluster: ClusterState, event: e.InstancesStarted) -> None:
    """Dispatched instances run."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run, graph = started_run(record), cluster.graph(event.job)
    for begun in event.started:
        live = _live(run.tasks[begun.task - 1], event.job, begun.task, begun.instance)
        wanted = TaskState.ENDING if live.state is TaskState.ENDING else TaskState.RUNNING
        live.state = instance_target(live.state, event, wanted)
        live.started, live.staging = begun.at, ""
        graph.lines.last(live.placement, begun.task - 1, begun.instance)
        if not run.resource:
            cluster.start_failures.started(live.placement[0][0], record.owner, event.at)
    if record.id in cluster.element_children:
        _tell_children(
            cluster, record, [(begun.task, ((begun.instance, begun.instance),)) for begun in event.started]
        )
    if run.resource and run.started is None:
        cluster.move(record, state)
        _first_start(cluster, record, run, event)
    keep_limit(cluster, record, run, event.at)


def _first_start(cluster: ClusterState, record: JobRecord, run: JobRun, event: e.InstancesStarted) -> None:
    """The first of a job begins to run at a resource: its run time limit counts from now."""
    run.started, run.starts = min(begun.at for begun in event.started), run.starts + 1
    set_limits(run, cluster.spec(record))
    cluster.agenda.set_deadline(record.id, run.deadline)
    if record.id in cluster.children:
        from headnode.core.state.children import update_children  # few jobs have children

        update_children(cluster, record)


def instances_handed(cluster: ClusterState, event: InstancesHanded) -> None:
    """A resource has accepted attempts."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    for each in event.handed:
        live = _live(started_run(record).tasks[each.task - 1], event.job, each.task, each.instance)
        instance_target(live.state, event, live.state)
        live.foreign, live.staging = each.id, "" if live.staging == "in" else live.staging
    keep_limit(cluster, record, started_run(record), event.at)


def instances_stopping(cluster: ClusterState, event: e.InstancesStopping) -> None:
    """Live instances are being stopped."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    progress = started_run(record).tasks[event.task - 1]
    for instance in event.instances:
        live = _live(progress, event.job, event.task, instance)
        live.state = instance_target(live.state, event, TaskState.ENDING)
        live.outcome, live.message, live.cause = event.outcome, event.message, event.cause
        live.requeue = event.requeue


def instances_ended(cluster: ClusterState, event: e.InstancesEnded) -> None:
    """Live instances are over, or will run again."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = started_run(record)
    graph = cluster.graph(event.job)
    changed: dict[int, None] = {}
    for how in event.ended:
        progress = run.tasks[how.task - 1]
        live = _live(progress, event.job, how.task, how.instance)
        instance_target(live.state, event, _STATES[how.state])
        del progress.live[how.instance]
        graph.vacate(live.placement, how.task - 1, how.instance)
        lasted = how.outcome.lasted
        if lasted is not None or (how.outcome.kind == "never-ran" and live.outcome is None):
            graph.lines.note_end(lasted)
        if not run.resource:
            cluster.start_failures.ended(record.id, record.owner, how, event.at)
        _file(cluster, record, progress, how)
        if progress.instances_made is not None:
            _special_ended(cluster, graph, event, how, live)
        run.usage.add(how)
        changed[how.task - 1] = None
    if record.id in cluster.followers:
        from headnode.core.state.instance_waits import follow  # few jobs have others that wait so

        follow(cluster, record, event.ended)
    if record.id in cluster.element_children:
        _tell_children(cluster, record, [(how.task, ((how.instance, how.instance),)) for how in event.ended])
    keep_limit(cluster, record, run, event.at)
    for index in changed:
        graph.task_changed(index)
        if run.tasks[index].is_done and graph.counts(index):
            graph.task_done(index)
            cluster.agenda.pass_needed = True  # others may be ready now, and the job may want to grow
    if run.resource:
        cluster.resource_index.count(run.resource, -len(event.ended), cluster.waiting)
        cluster.elastic.note_end(record.id, event.ended[0].outcome, event.at)
    cluster.agenda.dirty_jobs.add(event.job)


def _special_ended(
    cluster: ClusterState, graph: TaskGraph, event: e.InstancesEnded, how: e.InstanceEnd, live: LiveAttempt
) -> None:
    stays.prep_or_release_ended(graph, how.task - 1, live, how, event)
    if how.task - 1 == graph.service:
        until = stays.service_pause(how, event.at)
        if until > graph.paused_until:
            graph.paused_until = until
            cluster.agenda.wake_ups.set((event.job, ""), until)


def _file(cluster: ClusterState, record: JobRecord, progress: TaskProgress, how: e.InstanceEnd) -> None:
    """Put an ended instance where it belongs."""
    lasted = how.outcome.lasted
    if lasted is not None:
        progress.attempts_ended += 1
        progress.ended_run_time = Seconds(progress.ended_run_time + lasted)
    if how.state == "queued":
        if progress.waits is None or not is_kept_back(progress.waits, how.instance):
            progress.queued.add(how.instance)
        progress.attempts[how.instance] = how.attempt
        if how.outcome.kind == "never-ran":
            progress.unstarted[how.instance] = progress.unstarted.get(how.instance, 0) + 1
        forgiven = {"program": progress.retries, "system": progress.system_retries}.get(how.cause)
        if forgiven is not None:
            forgiven[how.instance] = forgiven.get(how.instance, 0) + 1
        return
    _set_of(progress, how.state).add(how.instance)
    if progress.waits is not None:
        from headnode.core.state.instance_waits import forget  # few instances were held

        forget(cluster, record, how.task - 1, ((how.instance, how.instance),))
    if how.attempt > 1 or how.state == "canceled":
        progress.attempts[how.instance] = how.attempt


def is_kept_back(waits: InstanceWaits, instance: int) -> bool:
    """Apply that an instance is to run again; return whether it is held, or waits for that of another job."""
    kept = any(instance in each for each in (waits.held, *waits.awaiting.values()))
    if kept:
        waits.blocked.add(instance)
    return kept


def _set_of(progress: TaskProgress, state: str) -> Ranges:
    return {"finished": progress.finished, "failed": progress.failed, "canceled": progress.canceled}[state]


def task_canceled(cluster: ClusterState, event: e.InstancesCanceled) -> None:
    """Queued instances will not run."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    if record.run is None:
        record.run = JobRun(tasks=untouched(cluster.spec(record)))
    instance_target(TaskState.QUEUED, event, TaskState(event.outcome))
    progress, partly_blocked = record.run.tasks[event.task - 1], _is_partly_blocked(record)
    _leave_queue(cluster, record, event.task - 1, event.spans, _set_of(progress, event.outcome))
    if event.withdrawn and progress.instances_made is None:
        for first, last in event.spans:
            progress.withdrawn.add_span(first, last)
    if partly_blocked:
        _sort_in_queue(cluster, record)
    _tell_children(cluster, record, [(event.task, event.spans)])
    cluster.agenda.dirty_jobs.add(event.job)


def _tell_children(
    cluster: ClusterState, record: JobRecord, changed: Sequence[tuple[int, Sequence[tuple[int, int]]]]
) -> None:
    """Tell the jobs that wait for elements that these have gone on: of each task, its number and spans."""
    awaited = cluster.element_children.get(record.id)
    if awaited is None:
        return
    tasks = spec_of(record).tasks
    numbers = {
        number for task, spans in changed for number in _numbers_among(tasks[task - 1], spans, awaited)
    }
    if numbers:
        from headnode.core.state.children import update_children  # few jobs wait for elements

        update_children(cluster, record, numbers)


def _numbers_among(
    task: TaskSpec, spans: Sequence[tuple[int, int]], awaited: Collection[int]
) -> Iterator[int]:
    """Yield which of these numbers the instances in the spans have.

    Cost:  O(numbers) for a span of more instances than that, else O(instances).
    """
    if task.kind is not TaskType.SWEEP:
        return
    for first, last in spans:
        if last - first < len(awaited):
            yield from (one for at in range(first, last + 1) if (one := task.value(at)) in awaited)
        else:
            found = ((one, task.instance_of(one)) for one in awaited)
            yield from (one for one, at in found if at is not None and first <= at <= last)


def _is_partly_blocked(record: JobRecord) -> bool:
    """Whether instances of a queued job are held, or wait for those of other jobs."""
    tasks = started_run(record).tasks
    return record.state is JobState.QUEUED and any(progress.waits is not None for progress in tasks)


def _sort_in_queue(cluster: ClusterState, record: JobRecord) -> None:
    """Put right whether anything of a queued job could start."""
    cluster.dequeue(record)
    cluster.enqueue(record)


def tasks_canceled(cluster: ClusterState, event: e.TasksCanceled) -> None:
    """Nothing that is queued of a job will run."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    instance_target(TaskState.QUEUED, event, TaskState.CANCELED)
    if not event.tasks:
        if record.run is not None:
            raise Broken(code="touched", what=f"job {event.job} is canceled as if nothing of it was touched")
        record.run = JobRun(tasks=[])  # it ends now; thousands of tasks need no entries to be canceled
        return
    run = started_run(record)
    for task, spans in event.tasks:
        _leave_queue(cluster, record, task - 1, spans, run.tasks[task - 1].canceled)
    _tell_children(cluster, record, event.tasks)
    cluster.agenda.dirty_jobs.add(event.job)


def _leave_queue(
    cluster: ClusterState, record: JobRecord, index: int, spans: Sequence[tuple[int, int]], to: Ranges
) -> None:
    """Put queued instances of a task among those that are over; a service makes no more."""
    progress = started_run(record).tasks[index]
    was_done, progress.endless = progress.is_done, False
    if progress.instances_made is None:  # special tasks were queued before they ran
        queued = spans
        if progress.waits is not None:
            from headnode.core.state.instance_waits import take_waiting  # few instances are blocked

            queued = take_waiting(cluster, record, index, spans)
        _take_out(progress.queued, queued, "queued")
        for first, last in spans:
            to.add_span(first, last)
    graph = cluster.graphs.get(record.id)
    if graph is not None:
        graph.task_changed(index)
        if progress.is_done and not was_done:
            graph.task_done(index)


def _take_out(numbers: Ranges, spans: Sequence[tuple[int, int]], what: str) -> None:
    for first, last in spans:
        if not numbers.covers(first, last):
            raise Broken(code=f"not-{what}", what=f"instances {first} to {last} are not all {what}")
        numbers.discard_span(first, last)


def task_requeued(cluster: ClusterState, event: e.InstancesRequeued) -> None:
    """Ended instances of a task will run again."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = started_run(record)
    progress = run.tasks[event.task - 1]
    run.usage.forget_outcome()
    for first, last in event.spans:
        over = _state_of(progress, first, last)
        instance_target(over, event, TaskState.QUEUED)
        _again(progress, over, first, last)
    _tell_children(cluster, record, [(event.task, event.spans)])
    graph = cluster.graphs.get(event.job)
    if graph is not None:
        graph.work_out()
    if _is_partly_blocked(record):
        _sort_in_queue(cluster, record)
    cluster.agenda.dirty_jobs.add(event.job)
    cluster.agenda.pass_needed = True


def _state_of(progress: TaskProgress, first: int, last: int) -> TaskState:
    for over in (TaskState.FINISHED, TaskState.FAILED, TaskState.CANCELED):
        if _set_of(progress, over.value).covers(first, last):
            return over
    return TaskState.QUEUED


def _again(progress: TaskProgress, over: TaskState, first: int, last: int) -> None:
    """Queue a span again.  What was canceled in the queue never ran; what did has its attempts noted."""
    for numbers in (_set_of(progress, over.value), progress.withdrawn):
        numbers.discard_span(first, last)
    if over is not TaskState.CANCELED:
        for instance in range(first, last + 1):
            progress.attempts.setdefault(instance, 1)
    for kept in (progress.retries, progress.system_retries):
        for instance in [instance for instance in kept if first <= instance <= last]:
            del kept[instance]
    progress.queued.add_span(first, last)


def run_again(progress: TaskProgress, event: e.JobRequeued) -> None:
    """The job goes back to the queue: what failed or was stopped runs again, what was withdrawn does not.

    Special tasks make new instances.
    """
    if progress.live:
        raise Broken(code="still-live", what="a job was requeued while instances of it were live")
    if progress.instances_made is not None:
        return
    withdrawn = tuple(progress.withdrawn.spans())
    for first, last in withdrawn:
        instance_target(TaskState.CANCELED, event, TaskState.CANCELED)
        progress.canceled.discard_span(first, last)
    for over in (TaskState.FAILED, TaskState.CANCELED):
        for first, last in tuple(_set_of(progress, over.value).spans()):
            instance_target(over, event, TaskState.QUEUED)
            _again(progress, over, first, last)
    for first, last in withdrawn:
        progress.canceled.add_span(first, last)
