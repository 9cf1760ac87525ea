"""What the report is about: the simulation, its dates, differences of policies, and findings."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from heapq import nlargest, nsmallest
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headnode.apps.readable_values import duration
from headnode.apps.simulate.report import JobClass, Spread, slowdowns, spread, waits
from headnode.apps.simulate.simulation import PolicyOutcome, Simulation
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import job_ends

DAY = 86400  # seconds
_HOUR = 3600
_LATEST = datetime(2200, 1, 1, tzinfo=UTC).timestamp()  # later dates are slips of the pen
_FARTHEST = 14 * 3600  # seconds that a time zone may be away from UTC


class LogCalendar(NamedTuple):
    """What a log's second 0 is called.

    Unit:  seconds since 1970, as the clocks on the wall beside the machine count them, for `zero`; None
           where the log tells no date.  `zone` names these clocks.
           A `brief` log is over within an hour: there, seconds count.
    """

    zero: float | None
    zone: str
    brief: bool = False

    @property
    def title(self) -> str:
        """What stands under a time axis."""
        return "time since the log's start" if self.zero is None else f"date ({self.zone})"

    def axis(self, seconds: float) -> float:
        """Return the place on a time axis: milliseconds since 1970, or days."""
        return seconds / DAY if self.zero is None else (self.zero + seconds) * 1000

    def width(self, seconds: float) -> float:
        """Return how long a span of time is on the axis."""
        return seconds / DAY if self.zero is None else seconds * 1000

    def time_text(self, seconds: float) -> str:
        """Say a point of time.

        >>> LogCalendar(None, "").time_text(90000), LogCalendar(0.0, "UTC").time_text(90000)
        ('day 1, 01:00', 'Fri 2 Jan 1970, 01:00')
        """
        if self.zero is None:
            days, rest = divmod(int(seconds), DAY)
            return f"day {days:,}, {rest // 3600:02}:{rest % 3600 // 60:02}" + self._second(rest % 60)
        when = datetime.fromtimestamp(self.zero + seconds, UTC)
        return f"{when:%a} {when.day} {when:%b %Y, %H:%M}" + self._second(when.second)

    def _second(self, second: int) -> str:
        return f":{second:02}" if self.brief else ""

    @property
    def midnight(self) -> float:
        """A second of the log at which a day begins, at or before its second 0."""
        return 0 if self.zero is None else -(self.zero % DAY)


def calendar(header: Mapping[str, str], first: float, last: float) -> LogCalendar:
    """Read the calendar of a log that goes from its second `first` to its second `last`.

    The difference from UTC is that of the log's first day, all year: clocks that are set back would show two
    jobs at once.

    Source:  "The Standard Workload Format": UnixStartTime, TimeZoneString, TimeZone (older, seconds).
    """
    began, brief = _seconds(header.get("UnixStartTime", "")), last - first < _HOUR
    # Logs that were made anonymous say 0; nobody had a cluster in 1970.
    if began is None or began <= 0 or began + last > _LATEST:
        return LogCalendar(None, "", brief)
    shift = datetime.fromtimestamp(began, UTC).astimezone(_zone(header)).utcoffset() or timedelta()
    return LogCalendar(began + shift.total_seconds(), timezone(shift).tzname(None), brief)


def _zone(header: Mapping[str, str]) -> tzinfo:
    try:
        return ZoneInfo(header["TimeZoneString"])
    except (KeyError, ValueError, OSError, ZoneInfoNotFoundError):
        shift = _seconds(header.get("TimeZone", "")) or 0
        return timezone(timedelta(seconds=shift)) if abs(shift) <= _FARTHEST else UTC


def _seconds(text: str) -> int | None:
    number = text.removeprefix("-")
    if not (number.isascii() and number.isdigit() and len(number) <= 15):
        return None
    return int(text)


_EDGES = (600, 3600, 21600, 86400, 604800)  # seconds
_BY = ("under 10 min", "10 to 60 min", "1 to 6 h", "6 to 24 h", "1 to 7 days", "over 7 days")
STEPS = (
    *(f"{by} earlier" for by in reversed(_BY)),
    "at the same time",
    *(f"{by} later" for by in _BY),
)


class StartDifference(NamedTuple):
    """How the starts under a policy differ from those under the first.

    Unit:  seconds for `changes`, one for each job, below 0 where it starts earlier.  `steps` counts the jobs
           of each of `STEPS`; the others count jobs.
    """

    policy: str
    changes: Sequence[float]
    earlier: int
    later: int
    steps: Sequence[int]


def difference(policy: str, first: Sequence[float], second: Sequence[float]) -> StartDifference:
    """Compare the starts under a policy, the second, with those under the first."""
    changes = [new - old for old, new in zip(first, second, strict=True)]
    steps = [0] * len(STEPS)
    for change in changes:
        steps[_step(change)] += 1
    middle = len(_BY)
    return StartDifference(policy, changes, sum(steps[:middle]), sum(steps[middle + 1 :]), steps)


def _step(change: float) -> int:
    by = bisect_right(_EDGES, abs(change))
    middle = len(_BY)
    return middle if change == 0 else middle + 1 + by if change > 0 else middle - 1 - by


def most_gaining(difference: StartDifference, most: int) -> list[int]:
    """Return the places of the jobs that start earlier by most, the most first."""
    places = nsmallest(most, range(len(difference.changes)), key=difference.changes.__getitem__)
    return [place for place in places if difference.changes[place] < 0]


def most_losing(difference: StartDifference, most: int) -> list[int]:
    """Return the places of the jobs that start later by most, the most first."""
    places = nlargest(most, range(len(difference.changes)), key=difference.changes.__getitem__)
    return [place for place in places if difference.changes[place] > 0]


class PolicyFinding(NamedTuple):
    """An outcome with what follows from it; `difference` is from the first outcome, which has none itself."""

    outcome: PolicyOutcome
    waits: Sequence[float]
    difference: StartDifference | None


def findings(simulation: Simulation) -> list[PolicyFinding]:
    """Look at every outcome."""
    first = simulation.outcomes[0]
    return [
        PolicyFinding(
            outcome,
            waits(simulation.log.workload, outcome.starts),
            None if outcome is first else difference(outcome.name, first.starts, outcome.starts),
        )
        for outcome in simulation.outcomes
    ]


class ClassSpreads(NamedTuple):
    """How a class of so many jobs fared: the spread of waits (seconds) and of slowdowns, for each policy."""

    name: str
    jobs: int
    waits: Sequence[Spread]
    slowdowns: Sequence[Spread]


def class_spreads(
    workload: Workload, classes: Sequence[JobClass], findings: Sequence[PolicyFinding]
) -> list[ClassSpreads]:
    """Return the spreads of each class."""
    waited = [one.waits for one in findings]
    slow = [slowdowns(workload, one.outcome.starts) for one in findings]
    return [
        ClassSpreads(one.name, len(one.places), *(_spreads(one, measure) for measure in (waited, slow)))
        for one in classes
    ]


def _spreads(of: JobClass, policies: Sequence[Sequence[float]]) -> list[Spread]:
    return [spread([values[job] for job in of.places]) for values in policies]


def headlines(findings: Sequence[PolicyFinding]) -> Iterator[str]:
    """Yield a sentence for each policy but the first; if there is only one, a sentence about that."""
    first = findings[0]
    if len(findings) == 1:
        yield _alone(first)
    for other in findings[1:]:
        if other.difference is not None:
            yield _compared(first.outcome, other.outcome, other.difference)


def _alone(finding: PolicyFinding) -> str:
    figures, middle = finding.outcome.figures, spread(finding.waits)
    return (
        f"Under {finding.outcome.name}, jobs wait {duration(figures.mean_wait)} on average, half of them no "
        f"longer than {duration(middle.median)} and nine in ten no longer than {duration(middle.ninth)}; "
        f"{percent(figures.utilisation)} of the processors are in use."
    )


def _compared(first: PolicyOutcome, other: PolicyOutcome, difference: StartDifference) -> str:
    if not difference.earlier and not difference.later:
        return f"Under {other.name}, every job starts when it starts under {first.name}."
    jobs = len(difference.changes)
    starts = (
        f"{share(difference.earlier, jobs)} of the jobs start earlier than under {first.name} "
        f"and {share(difference.later, jobs)} later"
    )
    wait = _moved_sentence("the mean wait", first.figures.mean_wait, other.figures.mean_wait, duration)
    use = _moved_sentence("utilisation", first.figures.utilisation, other.figures.utilisation, percent)
    return f"Under {other.name}, {starts}; {wait}, and {use}."


def _moved_sentence(what: str, old: float, new: float, text_of: Callable[[float], str]) -> str:
    before, after = text_of(old), text_of(new)
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


class Study(NamedTuple):
    """A simulation of the log of that name; `remarks` are sentences about what was left out of the log.

    Unit:  seconds on the log's clock for the `first` arrival and the `last` end under any policy.
    """

    name: str
    simulation: Simulation
    remarks: Sequence[str]
    calendar: LogCalendar
    findings: Sequence[PolicyFinding]
    first: float
    last: float

    @property
    def workload(self) -> Workload:
        """The jobs."""
        return self.simulation.log.workload

    @property
    def processors(self) -> int:
        """How many the machine has."""
        return self.simulation.log.processors

    @property
    def has_bars(self) -> bool:
        """Whether jobs can be drawn as bars: they keep their sizes."""
        return self.simulation.scene.asking.keeps_sizes

    @property
    def several(self) -> bool:
        """Whether there is anything to compare."""
        return len(self.findings) > 1


def study(name: str, simulation: Simulation, remarks: Sequence[str]) -> Study:
    """Look at a simulation."""
    work = simulation.log.workload
    last = max(max(job_ends(work, outcome.starts)) for outcome in simulation.outcomes)
    dates = calendar(simulation.log.header, work.submits[0], last)
    return Study(name, simulation, remarks, dates, findings(simulation), work.submits[0], last)
