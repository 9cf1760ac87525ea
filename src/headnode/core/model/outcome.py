"""How one attempt of a task ended, and what it used: the same structure from the shepherd to the archive.

A shepherd fills it in.  Its journal, the messages to the head, the command, the event, the archive and the
totals of the job contain it as it is, so a further measured value is a further field of `ResourceUsage`.
Standard library only: this is loaded by the shepherd factory."""

from collections.abc import Sequence
from operator import add
from typing import Literal, NamedTuple

from headnode.core.model.quantities import Instant, Seconds

Ending = Literal["exited", "timed-out", "stopped", "not-started", "never-ran", "lost", "not-staged"]
"""How an attempt ended, as its node has it.

``exited``       the program ended by itself: exit code or signal says how
``timed-out``    it was killed for a limit that its shepherd enforces: run time, or `rss`
``stopped``      it was killed because the head asked
``not-started``  it could not be started
``never-ran``    it was taken back before it started
``lost``         its shepherd died: the result is unknown, but it does not run any more
``not-staged``   its files could not be brought, so it was not started, or its results were not taken away
"""


AttemptOfTask = tuple[int, int, int]
"""An attempt of a job: task, instance, attempt."""

ExitCodes = Sequence[tuple[int, int]]
"""Inclusive ranges of exit codes."""


class ResourceUsage(NamedTuple):
    """The resources used by the processes of an attempt; 0 means unknown.

    Source: getrusage(2), proc(5); memory is sampled.
    """

    user_time: float = 0.0  # seconds
    system_time: float = 0.0  # seconds
    peak_memory: int = 0  # kB, the most at once
    average_memory: int = 0  # kB, the mean over the time it ran
    bytes_read: int = 0
    bytes_written: int = 0

    def after(self, usage: "ResourceUsage") -> "ResourceUsage":
        """Return both together, one after the other on the same node: memory is that of the larger one."""
        if usage == NOT_MEASURED:
            return self
        if self == NOT_MEASURED:
            return usage
        peak = max(self.peak_memory, usage.peak_memory)
        average = max(self.average_memory, usage.average_memory)
        return self.beside(usage)._replace(peak_memory=peak, average_memory=average)

    def beside(self, usage: "ResourceUsage") -> "ResourceUsage":
        """Return both together, on different nodes at the same time: all values are added."""
        return ResourceUsage(*map(add, self, usage))

    def counts(self) -> dict[str, int]:
        """Return what is neither a time nor memory, by name."""
        return {name: value for name, value in self._asdict().items() if name not in NOT_COUNTS}


NOT_MEASURED = ResourceUsage()
NOT_COUNTS = frozenset({"user_time", "system_time", "peak_memory", "average_memory"})


class TransferUsage(NamedTuple):
    """The time that the transfers of an attempt took, and the bytes that were transferred.

    Times are in seconds, from the first transfer to the end of the last; they are no part of its run time.
    """

    in_time: float = 0.0
    in_bytes: int = 0
    out_time: float = 0.0
    out_bytes: int = 0


class AttemptOutcome(NamedTuple):
    """The outcome of one attempt.

    After ``exited`` either `exit_code` or `signal` is set.  `message` says why and what to do; `fault` is a
    word of `core.model.faults` if the attempt could not be started.
    """

    kind: Ending
    exit_code: int | None = None
    signal: int | None = None
    started: Instant | None = None
    ended: Instant | None = None
    message: str = ""
    fault: str = ""
    usage: ResourceUsage = ResourceUsage()
    transfers: TransferUsage | None = None  # None: nothing was staged

    @property
    def never_began(self) -> bool:
        """Whether its program was not started, so that it has written nothing."""
        return self.started is None and self.kind in ("never-ran", "not-started", "not-staged")

    @property
    def lasted(self) -> Seconds | None:
        """How long it ran; None if that is not known.  Its node's clock may have been set back."""
        if self.started is None or self.ended is None:
            return None
        lasted = self.ended - self.started
        return Seconds(lasted if lasted > 0.0 else 0.0)


def ended_well(outcome: AttemptOutcome, valid: ExitCodes) -> bool:
    """Return whether an attempt succeeded: its program ended by itself, with an exit code that is valid.

    The head decides by this, and a node that starts a task after its parents.
    """
    code = outcome.exit_code
    if outcome.kind != "exited" or code is None or outcome.signal is not None:
        return False
    return any(low <= code <= high for low, high in valid)


class RemoteUsage(NamedTuple):
    """The resources used by an attempt on one of its other nodes.

    `message` is a sentence if it had too little memory there or reached a limit.
    """

    usage: ResourceUsage = ResourceUsage()
    message: str = ""

    def after(self, usage: "RemoteUsage") -> "RemoteUsage":
        """Return both together, one after the other on the same node."""
        return RemoteUsage(self.usage.after(usage.usage), self.message or usage.message)
