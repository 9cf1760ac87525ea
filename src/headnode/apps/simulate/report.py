"""A simulation as rows for people and as documents for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

from headnode.apps.simulate.job_classes import PriorityFigures, by_priority
from headnode.apps.simulate.machine import SimulatedMachine
from headnode.apps.simulate.simulation import PolicyOutcome, Simulation
from headnode.core.formats.swf_reading import RemarkCount, SwfLog

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
    every, *classes = by_priority(simulation, outcome)
    return {
        "parameters": dict(outcome.variant.parameters),
        "least_percent": simulation.scene.asking.least,
        **{name: value for name, value in every._asdict().items() if name in _TOLL},
        "by_priority": [each._asdict() for each in classes],
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
    if not simulation.is_about_parameters:
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


def _row(outcome: PolicyOutcome) -> dict[str, str]:
    found = outcome.figures
    return {
        "Policy": outcome.name,
        "Jobs": str(found.jobs),
        "Mean wait (s)": f"{found.mean_wait:.3f}",
        "Bounded slowdown": f"{found.mean_bounded_slowdown:.4f}",
        "Utilisation": f"{found.utilisation:.6f}",
        "Makespan (s)": f"{found.makespan:.10g}",
        "Jobs per second": f"{found.jobs / outcome.seconds:.0f}",
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
