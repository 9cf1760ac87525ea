"""From what a job says to what the scheduler needs.

Source: HPC Pack automatic calculation: the smallest size is the largest minimum of its tasks, the largest is
what all tasks could use together.
"""

from functools import lru_cache

from msgspec.structs import replace

from headnode.core.lifecycle.parts import gang_parts, is_gang, shared_parts
from headnode.core.lifecycle.records import MOST_REMEMBERED, SMALL, Run, decode_spec
from headnode.core.model.alternatives import chosen
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.task import MOST_INSTANCES, TaskSpec, TaskType


def request_of(spec: JobSpec) -> JobRequest:
    """Return the request with its alternatives; sizes that were left open are calculated from the tasks."""
    own = own_request(spec)
    return replace(own, others=others(spec)) if spec.alternatives else own


def others(spec: JobSpec) -> tuple[JobRequest, ...]:
    """Return the request of each alternative, in their order; even of those that ask for the same.

    So the n-th of them is option n of the job.
    """
    return tuple(own_request(chosen(spec, option)) for option in range(1, len(spec.alternatives) + 1))


def own_request(spec: JobSpec) -> JobRequest:
    """Return the request without its alternatives: that of a job that runs.

    A gang is as large as its tasks need to run beside each other, whatever size the job says.
    """
    plain = _plain(spec)
    if not spec.tasks:
        return plain
    if not is_gang(spec):
        parts = shared_parts(spec)
        return replace(plain, parts=parts) if parts else plain
    parts = gang_parts(spec)
    size = sum(part.units for part in parts)
    return replace(plain, minimum=size, maximum=size, node_share=0, together=True, parts=parts)


def _plain(spec: JobSpec) -> JobRequest:
    smallest = max((task.minimum for task in spec.tasks), default=1)
    minimum = smallest if spec.minimum is None else spec.minimum
    largest = sum(task.maximum * _beside(task) for task in spec.tasks) or 1
    maximum = largest if spec.maximum is None else spec.maximum
    required = {node: None for task in spec.tasks for node in task.required_nodes}
    return JobRequest(
        unit=spec.unit,
        minimum=minimum,
        maximum=max(minimum, maximum),
        exclusive=spec.exclusive,
        single_node=spec.single_node,
        run_time=spec.run_time,
        licences=spec.licences,
        node_groups=spec.node_groups,
        node_group_op=spec.node_group_op,
        requested_nodes=spec.requested_nodes,
        required_nodes=tuple(required),
        excluded_nodes=spec.excluded_nodes,
        order_by=spec.order_by,
        minimum_memory=spec.minimum_memory,
        maximum_memory=spec.maximum_memory,
        minimum_processors_per_node=spec.minimum_processors_per_node,
        maximum_processors_per_node=spec.maximum_processors_per_node,
        memory=spec.process_memory or 0,
        held=spec.held,
        node_share=max((task.minimum for task in spec.tasks if task.exclusive), default=0),
        needs=spec.needs,
        reservation=spec.reservation.lower(),
    )


def _beside(task: TaskSpec) -> int:
    """Return how many instances of a task may run beside each other; a service fills whatever it is given."""
    return MOST_INSTANCES if task.kind is TaskType.SERVICE else task.instances


def request_in(data: bytes) -> JobRequest:
    """Return the request of the description that `data` holds; equal small ones of late share one."""
    return _request_in_small(data) if len(data) <= SMALL else request_of(decode_spec(data))


def request_taken(data: bytes, option: int) -> JobRequest:
    """Return the request under which a job runs that was given this option of its description in `data`."""
    whole = request_in(data)
    if not whole.others:
        return whole
    return whole.others[option - 1] if option else replace(whole, others=())


def without_refused(request: JobRequest, run: Run | None) -> JobRequest:
    """Return the request of a job without the nodes that could not be prepared for it."""
    if run is None or not run.refused:
        return request
    return replace(request, excluded_nodes=(*request.excluded_nodes, *run.refused))


@lru_cache(MOST_REMEMBERED)
def _request_in_small(data: bytes) -> JobRequest:
    return request_of(decode_spec(data))
