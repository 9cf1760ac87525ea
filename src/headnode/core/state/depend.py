"""Jobs that wait for other jobs: when their condition is met, and when they wait in vain."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from headnode.core.model.dependency import Condition, JobDependency
from headnode.core.model.errors import BadRequest, NotFound, Path, Refused, WrongState
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec, all_dependencies, parents
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.value_checks import find_cycle
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord
from headnode.core.state.transitions import JobState


class ParentOutcome(msgspec.Struct, frozen=True, gc=False):
    """The progress of a parent job, as far as dependencies need it.

    skipped: it was canceled because what it waited for could not come true any more.
    """

    state: JobState
    started: bool = False  # at least once
    skipped: bool = False
    sweeps: "tuple[SweepOutcome, ...]" = ()  # where instances of other jobs wait for its own
    started_at: Instant | None = None  # the start of its last run
    elements: "Mapping[int, ParentOutcome]" = {}  # by number, of those that were asked for


class SweepOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The numbers of a sweep, and which instances have finished, in inclusive spans."""

    start: int
    increment: int
    count: int
    finished: tuple[tuple[int, int], ...] = ()

    def unfinished(self) -> Iterator[tuple[int, int]]:
        """Yield the spans of the others."""
        begin = 1
        for first, last in self.finished:
            if begin < first:
                yield begin, first - 1
            begin = last + 1
        if begin <= self.count:
            yield begin, self.count


class DependencyState(Enum):
    """The state of one dependency of a job."""

    MET = "it is satisfied"
    OPEN = "it is not satisfied yet"
    NEVER = "it can no longer be satisfied: the job has ended"


def outcome_of(record: JobRecord, numbers: Collection[int] = ()) -> ParentOutcome:
    """Return what has become of a job, and of the elements with these numbers."""
    run = record.run
    started = run is not None and (run.starts > 0 or run.started is not None)
    outcome = ParentOutcome(record.state, started, record.skipped, started_at=run.started if run else None)
    if not numbers:
        return outcome
    from headnode.core.state.elements import element_outcomes  # few jobs wait for elements

    found = element_outcomes(record, numbers)
    return replace(outcome, elements={number: ParentOutcome(*one) for number, one in found.items()})


def elements_of(spec: JobSpec, parent: int) -> tuple[int, ...]:
    """Return the numbers of the elements of a parent that a job waits for."""
    return tuple(one.element for one in spec.dependencies if one.job == parent and one.element is not None)


def dependency_state(one: JobDependency, outcome: ParentOutcome) -> DependencyState:
    """Return the state of a dependency; one that is not satisfied at the end of its job never will be.

    A job that was skipped is over, and neither succeeded nor failed nor started.  One that failed or was
    canceled may run again; what was canceled for its end is then brought back (`depend`).
    """
    if outcome.skipped:
        return DependencyState.MET if one.condition is Condition.ON_EXIT else DependencyState.NEVER
    if one.element is None:
        met = outcome.started_at is not None if one.delay else _is_met(one.condition, outcome)
    else:
        element = outcome.elements.get(one.element)
        met = element is not None and _is_met(one.condition, element)
    if met:
        return DependencyState.MET
    return DependencyState.NEVER if outcome.state.is_final else DependencyState.OPEN


def _is_met(condition: Condition, outcome: ParentOutcome) -> bool:
    match condition:
        case Condition.ON_SUCCESS:
            return outcome.state is JobState.FINISHED
        case Condition.ON_FAILURE:
            return outcome.state in (JobState.FAILED, JobState.CANCELED)
        case Condition.ON_EXIT:
            return outcome.state.is_final
        case Condition.ON_START:
            return outcome.started
        case Condition.ON_CORRESPONDING:  # as a whole; each instance is looked at in `instance_waits`
            return outcome.state is JobState.FINISHED


