"""Results on their way to the head: in batches with numbers, kept and repeated until acknowledged."""

from collections.abc import Iterator
from typing import NamedTuple

from headnode.adapters.nodes import messages as m
from headnode.core.model.quantities import JobId
from headnode.core.model.ranges import Ranges

Key = tuple[int, int, int]
_LARGEST_BATCH = 5000  # results in one message


class Entry(NamedTuple):
    """A result, and where it came from: the shepherd's marker and its number there; 0 when we made it up."""

    marker: str
    number: int
    result: m.Result

    @property
    def key(self) -> Key:
        """Which attempt it is about."""
        return (self.result.task, self.result.instance, self.result.attempt)


class Ledger:
    """All results that the head has not acknowledged."""

    def __init__(self) -> None:
        self._unsent: dict[JobId, list[Entry]] = {}
        self._sent: dict[int, tuple[JobId, list[Entry]]] = {}
        self._number = 0
        self._over: dict[JobId, dict[Key, None]] = {}
        self._seen: dict[str, Ranges] = {}  # the numbers taken in, by marker

    def add(self, job: JobId, entry: Entry) -> bool:
        """Take a result in; False when it is here already."""
        if entry.number:
            numbers = self._seen.setdefault(entry.marker, Ranges())
            if entry.number in numbers:
                return False
            numbers.add(entry.number)
        self._unsent.setdefault(job, []).append(entry)
        self._over.setdefault(job, {})[entry.key] = None
        return True

    def over(self, job: JobId) -> dict[Key, None]:
        """Return the attempts of a job that are over and not acknowledged."""
        return self._over.get(job, {})

    def jobs(self) -> Iterator[JobId]:
        """Yield the jobs with unacknowledged results."""
        yield from self._over

    def batches(self) -> Iterator[m.Results]:
        """Yield the results not yet sent; from then on they are sent."""
        unsent, self._unsent = self._unsent, {}
        for job, entries in unsent.items():
            for at in range(0, len(entries), _LARGEST_BATCH):
                yield self._batch(job, entries[at : at + _LARGEST_BATCH])

    def _batch(self, job: JobId, entries: list[Entry]) -> m.Results:
        self._number += 1
        self._sent[self._number] = (job, entries)
        return _message(self._number, job, entries)

    def again(self, last: int | None = None) -> Iterator[m.Results]:
        """Yield what was sent and not acknowledged, up to the batch with this number."""
        for number, (job, entries) in self._sent.items():
            if last is None or number <= last:
                yield _message(number, job, entries)

    @property
    def last_batch(self) -> int:
        """The number of the last batch that was sent."""
        return self._number

    def acknowledge(self, number: int) -> tuple[JobId, list[Entry]] | None:
        """Forget a batch; return it, or None when it was forgotten before."""
        found = self._sent.pop(number, None)
        if found is None:
            return None
        job, entries = found
        over = self._over[job]
        for entry in entries:
            over.pop(entry.key, None)
        if not over:
            del self._over[job]
        return found

    def forget_shepherd(self, marker: str) -> None:
        """Forget the numbers of a shepherd that is gone and settled."""
        self._seen.pop(marker, None)


def _message(number: int, job: JobId, entries: list[Entry]) -> m.Results:
    return m.Results(number=number, job=job, results=tuple(entry.result for entry in entries))
