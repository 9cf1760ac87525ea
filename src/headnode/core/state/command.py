"""The base of all commands, and what a node reports of one attempt that is over."""

import msgspec

from headnode.core.model.outcome import AttemptOutcome


class Command(msgspec.Struct, frozen=True, gc=False):
    """A request to change the state of the cluster."""


AttemptKey = tuple[int, int, int, int]
"""Job, task, instance and attempt."""


class AttemptReport(msgspec.Struct, frozen=True, gc=False):
    """The report of a node about one attempt that has ended."""

    task: int
    instance: int
    attempt: int
    outcome: AttemptOutcome
