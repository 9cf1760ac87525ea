"""The verb about the queue: the waiting jobs in the order in which the policy looks at them."""

from heapq import nsmallest
from itertools import islice

from headnode.apps.server.api.job_views import job_in_list
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import PAGE
from headnode.core.model.user import User
from headnode.protocol import counting_requests as w
from headnode.protocol.answers import ProcessorCount
from headnode.protocol.queue_answers import QueueAnswer, QueuedJob


@verb(READS)
async def queue(context: ServerContext, by: User, request: w.QueueRequest) -> QueueAnswer:  # noqa: ARG001
    """Show the first jobs of the queue, in its order, and the processors that the plan reserves for them."""
    view, plan = context.engine.view(context.now()), context.engine.last_plan
    waiting = sum(len(each.turns) for each in view.queue)
    limit = min(max(1, request.limit), PAGE.most)
    first = nsmallest(limit, (turn for each in view.queue for turn in islice(each.turns, limit)))
    reserved = {each.job: each.allocation for each in (plan.reservations if plan is not None else ())}
    shown = [
        job_in_list(
            QueuedJob,
            context,
            context.lookups.job(turn.job),
            position=position,
            places=[ProcessorCount(*share) for share in reserved.get(turn.job, ())],
        )
        for position, turn in enumerate(first, start=1)
    ]
    queued = sum(count for state, count in context.cluster.counts.items() if state.is_queued)
    return QueueAnswer(shown, waiting, max(0, queued - waiting))
