"""What the comparison found, in sentences; and the figures of each policy, in words."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from headnode.apps.cli.words import span
from headnode.apps.simulate.html.classes import spread, waits
from headnode.apps.simulate.html.differences import Difference, difference
from headnode.apps.simulate.simulation import Outcome, Simulation


class Finding(NamedTuple):
    """An outcome with what follows from it; `difference` is from the first outcome, which has none itself."""

    outcome: Outcome
    waits: Sequence[float]
    difference: Difference | None


def findings(simulation: Simulation) -> list[Finding]:
    """Look at every outcome."""
    first = simulation.outcomes[0]
    return [
        Finding(
            outcome,
            waits(simulation.log.workload, outcome.starts),
            None if outcome is first else difference(outcome.name, first.starts, outcome.starts),
        )
        for outcome in simulation.outcomes
    ]


def headlines(found: Sequence[Finding]) -> Iterator[str]:
    """Yield a sentence for each policy but the first; if there is only one, a sentence about that."""
    first = found[0]
    if len(found) == 1:
        yield _alone(first)
    for other in found[1:]:
        if other.difference is not None:
            yield _compared(first.outcome, other.outcome, other.difference)


def _alone(found: Finding) -> str:
    figures, middle = found.outcome.figures, spread(found.waits)
    return (
        f"Under {found.outcome.name}, jobs wait {span(figures.mean_wait)} on average, half of them no "
        f"longer than {span(middle.median)} and nine in ten no longer than {span(middle.ninth)}; "
        f"{percent(figures.utilisation)} of the processors are in use."
    )


def _compared(first: Outcome, other: Outcome, found: Difference) -> str:
    if not found.earlier and not found.later:
        return f"Under {other.name}, every job starts when it starts under {first.name}."
    jobs = len(found.changes)
    starts = (
        f"{share(found.earlier, jobs)} of the jobs start earlier than under {first.name} "
        f"and {share(found.later, jobs)} later"
    )
    wait = _moved("the mean wait", first.figures.mean_wait, other.figures.mean_wait, span)
    use = _moved("utilisation", first.figures.utilisation, other.figures.utilisation, percent)
    return f"Under {other.name}, {starts}; {wait}, and {use}."


def _moved(what: str, old: float, new: float, said: Callable[[float], str]) -> str:
    before, after = said(old), said(new)
    if before == after:
        return f"{what} stays at {after}"
    return f"{what} {'rises' if new > old else 'falls'} from {before} to {after}"


def percent(part: float) -> str:
    """Say a part of a whole.

    >>> percent(0.75828)
    '75.8 %'
    """
    return f"{part * 100:.1f} %"


def share(count: int, whole: int) -> str:
    """Say how many of all, such that nearly all is not all, and hardly any is not none.

    >>> share(0, 9), share(1, 900), share(7, 9), share(899, 900), share(9, 9)
    ('none', 'under 1 %', '78 %', 'over 99 %', 'all')
    """
    if count in (0, whole):
        return "none" if count == 0 else "all"
    rounded = round(count * 100 / whole)
    if rounded in (0, 100):
        return "under 1 %" if rounded == 0 else "over 99 %"
    return f"{rounded} %"
