"""The view of the cluster that policies see, kept from pass to pass: only what changed is built anew."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from operator import add

from msgspec.structs import replace

from headnode.core.model.job import HeldAmounts, JobRequest, gpus_with
from headnode.core.model.node import NodeState, switches_above
from headnode.core.model.owner_limits import is_spent
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.free_resources import NodeAmounts
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.node_view import (
    NodeView,
    ReservedTime,
    gpus_counted,
    held_of,
    holds_amounts,
    is_alike,
    memory_of,
)
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.request import at_other_times
from headnode.core.scheduling.shadow_reservation import ReleaseCache
from headnode.core.scheduling.view import RunningJob, View, WaitingClass
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord, JobRun
from headnode.core.state.job_request import job_names
from headnode.core.state.node_record import closed_reason
from headnode.core.state.owner_usage import UsageKey
from headnode.core.state.prep_release import held_units, idle_units
from headnode.core.state.start import exclusive_holder
from headnode.core.state.transitions import JobState
from headnode.engine.settings import Settings

_NOTHING: NodeAmounts = (0, 0, 0, 0)


class ViewBuilder:
    """Builds views of one cluster.  A view that was built is never changed.

    `keeps`: it is the one that is kept from pass to pass; what the cluster marks for drawing is for it.
    `freed`: something has become free that was not expected to be by now, since it was set to False.
    """

    def __init__(self, cluster: ClusterState, *, keeps: bool) -> None:
        self.cluster = cluster
        self.freed = True
        self._keeps = keeps
        self._nodes: dict[str, NodeView] = {}
        self._running: dict[JobId, RunningJob] = {}
        self._listed: list[RunningJob] = []
        self._wanting: set[JobId] = set()
        self._with_amounts: dict[JobId, RunningJob] = {}  # those that hold more than processors
        self._held: dict[str, NodeAmounts] = {}
        self._held_changed = False
        self._closing: set[str] = set()  # nodes that are open for a while only
        self.paused: set[str] = set()  # nodes that are paused, in the last view
        self._node_table: NodeTable | None = None

    def view(
        self, now: Instant, *, before: Plan | None = None, depth: float = inf, owners: bool = False
    ) -> View:
        """Return what a policy may know now; `before` is what it planned at the pass before.

        `owners`: the policy orders the queue, so it gets the usage of owners, and classes by owner.
        """
        self.look_at_jobs(now)
        self._look_at_nodes(now)
        node_table = self._node_table = self._node_table or NodeTable(self._nodes)
        return View(
            now=now,
            nodes=self._nodes,
            queue=list(self._classes_by_owner()) if owners else self._classes(),
            running=self._listed,
            licences=self._licences(now),
            depth=depth,
            before=before,
            freed=self.freed,
            ground=KnownNodes(self._nodes, node_table),
            usage=self.cluster.usage.weighted(now) if owners else {},
            waiting_since=self._submissions() if owners else {},
        )

    def nodes_alone(self, now: Instant) -> View:
        """Return the nodes and licences without the queue: what it costs does not grow with that."""
        self.look_at_jobs(now)  # nodes are drawn with what jobs hold of them
        self._look_at_nodes(now)
        node_table = self._node_table = self._node_table or NodeTable(self._nodes)
        ground = KnownNodes(self._nodes, node_table)
        return View(
            now=now, nodes=self._nodes, queue=(), running=(), licences=self._licences(now), ground=ground
        )

    def _licences(self, now: Instant) -> dict[str, tuple[int, int]]:
        """Return the licences, and the limits of owners with jobs: how many in all, and free."""
        licences = licences_of(self.cluster)
        if not self.cluster.limit_index.any:
            return licences
        limits = {share.key: share.limit for job in self._listed for share in job.request.limits}
        asked = self.cluster.queue.by_request
        alike = {id(each.limits): each.limits for each in asked}  # requests of an owner share one object
        alike |= {
            id(one.limits): one.limits for each in asked if each.alternatives for one in each.alternatives
        }
        limits |= {share.key: share.limit for shares in alike.values() for share in shares}
        from headnode.core.state.limit_use import limits_in_use  # few clusters have limits

        used = limits_in_use(self.cluster, limits, now)
        self.freed = self.freed or any(map(is_spent, limits))  # usage decays
        return licences | {key: (limit, limit - used.get(key, 0)) for key, limit in limits.items()}

    def _classes(self) -> list[WaitingClass]:
        return [WaitingClass(request, turns) for request, turns in self.cluster.queue.by_request.items()]

    def _classes_by_owner(self) -> Iterator[WaitingClass]:
        """Yield the classes of the queue, divided by the owners and projects of the jobs."""
        for request, turns in self.cluster.queue.by_request.items():
            divided: dict[UsageKey, list[QueuePosition]] = {}
            for turn in turns:
                record = self.cluster.jobs[turn.job]
                divided.setdefault((record.owner, job_names(record.spec).project), []).append(turn)
            for (owner, project), found in divided.items():
                yield WaitingClass(request, found, owner, project)

    def _submissions(self) -> dict[JobId, Instant]:
        jobs, asked = self.cluster.jobs, self.cluster.queue.by_request
        records = (jobs[turn.job] for turns in asked.values() for turn in turns)
        return {record.id: record.submitted or record.created for record in records}

    def look_at_jobs(self, now: Instant) -> None:
        """Draw the running jobs that are not as they were, and those that want to grow."""
        look, running, changed = self._worth_a_look(), self.cluster.running, False
        for job in look:
            before = self._running.get(job)
            if job in running:
                seen = running_job(self.cluster, self.cluster.jobs[job])
                if before != seen:
                    self._keep(job, seen)
                    changed = True
                    self.freed = self.freed or (before is not None and _gave_back(before, seen))
            elif before is not None:
                self._forget(job)
                changed = True
                self.freed = self.freed or before.end > now
        if changed:
            self._listed = list(self._running.values())
        if self._held_changed:
            self._held, self._held_changed = _held_by(self._with_amounts.values()), False

    def _keep(self, job: JobId, running: RunningJob) -> None:
        self._running[job] = running
        if running.wants:
            self._wanting.add(job)
        else:
            self._wanting.discard(job)
        if holds_amounts(running.request):
            self._with_amounts[job], self._held_changed = running, True
        elif self._with_amounts.pop(job, None) is not None:
            self._held_changed = True

    def _forget(self, job: JobId) -> None:
        """Drop a job that has ended, also from the node table, which lives as long as the nodes."""
        del self._running[job]
        self._wanting.discard(job)
        if self._with_amounts.pop(job, None) is not None:
            self._held_changed = True
        if self._node_table is not None:
            self._node_table.cache.of(ReleaseCache).releases.pop(job, None)

    def _worth_a_look(self) -> Sequence[JobId]:
        cluster = self.cluster
        if not self._keeps:
            return sorted(cluster.running)
        dirty = cluster.agenda.dirty_job_views
        look = sorted(dirty.union(self._wanting, cluster.waiting))
        dirty.clear()
        return look

    def _look_at_nodes(self, now: Instant) -> None:
        """Draw the nodes that are not as they were."""
        cluster, held, changed, times_differ = self.cluster, self._held, {}, False
        aside = _held_aside(cluster) if cluster.detached else {}
        look = sorted(cluster.agenda.dirty_node_views | self._closing) if self._nodes else list(cluster.nodes)
        self._closing.clear()
        self.paused.difference_update(look)
        for name in look:
            before = self._nodes.get(name)
            if name in cluster.nodes:
                amounts = held.get(name, _NOTHING)
                if name in aside:
                    amounts = tuple(map(add, amounts, aside[name]))
                seen = _node(cluster, name, amounts, now)
                if seen.open_for < inf or seen.reserved:
                    self._closing.add(name)
                if cluster.nodes[name].state is NodeState.PAUSED:
                    self.paused.add(name)
                if before != seen:
                    changed[name] = seen
                if before is None or not is_alike(before, seen):
                    self._node_table, self.freed = None, True
                elif before.reserved or seen.reserved:
                    times_differ, self.freed = True, self.freed or not _as_reserved(before, seen)
                elif before.open_for != seen.open_for:  # decreases, unless another date was set
                    times_differ, self.freed = True, self.freed or seen.open_for > before.open_for
            elif before is not None:
                self._node_table, self.freed = None, True
        if self._keeps:
            cluster.agenda.dirty_node_views.clear()
        if changed or self._node_table is None:
            drawn = {**self._nodes, **changed}
            if len(drawn) != len(cluster.nodes):  # some are gone
                drawn = {name: node for name, node in drawn.items() if name in cluster.nodes}
            self._nodes = drawn
        if times_differ and (earlier := self._node_table) is not None:
            self._node_table = at_other_times(earlier, self._nodes)
            self._node_table.cache.take_over(earlier.cache, ReleaseCache)


def _held_by(running: Iterable[RunningJob]) -> dict[str, NodeAmounts]:
    """Return the MB of memory, disk and swap, and the GPUs, that jobs hold of each node, where they count."""
    held: dict[str, NodeAmounts] = {}
    for job in running:
        _add(held, job.request, job.allocation)
    return held


def _held_aside(cluster: ClusterState) -> dict[str, NodeAmounts]:
    """Return the same of jobs without processors: stopped processes still use memory, swap and disk.

    Where only transfers are left of a job, its files use disk.
    """
    held: dict[str, NodeAmounts] = {}
    for job in cluster.detached:
        run, request = cluster.graph(job).run, cluster.started_request(cluster.jobs[job])
        if run.detached:
            request = replace(
                request, memory=0, held=HeldAmounts(disk=request.held.disk), processors_per_gpu=0
            )
        shares = [(node, len(numbers)) for node, numbers in run.places.items()]
        _add(held, request, shares)
    return held


def _add(held: dict[str, NodeAmounts], request: JobRequest, shares: Iterable[tuple[str, int]]) -> None:
    if not holds_amounts(request):
        return
    memory, of_node, each = memory_of(request), held_of(request), gpus_counted(request)
    for node, processors in shares:
        before = held.get(node, _NOTHING)
        held[node] = (
            before[0] + processors * memory + of_node.memory,
            before[1] + of_node.disk,
            before[2] + of_node.swap,
            before[3] + gpus_with(processors, each),
        )


def _gave_back(before: RunningJob, now: RunningJob) -> bool:
    """Return whether a job has less of any node, or less time, than it had."""
    left = dict(now.allocation)
    return now.end < before.end or any(left.get(node, 0) < count for node, count in before.allocation)


def _node(cluster: ClusterState, name: str, held: Sequence[int], now: Instant) -> NodeView:
    node = cluster.nodes[name]
    return NodeView(
        facts=node.facts,
        free=len(cluster.cores.free_on(name)),
        jobs=len(cluster.cores.holders.get(name, ())),
        exclusive_to=exclusive_holder(cluster, name),
        closed=closed_reason(node, now),
        memory_held=held[0],
        open_for=node.closes - now if node.closes > now else inf,
        reserved=_reserved(cluster, name, now) if name in cluster.reservation_index.on else (),
        disk_held=held[1],
        swap_held=held[2],
        gpus_held=held[3],
        switches=switches_above(name, cluster.parameters),
    )


def _reserved(cluster: ClusterState, name: str, now: Instant) -> tuple[ReservedTime, ...]:
    return tuple(
        ReservedTime(each.key, each.start - now, each.end - now, each.at_end == "limit", each.says())
        for each in cluster.reservation_index.on[name]
        if each.end > now
    )


def _as_reserved(before: NodeView, now: NodeView) -> bool:
    """Return whether a node is reserved for the same times, and open as long: others gain nothing."""
    told = [(each.says, each.limits) for each in before.reserved]
    return told == [(each.says, each.limits) for each in now.reserved] and now.open_for <= before.open_for


def _counted(cluster: ClusterState, job: JobId, node: str, numbers: tuple[int, ...]) -> int:
    """Return how many processors of a node come back with the end of a job.

    Those that the node has no more do not, but for the ones that were kept free in their place.
    """
    overdrawn = cluster.cores.overdrawn(node)
    if job not in overdrawn:
        return len(numbers)
    spare = len(cluster.cores.free[node]) - len(cluster.cores.free_on(node))
    for other, count in overdrawn.items():
        if other == job:
            return len(numbers) - count + min(count, spare)
        spare -= min(count, spare)
    return len(numbers)


def running_job(cluster: ClusterState, record: JobRecord) -> RunningJob:
    """Return what a policy may know of a job that holds processors."""
    request, graph = cluster.request(record), cluster.graph(record.id)
    run, reduced = graph.run, cluster.cores.reduced
    allocation = tuple(
        [
            (node, count)
            for node, numbers in run.allocation.items()
            if (count := _counted(cluster, record.id, node, numbers) if node in reduced else len(numbers))
        ]
    )
    return RunningJob(
        job=record.id,
        turn=record.turn,
        request=request,
        end=_end(cluster, request, run),
        allocation=allocation,
        wants=_wants(cluster, record, request) if record.state is JobState.RUNNING else 0,
        owner=record.owner,
        project=graph.spec.project,
    )


def _end(cluster: ClusterState, request: JobRequest, run: JobRun) -> Instant:
    """Return when a job is surely over: at its limit, or with a reservation that takes it along."""
    end = NEVER if run.deadline is None else run.deadline
    inside = cluster.reservation_index.named.get(request.reservation) if request.reservation else None
    return min(end, inside.end) if inside is not None and inside.at_end == "cancel" else end


def with_all_wants(cluster: ClusterState, view: View, more: int) -> View:
    """Return the view with what running jobs could use if so many processors more were free."""
    growing = {
        job: _wants(cluster, record, cluster.request(record), more)
        for job in cluster.waiting & cluster.running
        if (record := cluster.jobs[job]).state is JobState.RUNNING
    }
    running = [replace(job, wants=growing.get(job.job, job.wants)) for job in view.running]
    return replace(view, running=running)


def _wants(cluster: ClusterState, record: JobRecord, request: JobRequest, more: int = 0) -> int:
    """Return how many units more the job's waiting tasks could use now."""
    if record.id not in cluster.waiting:
        return 0
    graph = cluster.graph(record.id)
    if graph.run.end is not None or request.together:
        return 0
    room = request.maximum - held_units(cluster, record)
    if room > 0:  # more than is free cannot be given, and is not counted
        room = min(room, more + cluster.cores.count)
    if room <= 0:
        return 0
    if graph.service in graph.ready:
        return room
    wanted = -idle_units(cluster, record)
    for index in graph.ready:
        wanted += graph.spec.tasks[index].maximum * len(graph.run.tasks[index].queued)
        if wanted >= room:
            return room
    return max(0, wanted)


def licences_of(cluster: ClusterState) -> dict[str, tuple[int, int]]:
    """Return each licence with how many there are and how many are free."""
    total = Settings(cluster.parameters).licences()
    if not total:
        return {}
    free = dict(total)
    for job in cluster.running:
        record = cluster.jobs[job]
        held = cluster.graph(job).run.allocation
        for licence in cluster.request(record).licences:
            if licence.feature in free:
                amount = sum(map(len, held.values())) if licence.amount is None else licence.amount
                free[licence.feature] -= amount
    return {feature: (number, free[feature]) for feature, number in total.items()}
