"""Events in words, for the history of a job.

Source: HPC Pack `job view /history`, whose sentences are kept.
"""

from datetime import UTC, datetime

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.events import Event, Place
from headnode.core.model.quantities import Instant


def sentence(event: Event) -> str:
    """Return what happened, in words; empty for events that a reader of a job's history does not miss."""
    match event:
        case e.JobCreated(owner=owner, by=by):
            return f"Created by {by} for {owner}" if by else f"Created by {owner}"
        case e.JobGiven(owner=owner, by=by):
            return f"Given to {owner} by {by}"
        case e.JobSubmitted(by=by):
            return f"Submitted by {by}" if by else "Submitted"
        case e.JobValidated(filters=filters, what=what):
            passed = f"Passed {', '.join(filters)}" if filters else "Validated"
            return passed + (f", which changed {what}" if what else "")
        case e.FilterAnswered(words=words, until=until):
            return words[:1].upper() + words[1:] + _until(until)
        case e.JobModified(by=by, what=what):
            return f"Modified by {by}: {what}" if by else f"Changed: {what}"
        case e.JobConfigured(by=by):
            return f"Reconfigured by {by}"
        case e.JobStarted(allocation=place, backfilled=backfilled):
            return f"Started on {_cores(place)}" + (" (backfilled)" if backfilled else "")
        case e.AllocationGrown(added=place):
            return f"Allocation increased by {_cores(place)}"
        case e.AllocationShrunk(removed=place, message=message):
            return f"Allocation reduced by {_cores(place)}" + (f": {message}" if message else "")
        case e.AllocationLost(removed=place, message=message):
            return f"Lost {_cores(place)}: {message}" if place else message[:1].upper() + message[1:]
        case e.ProcessorsRecalled(processors=()):
            return "Job is not being preempted any more"
        case e.ProcessorsRecalled(processors=shares, for_jobs=jobs, message=message):
            return (_preempted(jobs) if jobs else message[:1].upper() + message[1:]) + f": {_counted(shares)}"
        case e.NodesCleaning(nodes=nodes, message=message):
            return f"Epilog on {', '.join(nodes)}" + (f": {message}" if message else "")
        case _:
            return _waiting(event) or _stopping(event)


def _waiting(event: Event) -> str:
    match event:
        case e.JobHeld(name=name, by=by, message=message):
            return f"Hold {name} set by {by}" + (f": {message}" if message else "")
        case e.JobReleased(names=names, by=by):
            return f"Hold{'s' if len(names) > 1 else ''} {', '.join(names)} released by {by}"
        case e.JobSuspending(by=by):
            return f"Suspend requested by {by}"
        case e.JobSuspended(by=by):
            return f"Suspended again by {by}" if by else "Suspended"
        case e.JobResuming(by=by):
            return f"Resume requested by {by}"
        case e.JobResumed(allocation=place, by=by):
            return f"Resumed on {_cores(place)}" + (f" by {by}" if by else "")
        case _:
            return ""


def _stopping(event: Event) -> str:
    match event:
        case e.JobEnding(requeue=True, preempted_by=other) if other:
            return _preempted((other,))
        case e.JobEnding(requeue=True, by=by):
            return f"Requeue requested by {by}"
        case e.JobEnding(outcome="finished", by=""):
            return "All tasks ended"
        case e.JobEnding(outcome=outcome, by=by, force=force, message=message):
            wish = "Finish" if outcome == "finished" else "Cancel"
            return f"{wish} requested{' with force' if force else ''}" + (
                f" by {by}" if by else f": {message}"
            )
        case e.DispatchStopped(outcome=outcome, by=by):
            return f"{'Finish' if outcome == 'finished' else 'Cancel'} requested gracefully by {by}"
        case e.JobReturned(message=message):
            return f"Back in the queue: {message}"
        case e.JobRequeued(by=by, message=message) if by:
            return f"Requeued by {by}" + (f": {message}" if message else "")
        case e.JobRequeued():
            return "Requeued"
        case e.JobEnded(outcome=outcome, message=message):
            return f"Job {outcome.capitalize()}" + (f": {message}" if message else "")
        case e.TaskCanceled(task=task, message=message):
            return f"Task {task} canceled: {message}"
        case e.TaskRequeued(task=task, by=by):
            return f"Task {task} requeued by {by}"
        case _:
            return ""


def _until(at: Instant | None) -> str:
    if at is None:
        return ""
    return f", until {datetime.fromtimestamp(at, UTC).astimezone().isoformat(timespec='seconds')}"


def _preempted(jobs: tuple[int, ...]) -> str:
    return f"Job is being preempted by job{'s' if len(jobs) > 1 else ''} {', '.join(map(str, jobs))}"


def _cores(place: Place) -> str:
    return _counted(tuple((node, len(numbers)) for node, numbers in place))


def _counted(shares: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{node} with {count} core{'s' if count != 1 else ''}" for node, count in shares)
