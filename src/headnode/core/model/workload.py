"""Past jobs to be scheduled again: arrival, run time and request of each."""

from collections.abc import Sequence
from typing import NamedTuple


class Workload(NamedTuple):
    """Jobs in columns of equal length, one row for each job, sorted by submit time, then number.

    Unit:  seconds from the start of the log for `submits`; seconds for `run_times` and `estimates`; MB for
           each processor for `memories`.

    A run time is positive and never longer than its estimate; processors are at least one.  A memory of 0 is
    unknown, as are a user, a name, a group and a queue of "".  Columns that have a default may be empty: then
    nothing of the kind is known.
    """

    numbers: Sequence[int]
    submits: Sequence[float]
    run_times: Sequence[float]
    estimates: Sequence[float]
    processors: Sequence[int]
    memories: Sequence[int] = ()
    users: Sequence[str] = ()
    names: Sequence[str] = ()
    groups: Sequence[str] = ()
    queues: Sequence[str] = ()
