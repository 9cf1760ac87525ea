"""A call of a filter, and what came back: the same for programs and plug-ins."""

from typing import Literal

import msgspec

from headnode.core.filtering.answer import Answer
from headnode.core.filtering.registration import Filter

Kind = Literal["submission", "revert-submission", "activation", "revert-activation"]


class Offered(msgspec.Struct, frozen=True):
    """What an activation filter is told of an offer, in the order of its arguments.

    `offer` is its number; a call that undoes has the same.
    """

    scheduler_pass: int
    job_index: int
    backfill: bool
    resource_count: int
    offer: int = 0

    def arguments(self) -> list[str]:
        """Return them as a program gets them behind the path of the job."""
        backfill = "true" if self.backfill else "false"
        return [str(self.scheduler_pass), str(self.job_index), backfill, str(self.resource_count)]


class Call(msgspec.Struct, frozen=True):
    """One call: `paper` is the job in the dialect of the filter's registration.

    `change`: it is about a change to a job that was submitted before.
    """

    filter: Filter
    kind: Kind
    job: int
    paper: bytes
    seconds: float
    offered: Offered | None = None
    change: bool = False


class Returned(msgspec.Struct, frozen=True):
    """What a call came to; `paper` is the job as the filter left it, None when it is not there any more."""

    answer: Answer
    paper: bytes | None = None
