"""Who goes first: the places of jobs in the line."""

from headnode.core.model.quantities import JobId, Priority

Turn = tuple[int, int, int]
"""A job's place in the queue: (-priority, submit order, id).  Smaller goes first."""


def turn(priority: Priority, order: int, job: JobId) -> Turn:
    """Return the place in the queue of a job."""
    return (-priority, order, job)
