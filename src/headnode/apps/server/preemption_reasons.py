"""What preemption does to a job, in words that name the others."""

from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.scheduling.decision import Plan, Reason, Why


def preemption_reasons(plan: Plan | None, record: JobRecord) -> list[Reason]:
    """Return who gives something up for a job, or for whom it does or did; `plan` is the last of the head."""
    if record.state.is_queued:
        claims = [] if plan is None else [claim.why for claim in plan.claims if claim.job == record.id]
        return claims + _gave_way(record)
    return _being_preempted(record)


def _gave_way(record: JobRecord) -> list[Reason]:
    if record.run is None or not record.run.gave_way_to:
        return []
    other = record.run.gave_way_to
    return [Reason(Why.PREEMPTION, f"it was preempted by job {other} and is queued again", str(other))]


def _being_preempted(record: JobRecord) -> list[Reason]:
    run = record.run
    if run is None:
        return []
    if record.state is JobState.ENDING and run.preempted_by:
        other = run.preempted_by
        text = f"it is being preempted by job {other} and will be requeued"
        return [Reason(Why.PREEMPTION, text, str(other))]
    if not run.recalled or not run.recalled_for:
        return []
    names = ", ".join(map(str, run.recalled_for))
    jobs = f"job{'s' if len(run.recalled_for) > 1 else ''} {names}"
    left = sum(run.recalled.values())
    text = f"it gives up {left} processor{'s' if left > 1 else ''} for {jobs} as its tasks end"
    if sum(map(len, run.allocation.values())) == left:
        text = f"it gives up all its processors for {jobs} as its tasks end and will be requeued"
    return [Reason(Why.PREEMPTION, text, str(run.recalled_for[0]))]
