"""How a job stands that others wait for, and what that means to them.

Source: SSS 3.1.0, "Dependency" (attribute condition); HPC Pack, ParentJobIds.
"""

from collections.abc import Iterator, Mapping
from enum import Enum

import msgspec

from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.dependencies import Condition, dependencies
from headnode.core.model.job import JobSpec


class Fate(msgspec.Struct, frozen=True, gc=False):
    """What has become of a job so far.

    skipped: it was canceled because what it waited for could not come true any more.
    """

    state: JobState
    started: bool = False  # at least once
    skipped: bool = False


class Standing(Enum):
    """How it stands with one thing that a job waits for."""

    MET = "it is met"
    OPEN = "it may still be met"
    NEVER = "it can never be met: the job is over"


def fate_of(record: JobRecord) -> Fate:
    """Return what has become of a job."""
    run = record.run
    started = run is not None and (run.starts > 0 or run.started is not None)
    return Fate(record.state, started, record.skipped)


def standing(condition: Condition, fate: Fate) -> Standing:
    """Return how it stands with a condition: the end of a job decides about each.

    A job that was skipped is over, and neither succeeded nor failed nor started.  One that failed or was
    canceled may run again; what was canceled for its end is then brought back (`reopening`).
    """
    if fate.skipped:
        return Standing.MET if condition is Condition.ON_EXIT else Standing.NEVER
    if _is_met(condition, fate):
        return Standing.MET
    return Standing.NEVER if fate.state.is_final else Standing.OPEN


def _is_met(condition: Condition, fate: Fate) -> bool:
    match condition:
        case Condition.ON_SUCCESS:
            return fate.state is JobState.FINISHED
        case Condition.ON_FAILURE:
            return fate.state in (JobState.FAILED, JobState.CANCELED)
        case Condition.ON_EXIT:
            return fate.state.is_final
        case Condition.ON_START:
            return fate.started


def all_met(spec: JobSpec, parent: int, fate: Fate) -> bool:
    """Return whether everything has come true that a job waits for of one parent."""
    return all(
        standing(condition, fate) is Standing.MET for one, condition in dependencies(spec) if one == parent
    )


def hopeless(spec: JobSpec, fates: Mapping[int, Fate]) -> Iterator[tuple[int, Condition]]:
    """Yield what a job waits for and its parents' end has decided against, of the parents that are known."""
    for parent, condition in dependencies(spec):
        fate = fates.get(parent)
        if fate is not None and standing(condition, fate) is Standing.NEVER:
            yield parent, condition


_WISHED = {
    Condition.ON_SUCCESS: "finish",
    Condition.ON_FAILURE: "fail",
    Condition.ON_EXIT: "end",
    Condition.ON_START: "start",
}


def wished(condition: Condition) -> str:
    """Return what a job waits for a parent to do, such as ``fail``."""
    return _WISHED[condition]


def how_it_stands(fate: Fate) -> str:
    """Return what has become of a parent, such as ``is running``."""
    if fate.skipped:
        return "was canceled before it started, because its dependencies could not be met any more"
    match fate.state:
        case JobState.CONFIGURING:
            return "is not submitted"
        case JobState.ENDING:
            return "is ending"
        case JobState.CANCELED:
            return "was canceled"
        case JobState.FINISHED | JobState.FAILED:
            return fate.state.value if fate.started else f"{fate.state.value} without ever starting"
        case _:
            return f"is {fate.state.value}"
