"""What a policy answers: which jobs start or grow, and why each other job waits."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from itertools import chain
from types import MappingProxyType

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds

Shares = tuple[tuple[str, int], ...]
"""Node names with the processors taken on each, in the order they were taken."""


class Why(StrEnum):
    """The kind of reason why a job waits."""

    PRIORITY = "priority"  # jobs with a better turn go first
    PROCESSORS = "processors"  # too few free now
    NODE = "node"  # this node is out, for the reason given
    LICENCES = "licences"
    LIMIT = "limit"  # of its user or project; it holds up no other job
    RESERVATION = "reservation"  # it would delay the job that holds the reservation
    POLICY = "policy"  # no job may overtake
    DEPENDENCY = "dependency"
    HOLD = "hold"
    FILTER = "filter"  # a filter of the site does not let it, or has not answered
    PREEMPTION = "preemption"  # others are being preempted for it, or it was preempted itself
    ALTERNATIVE = "alternative"  # another request that it would do with does not help either, as it says
    SHARE = "share"  # others give up in its favour what they have beyond their minimum
    RESOURCE = "resource"  # it is for a resource with its own scheduler, which has not started it
    RESERVED = "reserved"  # nodes that it could have are kept for others, or it may run on these alone
    SWITCHES = "switches"  # enough is free, but under more leaf switches than it asks for, for now
    CONTIGUOUS = "contiguous"  # enough is free, but not on nodes beside each other
    STAGING = "staging"  # its input files are being copied to its nodes
    NEVER_FITS = "never-fits"  # not with the nodes there are


class Reason(msgspec.Struct, frozen=True, gc=False):
    """A reason why a job waits, as a sentence; `what` names the node, licence or job it is about."""

    why: Why
    text: str
    what: str = ""


class Start(msgspec.Struct, frozen=True, gc=False):
    """Start the job on these processors.  `ahead_of` is the job it overtakes, if it is backfilled.

    `option` is the request it was given: 0 its own, n the n-th of the others.  `parts` says, for a gang,
    which shares are for which part; together they are the allocation.  `lowered_limit` is the run time limit
    in seconds, if the job starts because of a lower one than it asks for: not below its minimum.
    """

    job: JobId
    allocation: Shares
    ahead_of: JobId | None = None
    option: int = 0
    parts: tuple[Shares, ...] = ()
    lowered_limit: Seconds | None = None

    def taken(self, request: JobRequest) -> JobRequest:
        """Return what the job is given of its request.  Raises:  IndexError when it has no such option."""
        return request.option(self.option, self.lowered_limit)


class Grow(msgspec.Struct, frozen=True, gc=False):
    """Give the running job more processors."""

    job: JobId
    allocation: Shares


class Recall(msgspec.Struct, frozen=True, gc=False):
    """Recall these processors in all from the running job; if empty, it keeps what was recalled before.

    The job releases them as its tasks end.  `immediate`: running tasks there are stopped, to run again.
    The processors are for `for_jobs`.
    """

    job: JobId
    allocation: Shares
    why: Reason
    immediate: bool = False
    for_jobs: tuple[JobId, ...] = ()


class Preempt(msgspec.Struct, frozen=True, gc=False):
    """Preempt the running job and requeue it; `for_job` gets its processors."""

    job: JobId
    for_job: JobId
    why: Reason


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A job that waits only for processors that others are giving up; they are kept for it until it starts.

    `allocation` is where it will start; `why` names the jobs that give up processors.
    """

    job: JobId
    allocation: Shares
    why: Reason
    option: int = 0


class Wait(msgspec.Struct, frozen=True, gc=False):
    """The jobs of one request wait, for these reasons."""

    reasons: tuple[Reason, ...]
    not_before: Instant = NEVER  # expected start of the first of them, where the plan gives one


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """The latest start of a blocked job if run time limits hold, and a placement that is possible then.

    `turn` and `request` are those for which it was given: a job that is modified loses it.
    """

    job: JobId
    at: Instant
    allocation: Shares
    turn: QueuePosition
    request: JobRequest
    option: int = 0  # which of its requests has the place; it may start with one that it prefers
    parts: tuple[Shares, ...] = ()  # of a gang, as in `Start`


class Plan(msgspec.Struct, frozen=True, gc=False):
    """The result of a pass.  Every queued job is in `starts`, or its request is in `waits`."""

    starts: tuple[Start, ...]
    grows: tuple[Grow, ...]
    waits: Mapping[JobRequest, Wait]
    reservations: tuple[Reservation, ...] = ()  # in turn order
    wake: Instant = NEVER  # when to plan again though nothing happens
    preempts: tuple[Preempt, ...] = ()
    recalls: tuple[Recall, ...] = ()
    claims: tuple[Claim, ...] = ()  # of jobs that are neither in `starts` nor in `waits`
    shares: Mapping[JobId, int] = {}  # in balanced mode: how many processors running jobs should have

    @property
    def reservation(self) -> Reservation | None:
        """The reservation of the first blocked job that has one."""
        return self.reservations[0] if self.reservations else None


LazyWait = Callable[[], Wait]
"""Says why, from what the pass left behind; always the same."""


class LazyReasons(Mapping[JobRequest, Wait]):
    """The reasons of each request with waiting jobs, computed on first use.

    `refused` are requests that the pass refused together: `why` says it of the number that each has there.
    """

    __slots__ = ("_lazy", "_refused", "_waits", "_why")

    def __init__(
        self,
        lazy: dict[JobRequest, LazyWait],
        refused: Mapping[JobRequest, int] = MappingProxyType({}),
        why: Callable[[int], Wait] | None = None,
    ) -> None:
        self._lazy, self._refused, self._why = lazy, refused, why
        self._waits: dict[JobRequest, Wait] = {}

    def __getitem__(self, request: JobRequest) -> Wait:
        wait = self._waits.get(request)
        if wait is None:
            number = None if self._why is None else self._refused.get(request)
            found = self._lazy[request]() if self._why is None or number is None else self._why(number)
            wait = self._waits[request] = found
        return wait

    def __contains__(self, request: object) -> bool:
        return request in self._lazy or request in self._refused

    def __iter__(self) -> Iterator[JobRequest]:
        return chain(self._lazy, self._refused)

    def __len__(self) -> int:
        return len(self._lazy) + len(self._refused)
