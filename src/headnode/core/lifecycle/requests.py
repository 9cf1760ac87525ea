"""From what a job says to what the scheduler needs.

Source: HPC Pack automatic calculation: the smallest size is the largest minimum of its tasks, the largest is
what all tasks could use together.
"""

from functools import lru_cache

from headnode.core.lifecycle.records import MOST_REMEMBERED, SMALL, decode_spec
from headnode.core.model.job import JobRequest, JobSpec


def request_of(spec: JobSpec) -> JobRequest:
    """Return the request; sizes that were left open are calculated from the tasks."""
    smallest = max((task.minimum for task in spec.tasks), default=1)
    minimum = smallest if spec.minimum is None else spec.minimum
    largest = sum(task.maximum * task.instances for task in spec.tasks) or 1
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
        node_share=max((task.minimum for task in spec.tasks if task.exclusive), default=0),
    )


def request_in(data: bytes) -> JobRequest:
    """Return the request of the description that `data` holds; equal small ones of late share one."""
    return _request_in_small(data) if len(data) <= SMALL else request_of(decode_spec(data))


@lru_cache(MOST_REMEMBERED)
def _request_in_small(data: bytes) -> JobRequest:
    return request_of(decode_spec(data))
