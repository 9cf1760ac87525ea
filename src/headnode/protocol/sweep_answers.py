"""What the verb about the parts of a sweep answers."""

from headnode.protocol.answers import InstanceCounts, VerbAnswer


class SweepPart(VerbAnswer, frozen=True):
    """Consecutive instances of a task, by state."""

    first: int
    last: int
    counts: InstanceCounts


class InstanceCountsAnswer(VerbAnswer, frozen=True):
    """instance_counts."""

    parts: list[SweepPart]  # of the same size, but the last one
    total: int  # instances
