"""Elements of arrays that jobs wait for: instances of sweeps, each named by its number.

Source:  Slurm, sbatch(1), --dependency: ``afterok:12_3``.
"""

from collections.abc import Iterable

from headnode.core.model.task import TaskType
from headnode.core.state.job_record import JobRecord, TaskProgress, spec_of
from headnode.core.state.transitions import JobState


def element_outcomes(record: JobRecord, numbers: Iterable[int]) -> dict[int, tuple[JobState, bool]]:
    """Return the state of elements of a job, as if each were a job, and whether it has started.

    A number that no sweep has is left out.  If several sweeps have it, all of these instances count together.
    """
    run, spec, found = record.run, spec_of(record), {}
    sweeps = [(at, task) for at, task in enumerate(spec.tasks) if task.kind is TaskType.SWEEP]
    for number in numbers:
        instances = [(at, one) for at, task in sweeps if (one := task.instance_of(number)) is not None]
        if not instances:
            continue
        untouched = JobState.CANCELED if record.state.is_final else JobState.QUEUED, False
        if run is None or not run.tasks:
            found[number] = untouched
            continue
        states = [_state_of(run.tasks[at], one) for at, one in instances]
        if record.state.is_final:  # what is not over never will be
            states = [(one if one.is_final else JobState.CANCELED, begun) for one, begun in states]
        found[number] = _together([state for state, _ in states]), any(begun for _, begun in states)
    return found


def _state_of(progress: TaskProgress, instance: int) -> tuple[JobState, bool]:
    if instance in progress.finished:
        return JobState.FINISHED, True
    if instance in progress.failed:
        return JobState.FAILED, True
    ran = progress.attempts.get(instance, 0) > progress.unstarted.get(instance, 0)
    if instance in progress.canceled:
        return JobState.CANCELED, ran
    live = progress.live.get(instance)
    if live is None:
        return JobState.QUEUED, ran
    return JobState.RUNNING, ran or live.started is not None


def _together(states: list[JobState]) -> JobState:
    for state in (JobState.RUNNING, JobState.QUEUED, JobState.FAILED, JobState.CANCELED):
        if state in states:
            return state
    return JobState.FINISHED
