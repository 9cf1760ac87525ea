"""A simulation as rows for people and documents for programs; what became of jobs by size, run time and
priority.
"""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from statistics import fmean
from typing import Any, NamedTuple

from headnode.apps.readable_values import duration
from headnode.apps.simulate.machine import SimulatedMachine
from headnode.apps.simulate.simulation import PolicyOutcome, Simulation
from headnode.core.formats.swf import RemarkCount, SwfLog
from headnode.core.model.quantities import Priority, format_priority
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import TAU

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.simulate.engine_replay import PreemptionCost  # it imports the engine: 30 ms
    from headnode.apps.simulate.limit_waits import LimitWaits

_RUN_TIMES = (
    (60, "under 1 min"),
    (600, "1 to 10 min"),
    (3600, "10 min to 1 h"),
    (21600, "1 to 6 h"),
    (86400, "6 h to a day"),
)
_LONGER = "over a day"


class JobClass(NamedTuple):
    """Jobs of a kind: its name and their places in the workload."""

    name: str
    places: Sequence[int]


class Spread(NamedTuple):
    """At least half of the values are no larger than `median`, nine in ten no larger than `ninth`."""

    median: float
    ninth: float


def waits(workload: Workload, starts: Sequence[float]) -> list[float]:
    """Return the wait of each job in seconds."""
    return [start - submit for submit, start in zip(workload.submits, starts, strict=True)]


def slowdowns(workload: Workload, starts: Sequence[float]) -> list[float]:
    """Return the bounded slowdown of each job."""
    return [
        max(1.0, (wait + run_time) / max(run_time, TAU))
        for wait, run_time in zip(waits(workload, starts), workload.run_times, strict=True)
    ]


def by_size(workload: Workload) -> list[JobClass]:
    """Divide the jobs by their processors: 1, 2, 3 to 4, 5 to 8 and so on."""
    largest = max(workload.processors)
    return _divided(workload.processors, _size_rank, lambda rank: _size_name(rank, largest))


