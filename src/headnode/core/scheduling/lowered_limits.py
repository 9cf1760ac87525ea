"""Jobs with a minimum of their run time limit: the highest limit with which such a job can start now.

A job that cannot start with its own limit starts with a lower one if it is over early enough then: before a
reservation of another job, or before its nodes close or are reserved.  It gets no lower limit than it needs.

Source:  sbatch(1), `--time-min`.
"""

from collections.abc import Callable, Iterable
from math import floor, inf

from headnode.core.model.quantities import Seconds
from headnode.core.scheduling.candidates import Candidate, at_lowest_limit, with_limit
from headnode.core.scheduling.free_resources import Placement
from headnode.core.scheduling.limit_checks import times_within_limits
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import instants_of
from headnode.core.scheduling.view import View

Ask = Callable[[Candidate], Placement | None]
"""Returns the placement of a job that starts now, or None if it cannot."""


def start_lowered(
    options: Iterable[Candidate], view: View, node_table: NodeTable, ask: Ask, due: Iterable[float]
) -> tuple[Candidate, Placement] | None:
    """Return the job with the highest limit with which it can start under its first option that allows one.

    due:     when reservations of other jobs begin
    Cost:    one placement for each option if it cannot start; else O(log(instants)) more
    """
    for option in options:
        least = at_lowest_limit(option, view.now, node_table)
        found = None if least is option else ask(least)
        if found:
            return _raised(option, (least, found), view, node_table, ask, due)
    return None


def _raised(
    option: Candidate,
    best: tuple[Candidate, Placement],
    view: View,
    node_table: NodeTable,
    ask: Ask,
    due: Iterable[float],
) -> tuple[Candidate, Placement]:
    """Return the job with the highest limit, by bisection: what has room for longer has room for less."""
    limits = _limits(option, view, node_table, due)
    low, high = 0, len(limits)
    while low < high:
        middle = (low + high) // 2
        higher = with_limit(option, limits[middle], view.now, node_table)
        found = ask(higher)
        if found:
            best, low = (higher, found), middle + 1
        else:
            high = middle
    return best


def _limits(option: Candidate, view: View, node_table: NodeTable, due: Iterable[float]) -> list[Seconds]:
    """Return the limits between the lowest and its own with which something in its way is avoided.

    In whole seconds, ascending.
    """
    asked = option.asks
    spans = {at - view.now for at in due}
    if node_table.changes:
        spans.update(node_table.open_for)
        spans |= instants_of(node_table.reserved)
    if asked.limits:
        spans |= times_within_limits(asked, view)
    whole = {Seconds(float(floor(span))) for span in spans if span < inf}
    return sorted(limit for limit in whole if asked.least_run_time < limit < asked.run_time)
