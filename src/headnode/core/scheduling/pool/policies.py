"""The policies over a pool by the names an administrator writes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.conservative import Conservative
from headnode.core.scheduling.pool.conservative_replan import ConservativeReplan
from headnode.core.scheduling.pool.easy import EasyBackfill
from headnode.core.scheduling.pool.fcfs import FirstComeFirstServed
from headnode.core.scheduling.pool.policy import ForkablePolicy, PoolPolicy
from headnode.core.scheduling.pool.ties import Ties


class PolicyMaker(Protocol):
    """Makes a policy for one replay."""

    def __call__(self, workload: Workload, processors: int, ties: Ties, /) -> PoolPolicy:
        """Return the policy before the first job; `processors` is the size of the pool."""


class ForkablePolicyMaker(Protocol):
    """Makes a policy that can be run ahead."""

    def __call__(self, workload: Workload, processors: int, ties: Ties, /) -> ForkablePolicy:
        """Return the policy before the first job; `processors` is the size of the pool."""


POLICIES: Mapping[str, ForkablePolicyMaker] = MappingProxyType(
    {
        "fcfs": FirstComeFirstServed,
        "easy": EasyBackfill,
        "conservative": Conservative,
        "conservative-replan": ConservativeReplan,
    }
)
