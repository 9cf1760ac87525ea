"""How long our tasks waited at resources: learned from events, of now or from the journal."""

from collections import deque
from collections.abc import Iterable
from typing import Final

from headnode.core.batch.dialect import AttemptPlace
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.resource import PLACE_MARK
from headnode.core.state import job_events as e
from headnode.core.state.events import Event

WAITS_KEPT: Final = 9  # of the tasks that waited last at a resource


class ResourceWaits:
    """The latest waits at each resource, and since when others wait there."""

    def __init__(self) -> None:
        self._waits: dict[str, deque[Seconds]] = {}
        self._since: dict[str, dict[AttemptPlace, Instant]] = {}

    def learn(self, events: Iterable[Event]) -> None:
        """Take in what has happened, in its order."""
        for event in events:
            match event:
                case e.InstancesDispatched() if event.placement[0][0].startswith(PLACE_MARK):
                    there = self._since.setdefault(event.placement[0][0].removeprefix(PLACE_MARK), {})
                    there |= {AttemptPlace(event.job, event.task, *each): event.at for each in event.attempts}
                case e.InstancesStarted() if any(self._since.values()):
                    for begun in event.started:
                        key = AttemptPlace(event.job, begun.task, begun.instance, begun.attempt)
                        self._leaves(key, begun.at)
                case e.InstancesEnded() if event.ended[0].node.startswith(PLACE_MARK):
                    for one in event.ended:
                        self._leaves(AttemptPlace(event.job, one.task, one.instance, one.attempt), None)

    def _leaves(self, key: AttemptPlace, started: Instant | None) -> None:
        for resource, waiting in self._since.items():
            since = waiting.pop(key, None)
            if since is not None and started is not None:
                waits = self._waits.setdefault(resource, deque(maxlen=WAITS_KEPT))
                waits.append(Seconds(max(0.0, started - since)))

    def waited(self, resource: str) -> list[Seconds]:
        """Return how long the latest tasks waited at a resource, oldest first."""
        return list(self._waits.get(resource, ()))

    def waiting(self, resource: str) -> list[Instant]:
        """Return since when tasks wait at a resource now."""
        return list(self._since.get(resource, {}).values())
