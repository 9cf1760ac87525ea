"""What a suspended job needs to go on: as many processors of the very same nodes as it held."""

from msgspec.structs import replace

from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.records import Run, Suspension
from headnode.core.lifecycle.requests import own_request
from headnode.core.model.errors import Broken
from headnode.core.model.held import NOTHING_HELD
from headnode.core.model.job import JobRequest, JobSpec, NodeGroupOp, Part, UnitType
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import FOREVER, Seconds

Places = dict[str, tuple[int, ...]]


def suspension_of(run: Run | None) -> Suspension:
    """Return the suspension of a job that is suspended.

    Raises:  Broken ``not-suspended``.
    """
    if run is None or run.suspension is None:
        raise Broken(code="not-suspended", what="a job is suspended and has no suspension")
    return run.suspension


def request_to_resume(spec: JobSpec, suspension: Suspension) -> JobRequest:
    """Return the request of a suspended job that waits to go on: one part for each of its nodes.

    It takes its licences again.  Its memory, disk and swap it never gave back.
    """
    processors = sum(map(len, suspension.places.values()))
    left = FOREVER if suspension.left is None else suspension.left
    if spec.end_by is not None:
        left = min(left, Seconds(max(0.0, spec.end_by - suspension.since)))
    return replace(
        own_request(spec),
        unit=UnitType.PROCESSOR,
        minimum=processors,
        maximum=processors,
        run_time=left,
        single_node=False,
        node_groups=(),
        node_group_op=NodeGroupOp.INTERSECT,
        requested_nodes=(),
        required_nodes=(),
        excluded_nodes=(),
        order_by=(),
        minimum_memory=None,
        maximum_memory=None,
        minimum_processors_per_node=None,
        maximum_processors_per_node=None,
        memory=0,
        held=NOTHING_HELD,
        node_share=0,
        needs=ANY_NODE,
        together=True,
        parts=tuple(_part(node, len(numbers)) for node, numbers in suspension.places.items()),
    )


def _part(node: str, processors: int) -> Part:
    return Part(lumps=((processors, 1),), needs=NodeNeeds(names=(node,)))


def renumbered(before: Places, now: Places) -> dict[str, dict[int, int]]:
    """Return, by node, which processor takes the place of each one that a job had.

    One that it has again keeps its place.
    """
    found: dict[str, dict[int, int]] = {}
    for node, had in before.items():
        has = now.get(node, ())
        fresh = iter(sorted(set(has) - set(had)))
        found[node] = {number: number if number in has else next(fresh) for number in sorted(had)}
    return found


def moved(place: Place, to: dict[str, dict[int, int]]) -> Place:
    """Return a place with its processors renumbered; nodes that `to` does not know are left alone."""
    return tuple(
        (node, tuple(to[node].get(number, number) for number in numbers) if node in to else numbers)
        for node, numbers in place
    )
