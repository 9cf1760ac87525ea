"""Telling clients that follow a job when something of it has changed."""

import asyncio
from collections.abc import Sequence

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event, JobFact
from headnode.engine.engine import Effects


class Bell(asyncio.Event):
    """Rings when something has changed; `changed` holds the jobs until somebody takes them."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[int] = set()

    def take(self) -> set[int]:
        """Stop ringing; return the jobs that have changed since the last time."""
        self.clear()
        taken, self.changed = self.changed, set()
        return taken


class Watchers:
    """Wakes whoever watches a job that an event is about."""

    def __init__(self) -> None:
        self._bells: dict[int, set[Bell]] = {}

    def watch(self, jobs: Sequence[int]) -> Bell:
        """Return a bell that rings when something of one of the jobs changes."""
        bell = Bell()
        for job in jobs:
            self._bells.setdefault(job, set()).add(bell)
        return bell

    def leave(self, jobs: Sequence[int], bell: Bell) -> None:
        """Ring no more."""
        for job in jobs:
            bells = self._bells.get(job, set())
            bells.discard(bell)
            if not bells:
                self._bells.pop(job, None)

    def perform(self, events: Sequence[Event], cluster: Cluster) -> None:  # noqa: ARG002  (it is an Effects)
        """Ring for every job the events are about."""
        if self._bells:
            for job in {event.job for event in events if isinstance(event, JobFact)}:
                for bell in self._bells.get(job, ()):
                    bell.changed.add(job)
                    bell.set()


class Several:
    """Effects one after the other."""

    def __init__(self, *effects: Effects) -> None:
        self.effects = list(effects)

    def perform(self, events: Sequence[Event], cluster: Cluster) -> None:
        """Let each do its part."""
        for effect in self.effects:
            effect.perform(events, cluster)
