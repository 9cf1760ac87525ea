"""A simulation as rows for people and as documents for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

from headnode.apps.simulate.machine import Machine
from headnode.apps.simulate.simulation import Outcome, Simulation
from headnode.core.formats.swf import Log, Noticed


def documents(simulation: Simulation) -> list[dict[str, Any]]:
    """Return a document for each policy; times in seconds."""
    of_log = about(simulation.log) | _described(simulation.machine)
    return [_document(outcome) | of_log for outcome in simulation.outcomes]


def _document(outcome: Outcome) -> dict[str, Any]:
    return {
        "policy": outcome.policy,
        "ties": outcome.ties.value,
        **outcome.figures._asdict(),
        "seconds": outcome.seconds,
        "jobs_per_second": outcome.figures.jobs / outcome.seconds,
    }


def about(log: Log) -> dict[str, Any]:
    """Return the size of the machine, and what was noticed about the log."""
    return {
        "processors": log.processors,
        "remarks": [
            {"remark": remark.name.lower().replace("_", "-"), "text": remark.value, **noticed._asdict()}
            for remark, noticed in log.remarks.items()
        ],
    }


def _described(machine: Machine | None) -> dict[str, Any]:
    if machine is None:
        return {}
    return {"nodes": len(machine.nodes), "whole_nodes": machine.whole_nodes}


def rows(simulation: Simulation) -> list[dict[str, str]]:
    """Return a row for each policy, with how many jobs start earlier and later than under the first."""
    first = simulation.outcomes[0]
    return [
        _row(outcome) | ({} if outcome is first else _against(first.starts, outcome.starts))
        for outcome in simulation.outcomes
    ]


def _row(outcome: Outcome) -> dict[str, str]:
    found = outcome.figures
    return {
        "Policy": outcome.policy,
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


def remarks(log: Log) -> Iterator[str]:
    """Yield a sentence for everything that was noticed about the log."""
    for remark, noticed in log.remarks.items():
        yield f"{_lines(noticed)}: {remark.value}"


def _lines(noticed: Noticed) -> str:
    return (
        f"line {noticed.first_line}"
        if noticed.lines == 1
        else (f"{noticed.lines} lines from {noticed.first_line} on")
    )
