"""Apply the events of task instances."""

from collections.abc import Sequence

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle import fold_stays as stays
from headnode.core.lifecycle.arrows import instance_target, job_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.records import JobRecord, LiveInstance, Run, TaskProgress, untouched
from headnode.core.lifecycle.states import TaskState
from headnode.core.model.errors import Broken
from headnode.core.model.quantities import Seconds
from headnode.core.model.ranges import Ranges

_STATES = {state.value: state for state in TaskState}  # a look-up costs a tenth of TaskState(...)


def _run(record: JobRecord) -> Run:
    if record.run is None:
        raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
    return record.run


def _live(progress: TaskProgress, job: int, task: int, instance: int) -> LiveInstance:
    live = progress.live.get(instance)
    if live is None:
        raise Broken(code="not-live", what=f"task {job}.{task}.{instance} is not live")
    return live


def dispatched(cluster: Cluster, event: e.InstancesDispatched) -> None:
    """Queued instances went to a place."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    index = event.task - 1
    progress = _run(record).tasks[index]
    instance_target(TaskState.QUEUED, event, TaskState.DISPATCHED)
    for instance, attempt in event.attempts:
        if progress.made is not None:
            stays.make(progress, instance)
        elif instance not in progress.queued:
            raise Broken(code="not-queued", what=f"task {event.job}.{event.task}.{instance} is not queued")
        progress.queued.discard(instance)
        progress.live[instance] = LiveInstance(attempt=attempt, place=event.place)
    flow = cluster.flow(event.job)
    flow.occupy(event.place, len(event.attempts))
    flow.task_changed(index)
    if flow.tends_nodes:
        stays.arrive(flow, index, event.place)
    if any(flow.free.values()):
        cluster.touched.add(event.job)  # what is idle now may be more than it needs


def started(cluster: Cluster, event: e.InstancesStarted) -> None:
    """Dispatched instances run."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = _run(record)
    for begun in event.begun:
        live = _live(run.tasks[begun.task - 1], event.job, begun.task, begun.instance)
        wanted = TaskState.ENDING if live.state is TaskState.ENDING else TaskState.RUNNING
        live.state = instance_target(live.state, event, wanted)
        live.started = begun.at
        cluster.start_failures.started(live.place[0][0], record.owner, event.at)


def stopping(cluster: Cluster, event: e.InstancesStopping) -> None:
    """Live instances are being stopped."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    progress = _run(record).tasks[event.task - 1]
    for instance in event.instances:
        live = _live(progress, event.job, event.task, instance)
        live.state = instance_target(live.state, event, TaskState.ENDING)
        live.outcome, live.message, live.cause = event.outcome, event.message, event.cause


def ended(cluster: Cluster, event: e.InstancesEnded) -> None:
    """Live instances are over, or will run again."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = _run(record)
    flow = cluster.flow(event.job)
    changed: dict[int, None] = {}
    for how in event.ended:
        progress = run.tasks[how.task - 1]
        live = _live(progress, event.job, how.task, how.instance)
        instance_target(live.state, event, _STATES[how.state])
        del progress.live[how.instance]
        flow.vacate(live.place)
        cluster.start_failures.ended(record.id, record.owner, how, event.at)
        _file(progress, how)
        if progress.made is not None:
            _special_ended(cluster, flow, event, how, live)
        run.usage.add(how)
        changed[how.task - 1] = None
    for index in changed:
        flow.task_changed(index)
        if run.tasks[index].is_done and flow.counts(index):
            flow.task_done(index)
            cluster.pass_needed = True  # others may be ready now, and the job may want to grow
    cluster.touched.add(event.job)


def _special_ended(
    cluster: Cluster, flow: Flow, event: e.InstancesEnded, how: e.Ended, live: LiveInstance
) -> None:
    stays.depart(flow, how.task - 1, live, how)
    if how.task - 1 == flow.service:
        cluster.let_rest(event.job, stays.rest(how, event.at))


def _file(progress: TaskProgress, how: e.Ended) -> None:
    """Put an ended instance where it belongs."""
    if how.started is not None and how.ended is not None:
        progress.ended += 1
        progress.ended_time = Seconds(progress.ended_time + max(0.0, how.ended - how.started))
    if how.state == "queued":
        progress.queued.add(how.instance)
        progress.attempts[how.instance] = how.attempt
        forgiven = {"program": progress.retries, "system": progress.losses}.get(how.cause)
        if forgiven is not None:
            forgiven[how.instance] = forgiven.get(how.instance, 0) + 1
        return
    _set_of(progress, how.state).add(how.instance)
    if how.attempt > 1 or how.state == "canceled":
        progress.attempts[how.instance] = how.attempt


def _set_of(progress: TaskProgress, state: str) -> Ranges:
    return {"finished": progress.finished, "failed": progress.failed, "canceled": progress.canceled}[state]


def canceled(cluster: Cluster, event: e.TaskCanceled) -> None:
    """Queued instances will not run."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    if record.run is None:
        record.run = Run(tasks=untouched(cluster.spec(record)))
    progress = record.run.tasks[event.task - 1]
    instance_target(TaskState.QUEUED, event, TaskState(event.outcome))
    was_done, progress.endless = progress.is_done, False
    spans = event.spans if progress.made is None else ()  # special tasks were queued before they ran
    _take_out(progress.queued, spans, "queued")
    for first, last in spans:
        _set_of(progress, event.outcome).add_span(first, last)
        if event.withdrawn:
            progress.withdrawn.add_span(first, last)
    flow = cluster.flows.get(event.job)
    if flow is not None:
        flow.task_changed(event.task - 1)
        if progress.is_done and not was_done:
            flow.task_done(event.task - 1)
    cluster.touched.add(event.job)


def _take_out(numbers: Ranges, spans: Sequence[tuple[int, int]], what: str) -> None:
    for first, last in spans:
        if not numbers.covers(first, last):
            raise Broken(code=f"not-{what}", what=f"instances {first} to {last} are not all {what}")
        numbers.discard_span(first, last)


def requeued(cluster: Cluster, event: e.TaskRequeued) -> None:
    """Ended instances of a task will run again."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = _run(record)
    progress = run.tasks[event.task - 1]
    run.usage.forget_outcome()
    for first, last in event.spans:
        over = _state_of(progress, first, last)
        instance_target(over, event, TaskState.QUEUED)
        _again(progress, over, first, last)
    flow = cluster.flows.get(event.job)
    if flow is not None:
        flow.work_out()
    cluster.touched.add(event.job)
    cluster.pass_needed = True


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
    for kept in (progress.retries, progress.losses):
        for instance in [instance for instance in kept if first <= instance <= last]:
            del kept[instance]
    progress.queued.add_span(first, last)


def run_again(progress: TaskProgress, event: e.JobRequeued) -> None:
    """The job goes back to the queue: what failed or was stopped runs again, what was withdrawn does not.

    Special tasks make new instances.
    """
    if progress.live:
        raise Broken(code="still-live", what="a job was requeued while instances of it were live")
    if progress.made is not None:
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
