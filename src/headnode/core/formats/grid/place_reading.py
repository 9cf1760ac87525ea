"""The places where a grid job may run, by the batch system and the hosts that it requires."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from headnode.core.formats.grid.requirement_reading import FORK, JOB_PREFIX, LRMS, TASK_PREFIX
from headnode.core.model.errors import BadRequest, Path
from headnode.core.model.job import JobSpec
from headnode.core.model.resource import BatchResource, is_elsewhere, places_in, places_of_kind


def _batch_systems(spec: JobSpec) -> Iterator[tuple[str, Path]]:
    """Yield each batch system that a job or a task of it asks for, and where."""
    yield spec.extensions.get(f"{JOB_PREFIX}{LRMS}", ""), ()
    for number, task in enumerate(spec.tasks):
        yield task.extensions.get(f"{TASK_PREFIX}{LRMS}", ""), ("tasks", number)


def placed_by_batch(spec: JobSpec, resources: Iterable[BatchResource]) -> JobSpec:
    """Return the job with the resources that have its batch system, or are called as it or as its hosts.

    It is as it was if it names a resource itself, or if there is none that fits all of it.
    """
    if spec.resource:
        return spec
    systems = [(each.name, each.system.value) for each in resources]
    spec = _placed_by_hosts(spec, [name for name, _ in systems])
    asked = {name.lower() for name, _ in _batch_systems(spec)} - {"", FORK.lower()}
    if len(asked) != 1:
        return spec
    found = places_of_kind(asked.pop(), systems)
    if spec.resource:
        hosts = places_in(spec.resource)
        found = tuple(name for name in found if name.lower() in hosts)
    return msgspec.structs.replace(spec, resource=",".join(found))


def _placed_by_hosts(spec: JobSpec, names: Sequence[str]) -> JobSpec:
    """Return the job with the resources that all of its hosts are; they are not nodes then."""
    known = {name.lower(): name for name in names}
    hosts = [host.lower() for host in spec.requested_nodes]
    if not hosts or not known.keys() >= set(hosts):
        return spec
    there = ",".join(known[host] for host in dict.fromkeys(hosts))
    return msgspec.structs.replace(spec, resource=there, requested_nodes=())


def refuse_other_batch(spec: JobSpec) -> None:
    """Refuse a job for another batch system that names no resource: own nodes must not run it.

    Raises:  BadRequest ``batch-system``.
    """
    if is_elsewhere(spec.resource):
        return
    other, path = next(((name, at) for name, at in _batch_systems(spec) if name not in ("", FORK)), ("", ()))
    if other:
        raise BadRequest(
            code="batch-system",
            what=f"the job is for the batch system {other!r} (lrms), and not exactly one resource has it",
            fix=f"name a resource: hn job submit --resource NAME; or write {FORK!r} to run it on own nodes",
            path=path,
        )
