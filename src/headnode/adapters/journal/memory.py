"""A journal in memory: for simulations, which read its events again but do not look up ended jobs."""

from collections.abc import Iterable, Iterator, Sequence

from headnode import __version__
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event
from headnode.engine.ports import EndedJob


class MemoryJournal:
    """A `Journal` made of a list.  It keeps every promise but one: it ends with its process."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._snapshots: list[tuple[int, bytes]] = []

    def append(
        self,
        events: Sequence[Event],
        ended: Iterable[EndedJob] = (),  # noqa: ARG002  (there is no archive)
        revived: Sequence[JobId] = (),  # noqa: ARG002
    ) -> int:
        """Record the events."""
        self._events.extend(events)
        return len(self._events)

    def replay(self, after: int = 0) -> Iterator[tuple[int, Event]]:
        """Yield (number, event) for every event with a number greater than `after`."""
        number = max(after, 0)
        while number < len(self._events):
            number += 1
            yield number, self._events[number - 1]

    def keep_snapshot(self, number: int, state: bytes) -> None:
        """Keep the state as it was after event `number`, and the one kept before."""
        self._snapshots = [*self._snapshots[-1:], (number, state)]

    def newest_snapshot(self) -> tuple[int, bytes] | None:
        """Return (number, state) of the snapshot kept last, or None."""
        return self._snapshots[-1] if self._snapshots else None

    def close(self) -> None:
        """Nothing is held."""

    def written_by(self) -> str:
        """Return this version."""
        return __version__
