"""The base of all commands, and what a node reports of one attempt that is over."""

import msgspec

from headnode.core.model.quantities import Instant, Seconds


class Command(msgspec.Struct, frozen=True, gc=False):
    """Anything wished for."""


AttemptKey = tuple[int, int, int, int]
"""Job, task, instance and attempt."""


class AttemptReport(msgspec.Struct, frozen=True, gc=False):
    """What a node says of one attempt that is over; see the node protocol for the kinds."""

    task: int
    instance: int
    attempt: int
    kind: str
    exit_code: int | None = None
    signal: int | None = None
    started: Instant | None = None
    ended: Instant | None = None
    user_time: Seconds = Seconds(0.0)
    system_time: Seconds = Seconds(0.0)
    peak_memory: int = 0
    message: str = ""
    average_memory: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    trouble: str = ""  # of one that was not started, in a word of `core.model.faults`
