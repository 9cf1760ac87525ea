"""Which instances of a job wait for those of the same number in other jobs.

Source:  Slurm, sbatch(1), --dependency, aftercorr.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import product
from math import gcd

from msgspec.structs import replace

from headnode.core.model.bounds import COUNTERPARTS
from headnode.core.model.errors import BadRequest, Path, Refused, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.depend import ParentOutcome, SweepOutcome, find_outcome, outcome_words
from headnode.core.state.job_events import InstancesAwaiting, TaskSpans
from headnode.core.state.job_record import JobRecord, spec_of
from headnode.core.state.transitions import JobState

Spans = Iterable[tuple[int, int]]


def overlap(some: Spans, others: Ranges) -> tuple[tuple[int, int], ...]:
    """Return the intervals that are in both.

    >>> overlap([(1, 4), (6, 9)], Ranges([2, 8], [6, 20], 18))
    ((2, 4), (6, 6), (8, 9))
    """
    return tuple(span for first, last in some for span in others.within(first, last))


def of_spans(spans: Spans) -> Ranges:
    """Return the numbers of these intervals."""
    found = Ranges()
    for first, last in spans:
        found.add_span(first, last)
    return found


def _shared(task: TaskSpec, sweep: SweepOutcome, first: int, last: int) -> range:
    """Return the instances of a task whose numbers the instances `first` to `last` of another sweep have.

    The numbers that two sweeps share are a sweep, too: its increment is their least common multiple.

    >>> _shared(TaskSpec(kind=TaskType.SWEEP, start=2, end=20, increment=3), SweepOutcome(1, 2, 9), 1, 9)
    range(2, 7, 2)
    """
    mine, theirs = task.increment, sweep.increment
    common = gcd(mine, theirs)
    ahead, rest = divmod(task.start - sweep.start, common)
    if rest:
        return range(0)
    every = mine // common  # one of so many instances of the other sweep has a number of this one
    low = first + (ahead * pow(theirs // common, -1, every) + 1 - first) % every
    start, rest = divmod(sweep.start + (low - 1) * theirs - task.start, mine)
    step = theirs // common
    begin = start + 1 + max(0, -(start // step)) * step
    end = min(task.instances, (sweep.start + (last - 1) * theirs - task.start) // mine + 1)
    return range(begin, end + 1, step)


def _counterparts(task: TaskSpec, parts: Iterable[tuple[SweepOutcome, Spans]]) -> Ranges:
    """Return the instances of a task whose numbers these spans of instances of other sweeps have."""
    found = Ranges()
    for sweep, spans in parts:
        for first, last in spans:
            shared = _shared(task, sweep, first, last)
            if shared.step == 1 and shared:
                found.add_span(shared[0], shared[-1])
            else:
                for instance in shared:
                    found.add_span(instance, instance)
    return found


def _ranges_to_compare(task: TaskSpec, sweep: SweepOutcome) -> int:
    """Return how many ranges there are at most to find the counterparts of a sweep."""
    shared = _shared(task, sweep, 1, sweep.count)
    return 1 if shared.step == 1 else max(1, len(shared))


def waiting_in(task: TaskSpec, outcome: ParentOutcome) -> Ranges:
    """Return the instances of a task whose number has not finished in a parent.

    One without a counterpart waits until all of the parent has finished.  All wait where a parent has got
    sweeps since, with which there are too many ranges to compare.
    """
    sweeps = outcome.sweeps if task.kind is TaskType.SWEEP else ()
    waiting = Ranges([1], [task.instances], task.instances)
    if sum(_ranges_to_compare(task, sweep) for sweep in sweeps) > COUNTERPARTS.most:
        return waiting
    if outcome.state is JobState.FINISHED:
        return _counterparts(task, ((sweep, sweep.unfinished()) for sweep in sweeps))
    begun = [sweep for sweep in sweeps if sweep.finished]
    if not begun:
        return waiting
    done = _counterparts(task, ((sweep, sweep.finished) for sweep in begun))
    not_done = _counterparts(task, ((sweep, sweep.unfinished()) for sweep in sweeps))
    for first, last in done.spans():
        waiting.discard_span(first, last)
    for first, last in not_done.spans():
        waiting.add_span(first, last)
    return waiting


def awaiting(spec: JobSpec, outcomes: Mapping[int, ParentOutcome]) -> InstancesAwaiting:
    """Return which instances of a job wait for those of each job that it names for it."""
    found: list[tuple[int, TaskSpans]] = []
    for parent in spec.after_corresponding:
        waiting = (
            (number, tuple(waiting_in(task, outcomes[parent]).spans()))
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
    outcomes = {}
    for at, parent in enumerate(spec.after_corresponding):
        path = ("after_corresponding", at)
        try:
            outcome = find_outcome(cluster, parent, ended, job, beside)
        except Refused as no:
            raise no.inside(*path) from None
        known = cluster.jobs.get(JobId(parent)) or cluster.agenda.for_archive.get(JobId(parent))
        outcomes[parent] = outcome if known is None else replace(outcome, sweeps=sweeps_of(known))
        _refuse_too_many(spec, outcomes, path)
        if never_starts(spec, outcomes[parent]):
            raise WrongState(
                code="never-possible",
                what=f"each instance waits for the one of its number in job {parent} to finish, "
                f"and job {parent} {outcome_words(outcome)}: the job would never start",
                fix=f"run job {parent} again first: hn job requeue {parent}; or leave that dependency out",
                path=path,
            )
    return awaiting(spec, outcomes)


def _refuse_too_many(spec: JobSpec, outcomes: Mapping[int, ParentOutcome], path: Path) -> None:
    """Refuse a job with which the head would be busy for long.

    Raises:  BadRequest ``corresponding``.
    """
    ranges = 0
    for outcome in outcomes.values():
        for task, sweep in product(spec.tasks, outcome.sweeps):
            ranges += _ranges_to_compare(task, sweep)
            if ranges > COUNTERPARTS.most:
                what = f"it shares more than {COUNTERPARTS} of numbers with the jobs that it waits for"
                fix = "use the same increment and fewer tasks, or let the job wait for all of them: parents"
                raise BadRequest(code="corresponding", what=what, fix=fix, path=path)


def never_starts(spec: JobSpec, outcome: ParentOutcome) -> bool:
    """Return whether no instance of a job can start any more because of how a parent has ended."""
    if not outcome.state.is_final:
        return False
    return all(len(waiting_in(task, outcome)) == task.instances for task in spec.tasks)


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