def is_satisfied(spec: JobSpec, parent: int, outcome: ParentOutcome) -> bool:
    """Return whether all that a job waits for of one parent is satisfied, or anything if that is enough.

    What a singleton waits for without naming it must have ended.
    """
    enough = any if spec.any_dependency else all
    wanted = [*_on_parent(spec, parent)] or [JobDependency(parent, Condition.ON_EXIT)]
    return enough(dependency_state(one, outcome) is DependencyState.MET for one in wanted)


def start_after(spec: JobSpec, parent: int, outcome: ParentOutcome) -> Instant | None:
    """Return when the delays after the start of a parent are over; None: there is none."""
    if not spec.dependencies:
        return None
    delays = [
        one.delay for one in _on_parent(spec, parent) if dependency_state(one, outcome) is DependencyState.MET
    ]
    delay = min(delays, default=0.0) if spec.any_dependency else max(delays, default=0.0)
    return Instant(outcome.started_at + delay) if delay and outcome.started_at is not None else None


def joined_start(spec: JobSpec, one: Instant | None, other: Instant | None) -> Instant | None:
    """Return the start that two parents allow: the later one, or the earlier one if any parent is enough."""
    if one is None or other is None:
        return None if spec.any_dependency else one or other
    return min(one, other) if spec.any_dependency else max(one, other)


def _of_whole_job(spec: JobSpec) -> Iterator[JobDependency]:
    """Yield what a job as a whole waits for, not its instances one by one."""
    return (one for one in all_dependencies(spec) if one.condition is not Condition.ON_CORRESPONDING)


def _on_parent(spec: JobSpec, parent: int) -> Iterator[JobDependency]:
    """Yield what a job as a whole waits for of one parent."""
    for condition, field in DEPENDENCY_FIELDS.items():
        if parent in getattr(spec, field) and condition is not Condition.ON_CORRESPONDING:
            yield JobDependency(parent, condition)
    yield from (one for one in spec.dependencies if one.job == parent)


def every_dependency(spec: JobSpec, waits_for: Iterable[int]) -> Iterator[JobDependency]:
    """Yield what a job names as its dependencies, and the jobs that it waits for as a singleton."""
    yield from all_dependencies(spec)
    named = parents(spec)
    yield from (JobDependency(one, Condition.ON_EXIT) for one in waits_for if one not in named)


def hopeless(spec: JobSpec, outcomes: Mapping[int, ParentOutcome]) -> Iterator[JobDependency]:
    """Yield the dependencies because of which a job can never start, of the parents that are known.

    If any dependency is enough, all of them must be known and past hope.
    """
    known = [one for one in (parents(spec) if len(outcomes) > 1 else outcomes) if one in outcomes]
    ones = [
        (one, dependency_state(one, outcomes[parent])) for parent in known for one in _on_parent(spec, parent)
    ]
    never = [one for one, state in ones if state is DependencyState.NEVER]
    if not spec.any_dependency or (len(never) == len(ones) and len(known) == len(parents(spec))):
        yield from never


def outcome_words(outcome: ParentOutcome) -> str:
    """Return what has become of a parent, such as ``is running``."""
    if outcome.skipped:
        return "was canceled before it started, because its dependencies could no longer be satisfied"
    match outcome.state:
        case JobState.CONFIGURING:
            return "is not submitted"
        case JobState.ENDING:
            return "is ending"
        case JobState.CANCELED:
            return "was canceled"
        case JobState.FINISHED | JobState.FAILED:
            return outcome.state.value if outcome.started else f"{outcome.state.value} without ever starting"
        case _:
            return f"is {outcome.state.value}"


class AwaitedParents(NamedTuple):
    """The parents that a job waits for; the fields as those of `JobSubmitted`."""

    waits_for: tuple[int, ...] = ()
    satisfied: tuple[int, ...] = ()
    start_after: Instant | None = None


