"""What durable events mean for the nodes: which messages go to which node."""

import time
import zlib
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from headnode.adapters.nodes.link import NodeLink
from headnode.adapters.nodes.reconcile import deadline_of, health_check, releases_nodes, suspend_or_continue
from headnode.adapters.wire import messages as m
from headnode.core.model.node import binds
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import (
    ClockSet,
    Event,
    NodeApproved,
    NodeRemoved,
    ParameterSet,
    RequestCarriedOut,
)
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationReleased,
    AllocationShrunk,
    InstancesDispatched,
    InstancesEnded,
    InstancesStaging,
    InstancesStarted,
    InstancesStopping,
    JobAutoRequeued,
    JobCreated,
    JobEnded,
    JobEnding,
    JobModified,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    NodesCleaning,
)
from headnode.core.state.job_record import JobRecord, JobRun, decode_spec, encode_spec
from headnode.core.state.suspension_events import JobResumed, JobSuspending
from headnode.engine.settings import Settings

HOOK_PARAMETERS = frozenset(
    {
        "PrologProgram",
        "PrologTimeout",
        "EpilogProgram",
        "EpilogTimeout",
        "NodeFilterDirectory",
        "NodeFilterTimeout",
        "TransferNetworks",
        "TransfersPerJob",
        "TransfersPerHost",
        "TransfersPerNode",
        "TransfersPerStorage",
        "TransferTimeout",
    }
)
"""The parameters of which jobs that are open on nodes must hear when they change."""


def hooks_of(settings: Settings, run: JobRun) -> m.Hooks | None:
    """Return the hooks of a job; None if there are none, and no node has to report that it is ready."""
    prolog, epilog = settings.text("PrologProgram"), settings.text("EpilogProgram")
    filters = settings.text("NodeFilterDirectory")
    if not (prolog or epilog or filters or run.unready):
        return None
    return m.Hooks(
        prolog=prolog,
        prolog_timeout=Seconds(settings.number("PrologTimeout")),
        epilog=epilog,
        epilog_timeout=Seconds(settings.number("EpilogTimeout")),
        filters=filters,
        filter_timeout=Seconds(settings.number("NodeFilterTimeout")),
    )