def by_run_time(workload: Workload) -> list[JobClass]:
    """Divide the jobs by the time they ran."""
    return _divided(workload.run_times, _run_time_rank, _run_time_name)


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of values, of which there is one at least."""
    ordered = sorted(values)
    return Spread(ordered[ceil(len(ordered) * 0.5) - 1], ordered[ceil(len(ordered) * 0.9) - 1])


def _divided(
    sizes: Sequence[float], rank: Callable[[float], int], name: Callable[[int], str]
) -> list[JobClass]:
    divided: dict[int, list[int]] = {}
    for place, size in enumerate(sizes):
        divided.setdefault(rank(size), []).append(place)
    return [JobClass(name(key), divided[key]) for key in sorted(divided)]


def _size_rank(processors: float) -> int:
    return (int(processors) - 1).bit_length()


def _size_name(rank: int, largest: int) -> str:
    least, most = (1 << rank) // 2 + 1, min(1 << rank, largest)
    return f"{most:,}" if least >= most else f"{least:,} to {most:,}"


def _run_time_rank(seconds: float) -> int:
    return next((rank for rank, (limit, _) in enumerate(_RUN_TIMES) if seconds < limit), len(_RUN_TIMES))


def _run_time_name(rank: int) -> str:
    return _RUN_TIMES[rank][1] if rank < len(_RUN_TIMES) else _LONGER


ALL = "all"
_HOUR = 3600


class PriorityFigures(NamedTuple):
    """Of all jobs of a priority.  Times in seconds.

    `mean_first_wait` is until a job began for the first time; `mean_wait` all that it took beyond its run
    time, so what it lost by being stopped, and by fewer processors than its own, counts as waiting.
    `jobs_returned` went back to the queue for others, `jobs_cut` were over at their run time limits.
    """

    priority: str
    jobs: int
    mean_first_wait: float
    mean_wait: float
    mean_bounded_slowdown: float
    jobs_returned: int
    tasks_stopped: int
    lost_processor_hours: float
    jobs_cut: int


def by_priority(simulation: Simulation, outcome: PolicyOutcome) -> list[PriorityFigures]:
    """Return the figures of all jobs that went through the head, then of each priority, highest first."""
    toll, work = outcome.preemption_cost, simulation.log.workload
    if toll is None:
        return []
    rows: dict[Priority, list[int]] = {}
    for row in range(len(outcome.starts)):
        rows.setdefault(simulation.scene.asking.priority(work, row), []).append(row)
    first_waits = waits(work, toll.started)
    seen = _PriorityCounter(toll, first_waits, waits(work, outcome.starts), slowdowns(work, outcome.starts))
    return [
        seen.of(ALL, range(len(outcome.starts))),
        *(seen.of(format_priority(priority), rows[priority]) for priority in sorted(rows, reverse=True)),
    ]


class _PriorityCounter(NamedTuple):
    """One value for each job."""

    preemption_cost: "PreemptionCost"
    first_waits: Sequence[float]
    waits: Sequence[float]
    slowdowns: Sequence[float]

    def of(self, priority: str, rows: Sequence[int]) -> PriorityFigures:
        """Return the figures of the jobs of these rows."""
        toll = self.preemption_cost
        return PriorityFigures(
            priority,
            len(rows),
            fmean(self.first_waits[row] for row in rows),
            fmean(self.waits[row] for row in rows),
            fmean(self.slowdowns[row] for row in rows),
            sum(toll.returned[row] > 0 for row in rows),
            sum(toll.stopped[row] for row in rows),
            sum(toll.lost[row] for row in rows) / _HOUR,
            sum(toll.cut[row] for row in rows),
        )


_TOLL = ("mean_first_wait", "jobs_returned", "tasks_stopped", "lost_processor_hours", "jobs_cut")


def documents(simulation: Simulation) -> list[dict[str, Any]]:
    """Return a document for each policy; times in seconds."""
    of_log = about(simulation.log) | _described(simulation.machine)
    return [
        _document(outcome) | _of_parameters(simulation, outcome) | of_log for outcome in simulation.outcomes
    ]


def _document(outcome: PolicyOutcome) -> dict[str, Any]:
    return {
        "policy": outcome.variant.policy,
        "ties": outcome.ties.value,
        **outcome.figures._asdict(),
        "seconds": outcome.seconds,
        "jobs_per_second": outcome.figures.jobs / outcome.seconds,
    }


def _of_parameters(simulation: Simulation, outcome: PolicyOutcome) -> dict[str, Any]:
    """Return the parameters, and what they meant for jobs of each priority; nothing where none is chosen."""
    if not simulation.is_about_parameters:
        return {}
    limits = outcome.limit_waits
    every, *classes = by_priority(simulation, outcome)
    return {
        "parameters": dict(outcome.variant.parameters),
        "least_percent": simulation.scene.asking.least,
        **{name: value for name, value in every._asdict().items() if name in _TOLL},
        "by_priority": [each._asdict() for each in classes],
        **({} if limits is None else {"limits": _limits_document(limits)}),
    }


def _limits_document(limits: "LimitWaits") -> dict[str, Any]:
    """Return how many jobs waited for limits, and how long; in seconds."""
    return {
        "jobs": sum(seconds > 0 for seconds in limits.seconds),
        "mean_wait": fmean(limits.seconds),
        "owners": [
            {
                "scope": of.scope.value,
                "name": of.name,
                "jobs": of.jobs,
                "wait": of.seconds,
                "longest": of.longest,
            }
            for of in limits.owners
        ],
    }


def about(log: SwfLog) -> dict[str, Any]:
    """Return the size of the machine, and what was noticed about the log."""
    return {
        "processors": log.processors,
        "remarks": [
            {"remark": remark.name.lower().replace("_", "-"), "text": remark.value, **noticed._asdict()}
            for remark, noticed in log.remarks.items()
        ],
    }


def _described(machine: SimulatedMachine | None) -> dict[str, Any]:
    if machine is None:
        return {}
    return {"nodes": len(machine.nodes), "whole_nodes": machine.whole_nodes}


def rows(simulation: Simulation) -> list[dict[str, str]]:
    """Return a row for each policy, with how many jobs start earlier and later than under the first."""
    first = simulation.outcomes[0]
    return [
        row
        for outcome in simulation.outcomes
        for row in _with_priorities(
            simulation,
            outcome,
            _row(outcome) | ({} if outcome is first else _against(first.starts, outcome.starts)),
        )
    ]


def _with_priorities(
    simulation: Simulation, outcome: PolicyOutcome, row: dict[str, str]
) -> Iterator[dict[str, str]]:
    """Yield the row, with what jobs were stopped, and one for each priority, if there are several."""
    if outcome.limit_waits is not None:
        row |= _limits_row(outcome.limit_waits)
    if not simulation.is_about_preemption:
        yield row
        return
    every, *classes = by_priority(simulation, outcome)
    yield row | _class_row(every)
    if len(classes) > 1:
        yield from map(_class_row, classes)


def _class_row(of: PriorityFigures) -> dict[str, str]:
    return {
        "Priority": of.priority,
        "Jobs": str(of.jobs),
        "First wait (s)": f"{of.mean_first_wait:.3f}",
        "Mean wait (s)": f"{of.mean_wait:.3f}",
        "Bounded slowdown": f"{of.mean_bounded_slowdown:.4f}",
        "Stopped": str(of.tasks_stopped),
        "Lost (h)": f"{of.lost_processor_hours:.2f}",
        "At limit": str(of.jobs_cut),
    }


def _limits_row(limits: "LimitWaits") -> dict[str, str]:
    """Return how many jobs waited for limits, and how long that is for each of all jobs."""
    return {
        "Limited": str(sum(seconds > 0 for seconds in limits.seconds)),
        "For limits (s)": f"{fmean(limits.seconds):.3f}",
    }


MAX_OWNERS_SHOWN = 5  # for each policy


def limited_owners(simulation: Simulation) -> list[dict[str, str]]:
    """Return a row for each user and project that waited longest for its limits, for each policy."""
    return [
        {
            "Policy": outcome.name,
            "Limits of": f"{of.scope} {of.name}",
            "Jobs": str(of.jobs),
            "Wait of all (h)": f"{of.seconds / _HOUR:.2f}",
            "Mean": duration(of.seconds / of.jobs),
            "Longest": duration(of.longest),
        }
        for outcome in simulation.outcomes
        if outcome.limit_waits is not None
        for of in outcome.limit_waits.owners[:MAX_OWNERS_SHOWN]
    ]


def _row(outcome: PolicyOutcome) -> dict[str, str]:
    figures = outcome.figures
    return {
        "Policy": outcome.name,
        "Jobs": str(figures.jobs),
        "Mean wait (s)": f"{figures.mean_wait:.3f}",
        "Bounded slowdown": f"{figures.mean_bounded_slowdown:.4f}",
        "Utilisation": f"{figures.utilisation:.6f}",
        "Makespan (s)": f"{figures.makespan:.10g}",
        "Jobs per second": f"{figures.jobs / outcome.seconds:.0f}",
    }


def _against(first: Sequence[float], second: Sequence[float]) -> dict[str, str]:
    pairs = list(zip(first, second, strict=True))
    return {
        "Earlier": str(sum(new < old for old, new in pairs)),
        "Later": str(sum(new > old for old, new in pairs)),
    }


def remarks(log: SwfLog) -> Iterator[str]:
    """Yield a sentence for everything that was noticed about the log."""
    for remark, noticed in log.remarks.items():
        yield f"{_lines(noticed)}: {remark.value}"


def _lines(noticed: RemarkCount) -> str:
    return (
        f"line {noticed.first_line}"
        if noticed.lines == 1
        else (f"{noticed.lines} lines from {noticed.first_line} on")
    )
