"""Which GPUs of this node each attempt has.

The head guarantees the numbers; which ones is decided here.  Attempts that wait one behind the other for the
same processors have the same GPUs: only one of them runs.  A file says it to the next agent.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from headnode.adapters.processes.gpus import MachineGpus
from headnode.adapters.processes.job_journal import Key
from headnode.core.launching.gpus import counts_gpus, gpu_variables, has_all_gpus
from headnode.core.model import faults
from headnode.core.model.errors import Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")

BESIDE: Key = (0, 0, 0)  # the attempt of what runs beside the tasks of a job


class GpuOwner(NamedTuple):
    """An attempt, or with `BESIDE` everything that runs beside the tasks of a job."""

    job: JobId
    key: Key


class GpuAssignment(msgspec.Struct, frozen=True, array_like=True):
    """The GPUs of an owner.

    `lane` is where the owner runs; owners in the same lane run one after the other, and have the same GPUs.
    `apart`: no other task of its job has them.  `counted`: no other job has them, because the head counts
    them; it does not for jobs that have nodes for themselves, also while these are suspended.
    """

    job: JobId
    key: Key
    lane: str
    apart: bool
    counted: bool
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class GpuRequest:
    """Attempts of a job that run one after the other, and the GPUs that each has if the job counts them."""

    job: JobId
    spec: JobSpec
    keys: Sequence[Key]
    lane: str
    count: int


KeepApart = Callable[[JobId, Mapping[JobId, frozenset[int]]], None]
"""Lets the processes of a job open its GPUs alone; it is told those of all jobs."""


class GpuAssignments:
    """The GPUs of this node, and the attempts that have them."""

    def __init__(
        self, gpus: MachineGpus, file: Path, in_use: Callable[[GpuAssignment], bool], keep_apart: KeepApart
    ) -> None:
        """`in_use` tells whether something of the owner of an assignment waits or runs here."""
        self._gpus, self._file, self._in_use, self._keep_apart = gpus, file, in_use, keep_apart
        self._assigned: dict[GpuOwner, GpuAssignment] = {}
        self.count = len(gpus.names)

    def restore(self) -> None:
        """Learn what an earlier agent has given."""
        try:
            assignments = msgspec.json.decode(self._file.read_bytes(), type=list[GpuAssignment])
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            log.error("it is not known which tasks have which GPUs: %s", error)
            return
        self._assigned = {GpuOwner(one.job, one.key): one for one in assignments}

    def variables(self, request: GpuRequest) -> dict[str, str]:
        """Give these attempts GPUs if they have none yet; return their variables.

        Raises:  Unavailable ``gpus-held``; OSError when this cannot be written for the next agent.
        """
        if not self.count:
            return {}
        numbers = () if request.job < 0 else self._numbers(request)
        self.confine(request.job)
        if request.job < 0:
            return {}
        names = [self._gpus.names[number] for number in numbers if number < self.count]
        return gpu_variables(request.spec.dialect, self._gpus.vendor, numbers, names)

    def confine(self, job: JobId) -> None:
        """Let the processes of a job open no GPUs but its own.

        Raises:  OSError.
        """
        gpus: dict[JobId, frozenset[int]] = {}
        for one in self._assigned.values():
            gpus[one.job] = gpus.get(one.job, frozenset()).union(one.gpus)
        self._keep_apart(job, gpus)

    def _numbers(self, request: GpuRequest) -> tuple[int, ...]:
        job, spec = request.job, request.spec
        if not counts_gpus(spec) and not has_all_gpus(spec):
            return ()
        self._assigned = {owner: one for owner, one in self._assigned.items() if self._in_use(one)}
        beside = tuple(request.keys) == (BESIDE,)
        apart = counts_gpus(spec) and not beside
        numbers = None if beside else self._known(request)
        if numbers is None and counts_gpus(spec):
            wanted = min(request.count, self.count)
            numbers = self._beside(job, wanted) if beside else self._next(job, wanted, spec.exclusive)
        elif numbers is None:
            numbers = tuple(number for number in range(self.count) if number not in self._counted(job))
        counted = apart and not spec.exclusive
        assignments = [GpuAssignment(job, key, request.lane, apart, counted, numbers) for key in request.keys]
        fresh = {GpuOwner(job, one.key): one for one in assignments}
        if any(self._assigned.get(owner) != one for owner, one in fresh.items()):
            self._assigned |= fresh
            self._keep()
        return numbers

    def _known(self, request: GpuRequest) -> tuple[int, ...] | None:
        """Return the GPUs that the attempts have already: one of them, or another in their lane."""
        for one in self._assigned.values():
            if one.job != request.job or one.key == BESIDE:
                continue
            if one.lane == request.lane or one.key in request.keys:
                return one.gpus
        return None

    def _counted(self, job: JobId) -> set[int]:
        """Return the GPUs that the head counts for tasks of other jobs."""
        others = (one for one in self._assigned.values() if one.counted and one.job != job)
        return {number for one in others for number in one.gpus}

    def _apart(self, job: JobId) -> set[int]:
        """Return the GPUs that tasks of a job have, and no others of its tasks."""
        own = (one for one in self._assigned.values() if one.apart and one.job == job)
        return {number for one in own for number in one.gpus}

    def _next(self, job: JobId, count: int, alone: bool) -> tuple[int, ...]:
        """Return the GPUs for a task; `alone`: what others have is of suspended jobs."""
        taken = self._apart(job) if alone else self._apart(job) | self._counted(job)
        free = [number for number in self._in_order(job) if number not in taken]
        if len(free) < count:
            raise Unavailable(
                code=faults.GPUS_HELD,
                what=f"the node has {len(free)} free GPUs, not {count}: other tasks have not ended yet",
                fix="the task is tried again",
            )
        return tuple(sorted(free[:count]))

    def _in_order(self, job: JobId) -> list[int]:
        """Return all GPUs in the order in which a job takes them.

        Those that it uses beside its tasks come first, then the lowest that no other job has, then those of
        jobs for which the head counts none.
        """
        beside, others = set[int](), set[int]()
        for one in self._assigned.values():
            (beside if one.job == job else others).update(one.gpus)
        counted = self._counted(job)
        return sorted(range(self.count), key=lambda n: (n in counted, n in others, n not in beside, n))

    def _beside(self, job: JobId, count: int) -> tuple[int, ...]:
        """Return the GPUs of all tasks of a job, and as many free ones as it may use more."""
        own, counted = self._apart(job), self._counted(job)
        free = [number for number in self._in_order(job) if number not in own | counted]
        return tuple(sorted((*own, *free[: max(0, count - len(own))])))

    def _keep(self) -> None:
        scratch = self._file.with_suffix(".new")
        scratch.write_bytes(msgspec.json.encode(list(self._assigned.values())))
        scratch.replace(self._file)