def waits(
    cluster: ClusterState,
    spec: JobSpec,
    ended: Mapping[int, ParentOutcome],
    job: JobId,
    owner: str,
    beside: Collection[int] = (),
    same_name: Collection[int] = (),
) -> AwaitedParents:
    """Return the jobs of which something must come true before the job of that owner may start.

    `ended` tells of those that are over, `beside` are submitted in the same moment; those of them that have
    the owner and name of the job, and come before it, are `same_name`.
    Raises:  NotFound ``no-such-parent`` and ``no-such-element``; WrongState ``parent-not-submitted`` and
             ``never-possible``; BadRequest ``job-circle``.
    """
    wanted = parents(spec)
    _refuse_unknown_names(spec)
    before = (*of_same_name(cluster, spec, job, owner), *same_name) if spec.singleton else ()
    if not wanted:
        return AwaitedParents(before) if before else _NOBODY
    outcomes = {}
    for parent in wanted:
        try:
            outcomes[parent] = find_outcome(cluster, parent, ended, job, beside, elements_of(spec, parent))
        except Refused as no:
            raise no.inside(*_path_of(spec, parent)) from None
    _refuse_unknown_elements(spec, outcomes, beside)
    for one in hopeless(spec, outcomes):
        raise WrongState(
            code="never-possible",
            what=f"{in_vain_words(one, outcomes[one.job])}: the job would never start",
            fix=_instead(one.job, outcomes[one.job]),
            path=_path_of(spec, one.job, one),
        )
    found = awaited_of(spec, outcomes)
    if job in cluster.children:  # else no job waits for it: it closes no circle
        _refuse_circle(cluster, job, found.waits_for)
    others = tuple(one for one in before if one not in wanted)
    return found._replace(waits_for=found.waits_for + others) if others else found


_NOBODY = AwaitedParents()


def awaited_of(spec: JobSpec, outcomes: Mapping[int, ParentOutcome]) -> AwaitedParents:
    """Return which of its parents a job waits for, given what has become of each."""
    met: list[int] = []
    start = None
    for parent in parents(spec):
        if is_satisfied(spec, parent, outcomes[parent]):
            due = start_after(spec, parent, outcomes[parent])
            start = joined_start(spec, start, due) if met else due
            met.append(parent)
    if not spec.any_dependency:
        return AwaitedParents(tuple(one for one in parents(spec) if one not in met), (), start)
    waiting = () if met else tuple(one for one in parents(spec) if not outcomes[one].state.is_final)
    return AwaitedParents(waiting, tuple(met), start)


def _refuse_unknown_elements(
    spec: JobSpec, outcomes: Mapping[int, ParentOutcome], beside: Collection[int]
) -> None:
    for at, one in enumerate(spec.dependencies):
        if (
            one.element is not None
            and one.job not in beside
            and one.element not in outcomes[one.job].elements
        ):
            raise NotFound(
                code="no-such-element",
                what=f"the job depends on {one.title}, and no sweep of job {one.job} has this number",
                fix=f"see the numbers: hn job view {one.job}",
                path=("dependencies", at, "element"),
            )


def _refuse_unknown_names(spec: JobSpec) -> None:
    for unknown in spec.named_parents:
        raise NotFound(
            code="no-such-parent",
            what=f"the job depends on a job with {unknown}, and there is none",
            fix="write the number of the job",
            path=("named_parents", 0),
        )


def of_same_name(cluster: ClusterState, spec: JobSpec, job: JobId, owner: str) -> tuple[int, ...]:
    """Return the jobs that were submitted before and that a singleton waits for."""
    from headnode.core.state import singletons  # few jobs are singletons

    return singletons.of_same_name(cluster, spec, job, owner)


def _path_of(spec: JobSpec, parent: int, wanted: JobDependency | None = None) -> Path:
    """Return where a job names a parent, in that dependency if it is not None."""
    for each, field in DEPENDENCY_FIELDS.items():
        same = wanted is None or wanted == JobDependency(parent, each)
        if same and parent in getattr(spec, field):
            return field, getattr(spec, field).index(parent)
    for at, one in enumerate(spec.dependencies):
        if wanted in (None, one) and one.job == parent:
            return "dependencies", at
    return ()


