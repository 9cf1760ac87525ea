"""The queue: jobs that may start, by what they ask for, and jobs that are held until a time."""

from bisect import bisect_left, insort
from collections.abc import Mapping

from headnode.core.model.errors import Broken
from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId, QueuePosition
from headnode.core.state.agenda import Timers


class JobQueue:
    """The queued jobs of each request, in queue order; a pass looks at each request once."""

    def __init__(self) -> None:
        self.by_request: dict[JobRequest, list[QueuePosition]] = {}
        self.requests: dict[JobId, JobRequest] = {}  # of the jobs in `by_request`
        self._holds: Timers[JobId] = Timers()
        self.held: Mapping[JobId, Instant] = self._holds.due  # until when; they are not in `by_request`

    def insert(self, turn: QueuePosition, request: JobRequest) -> None:
        """Put a job in its place.  Equal requests share one object: 100,000 alike jobs hold it once."""
        turns = self.by_request.get(request)
        if turns is None:
            turns = self.by_request[request] = []
        else:
            request = self.requests[turns[0].job]
        self.requests[turn.job] = request
        insort(turns, turn)

    def remove(self, turn: QueuePosition) -> None:
        """Remove a job, if it is in the queue or held.

        Raises:  Broken ``queue`` when it is not in its place.
        """
        job = turn.job
        self._holds.drop(job)
        request = self.requests.pop(job, None)
        if request is None:
            return
        turns = self.by_request[request]
        at = bisect_left(turns, turn)
        if at == len(turns) or turns[at] != turn:
            raise Broken(code="queue", what=f"job {job} is not in the queue where it should be")
        del turns[at]
        if not turns:
            del self.by_request[request]

    def hold(self, job: JobId, until: Instant) -> None:
        """Hold a job until a time, when `release` returns it."""
        self._holds.set(job, until)

    def next_release(self) -> Instant | None:
        """Return when the next job is held no longer, or None."""
        return self._holds.next()

    def release(self, now: Instant) -> JobId | None:
        """Return a job that is held no longer, each once; None when there is none."""
        return self._holds.take(now)
