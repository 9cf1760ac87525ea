"""Jobs to wait for that are known by another word than their id: by name, or by the id their submitter gave.

The head replaces them by ids when the job is made.  A job that still has one is never queued.
Source: SSS 3.1.0, "Dependency" (attributes condition and designator).
"""

from enum import StrEnum

import msgspec


class Condition(StrEnum):
    """What must have become of the job that is waited for."""

    ON_START = "OnStart"
    ON_SUCCESS = "OnSuccess"
    ON_FAILURE = "OnFailure"
    ON_EXIT = "OnExit"


class NamedParent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """A job to wait for: the newest job of the same owner that is called so."""

    called: str
    by_id: bool = False  # `called` is the Id that the job was submitted with, not its name
    condition: Condition = Condition.ON_SUCCESS

    def __str__(self) -> str:
        """Return how messages call it."""
        return f"the id {self.called!r}" if self.by_id else f"the name {self.called!r}"
