"""Jobs that name several places get one of them: decided by what is known of each, and remembered with it."""

from collections.abc import Mapping

from headnode.core.model.job import JobSpec, places_named
from headnode.core.model.place import PlaceEstimate, Placement
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.resource import ANY, HERE, BatchResource
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event, JobPlaced
from headnode.core.state.job_record import spec_of
from headnode.core.state.place_choice import choose_place
from headnode.core.state.transitions import JobState, job_target


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
