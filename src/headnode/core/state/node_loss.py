"""What becomes of jobs on a node that is given up, or that has rebooted."""

from collections.abc import Collection, Mapping

from headnode.core.model.job import units_in
from headnode.core.model.node import NodeState
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant
from headnode.core.model.task import SPECIAL
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptKey, AttemptReport, Command
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord, JobRun, LiveAttempt
from headnode.core.state.report import ReportEnded, ended
from headnode.core.state.task_placement import all_could_run
from headnode.core.state.transitions import SUSPENDED_STATES, JobState


class GiveUpNode(Command, frozen=True):
    """Engine: give up a node that was unreachable too long, or came back without its attempts."""

    node: str


LOST = (NodeState.UNREACHABLE, NodeState.LOST_PAUSED)


def give_up_node(cluster: ClusterState, command: GiveUpNode, now: Instant) -> list[Event]:
    """Give up the attempts on a node that does not come back; its jobs go on without the node.

    A node that is reachable again is not given up: it will report its attempts.
    """
    known = cluster.nodes.get(command.node)
    if known is None or known.state not in LOST:
        return []
    events: list[Event] = []
    for job in sorted(cluster.on_node(command.node)):
        record = cluster.jobs[job]
        if record.run is not None and job in cluster.graphs:
            events += _give_up(cluster, record, record.run, command.node, now)
    return events


def rebooted(cluster: ClusterState, node: str, attempts: Collection[AttemptKey], now: Instant) -> list[Event]:
    """Give up the attempts of a node before its reboot, except those whose outcome the node can report.

    A dispatched attempt without a reported start may have started: a machine without power reports nothing.
    The jobs keep their processors of the node.
    """
    message = f"node {node} rebooted"
    events: list[Event] = []
    for job in sorted(cluster.on_node(node)):
        record = cluster.jobs[job]
        if record.run is None or job not in cluster.graphs:
            continue
        gone = _lost(record.run, node, now, message)
        lost = tuple(r for r in gone if (job, r.task, r.instance, r.attempt) not in attempts)
        over = ended(cluster, ReportEnded(node=node, job=job, reports=lost), now) if lost else []
        events += over
        if record.state is not JobState.ENDING and not any(isinstance(event, e.JobEnding) for event in over):
            events += _stop_elsewhere(record, record.run, node, now, message)
    return events


def _give_up(cluster: ClusterState, record: JobRecord, run: JobRun, node: str, now: Instant) -> list[Event]:
    message = f"node {node} was lost"
    lost = _lost(run, node, now, message)
    over = ended(cluster, ReportEnded(node=node, job=record.id, reports=lost), now)
    if record.state is JobState.ENDING and node in run.cleaning and node in run.allocation:
        removed = ((node, run.allocation[node]),)
        return [*over, e.AllocationShrunk(at=now, job=record.id, removed=removed, message=message)]
    if record.state is JobState.ENDING or any(isinstance(event, e.JobEnding) for event in over):
        return over
    # What stands still elsewhere would never end, and keep its job from the queue.
    whole = record.state in SUSPENDED_STATES and is_too_small_without(cluster, record, run, node)
    together = whole or cluster.started_request(record).together
    stopped = _stop_elsewhere(record, run, node, now, message, together=together)
    return [*over, *stopped, *_lose(cluster, record, run, node, now)]


def _lost(run: JobRun, node: str, now: Instant, message: str) -> tuple[AttemptReport, ...]:
    outcome = AttemptOutcome("lost", ended=now, message=message)
    return tuple(
        AttemptReport(index + 1, instance, live.attempt, outcome)
        for index, progress in enumerate(run.tasks)
        for instance, live in sorted(progress.live.items())
        if live.placement[0][0] == node
    )


def _stop_elsewhere(
    record: JobRecord, run: JobRun, node: str, now: Instant, message: str, *, together: bool = False
) -> list[Event]:
    """Parallel instances that only reach into the node still run on another, and must be stopped there.

    Of a gang that loses the node (`together`) all instances elsewhere must: they are nothing without it.
    """
    events: list[Event] = []
    for index, progress in enumerate(run.tasks):
        reaching = tuple(
            n
            for n, live in sorted(progress.live.items())
            if _reaches(live, node) or (together and live.placement[0][0] != node)
        )
        fresh = tuple(n for n in reaching if progress.live[n].outcome is None)
        if fresh:
            events.append(
                e.InstancesStopping(
                    at=now,
                    job=record.id,
                    task=index + 1,
                    instances=fresh,
                    outcome="failed",
                    message=message,
                    cause="system",
                )
            )
    return events


def _reaches(live: LiveAttempt, node: str) -> bool:
    return live.placement[0][0] != node and any(name == node for name, _ in live.placement)


def _lose(cluster: ClusterState, record: JobRecord, run: JobRun, node: str, now: Instant) -> list[Event]:
    """Take the node out of the allocation, but for what instances that are being stopped still use."""
    used = {
        number
        for progress in run.tasks
        for live in progress.live.values()
        if _reaches(live, node)
        for name, numbers in live.placement
        if name == node
        for number in numbers
    }
    gone = tuple(number for number in run.places[node] if number not in used)
    small = run.end is None and is_too_small_without(cluster, record, run, node)
    if (
        small and record.state is JobState.RUNNING and not cluster.cores.usable(node)
    ):  # it was taken away by force
        small = not goes_on_with(cluster, record, {**run.allocation, node: ()})
    if not gone and not small:
        return []
    return [
        e.AllocationLost(
            at=now,
            job=record.id,
            removed=((node, gone),) if gone else (),
            too_small=small,
            message=f"node {node} was lost" if small else "",
        )
    ]


def is_too_small_without(cluster: ClusterState, record: JobRecord, run: JobRun, node: str) -> bool:
    """Whether a job that was started has not enough left without one of its nodes.

    Nodes that are being cleaned are gone, too.
    """
    request, cleaning = cluster.started_request(record), run.cleaning
    if request.together:
        return True
    left = sum(
        units_in(request, len(numbers), cluster.nodes[name].facts)
        for name, numbers in run.places.items()
        if name != node and name not in cleaning
    )
    required = {name.lower() for name in request.required_nodes}
    return node.lower() in required or left < request.minimum or _serves_less(cluster, record, run, node)


def goes_on_with(cluster: ClusterState, record: JobRecord, cores: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a running job goes on with what it keeps: its minimum, or what runs and room for each task."""
    graph, request = cluster.graph(record.id), cluster.started_request(record)
    if request.together:
        return False
    left = {node: numbers for node, numbers in cores.items() if numbers}
    required = {name.lower() for name in request.required_nodes}
    if not required <= {node.lower() for node in left} or not all_could_run(cluster, graph, left):
        return False
    units = sum(units_in(request, len(held), cluster.nodes[node].facts) for node, held in left.items())
    if units >= request.minimum:
        return True
    open_tasks = (graph.spec.tasks[n] for n, each in enumerate(graph.run.tasks) if not each.is_done)
    runs = any(all(node in left for node, _ in place) for place in graph.lanes)
    return runs and all(task.minimum <= units for task in open_tasks if task.kind not in SPECIAL)


def _serves_less(cluster: ClusterState, record: JobRecord, run: JobRun, lost: str) -> bool:
    """Return whether an open task requires a kind of node of which none is left."""
    graph = cluster.graphs.get(record.id)
    if graph is None or not cluster.started_request(record).parts or not run.allocation:
        return False
    left = {node: numbers for node, numbers in run.allocation.items() if node != lost}
    return not all_could_run(cluster, graph, left)
