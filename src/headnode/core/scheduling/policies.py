"""The scheduling policies by the names an administrator writes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from headnode.core.scheduling import conservative, easy_backfill, priority_fcfs
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.view import View


class Policy(Protocol):
    """A function from what is, to what should happen, with a reason for every job that waits."""

    def __call__(self, view: View, /) -> Plan:
        """Decide about every queued job.  Same view, same plan; touches nothing."""


DEFAULT = "easy"
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "easy": easy_backfill.plan,
        "fcfs": priority_fcfs.plan,
        "conservative": conservative.plan,
        "conservative-replan": conservative.plan_anew,
    }
)
