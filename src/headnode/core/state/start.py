"""Starting jobs and giving them more or fewer processors: shares of nodes become processors with numbers."""

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest, UnitType, gpus_with
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.core.state import hooks, job_request, suspend
from headnode.core.state import job_events as e
from headnode.core.state import preempt as preemption
from headnode.core.state import suspension_events as sj
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.hooks import readies_nodes
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import (
    JobRecord,
    JobRun,
    RunEnd,
    TaskProgress,
    decode_spec,
    encode_spec,
    spec_of,
    untouched,
)
from headnode.core.state.job_request import suspension_of
from headnode.core.state.node_record import NodeRecord
from headnode.core.state.prep_release import starts_paused
from headnode.core.state.reservation_index import must_take
from headnode.core.state.task_graph import is_blocked
from headnode.core.state.transitions import JobState, job_target, set_prolog_due


class StartJob(Command, frozen=True):
    """Scheduler: start the job on these processors; `option`, `parts` and the limit as in `JobStarted`."""

    job: JobId
    shares: tuple[tuple[str, int], ...]
    backfilled: bool = False
    option: int = 0
    parts: tuple[tuple[tuple[str, int], ...], ...] = ()
    lowered_limit: Seconds | None = None

    def taken(self, request: JobRequest) -> JobRequest:
        """Return what the job is given of its request.  Raises:  IndexError when it has no such option."""
        return request.option(self.option, self.lowered_limit)


class GrowJob(Command, frozen=True):
    """Scheduler: give the running job more processors."""

    job: JobId
    shares: tuple[tuple[str, int], ...]


Shares = tuple[tuple[str, int], ...]


def pick(
    cluster: ClusterState, job: JobId, request: JobRequest, shares: Shares, now: Instant, end: Instant
) -> NodeCores:
    """Return numbered processors for the shares, the lowest free numbers first.

    `end` is when whatever runs there is surely over.

    Raises:  WrongState ``stale-plan`` when the node no longer has them.
    """
    for node, _ in shares:
        if cluster.reservation_index.on or request.reservation:
            must_take(cluster.reservation_index.on.get(node, ()), request, node, now, end)
        known = cluster.nodes.get(node)
        if known is not None and known.drains and known.closes < end:
            raise WrongState(
                code="stale-plan", what=f"node {node!r} closes before job {job} is certain to end"
            )
    return tuple([(node, tuple(_free(cluster, job, request, node, count)[:count])) for node, count in shares])


def pick_parts(job: JobId, allocation: NodeCores, parts: Sequence[Shares]) -> tuple[NodeCores, ...]:
    """Return which processors of an allocation are for each part of a gang, in their order.

    Raises:  WrongState ``stale-plan`` when the allocation has not so many.
    """
    if not parts:
        return ()
    left = {node: iter(numbers) for node, numbers in allocation}
    found: list[NodeCores] = []
    for shares in parts:
        found.append(tuple((node, tuple(islice(left.get(node, iter(())), count))) for node, count in shares))
        if [(node, len(numbers)) for node, numbers in found[-1]] != list(shares):
            raise WrongState(
                code="stale-plan", what=f"part {len(found)} of job {job} is not in its allocation"
            )
    return tuple(found)


def _free(cluster: ClusterState, job: JobId, request: JobRequest, node: str, count: int) -> list[int]:
    known = cluster.nodes.get(node)
    free = cluster.cores.free_on(node)
    if known is None or not _is_open(cluster, job, known) or len(free) < count or count < 1:
        raise WrongState(
            code="stale-plan", what=f"node {node!r} no longer has {count} free processors for job {job}"
        )
    others = cluster.cores.holders.get(node, set()) - {job}
    if others and (request.exclusive or exclusive_holder(cluster, node) in others):
        raise WrongState(code="stale-plan", what=f"node {node!r} cannot be shared with job {job}")
    return free


def _is_open(cluster: ClusterState, job: JobId, node: NodeRecord) -> bool:
    if node.state is NodeState.PAUSED:
        return starts_paused(cluster.jobs[job])
    return node.state is NodeState.READY


def exclusive_holder(cluster: ClusterState, node: str) -> JobId | None:
    """Return the job that owns all of a node, or None; no other job holds anything there."""
    holders = cluster.cores.holders.get(node, ())
    if len(holders) != 1:
        return None
    (job,) = holders
    return job if cluster.request(cluster.jobs[job]).exclusive else None


def gpus_held(cluster: ClusterState, facts: NodeFacts) -> int:
    """Return how many GPUs of a node jobs hold, also those that are suspended."""
    held, name = 0, facts.name
    for job in cluster.on_node(name) if facts.gpus else ():
        record = cluster.jobs[job]
        run, request = record.run, cluster.started_request(record)
        if run is None or run.detached:
            continue
        if request.exclusive or request.unit is UnitType.NODE:
            held += facts.gpus if name in run.allocation else 0
        elif request.processors_per_gpu:
            held += gpus_with(len(run.places.get(name, ())), request.processors_per_gpu)
    return min(held, facts.gpus)


