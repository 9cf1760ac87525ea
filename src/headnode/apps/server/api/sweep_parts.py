"""The verb about the parts of a sweep: how many instances of each part are in each state."""

from collections.abc import Iterable, Sequence

from headnode.apps.server.api.job_objects import instances_of, progress_of
from headnode.apps.server.api.tasks import task_of
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.user import User
from headnode.core.state.job_record import TaskProgress
from headnode.protocol import counting_requests as w
from headnode.protocol.answers import InstanceCounts
from headnode.protocol.sweep_answers import InstanceCountsAnswer, SweepPart


@verb(READS)
async def instance_counts(
    context: ServerContext,
    by: User,  # noqa: ARG001
    request: w.InstanceCountsRequest,
) -> InstanceCountsAnswer:
    """Divide the instances of a task into parts, and show how many of each are in each state."""
    found = context.lookups.job(request.job)
    task_of(found, request.task)
    total = instances_of(found.record, found.spec, request.task)
    progress = progress_of(found.record, found.spec, request.task)
    return InstanceCountsAnswer(sweep_parts(progress, total, request.parts), total)


def sweep_parts(progress: TaskProgress, total: int, parts: int) -> list[SweepPart]:
    """Return at most `parts` parts of instances 1 to `total`, with the states of their instances.

    Cost:  O(parts + intervals + live instances).
    """
    size = max(1, -(-total // parts))
    number = -(-total // size)
    running = _by_part(((instance, instance) for instance in progress.live), size, number)
    finished, failed, canceled = (
        _by_part(seen.spans(), size, number)
        for seen in (progress.finished, progress.failed, progress.canceled)
    )
    shown = []
    for part in range(number):
        first, last = part * size + 1, min(total, (part + 1) * size)
        count = last - first + 1
        states = (running[part], finished[part], failed[part], canceled[part])
        shown.append(SweepPart(first, last, InstanceCounts(count, count - sum(states), *states)))
    return shown


def _by_part(spans: Iterable[tuple[int, int]], size: int, number: int) -> Sequence[int]:
    """Return how many numbers of the spans are in each part of `size`, counted from 1."""
    found = [0] * number
    for first, last in spans:
        for part in range((first - 1) // size, min(number - 1, (last - 1) // size) + 1):
            found[part] += min(last, (part + 1) * size) - max(first, part * size + 1) + 1
    return found
