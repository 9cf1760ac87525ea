"""Which instances of a job wait for those of the same number in other jobs.

Source:  Slurm, sbatch(1), --dependency, aftercorr.
"""

from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from headnode.core.model.errors import Refused, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.depend import ParentOutcome, SweepOutcome, fate_of, outcome_words
from headnode.core.state.job_events import InstancesAwaiting, TaskSpans
from headnode.core.state.job_record import JobRecord, spec_of
from headnode.core.state.transitions import JobState

Spans = Iterable[tuple[int, int]]


def overlap(some: Spans, others: Ranges) -> tuple[tuple[int, int], ...]:
    """Return the intervals that are in both.

    >>> overlap([(1, 4), (6, 9)], Ranges([2, 8], [6, 20], 18))
    ((2, 4), (6, 6), (8, 9))
    """
    found = []
    for first, last in some:
        for low, high in others.spans():
            if low <= last and first <= high:
                found.append((max(low, first), min(high, last)))
    return tuple(found)


def of_spans(spans: Spans) -> Ranges:
    """Return the numbers of these intervals."""
    found = Ranges()
    for first, last in spans:
        found.add_span(first, last)
    return found


def instance_of(task: TaskSpec, number: int) -> int | None:
    """Return the instance of a sweep that stands for a number; None if it has none.

    >>> instance_of(TaskSpec(kind=TaskType.SWEEP, start=2, end=9, increment=3), 8)
    3
    """
    at, rest = divmod(number - task.start, task.increment)
    return at + 1 if not rest and 0 <= at < task.instances else None


def _counterparts(task: TaskSpec, sweep: SweepOutcome, spans: Spans) -> Ranges:
    """Return the instances of a task whose numbers those spans of instances of another sweep have.

    Cost:  O(spans) where both sweeps have the same increment, else O(instances in the spans).
    """
    found, most = Ranges(), task.instances
    shift, rest = divmod(sweep.start - task.start, task.increment)
    for first, last in spans:
        if sweep.increment == task.increment:
            if not rest:
                found.add_span(max(1, first + shift), min(most, last + shift))
            continue
        for instance in range(first, last + 1):
            mine = instance_of(task, sweep.start + (instance - 1) * sweep.increment)
            if mine is not None:
                found.add(mine)
    return found


def waiting_in(task: TaskSpec, fate: ParentOutcome) -> Ranges:
    """Return the instances of a task whose number has not finished in a parent.

    One without a counterpart waits until all of the parent has finished.
    """
    waiting, known = Ranges(), Ranges()
    for sweep in fate.sweeps if task.kind is TaskType.SWEEP else ():
        every = Ranges([1], [sweep.count], sweep.count)
        for first, last in _counterparts(task, sweep, every.spans()).spans():
            known.add_span(first, last)
        for first, last in sweep.finished:
            every.discard_span(first, last)
        for first, last in _counterparts(task, sweep, every.spans()).spans():
            waiting.add_span(first, last)
    if fate.state is JobState.FINISHED:
        return waiting
    alone = Ranges([1], [task.instances], task.instances)
    for first, last in known.spans():
        alone.discard_span(first, last)
    for first, last in alone.spans():
        waiting.add_span(first, last)
    return waiting


def awaiting(spec: JobSpec, fates: Mapping[int, ParentOutcome]) -> InstancesAwaiting:
    """Return which instances of a job wait for those of each job that it names for it."""
    found: list[tuple[int, TaskSpans]] = []
    for parent in spec.after_corresponding:
        waiting = (
            (number, tuple(waiting_in(task, fates[parent]).spans()))
            for number, task in enumerate(spec.tasks, 1)
            if task.instances
        )
        some = tuple((number, spans) for number, spans in waiting if spans)
        if some:
            found.append((parent, some))
    return tuple(found)


def instances_awaiting(
    cluster: ClusterState,
    spec: JobSpec,
    ended: Mapping[int, ParentOutcome],
    job: JobId,
    beside: Collection[int],
) -> InstancesAwaiting:
    """Return which instances of a job wait for those of other jobs; arguments and errors as in `waits`."""
    fates = {}
    for at, parent in enumerate(spec.after_corresponding):
        path = ("after_corresponding", at)
        try:
            fate = fate_of(cluster, parent, ended, job, beside)
        except Refused as no:
            raise no.inside(*path) from None
        known = cluster.jobs.get(JobId(parent)) or cluster.agenda.for_archive.get(JobId(parent))
        fates[parent] = fate if known is None else replace(fate, sweeps=sweeps_of(known))
        if never_starts(spec, fates[parent]):
            raise WrongState(
                code="never-possible",
                what=f"each instance waits for the one of its number in job {parent} to finish, "
                f"and job {parent} {outcome_words(fate)}: the job would never start",
                fix=f"run job {parent} again first: hn job requeue {parent}; or leave that dependency out",
                path=path,
            )
    return awaiting(spec, fates)


def never_starts(spec: JobSpec, fate: ParentOutcome) -> bool:
    """Return whether no instance of a job can start any more because of how a parent has ended."""
    if not fate.state.is_final:
        return False
    return all(len(waiting_in(task, fate)) == task.instances for task in spec.tasks)


def sweeps_of(record: JobRecord) -> tuple[SweepOutcome, ...]:
    """Return how far the sweeps of a job are."""
    spec, run = spec_of(record), record.run
    return tuple(
        SweepOutcome(
            task.start,
            task.increment,
            task.instances,
            tuple(run.tasks[at].finished.spans()) if run is not None and run.tasks else (),
        )
        for at, task in enumerate(spec.tasks)
        if task.kind is TaskType.SWEEP
    )
