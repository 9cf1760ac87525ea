"""The run time limits of what a shepherd runs, and the signals before they are over.

Standard library only: this is loaded by the shepherd factory."""

import heapq
import math
import os
from collections.abc import Iterable, Iterator

from headnode.adapters import process_tree
from headnode.adapters.processes.attempts import ShepherdAttempt
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.processes.remote_steps import RemoteStep

STEP_VARIABLE = b"SLURM_STEP_ID"  # in the environment of what `srun` has started
LAUNCHER = b"headnode.adapters.processes.launcher"  # in the command line of who waits for a command elsewhere


class RunLimits:
    """When the limits of the job and of its attempts are over; the job's is in seconds since the boot.

    A signal before them is (number, seconds before, target), see `core.model.signals`; None: there is none.
    """

    def __init__(self, deadline: float | None, warning: tuple[int, float, str] | None) -> None:
        self._deadline, self._warning = deadline, warning
        self._warned: float | None = None  # the deadline before which the job has had its signal
        self._over: list[tuple[float, Key]] = []  # heaps, on the monotonic clock
        self._due: list[tuple[float, Key]] = []

    @property
    def warning(self) -> tuple[int, str]:
        """The signal, and its target."""
        number, _, target = self._warning or (0, 0.0, "")
        return number, target

    def move(self, deadline: float | None) -> None:
        """Let the job have another deadline."""
        self._deadline = deadline

    def begins(self, attempt: ShepherdAttempt, now: float) -> None:
        """Count the limit of an attempt that starts."""
        if attempt.limit is None:
            return
        heapq.heappush(self._over, (now + attempt.limit, attempt.key))
        if self._warning is not None and attempt.limit > self._warning[1]:
            heapq.heappush(self._due, (now + attempt.limit - self._warning[1], attempt.key))

    def delay(self, stood_still: float) -> None:
        """Count no time in which everything stood still."""
        for heap in (self._over, self._due):
            heap[:] = [(at + stood_still, key) for at, key in heap]

    def next_look(self, now: float, since_boot: float) -> float:
        """Return when something is due, on the monotonic clock."""
        if self._deadline is None and not self._over and not self._due:
            return math.inf
        moments = [heap[0][0] for heap in (self._over, self._due) if heap]
        if self._deadline is not None:
            moments.append(now + self._deadline - since_boot)
            if (warned_at := self._job_warned_at()) is not None:
                moments.append(now + warned_at - since_boot)
        return min(moments, default=math.inf)

    def take_over(self, now: float) -> Iterator[Key]:
        """Yield the attempts whose own limits are over."""
        while self._over and self._over[0][0] <= now:
            yield heapq.heappop(self._over)[1]

    def take_deadline(self, since_boot: float) -> bool:
        """Return whether the limit of the job is over; once."""
        over = self._deadline is not None and since_boot >= self._deadline
        if over:
            self._deadline = None
        return over

    def take_due(self, now: float, since_boot: float) -> Iterator[list[Key] | None]:
        """Yield the attempts that are to get the signal now; None: all of the job is."""
        warned_at = self._job_warned_at()
        if warned_at is not None and since_boot >= warned_at:
            self._warned = self._deadline
            yield None
        while self._due and self._due[0][0] <= now:
            yield [heapq.heappop(self._due)[1]]

    def _job_warned_at(self) -> float | None:
        """Return when the job is to get its signal, since the boot; None: it has it, or gets none."""
        if self._deadline is None or self._warning is None or self._warned == self._deadline:
            return None
        return self._deadline - self._warning[1]


def send_signal(
    attempts: Iterable[ShepherdAttempt], steps: Iterable[RemoteStep], number: int, target: str
) -> int:
    """Send a signal to the processes of attempts, and to what they launched here; return to how many.

    target:  ``all``; ``program``: the first process of each attempt; ``steps``: what `srun` has started
    """
    picture = process_tree.picture()
    found: set[int] = set()
    for attempt in attempts:
        if attempt.usage is None:  # else its program has ended
            found |= _targets(attempt.process, attempt.processes(picture), target)
    if target != "program":
        for step in steps:
            own = step.processes(picture) - set(step.parents)  # not ours, which carry their streams
            found |= _targets(0, own, target)
    process_tree.send(found & picture.keys(), number)
    return len(found & picture.keys())


def _targets(program: int, processes: set[int], target: str) -> set[int]:
    if target == "program":
        return {program}
    if target == "steps":
        processes = {each for each in processes if process_tree.has_variable(each, STEP_VARIABLE)}
    # What a launcher waits for gets the signal on its own node, and would be ended with the launcher.
    return {each for each in processes - {os.getpid()} if not process_tree.has_word(each, LAUNCHER)}