def find_outcome(
    cluster: ClusterState,
    parent: int,
    ended: Mapping[int, ParentOutcome],
    job: JobId,
    beside: Collection[int],
    numbers: Collection[int] = (),
) -> ParentOutcome:
    """Return what has become of a parent of a job, and its elements; arguments as in `waits`, `outcome_of`.

    Raises:  NotFound ``no-such-parent``; WrongState ``parent-not-submitted``.
    """
    if parent in beside and parent != job:
        return ParentOutcome(JobState.QUEUED)
    known = cluster.jobs.get(JobId(parent)) or cluster.agenda.for_archive.get(JobId(parent))
    found = outcome_of(known, numbers) if known is not None else ended.get(parent)
    if parent == job or found is None:
        raise NotFound(
            code="no-such-parent",
            what=f"parent job {parent} does not exist",
            fix="submit the parent first and use its id",
        )
    if found.state is JobState.CONFIGURING:
        raise WrongState(
            code="parent-not-submitted",
            what=f"parent job {parent} has not been submitted",
            fix=f"submit it first: hn job submit /id:{parent}",
        )
    return found


def _refuse_circle(cluster: ClusterState, job: JobId, waiting: tuple[int, ...]) -> None:
    graph: dict[int, tuple[int, ...]] = {job: waiting}
    ahead = list(waiting)
    while ahead:
        parent = ahead.pop()
        record = cluster.jobs.get(JobId(parent))
        if parent not in graph and record is not None:
            graph[parent] = record.waits_for
            ahead += record.waits_for
    circle = find_cycle(graph)
    if circle:
        raise BadRequest(
            code="job-circle",
            what="jobs would wait for each other: " + " -> ".join(map(str, circle)),
            fix="remove one dependency",
        )


def _instead(parent: int, outcome: ParentOutcome) -> str:
    if outcome.state is JobState.FINISHED or outcome.skipped:
        return "leave that dependency out, or name another job"
    return f"run job {parent} again first: hn job requeue {parent}; or leave that dependency out"


def in_vain_words(one: JobDependency, outcome: ParentOutcome) -> str:
    """Return what a dependency asks for and what became of its parent instead."""
    return (
        f"it waits for {one.title} to {one.condition.words} ({one.condition.value}), "
        f"and {became_words(one, outcome)}"
    )


def dependency_words(one: JobDependency, outcome: ParentOutcome) -> str:
    """Return what a job waits for, and what the parent does: ``job 12 to finish, which is running``."""
    element = outcome.elements.get(one.element) if one.element is not None else None
    after = f" and {one.delay / 60:g} minutes to pass" if one.delay else ""
    return f"{one.title} to {one.condition.words}{after}, which {outcome_words(element or outcome)}"


def became_words(one: JobDependency, outcome: ParentOutcome) -> str:
    """Return what has become of the parent of a dependency: ``element 3 of job 12 is running``."""
    element = outcome.elements.get(one.element) if one.element is not None else None
    return f"{one.title} {outcome_words(element or outcome)}"


def set_awaited(
    cluster: ClusterState,
    record: JobRecord,
    awaited: AwaitedParents | e.JobSubmitted | e.JobValidated | e.JobRequeued,
) -> None:
    """Set the dependencies that are still open; the others are satisfied, but a requeue may reopen them."""
    start = awaited.start_after
    record.waits_for, record.start_after = awaited.waits_for, None
    if start is not None and start > cluster.usage.now:
        record.start_after = start
    spec = cluster.spec(record)
    wanted = parents(spec)
    if spec.any_dependency:
        record.satisfied = awaited.satisfied
        record.spare = tuple(one for one in wanted if one not in (*awaited.waits_for, *awaited.satisfied))
    else:
        record.satisfied, record.spare = tuple(one for one in wanted if one not in awaited.waits_for), ()
    record.elements = tuple(
        {(one.job, one.element): 0 for one in spec.dependencies if one.element is not None}
    )
