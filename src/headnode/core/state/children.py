"""Jobs that depend on others, when those go on: they are let into the queue, kept out again, or canceled."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from headnode.core.model.job import JobSpec, parents
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.depend import (
    AwaitedParents,
    ParentOutcome,
    elements_of,
    hopeless,
    in_vain_words,
    is_satisfied,
    joined_start,
    outcome_of,
    set_awaited,
    start_after,
    waits,
)
from headnode.core.state.job_record import JobRecord, decode_spec


def update_children(cluster: ClusterState, parent: JobRecord, numbers: Collection[int] | None = None) -> None:
    """Apply the state of a parent to its children: satisfy their conditions, or reopen them if not started.

    `numbers`: only these elements of it have changed.  The engine attends to those that can never start.
    """
    children: Collection[JobId] = cluster.children.get(parent.id, ())
    if numbers is not None:
        of_elements = cluster.element_children.get(parent.id, {})
        children = {job for number in numbers for job in of_elements.get(number, ())}
    plain = outcome_of(parent) if children else None
    for job in sorted(children):
        child = cluster.jobs[job]
        spec = decode_spec(child.spec)
        elements = elements_of(spec, parent.id)
        outcome = outcome_of(parent, elements) if elements or plain is None else plain
        awaited = _changed(cluster, spec, child, parent.id, outcome)
        if awaited is not None:
            cluster.dequeue(child)
            set_awaited(cluster, child, awaited)
            cluster.enqueue(child)
            cluster.agenda.children_released = True
        if any(hopeless(replace(spec, any_dependency=False), {parent.id: outcome})):
            cluster.agenda.dirty_jobs.add(child.id)


def _changed(
    cluster: ClusterState, spec: JobSpec, child: JobRecord, parent: int, outcome: ParentOutcome
) -> AwaitedParents | None:
    """Return what the child waits for when that has changed for this parent; None: it has not."""
    met, start = is_satisfied(spec, parent, outcome), child.start_after
    if spec.any_dependency:
        satisfied = [one for one in child.satisfied if one != parent]
        if met:
            due = start_after(spec, parent, outcome)
            start = joined_start(spec, start, due) if satisfied else due
            satisfied.append(parent)
        others = [one for one in parents(spec) if one not in satisfied]
        open_ones = () if satisfied else tuple(one for one in others if JobId(one) in cluster.jobs)
        found = AwaitedParents(open_ones, tuple(satisfied), start if satisfied else None)
        same = found.waits_for == child.waits_for and set(satisfied) == set(child.satisfied)
        return None if same and found.start_after == child.start_after else found
    if met != (parent in child.waits_for):
        return None
    if met:
        start = joined_start(spec, start, start_after(spec, parent, outcome))
    waiting = {parent}.symmetric_difference(child.waits_for)
    known = dict.fromkeys((*parents(spec), *child.waits_for))
    return AwaitedParents(tuple(one for one in known if one in waiting), (), start)


def with_dependencies(
    cluster: ClusterState,
    record: JobRecord,
    spec: JobSpec,
    ended: Mapping[int, ParentOutcome],
    modified: e.JobModified,
) -> e.JobModified:
    """Return the change of a queued job with what it waits for then; `ended` and errors as in `waits`.

    As a singleton it waits for the same jobs as before.
    """
    former = parents(cluster.written(record))
    found = waits(cluster, replace(spec, singleton=False), ended, record.id, record.owner)
    others = tuple(one for one in record.waits_for if one not in (*former, *found.waits_for))
    return replace(
        modified,
        waits_for=found.waits_for + others,
        satisfied=found.satisfied,
        start_after=found.start_after,
    )


def cancel_if_in_vain(cluster: ClusterState, record: JobRecord, now: Instant) -> list[e.JobEnded]:
    """Return the end of a queued job when the end of a job that it waits for was not the one; else nothing.

    Parents that ended in batches before have been looked at then.
    """
    lost = record.waits_for or (() if record.satisfied else record.spare)
    just_ended = [over for one in lost if (over := cluster.agenda.for_archive.get(JobId(one))) is not None]
    if not just_ended or (record.spare and record.waits_for):
        return []
    spec = cluster.spec(record)
    outcomes: dict[int, ParentOutcome] = {
        over.id: outcome_of(over, elements_of(spec, over.id)) for over in just_ended
    }
    # if any dependency is enough, and no parent is left, all others were past hope before
    for one in hopeless(replace(spec, any_dependency=False), outcomes):
        message = in_vain_words(one, outcomes[one.job])
        if spec.any_dependency:
            message = f"none of its dependencies can be satisfied any more; the last: {message}"
        return [
            e.JobEnded(
                at=now,
                job=record.id,
                outcome="canceled",
                message=message,
                skipped=True,
                parent=JobId(one.job),
            )
        ]
    return []
