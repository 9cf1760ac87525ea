"""The job that is asked about, and the world with it changed."""

from bisect import bisect_left, insort
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.decision import Plan, Shares
from headnode.core.scheduling.view import Turn, View, WaitingClass


class Subject(NamedTuple):
    """A queued job, or one that could be: what it asks for, and its place in the queue."""

    turn: Turn
    request: JobRequest

    @property
    def job(self) -> JobId:
        """The job it is."""
        return JobId(self.turn[2])


class Outcome(NamedTuple):
    """What a plan does for the subject: where it starts now, or when it is promised to; NEVER if not."""

    at: Instant
    starts: Shares = ()

    @property
    def now(self) -> bool:
        """Whether the plan starts it at once."""
        return bool(self.starts)


def outcome_of(plan: Plan, view: View, subject: Subject) -> Outcome:
    """Return what the plan, made from this view, does for the subject."""
    started = next((start for start in plan.starts if start.job == subject.job), None)
    if started is not None:
        return Outcome(view.now, started.allocation)
    return Outcome(expected(plan, view, subject))


def expected(plan: Plan, view: View, subject: Subject) -> Instant:
    """Return when a job that waits is promised to start; NEVER if the plan promises it nothing."""
    for kept in plan.reservations:
        if kept.job == subject.job:
            return kept.at
    wait = plan.waits.get(subject.request)
    if wait is None or _first_of_class(view, subject.request) != subject.turn:
        return NEVER
    return wait.not_before


def _first_of_class(view: View, request: JobRequest) -> Turn | None:
    return next((waiting.turns[0] for waiting in view.queue if waiting.request == request), None)


def without(view: View, job: Subject) -> View:
    """Return the view in which this job does not queue; the view itself if it does not.

    Cost:  O(classes + jobs of its class).
    """
    queue = list(view.queue)
    for place, waiting in enumerate(queue):
        if waiting.request == job.request and _has(waiting, job.turn):
            left = [turn for turn in waiting.turns if turn != job.turn]
            queue[place : place + 1] = [WaitingClass(waiting.request, left)] if left else []
            return msgspec.structs.replace(view, queue=queue)
    return view


def with_job(view: View, subject: Subject) -> View:
    """Return the view in which the subject queues too, in its turn.

    Cost:  O(classes + jobs of its class).
    """
    queue = list(view.queue)
    for place, waiting in enumerate(queue):
        if waiting.request == subject.request:
            turns = list(waiting.turns)
            insort(turns, subject.turn)
            queue[place] = WaitingClass(waiting.request, turns)
            break
    else:
        queue.append(WaitingClass(subject.request, (subject.turn,)))
    return msgspec.structs.replace(view, queue=queue)


def _has(waiting: WaitingClass, turn: Turn) -> bool:
    place = bisect_left(waiting.turns, turn)
    return place < len(waiting.turns) and waiting.turns[place] == turn
