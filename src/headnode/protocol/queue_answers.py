"""What the verb about the queue answers.  Times are seconds since 1970."""

from headnode.protocol.answers import ListedJob, ProcessorCount, VerbAnswer


class QueuedJob(ListedJob, frozen=True):
    """A job in the queue."""

    position: int  # 1 for the first
    places: list[ProcessorCount]  # the processors that the plan reserves for it; empty: none yet


class QueueAnswer(VerbAnswer, frozen=True):
    """queue."""

    jobs: list[QueuedJob]  # in the order of the queue
    waiting: int  # all jobs in the queue
    held: int  # queued jobs that are held, or wait for others: they have no place in the queue
