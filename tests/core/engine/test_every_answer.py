"""Every cell of the table of exit codes of activation filters, and what the cluster does on it.

Source: HPC filters, "Job activation filters and their return values", and its note on backfilling.
"""

from collections.abc import Callable

import pytest
from asked_filters import FilteredWorld

from headnode.core.filtering import BY_SIGNAL, ActivationPhase, CallOutcome, FilterAnswer, activation_verdict
from headnode.core.model.quantities import JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.transitions import JobState

HOUR, MINUTE = Seconds(3600.0), Seconds(60.0)

ANSWERS = {
    "0": FilterAnswer(exit_code=0),
    "1": FilterAnswer(exit_code=1),
    "2": FilterAnswer(exit_code=2),
    "3": FilterAnswer(exit_code=3),
    "4": FilterAnswer(exit_code=4),
    "5": FilterAnswer(exit_code=5),
    "255": FilterAnswer(exit_code=255),
    "signal": FilterAnswer(CallOutcome.SIGNALLED, BY_SIGNAL),
    "time-out": FilterAnswer(CallOutcome.TIMED_OUT),
    "missing": FilterAnswer(CallOutcome.MISSING),
    "broken": FilterAnswer(CallOutcome.BROKEN),
}
TABLE = {
    ActivationPhase.QUEUED: {"0": "starts", "1": "blocks", "3": "held", "4": "failed", "else": "keeps"},
    ActivationPhase.BACKFILLED: {"0": "starts", "3": "held", "4": "failed", "else": "waits"},
    ActivationPhase.RUNNING: {"0": "grows", "else": "stays"},
}


def one(world: FilteredWorld, size: int = 1, **options: object) -> JobId:
    """Submit a job of one task, for a minute if nothing else is said."""
    task = TaskSpec(command="x", minimum=size, maximum=size)
    options = {"run_time": MINUTE} | options
    return world.submit(task, minimum=size, maximum=size, **options)


def queued() -> tuple[FilteredWorld, JobId]:
    """Return a job that is offered two of four processors, in its turn."""
    world = FilteredWorld(4, everybody=False)
    return world, one(world, 2, template="asked")


def backfilled() -> tuple[FilteredWorld, JobId]:
    """Return a job that is offered one of two free processors, while one that goes first waits for four."""
    world = FilteredWorld(4, everybody=False)
    one(world, 2, run_time=HOUR)
    one(world, 4)
    return world, one(world, 1, template="asked")


def running() -> tuple[FilteredWorld, JobId]:
    """Return a job that runs on one of four processors and is offered three more."""
    world = FilteredWorld(4, everybody=False)
    other = one(world, 3)
    job = world.submit(*[TaskSpec(command="x")] * 6, minimum=1, maximum=4, template="asked", run_time=HOUR)
    world.answer(job, activation_verdict(ANSWERS["0"], ActivationPhase.QUEUED))
    world.end(other, 1)
    return world, job


SCENES: dict[ActivationPhase, Callable[[], tuple[FilteredWorld, JobId]]] = {
    ActivationPhase.QUEUED: queued,
    ActivationPhase.BACKFILLED: backfilled,
    ActivationPhase.RUNNING: running,
}


def held(world: FilteredWorld, job: JobId) -> int:
    """Return how many processors a job holds."""
    return sum(map(len, world.cluster.graph(job).run.allocation.values()))


def starts(world: FilteredWorld, size: int = 1, **options: object) -> bool:
    """Whether a new job without filters starts, which ends within the time that is left to it."""
    return world.record(one(world, size, **options)).state is JobState.RUNNING


def check(world: FilteredWorld, job: JobId, does: str) -> None:
    """Check what the answer did to the job, and to those who come after it."""
    state = world.record(job).state
    if does == "starts":
        assert state is JobState.RUNNING
    elif does == "blocks":
        assert state is JobState.QUEUED
        assert not starts(world)
        assert starts(world, priority=Priority(4000))
    elif does == "keeps":
        assert state is JobState.QUEUED
        assert starts(world, 2)
        assert not starts(world, priority=Priority(4000))
    elif does == "waits":
        assert (state, job in world.cluster.queue.held) == (JobState.QUEUED, False)
        assert starts(world, 2)
    elif does == "held":
        assert (state, world.cluster.queue.held[job]) == (JobState.QUEUED, world.clock.now() + 900)
        assert starts(world, 2)
    elif does == "failed":
        assert state is JobState.FAILED
        assert starts(world, 2)
    else:
        assert (state, held(world, job)) == (JobState.RUNNING, 4 if does == "grows" else 1)
        assert starts(world, 3) == (does == "stays")


@pytest.mark.parametrize("phase", list(ActivationPhase))
@pytest.mark.parametrize("text", ANSWERS)
def test_each_answer_does_what_its_cell_of_the_table_says(phase: ActivationPhase, text: str) -> None:
    world, job = SCENES[phase]()
    question = world.asked(job)
    assert (question.running, question.backfill) == (
        phase is ActivationPhase.RUNNING,
        phase is ActivationPhase.BACKFILLED,
    )
    world.answer(job, activation_verdict(ANSWERS[text], phase))
    check(world, job, TABLE[phase].get(text, TABLE[phase]["else"]))
    world.check_replay()
