"""What a job may take: all there is for it, or what leaves those who wait their promises."""

from collections.abc import Iterator

from headnode.core.scheduling.board import Fit
from headnode.core.scheduling.need import Need
from headnode.core.scheduling.placement import fewest, fit
from headnode.core.scheduling.standing import Standing
from headnode.core.scheduling.wishes import Wish


def room(standing: Standing, wish: Wish) -> Fit | None:
    """Return what there is for a job before which nobody waits."""
    return fit(wish.need, standing.board) if standing.may_fit(wish.need) else None


def without_delay(standing: Standing, wish: Wish) -> Fit | None:
    """Return what a job may take: all it can, or less or elsewhere so that every head keeps its promise."""
    if not standing.may_fit(wish.need) or standing.surely_delays(wish):
        return None
    fits = fit(wish.need, standing.board)
    if fits is None or standing.in_time(wish) or not standing.promises():
        return fits
    if standing.still_promised(wish, fits):
        return fits
    for found in _more_modest(standing, wish.need):
        if standing.still_promised(wish, found):
            return found
    return None


def _more_modest(standing: Standing, need: Need) -> Iterator[Fit]:
    """Yield what is left when the promised pieces are spared, then the bare minimum in resource order."""
    beside = standing.spared()
    spared = fit(need, beside) if beside is not None else None
    if spared:
        yield spared
    least = fit(fewest(need), standing.board)
    if least:
        yield least
