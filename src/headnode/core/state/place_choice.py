"""Jobs that may run at several places: the one with the earliest expected start is chosen, and remembered.

Own nodes are kept unless another place is earlier by more than `MARGIN`: a job that was handed over does not
come back by itself, and predictions are seldom better than that.
"""

from collections.abc import Mapping, Sequence
from math import inf

from headnode.core.model.job import JobSpec, places_named
from headnode.core.model.quantities import Instant, JobId, Seconds, format_time_limit
from headnode.core.model.resource import (
    ANY,
    HERE,
    BatchResource,
    PlaceEstimate,
    Placement,
    StartBasis,
)
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event, JobPlaced
from headnode.core.state.job_record import spec_of
from headnode.core.state.transitions import JobState, job_target

MARGIN = Seconds(60.0)
"""By how much a resource must be expected to start a job earlier than own nodes."""


def choose_place(estimates: Sequence[PlaceEstimate]) -> str:
    """Return the resource where a job is to go, or "" if it is to stay in the queue here for now.

    estimates:  one of each place that the job names, in its order

    A resource with an unknown start is chosen only if own nodes are no choice and no start is known.  While
    the start on own nodes is not known, the job stays.
    """
    local = next((each for each in estimates if each.place == HERE), None)
    there = [each for each in estimates if each.place != HERE and not each.problem]
    known = [each for each in there if each.start is not None]
    best = min(known, key=lambda each: each.at, default=None)  # of equal ones the first
    if local is None or local.problem:
        best = best or next(iter(there), None)
        return "" if best is None else best.place
    if best is None or not local.usable or best.at + MARGIN >= local.at:
        return ""
    return best.place


def expected_by_waits(
    place: str, now: Instant, waited: Sequence[Seconds], waiting: Sequence[Instant]
) -> PlaceEstimate:
    """Return when a resource is expected to start a job, from the waits of our tasks there alone.

    waited:   how long the latest tasks waited there
    waiting:  since when others wait there now

    The median of the waits counts, or the longest time that one has waited up to now.  Where nothing is
    known, one task is let go first: a second one while that waits has no expected start.
    """
    if waited or not waiting:
        usual = sorted(waited)[len(waited) // 2] if waited else Seconds(0.0)
        longest = max((now - since for since in waiting), default=0.0)
        basis = StartBasis.WAITS if waited else StartBasis.IDLE
        return PlaceEstimate(place, Instant(now + max(usual, longest)), basis)
    return PlaceEstimate(place)


def places_in_words(estimates: Sequence[PlaceEstimate], now: Instant) -> str:
    """Return what was known of each place, the earliest first: seconds from `now` and where they come from.

    >>> places_in_words([PlaceEstimate("here", Instant(99.0), StartBasis.PREDICTED)], Instant(9.0))
    'here in 2m (predicted from the queue here)'
    """
    return "; ".join(_in_words(each, now) for each in by_start(estimates))


def _in_words(one: PlaceEstimate, now: Instant) -> str:
    if one.problem:
        return f"not {one.place}: {one.problem}"
    if one.start is None:
        return f"{one.place}: {one.basis.value}"
    when = "now" if one.start - now < 1.0 else f"in {format_time_limit(Seconds(one.start - now))}"
    return f"{one.place} {when} ({one.basis.value})"


def by_start(estimates: Sequence[PlaceEstimate]) -> list[PlaceEstimate]:
    """Return the estimates, the earliest first; places that cannot be used are last."""
    return sorted(estimates, key=lambda each: (bool(each.problem), each.at if each.usable else inf))


class PlaceJob(Command, frozen=True):
    """Head: send a queued job to the place that is expected to start it first; own nodes are kept else."""

    job: JobId
    estimates: tuple[PlaceEstimate, ...]


def places_of(resources: Mapping[str, BatchResource], spec: JobSpec) -> tuple[str, ...]:
    """Return the places where a job may run; `any` is own nodes, then all resources by their names."""
    named = places_named(spec)
    if ANY not in named:
        return named
    return tuple(dict.fromkeys((*(each for each in named if each != ANY), HERE, *sorted(resources))))


def place(cluster: ClusterState, command: PlaceJob, now: Instant) -> list[Event]:
    """Choose, unless the job waits no more for a place, or waits for something else.

    An estimate of a place that the job does not name, or that was removed, is not considered.
    """
    record = cluster.jobs.get(command.job)
    if (
        record is None
        or record.state is not JobState.QUEUED
        or record.id not in cluster.resource_index.choosing
    ):
        return []
    named = cluster.resource_index.named
    places = places_of(named, spec_of(record))
    known = {each.place: each for each in command.estimates}
    fit = tuple(known[each] for each in places if each in known and (each == HERE or each in named))
    chosen = choose_place(fit)
    if not chosen:
        return []
    return [JobPlaced(at=now, job=record.id, resource=chosen, estimates=fit)]


def placed(cluster: ClusterState, event: JobPlaced) -> None:
    """The job goes to the place, and waits there until that has room."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    cluster.dequeue(record)
    cluster.move(record, state)
    record.placement = Placement(event.resource, event.at, event.estimates)
    cluster.enqueue(record)
