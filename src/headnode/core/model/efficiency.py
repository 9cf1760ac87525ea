"""How much of its request a job used, and a smaller request for the next such job.

Shares are of 1: 0.5 is half.  Times are in seconds, requested memory in MB, measured memory in kB.
Sources: Slurm, contribs/seff: processor time by that of the allocation.  R. L. Graham, "Bounds on
multiprocessing timing anomalies", 1969: work W that takes the time T takes at most T + W / p on p processors.
"""

from math import ceil
from typing import NamedTuple

from headnode.core.model.quantities import FOREVER, Seconds

MARGIN = 1.5  # a suggested request is so many times what was used, rounded up
WORTHWHILE = 0.8  # a time limit or memory is suggested if it is at most so much of the request
MIN_RUN_TIME = Seconds(10.0)  # measured values of shorter jobs say little about the next one
MINUTE = Seconds(60.0)
MIN_MEMORY = 100  # MB of a task: the kernel may count its libraries for another task that uses them too


class ResourceUse(NamedTuple):
    """What a job requested, what it held and what it used, in runs and attempts that are over."""

    processors: int  # the most that it held at once; 0: it never started here
    processor_time: Seconds | None  # in user and system mode; None: nothing was measured
    wall_time: Seconds  # of all runs, without the time in which it was suspended
    run_time: Seconds  # of its last run
    held_time: float  # processor seconds that it held; less than all the time, if it released some early
    limit: Seconds = FOREVER  # of its run time
    peak: int = 0  # kB, the peak of the task with the largest; 0: not measured
    memory: int = 0  # MB, requested for each processor; 0: none
    node_memory: int = 0  # MB, requested on each node beside that; 0: none
    task_processors: int = 0  # of the task with the peak; 0: not known
    on_one_node: bool = True  # every task had the processors of one node only
    fewest: int = 0  # processors that may be suggested; 0: no other number may be
    next_processors: int = 1  # that the next run may get, if the size stays: its minimum
    one_task: bool = False
    obstacle: str = ""  # why no smaller request is safe; empty: nothing is known against it


class SmallerRequest(NamedTuple):
    """A request that would have been enough with a margin; None: as before."""

    processors: int | None = None
    run_time: Seconds | None = None  # whole minutes
    process_memory: int | None = None  # MB, for each processor


class JobShares(NamedTuple):
    """What a job used of what it held and requested; None: not measured, or nothing to compare with."""

    processors: float | None
    memory: float | None
    run_time: float | None
    unused: Seconds | None  # processor seconds that it held and did not use


_MIN_WHOLE = 1e-9


def share(used: float, whole: float) -> float | None:
    """Return which share of the whole was used; None if there is no whole.

    No clock measures a whole of less than a nanosecond; dividing by it might give infinity.

    >>> share(30.0, 60.0), share(1.0, 0.0), share(1.0, 5e-324)
    (0.5, None, None)
    """
    return used / whole if whole >= _MIN_WHOLE else None


def shares_of(job: ResourceUse) -> JobShares:
    """Return what a job used of what it held and requested."""
    held = job.held_time
    used = job.processor_time
    return JobShares(
        processors=None if used is None else share(used, held),
        memory=share(job.peak, 1024 * _requested_memory(job)) if job.peak else None,
        run_time=None if job.limit == FOREVER or not job.run_time else share(job.run_time, job.limit),
        unused=None if used is None or not held else Seconds(max(0.0, held - used)),
    )


def _requested_memory(job: ResourceUse) -> int:
    """Return the MB that the task with the peak requested; 0 if that is not known."""
    if job.memory and not job.task_processors:
        return 0
    node_memory = job.node_memory if job.on_one_node else 0
    return job.memory * job.task_processors + node_memory


def smaller_request(job: ResourceUse) -> SmallerRequest | None:
    """Return a smaller request for the next such job; None if there is none that is safe and worthwhile.

    It is never below what was used.
    """
    if why_no_suggestion(job):
        return None
    processors = _processors(job)
    smaller = SmallerRequest(processors, _run_time(job, processors), _memory(job, processors))
    return None if smaller == SmallerRequest() else smaller


def why_no_suggestion(job: ResourceUse) -> str:
    """Return why no smaller request can be derived; empty if one can."""
    if job.obstacle:
        return job.obstacle
    if not job.processors or job.processor_time is None:
        return "nothing was measured"
    if max(job.run_time, job.wall_time) < MIN_RUN_TIME:
        return f"it ran for less than {MIN_RUN_TIME:.0f} s"
    return ""


def _processors(job: ResourceUse) -> int | None:
    """Return how many processors are enough, by those in use on average."""
    if not job.fewest or not job.wall_time or job.processor_time is None:
        return None
    enough = max(job.fewest, 1, ceil(MARGIN * job.processor_time / job.wall_time))
    return enough if enough < job.processors else None


def _run_time(job: ResourceUse, processors: int | None) -> Seconds | None:
    """Return how long the job may need, perhaps on fewer processors than it held; in whole minutes."""
    fewer = processors or min(job.processors, job.next_processors)
    longest = max(job.run_time, job.wall_time)
    if fewer < job.processors:
        busy = job.processor_time if job.one_task else None
        longest = Seconds(longest + (job.held_time if busy is None else busy) / max(1, fewer))
    enough = Seconds(max(1, ceil(MARGIN * longest / MINUTE)) * MINUTE)
    return enough if enough <= WORTHWHILE * job.limit else None


def _memory(job: ResourceUse, processors: int | None) -> int | None:
    """Return how much memory each processor needs, if the job requested any.

    On fewer processors, each has a larger part of it.
    """
    if not job.memory:
        return None
    peak = ceil(job.peak / 1024)
    enough = max(MIN_MEMORY, ceil(MARGIN * job.peak / 1024))
    if processors is not None:
        whole = job.memory * job.processors
        return ceil(max(peak, min(whole, enough) if job.peak else whole) / processors)
    if not job.peak or not job.task_processors or not job.on_one_node:
        return None
    each = ceil(enough / job.task_processors)
    return each if each <= WORTHWHILE * job.memory else None
