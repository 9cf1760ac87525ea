"""What a task says to commands that it launched on its other nodes passes through the head."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.adapters.nodes.streams import BESIDE, HEAD, Sessions
from headnode.adapters.wire.agent_messages import Launch, LaunchPiece, LaunchTaken, ReportedAttempt, Route
from headnode.adapters.wire.messages import EndLaunched, FromHead, Launching
from headnode.core.model.quantities import JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import (
    AllocationLost,
    InstancesEnded,
    JobEnded,
    JobRequeued,
    JobReturned,
    NodeCores,
)

log = logging.getLogger("headnode.nodes")


class _RelayedAttempt(NamedTuple):
    """One attempt of an instance."""

    job: JobId
    task: int
    instance: int
    attempt: int


class Relay:
    """Passes on what may pass, and ends what attempts that are over have launched."""

    def __init__(self, say: Callable[[str, FromHead], None], sessions: Sessions) -> None:
        """`say` sends a message to a node, if it is there; `sessions` are the conversations of the head."""
        self._say, self._sessions = say, sessions
        self._launched: dict[
            JobId, dict[_RelayedAttempt, set[str]]
        ] = {}  # where attempts have launched something

    def pass_on(self, node: str, message: Launching, cluster: ClusterState) -> None:
        """Pass on what `node` says, if it may say that."""
        route = message.route
        if route.first == HEAD:
            if isinstance(message, LaunchPiece | LaunchTaken):
                self._sessions.hear(node, message)
            return
        back = not isinstance(message, Launch) and message.back
        sender, other = (route.target, route.first) if back else (route.first, route.target)
        attempt = _RelayedAttempt(route.job, route.task, route.instance, route.attempt)
        place = place_of(cluster, *attempt)
        problem = _objection(node == sender, place, route)
        if problem:
            log.warning("a message of node %s about a launch of job %d: %s", node, route.job, problem)
            if isinstance(message, Launch):
                self._say(node, LaunchPiece(route, True, 0, "failed", problem.encode()))
        elif isinstance(message, Launch):
            self._launched.setdefault(route.job, {}).setdefault(attempt, set()).add(route.target)
            self._say(other, replace(message, place=place))
        else:
            self._say(other, message)

    def greeted(self, node: str, launched: Sequence[ReportedAttempt], cluster: ClusterState) -> None:
        """Learn what was launched on a node; end what is over."""
        for live in launched:
            attempt = _RelayedAttempt(live.job, live.task, live.instance, live.attempt)
            if attempt[1:] == BESIDE and self._sessions.here(node, live.job):
                continue
            if place_of(cluster, *attempt):
                self._launched.setdefault(live.job, {}).setdefault(attempt, set()).add(node)
            else:
                self._say(node, EndLaunched(*attempt))

    def end_what_is_over(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """End what those attempts have launched that are over by these events."""
        if not self._launched and not self._sessions.jobs:
            return
        jobs = {event.job for event in events if isinstance(event, _OF_JOBS)}
        for job in jobs & self._sessions.jobs:
            run = cluster.jobs[job].run if job in cluster.jobs else None
            self._sessions.keep_only(job, run.places if run is not None else {})
        for job in jobs & self._launched.keys():
            launched = self._launched[job]
            for attempt in [each for each in launched if not place_of(cluster, *each)]:
                for node in sorted(launched.pop(attempt)):
                    self._say(node, EndLaunched(*attempt))
            if not launched:
                del self._launched[job]


_OF_JOBS = (InstancesEnded, JobEnded, JobRequeued, JobReturned, AllocationLost)


def place_of(cluster: ClusterState, job: JobId, task: int, instance: int, attempt: int) -> NodeCores:
    """Return the place of an attempt that is live; nothing when it is not."""
    record = cluster.jobs.get(job)
    run = record.run if record is not None else None
    if run is None or not 0 < task <= len(run.tasks):
        return ()
    live = run.tasks[task - 1].live.get(instance)
    return live.place if live is not None and live.attempt == attempt else ()


def _objection(is_sender: bool, place: NodeCores, route: Route) -> str:
    """Return why a message may not pass, in a sentence; empty when it may."""
    if not place:
        return "the task no longer runs"
    if not is_sender or place[0][0] != route.first:
        return "only the first node of a task may launch commands for it"
    if route.target not in {node for node, _ in place}:
        return f"node {route.target!r} is none of the task's nodes; they are in $HEADNODE_HOSTS"
    return ""
