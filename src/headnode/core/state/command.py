"""The base of all commands, and what a node reports of one attempt that is over."""

import msgspec

from headnode.core.model.outcome import AttemptOutcome


class Command(msgspec.Struct, frozen=True, gc=False):
    """Anything wished for."""


AttemptKey = tuple[int, int, int, int]
"""Job, task, instance and attempt."""


class AttemptReport(msgspec.Struct, frozen=True, gc=False):
    """What a node says of one attempt that is over."""

    task: int
    instance: int
    attempt: int
    outcome: AttemptOutcome
