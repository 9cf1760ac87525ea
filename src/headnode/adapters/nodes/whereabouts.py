"""Which attempts each node has, by what the head knows: kept up to date by events, so nobody need search."""

from collections.abc import Sequence
from typing import NamedTuple

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import LiveInstance
from headnode.core.model.quantities import JobId


class Known(NamedTuple):
    """An attempt that the head knows to be live."""

    job: JobId
    task: int
    instance: int
    live: LiveInstance


class Whereabouts:
    """The live attempts by the node that was told to start them: the first one of their place."""

    def __init__(self, cluster: Cluster) -> None:
        self._on: dict[str, set[tuple[JobId, int, int]]] = {}
        for job, flow in cluster.flows.items():
            for index, progress in enumerate(flow.run.tasks):
                for instance, live in progress.live.items():
                    self._of(live.place[0][0]).add((job, index + 1, instance))

    def _of(self, node: str) -> set[tuple[JobId, int, int]]:
        return self._on.setdefault(node, set())

    def note(self, events: Sequence[e.Event]) -> None:
        """Take in what has happened."""
        for event in events:
            if isinstance(event, e.InstancesDispatched):
                here = self._of(event.place[0][0])
                here.update((event.job, event.task, instance) for instance, _ in event.attempts)
            elif isinstance(event, e.InstancesEnded):
                for how in event.ended:
                    self._of(how.node).discard((event.job, how.task, how.instance))

    def of(self, node: str, cluster: Cluster) -> list[Known]:
        """Return the live attempts of a node, by job, task and instance."""
        return [known for key in sorted(self._on.get(node, ())) if (known := _known(cluster, node, *key))]


def _known(cluster: Cluster, node: str, job: JobId, task: int, instance: int) -> Known | None:
    record = cluster.jobs.get(job)
    if record is None or record.run is None or task > len(record.run.tasks):
        return None
    live = record.run.tasks[task - 1].live.get(instance)
    return Known(job, task, instance, live) if live is not None and live.place[0][0] == node else None
