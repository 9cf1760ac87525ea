"""What lists show of the descriptions of jobs that are alive, worked out once for each."""

from collections.abc import Callable

from headnode.apps.server.answers_jobs import Brief, brief_of
from headnode.apps.server.lookups import Found
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import SMALL
from headnode.core.model.quantities import JobId

_FEW = 100  # briefs of jobs that are over, among those that are kept
_PROGRESS = 100  # bytes that count for the progress of a task of a job that is over: it is slow to read


class Briefs:
    """Remembers the briefs of large descriptions; small ones are quick to read."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster
        self._known: dict[JobId, tuple[bytes, int, Brief]] = {}

    def of(self, found: Found) -> Brief:
        """Return the brief of a job."""
        if found.ended:
            return brief_of(found.record, found.spec)
        return self._remembered(found) or self._remember(found)

    def weight(self, found: Found) -> int:
        """Return how many bytes must be read for the brief of a job."""
        record = found.record
        if found.ended:
            return len(record.spec) + _PROGRESS * (len(record.run.tasks) if record.run is not None else 0)
        return 0 if self._remembered(found) is not None else len(record.spec)

    def _remembered(self, found: Found) -> Brief | None:
        known = self._known.get(found.record.id)
        if known is None or known[0] is not found.record.spec or known[1] != _option(found):
            return None
        return known[2]

    def _remember(self, found: Found) -> Brief:
        record = found.record
        brief = brief_of(record, found.spec)
        if len(record.spec) > SMALL:
            self._known[record.id] = record.spec, _option(found), brief
            alive = self._cluster().jobs
            if len(self._known) > 2 * len(alive) + _FEW:
                self._known = {job: known for job, known in self._known.items() if job in alive}
        return brief


def _option(found: Found) -> int:
    return found.record.run.option if found.record.run is not None else 0
