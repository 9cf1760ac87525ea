"""What a job was given and what it used, kept as its instances end.

Source: SSS 3.1.0, "Delivered" (Processors, Node, Memory with metric Average and Max, CpuDuration, Duration).
"""

from collections.abc import Mapping

import msgspec

from headnode.core.lifecycle.events import Ended
from headnode.core.model.quantities import Instant, Seconds

BY_SIGNAL = 128
"""What shells add to the number of a signal to tell it as an exit code."""

Held = Mapping[str, tuple[int, ...]]
"""The numbers of the processors that are held on each node."""


class Usage(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """What a job was given in its last run, and what it used in all its runs together.

    Times are those of instances (`cpu_time`) and runs (`wall_time`) that are over.  Memory is in kB, and that
    of one instance.
    """

    processors: int = 0  # the most that it held at once
    nodes: tuple[str, ...] = ()  # all that it held, in the order in which it got them
    cpu_time: Seconds = Seconds(0.0)  # user and system
    wall_time: Seconds = Seconds(0.0)  # without the time in which it was suspended
    peak_memory: int = 0  # of the largest instance
    memory_time: float = 0.0  # kB times seconds
    measured_time: Seconds = Seconds(0.0)
    exit_code: int | None = None  # of the first instance that failed, else of the last; of its last run
    failed: bool = False  # the exit code is that of a failure
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def average_memory(self) -> int:
        """What its instances had on average over the time that they ran, each for itself."""
        return round(self.memory_time / self.measured_time) if self.measured_time > 0 else self.peak_memory

    def begin(self, held: Held) -> None:
        """A run of the job begins."""
        self.processors, self.nodes = sum(map(len, held.values())), tuple(held)
        self.forget_outcome()

    def forget_outcome(self) -> None:
        """What failed will run again."""
        self.exit_code, self.failed = None, False

    def grow(self, held: Held) -> None:
        """The job holds more."""
        self.processors = max(self.processors, sum(map(len, held.values())))
        fresh = tuple(node for node in held if node not in self.nodes)
        if fresh:
            self.nodes += fresh

    def end(self, started: Instant | None, stood_still: Seconds, at: Instant) -> None:
        """A run of the job is over."""
        if started is not None:
            self.wall_time = Seconds(self.wall_time + max(0.0, at - started - stood_still))

    def add(self, how: Ended) -> None:
        """An attempt is over."""
        self.cpu_time = Seconds(self.cpu_time + how.user_time + how.system_time)
        self.peak_memory = max(self.peak_memory, how.peak_memory)
        self.bytes_read += how.bytes_read
        self.bytes_written += how.bytes_written
        if how.started is not None and how.ended is not None and how.peak_memory:
            seconds = max(0.0, how.ended - how.started)
            self.memory_time += (how.average_memory or how.peak_memory) * seconds
            self.measured_time = Seconds(self.measured_time + seconds)
        if how.state != "queued" and not self.failed:
            code = how.exit_code if how.signal is None else BY_SIGNAL + how.signal
            if code is not None:
                self.exit_code, self.failed = code, how.state == "failed"