def transfer_rules(settings: Settings, nodes: int) -> m.TransferRules:
    """Return the rules for transfers for each of so many nodes; they share each storage host."""
    return m.TransferRules(
        networks=tuple(settings.text("TransferNetworks").replace(",", " ").split()),
        at_once=int(settings.number("TransfersPerJob")),
        per_host=int(settings.number("TransfersPerHost")),
        timeout=Seconds(settings.number("TransferTimeout")),
        per_node=int(settings.number("TransfersPerNode")),
        per_storage=max(1, int(settings.number("TransfersPerStorage")) // max(1, nodes)),
    )


def storage_shares(cluster: ClusterState) -> int:
    """Return how many machines transfer files: the nodes, and the head's for jobs at resources."""
    return len(cluster.nodes) + bool(cluster.resource_index.named)


def cleaned_on(cluster: ClusterState, node: str) -> set[JobId]:
    """Return the jobs of which a node is being cleaned."""
    return {
        job
        for job in cluster.cores.holders.get(node, ())
        if (run := cluster.jobs[job].run) is not None and node in run.cleaning
    }


_encoder = msgspec.msgpack.Encoder()
_NOT_FOR_NODES = frozenset({JobCreated, JobSubmitted, RequestCarriedOut, InstancesEnded})


def _goes_on(event: JobEnding | JobResumed, cluster: ClusterState) -> bool:
    """Whether a job that stood still does something on its nodes from now on."""
    return isinstance(event, JobResumed) or releases_nodes(cluster, event.job)


class EventDispatch:
    """Sends each connected node the messages that follow from events; reconciling sends lost ones again."""

    def __init__(self, links: Mapping[str, NodeLink]) -> None:
        self._links = links
        self.open_jobs: dict[JobId, set[str]] = {}  # the nodes that have been told of a job
        self._gathering: dict[str, NodeLink] | None = None  # nodes that are told everything with one write

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Tell the nodes what follows from durable events."""
        gathering = self._gathering = {}
        events = [event for event in events if type(event) not in _NOT_FOR_NODES]
        try:
            self._perform(events, cluster)
        finally:
            self._gathering = None
            for link in gathering.values():
                link.send_gathered()

    def _link(self, node: str) -> NodeLink | None:
        """Return the link of a node, if it is connected.  Within `perform` it gathers what is sent."""
        link = self._links.get(node)
        if link is not None and self._gathering is not None and node not in self._gathering:
            link.gather()
            self._gathering[node] = link
        return link

    def _perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        for event in events:
            match event:
                case InstancesDispatched(placement=((node, _), *_)) if (link := self._link(node)) is not None:
                    self._run(event, cluster, link)
                case JobStarted() | AllocationGrown() | JobModified() | InstancesStaging():
                    self.open_job(cluster, event.job)
                case InstancesStarted() if self._has_staged(cluster, event.job):  # with another deadline
                    self.open_job(cluster, event.job)
                case InstancesStopping():
                    self._stop(event, cluster)
                case NodesCleaning(job=job, nodes=nodes):
                    self.open_jobs.get(job, set()).difference_update(nodes)
                    self._close(job, set(nodes))
                case ParameterSet(name=name) if name in HOOK_PARAMETERS:
                    for job in sorted(cluster.graphs):
                        self.open_job(cluster, job)
                case JobSuspending():
                    self._standing(cluster, event.job)
                case JobEnding() | JobResumed() if _goes_on(event, cluster):
                    self.open_job(cluster, event.job)
                    self._standing(cluster, event.job)
                case ClockSet():
                    for job in sorted(cluster.running):
                        self.open_job(cluster, job)
                case JobEnded(job=job):
                    names = self.open_jobs.pop(job, set())
                    self._close(job, names)
                    self._acknowledge(job, names)
                case JobRequeued() | JobAutoRequeued():
                    self._close(event.job, self.open_jobs.pop(event.job, set()))
                case NodeRemoved(node=node) if node in self._links:
                    self._dismiss(self._links[node])
                case NodeApproved(node=node) if node in self._links:
                    self.order_check(self._links[node], cluster)
                case ParameterSet(name="HealthCheckProgram" | "HealthCheckInterval"):
                    for link in self._links.values():
                        self.order_check(link, cluster, changed=True)
                case AllocationShrunk() | AllocationLost() | AllocationReleased():
                    self._shrink(event, cluster)

    def _dismiss(self, link: NodeLink) -> None:
        link.send(m.Goodbye(reason="this node was removed from the cluster"))
        link.send_gathered()
        link.close()

    def _has_staged(self, cluster: ClusterState, job: JobId) -> bool:
        run = cluster.jobs[job].run if job in cluster.jobs else None
        return run is not None and run.stages

    def _run(self, event: InstancesDispatched, cluster: ClusterState, link: NodeLink) -> None:
        run = cluster.jobs[event.job].run if event.job in cluster.jobs else None
        instances = (instance for instance, _ in event.attempts)
        unstarted = () if run is None else run.tasks[event.task - 1].unstarted_among(instances)
        link.hand_over(
            m.Run(
                job=event.job,
                task=event.task,
                placement=event.placement,
                attempts=event.attempts,
                unstarted=unstarted,
                after=event.after,
            )
        )

    def open_job(self, cluster: ClusterState, job: JobId, only: str | None = None) -> None:
        """Tell the nodes of a job's allocation, or only one of them, about the job."""
        record = cluster.jobs.get(job)
        if record is None or record.run is None or not record.run.places:
            return
        if only is not None and only not in record.run.places:
            return
        entered = [node for node in record.run.places if node not in record.run.cleaning]
        spec, settings = cluster.spec(record), Settings(cluster.parameters)
        stages = any(task.stages for task in spec.tasks)
        temporary = any(task.has_temporary_directory(spec.dialect) for task in spec.tasks)
        message = m.OpenJob(
            job=job,
            owner=record.owner,
            uid=record.uid,
            gid=record.gid,
            spec=_with_variables(_spec_of(cluster, record), settings.environment()),
            allocation=tuple(record.run.places.items()),
            deadline=deadline_of(record),
            suspendable=spec.suspendable,
            parts=record.run.parts,
            bound=binds(settings.text("AffinityType"), exclusive=spec.exclusive),
            memory_limited=settings.text("EnforceMemory") == "yes",
            max_processes=int(settings.number("JobProcessLimit")),
            same_uid=settings.text("UserMapping") == "name-and-number",
            now=time_for_nodes(),
            transfers=transfer_rules(settings, storage_shares(cluster)) if stages else None,
            hooks=hooks_of(settings, record.run),
            temporary=settings.text("TemporaryDirectory") if temporary else "",
        )
        encoded = _encoder.encode(message)
        for node in entered if only is None else {only} & set(entered):
            link = self._link(node)
            if link is not None:
                known = encoded if link.knows_signals else _encoder.encode(_for_older(message))
                link.send_encoded(known)
                link.opened[job] = zlib.crc32(known)
                self.knows(job, node)

    def knows(self, job: JobId, node: str) -> None:
        """Note that a node has been told of a job."""
        self.open_jobs.setdefault(job, set()).add(node)

    def _stop(self, event: InstancesStopping, cluster: ClusterState) -> None:
        record = cluster.jobs.get(event.job)
        if record is None or record.run is None:
            return
        live = record.run.tasks[event.task - 1].live
        by_node: dict[str, list[tuple[int, int, int]]] = {}
        for instance in event.instances:
            if instance in live:
                attempt = (event.task, instance, live[instance].attempt)
                by_node.setdefault(live[instance].placement[0][0], []).append(attempt)
        for node, attempts in by_node.items():
            link = self._link(node)
            if link is not None:
                link.send(m.Stop(job=event.job, attempts=tuple(attempts), force=event.force))

    def _standing(self, cluster: ClusterState, job: JobId) -> None:
        """Send the nodes of a job its current suspension state."""
        message = suspend_or_continue(cluster, job)
        run = cluster.jobs[job].run if job in cluster.jobs else None
        for node in run.places if message is not None and run is not None else ():
            link = self._link(node)
            if link is not None and message is not None:
                link.send(
                    replace(message, now=time_for_nodes()) if isinstance(message, m.Continue) else message
                )

    def _shrink(
        self, event: AllocationShrunk | AllocationLost | AllocationReleased, cluster: ClusterState
    ) -> None:
        """Close a job on nodes that it has left."""
        record = cluster.jobs.get(event.job)
        held = record.run.places if record is not None and record.run is not None else {}
        opened = self.open_jobs.get(event.job, set())
        removed = opened if isinstance(event, AllocationReleased) else {node for node, _ in event.removed}
        left = removed - held.keys()
        self._close(event.job, left & opened)  # the others were told when they were to be cleaned
        opened.difference_update(left)

    def _close(self, job: JobId, nodes: set[str]) -> None:
        for node in sorted(nodes):
            link = self._link(node)
            if link is not None:
                self.close_on(link, job)

    def _acknowledge(self, job: JobId, nodes: set[str]) -> None:
        """Acknowledge the reports of nodes on a job that is over, with the same write."""
        for node in sorted(nodes):
            link = self._link(node)
            if link is not None:
                link.acknowledge_all(job)

    def close_on(self, link: NodeLink, job: JobId) -> None:
        link.opened.pop(job, None)
        link.send(m.CloseJob(job=job))

    def order_check(self, link: NodeLink, cluster: ClusterState, *, changed: bool = False) -> None:
        """Tell a node which health check it runs, if there is one or was one."""
        node, check = cluster.nodes.get(link.node), health_check(cluster, link.node)
        if check.program or changed or (node is not None and any(x.cause == "health" for x in node.drains)):
            link.send(check)


def time_for_nodes() -> Instant:
    """Return the time of day of this machine, in which deadlines are sent."""
    return Instant(time.time())


def _for_older(message: m.OpenJob) -> m.OpenJob:
    """Return what a node of before 0.3 is told of a job.

    It sends no signal before the run time limit, and makes no temporary directory.
    """
    spec = decode_spec(message.spec)
    tasks = tuple(replace(task, temporary_directory=None) for task in spec.tasks)
    known = replace(spec, signal="", tasks=tasks)
    return replace(message, temporary="", spec=message.spec if known == spec else encode_spec(known))


def _with_variables(spec: bytes, variables: dict[str, str]) -> bytes:
    """Return a description with the variables of the cluster, which give way to those of the job."""
    if not variables:
        return spec
    plain = decode_spec(spec)
    return encode_spec(replace(plain, environment=variables | plain.environment))


def _spec_of(cluster: ClusterState, record: JobRecord) -> bytes:
    """Return the description that a node is told: with the request that the job was given for its own.

    The release of a node takes no longer than the cluster allows it.
    """
    chosen = record.run is not None and record.run.alternative
    graph = cluster.graphs.get(record.id)
    if graph is None or graph.release is None:
        return encode_spec(cluster.spec(record)) if chosen else record.spec
    spec, limit = graph.spec, Seconds(Settings(cluster.parameters).number("NodeReleaseTaskTimeout"))
    tasks = list(spec.tasks)
    tasks[graph.release] = replace(tasks[graph.release], run_time=min(tasks[graph.release].run_time, limit))
    return encode_spec(replace(spec, tasks=tuple(tasks)))