def start(cluster: ClusterState, command: StartJob, now: Instant) -> list[Event]:
    """Give a queued job its processors, if they are still free."""
    record = cluster.jobs.get(command.job)
    if record is not None and record.state is JobState.RESUMING:
        return resume_on_nodes(cluster, command, record, now)
    if record is None or record.state is not JobState.QUEUED:
        return []
    if record.id in cluster.queue.held or record.holds or record.waits_for or is_blocked(record):
        raise WrongState(code="stale-plan", what=f"job {record.id} is held or waits for its parents")
    request = _option(cluster.request(record), command)
    end = Instant(now + request.run_time)
    allocation = pick(cluster, record.id, request, command.shares, now, end)
    return [
        e.JobStarted(
            at=now,
            job=record.id,
            allocation=allocation,
            backfilled=command.backfilled,
            alternative=command.option,
            parts=pick_parts(record.id, allocation, command.parts),
            prolog=readies_nodes(cluster),
            lowered_limit=command.lowered_limit,
        )
    ]


def _option(whole: JobRequest, command: StartJob) -> JobRequest:
    """Return the request that the job is to be given, if it has it with so many parts."""
    requests = (whole, *whole.alternatives)
    request = requests[command.option] if 0 <= command.option < len(requests) else None
    if (
        request is None
        or len(command.parts) != (len(request.parts) if request.together else 0)
        or not request.allows_limit(command.lowered_limit)
    ):
        raise WrongState(
            code="stale-plan", what=f"job {command.job} does not match the allocation that was planned for it"
        )
    return command.taken(whole)


def grow(cluster: ClusterState, command: GrowJob, now: Instant) -> list[Event]:
    """Give a running job more processors, if they are still free."""
    record = cluster.jobs.get(command.job)
    if record is None or record.state is not JobState.RUNNING:
        return []
    request = cluster.request(record)
    if request.together:
        raise WrongState(code="stale-plan", what=f"job {record.id} runs as a whole and does not grow")
    deadline = None if record.run is None else record.run.deadline
    end = NEVER if deadline is None else deadline
    added = pick(cluster, record.id, request, command.shares, now, end)
    return [e.AllocationGrown(at=now, job=record.id, added=added, prolog=readies_nodes(cluster))]


def resume_on_nodes(cluster: ClusterState, command: StartJob, record: JobRecord, now: Instant) -> list[Event]:
    """Scheduler: a job that waits to go on has its processors again.

    Raises:  WrongState ``stale-plan``.
    """
    places = suspension_of(record.run).allocation
    had = tuple((node, len(numbers)) for node, numbers in places.items())
    if record.holds or sorted(command.shares) != sorted(had):
        raise WrongState(
            code="stale-plan",
            what=f"job {record.id} is held, or can resume only with the processors that it had",
        )
    end = Instant(now + cluster.request(record).run_time)
    free = dict(pick(cluster, record.id, cluster.started_request(record), had, now, end))
    allocation: NodeCores = tuple(
        (node, _as_before(cluster, node, places[node], free[node])) for node in places
    )
    return [sj.JobResumed(at=now, job=record.id, allocation=allocation)]


def _as_before(
    cluster: ClusterState, node: str, had: tuple[int, ...], picked: tuple[int, ...]
) -> tuple[int, ...]:
    """Return the processors that a job had where they are free, and the first free ones for the others."""
    free = set(cluster.cores.free[node])
    again = [number for number in had if number in free]
    others = [number for number in cluster.cores.free[node] if number not in had]
    return tuple(sorted((again + others)[: len(picked)]))


def run_of(cluster: ClusterState, record: JobRecord) -> JobRun:
    """Return the job's run; begin one in which nothing has happened when it has none."""
    if record.run is None:
        record.run = JobRun(tasks=untouched(cluster.spec(record)))
    return record.run


def job_started(cluster: ClusterState, event: e.JobStarted) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event, JobState.HANDED if event.resource else JobState.RUNNING)
    cluster.dequeue(record)
    clear_hold(record)
    run = run_of(cluster, record)
    take_option(record, run, event.alternative, event.lowered_limit)
    run.allocation, run.parts = dict(event.allocation), event.parts
    run.usage.begin(run.allocation)
    run.resource = event.resource
    run.started, run.ended, run.backfilled = None if event.resource else event.at, None, event.backfilled
    run.preempted_by = 0
    run.starts += not event.resource
    run.suspended_time, run.clock_shift = Seconds(0.0), Seconds(0.0)
    run.stages, run.staged_since, run.staged_time = False, None, Seconds(0.0)
    run.refused = {}
    hooks.wait_for_prologs(run, event.prolog)
    record.hold_until, record.filter_reply = None, None
    record.forget_parents()
    job_request.set_limits(run, spec_of(record))
    cluster.move(record, state)
    if run.resource:
        cluster.open_elsewhere(record)
        return
    cluster.open_run(record)
    if record.id in cluster.children:
        from headnode.core.state.children import update_children  # few jobs have children

        update_children(cluster, record)


