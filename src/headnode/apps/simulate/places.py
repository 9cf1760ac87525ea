"""Where the jobs of a replay ran, as the journal of its head tells."""

from collections.abc import Sequence

from headnode.adapters.journal.memory import MemoryJournal
from headnode.core.lifecycle.events import JobStarted, Place
from headnode.core.model.quantities import JobId


def places_held(journal: MemoryJournal, jobs: int) -> Sequence[Place]:
    """Return the processors that each job was given when it started last.

    A new head counts jobs from 1, in the order they come; they are jobs of one size and so never grow.
    """
    given = {event.job: event.allocation for _, event in journal.replay() if isinstance(event, JobStarted)}
    return [given[JobId(row + 1)] for row in range(jobs)]
