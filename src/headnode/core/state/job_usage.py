"""What a job has used in all its runs, and what it held in the last."""

from collections.abc import Mapping

import msgspec

from headnode.core.model.outcome import ResourceUsage
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.state.job_events import InstanceEnd

BY_SIGNAL = 128
"""The offset that shells add to the number of a signal for the exit code."""

Held = Mapping[str, tuple[int, ...]]
"""The numbers of the processors that are held on each node."""


def why_it_failed(message: str) -> str:
    """Return the end of a sentence that says why a task failed; what to do is in the message of the task.

    >>> why_it_failed("the file is not there; name another one"), why_it_failed("")
    (': the file is not there', '')
    """
    why = message.partition("; ")[0]
    return f": {why}" if why else ""


class Usage(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """The allocation of a job in its last run, and the resources that all its runs used.

    Times are those of instances (`used`) and runs (`wall_time`) that are over.  Memory is in kB, and that of
    one instance.
    """

    processors: int = 0  # the most that it held at once
    nodes: tuple[str, ...] = ()  # all that it held, in the order in which it got them
    used: ResourceUsage = ResourceUsage()  # by all instances; memory is the most that one of them had
    wall_time: Seconds = Seconds(0.0)  # without the time in which it was suspended
    memory_time: float = 0.0  # kB times seconds
    measured_time: Seconds = Seconds(0.0)
    exit_code: int | None = None  # of the first instance that failed, else of the last; of its last run
    failed: bool = False  # the exit code is that of a failure
    failed_task: int = 0  # of the first instance that failed in its last run; 0: none
    failure: str = ""  # why that one failed
    held_time: float = 0.0  # processor seconds that it held until `held_since`; 0 of jobs before version 0.3
    held: int = 0  # processors that it holds now
    held_since: Instant | None = None  # since when these; None: it holds none

    @property
    def cpu_time(self) -> Seconds:
        """The processor time of its instances, in user and system mode."""
        return Seconds(self.used.user_time + self.used.system_time)

    @property
    def average_memory(self) -> int:
        """What its instances had on average over the time that they ran, each for itself."""
        return (
            round(self.memory_time / self.measured_time) if self.measured_time > 0 else self.used.peak_memory
        )

    def begin(self, held: Held) -> None:
        """A run of the job begins."""
        self.processors, self.nodes = sum(map(len, held.values())), tuple(held)
        self.forget_outcome()

    def forget_outcome(self) -> None:
        """What failed will run again."""
        self.exit_code, self.failed = None, False
        self.failed_task, self.failure = 0, ""

    def grow(self, held: Held) -> None:
        """The job holds more."""
        self.processors = max(self.processors, sum(map(len, held.values())))
        fresh = tuple(node for node in held if node not in self.nodes)
        if fresh:
            self.nodes += fresh

    def hold(self, processors: int, at: Instant) -> None:
        """The job holds so many processors from now on."""
        if processors != self.held:
            self.held_time = self.held_until(at)
            self.held, self.held_since = processors, at if processors else None

    def held_until(self, at: Instant) -> float:
        """Return the processor seconds that the job has held until then."""
        since = at if self.held_since is None else self.held_since
        return self.held_time + self.held * max(0.0, at - since)

    def shift(self, by: Seconds) -> None:
        """The clock was set by so many seconds, in which nothing was held."""
        if self.held_since is not None:
            self.held_since = Instant(self.held_since + by)

    def end(self, started: Instant | None, stood_still: Seconds, at: Instant) -> None:
        """A run of the job is over."""
        if started is not None:
            self.wall_time = Seconds(self.wall_time + max(0.0, at - started - stood_still))

    def add(self, how: InstanceEnd) -> None:
        """An attempt is over."""
        outcome = how.outcome
        used = outcome.usage
        self.used = self.used.after(used)
        lasted = outcome.lasted
        if lasted is not None and used.peak_memory:
            self.memory_time += (used.average_memory or used.peak_memory) * lasted
            self.measured_time = Seconds(self.measured_time + lasted)
        if how.state == "failed" and not self.failed_task:
            self.failed_task, self.failure = how.task, outcome.message
        if how.state != "queued" and not self.failed:
            code = outcome.exit_code if outcome.signal is None else BY_SIGNAL + outcome.signal
            if code is not None:
                self.exit_code, self.failed = code, how.state == "failed"