def clear_hold(record: JobRecord) -> None:
    """Forget until when a job was to be held: it starts.  Source: HPC filters, "Important"."""
    if record.hold_until is None:
        return
    spec = decode_spec(record.spec)
    if spec.hold_until is not None:
        record.spec = encode_spec(replace(spec, hold_until=None))


def take_option(record: JobRecord, run: JobRun, option: int, limit: Seconds | None = None) -> None:
    """Set the alternative request of the job, and its lowered limit; tasks have its instances."""
    run.lowered_limit = limit
    if run.alternative == option:
        return
    run.alternative = option
    for progress, task in zip(run.tasks, spec_of(record).tasks, strict=True):
        _have_instances(progress, task.instances)


def _have_instances(progress: TaskProgress, count: int) -> None:
    """Let a task of which nothing is live have so many instances: each request of a job may ask for others.

    Attempt numbers of those that go are not used again, should they come back.  A special task makes its own.
    """
    if progress.instances_made is not None:
        return
    kinds = (progress.queued, progress.blocked, progress.finished, progress.failed, progress.canceled)
    before = sum(len(numbers) for numbers in kinds)
    if count > before:
        progress.queued.add_span(before + 1, count)
    if count >= before:
        return
    ran = any(numbers.lasts and numbers.lasts[-1] > count for numbers in kinds[2:])
    gone = [used for instance, used in progress.attempts.items() if instance > count]
    progress.attempts_used = max(progress.attempts_used, int(ran), *gone)
    held = () if progress.waits is None else (progress.waits.held, *progress.waits.awaiting.values())
    for numbers in (*kinds, progress.withdrawn, *held):
        numbers.discard_span(count + 1, before)
    if progress.waits is not None and not (progress.waits.blocked or progress.waits.held):
        progress.waits = None
    for noted in (progress.attempts, progress.retries, progress.system_retries):
        for instance in [instance for instance in noted if instance > count]:
            del noted[instance]


def allocation_grown(cluster: ClusterState, event: e.AllocationGrown) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    for node, processors in event.added:
        if event.prolog and node not in run.allocation:
            set_prolog_due(run.holdings, node, due=True)
        run.allocation[node] = tuple(sorted((*run.allocation.get(node, ()), *processors)))
        cluster.cores.take(event.job, node, processors)
    run.usage.grow(run.allocation)
    record.filter_reply = None
    _allocation_changed(cluster, event)


def allocation_shrunk(cluster: ClusterState, event: e.AllocationShrunk | e.AllocationLost) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    for node, processors in event.removed:
        left = tuple(number for number in run.allocation[node] if number not in processors)
        cluster.cores.give_back(event.job, node, processors)
        preemption.settle_recall(run, node, len(processors), len(left))
        if left:
            run.allocation[node] = left
            cluster.cores.take(event.job, node, left)
        else:
            del run.allocation[node]
            run.holdings.pop(node, None)
            if node in run.refused:
                cluster.remember_request(record, cluster.spec(record))
    _allocation_changed(cluster, event)


def allocation_released(cluster: ClusterState, event: e.AllocationReleased) -> None:
    """Give back all processors; the job stays on the nodes where files of it are transferred."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    lives = (live for progress in run.tasks for live in progress.live.values())
    staying = {node for live in lives for node, _ in live.placement}
    run.detached = {node: numbers for node, numbers in run.allocation.items() if node in staying}
    cluster.agenda.dirty_job_views.add(record.id)
    cluster.release_allocation(record)
    cluster.open_detached(record)
    cluster.agenda.pass_needed = True


def allocation_lost(cluster: ClusterState, event: e.AllocationLost) -> None:
    record = cluster.job(event.job)
    run = run_of(cluster, record)
    if record.id in cluster.detached:
        job_target(record.state, event)
        suspend.detached_node_lost(cluster, record, run, event)
    else:
        allocation_shrunk(cluster, event)
        if run.suspension is not None:
            run.suspension.pending_nodes = tuple(
                n for n in run.suspension.pending_nodes if n in run.allocation
            )
    if event.too_small:
        run.end = RunEnd(outcome="canceled", requeue=True, uncounted=event.uncounted)
        record.message = event.message


def _allocation_changed(
    cluster: ClusterState, event: e.AllocationGrown | e.AllocationShrunk | e.AllocationLost
) -> None:
    cluster.graph(event.job).take_stock()
    cluster.update_releasing(cluster.job(event.job))
    record = cluster.job(event.job)
    cluster.usage.count(record, cluster.graph(event.job).spec.project, cluster.request(record))
    cluster.agenda.dirty_jobs.add(event.job)
    cluster.agenda.pass_needed = True
