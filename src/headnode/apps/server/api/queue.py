"""The verbs about the queue: its jobs in the order of the policy, why a job waits, and what a job would get.

What answers the verbs that ask the policy again is imported with the first question.
"""

from heapq import nsmallest
from itertools import islice

from headnode.apps.server.api.job_views import job_in_list
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import PAGE
from headnode.core.model.user import User
from headnode.protocol import requests as w
from headnode.protocol.answers import ProcessorCount
from headnode.protocol.cluster_answers import QueueAnswer, QueuedJob, QueueRequest
from headnode.protocol.explanations import CheckAnswer, Explanation


@verb(READS)
async def queue(context: ServerContext, by: User, request: QueueRequest) -> QueueAnswer:  # noqa: ARG001
    """Show the first jobs of the queue, in its order, and the processors that the plan reserves for them."""
    view, plan = context.engine.view(context.now()), context.engine.last_plan
    waiting = sum(len(each.turns) for each in view.queue)
    limit = min(max(1, request.limit), PAGE.most)
    first = nsmallest(limit, (turn for each in view.queue for turn in islice(each.turns, limit)))
    reserved = {each.job: each.allocation for each in (plan.reservations if plan is not None else ())}
    jobs = [
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
    return QueueAnswer(jobs, waiting, max(0, queued - waiting))


@verb(READS)
async def check_job(context: ServerContext, by: User, request: w.SubmitJobRequest) -> CheckAnswer:
    """Show the result of a submission, and what would become of each job. Nothing is created or changed.

    Each job is examined as if the others of its file did not exist, except those that it waits for.
    Raises:  whatever would refuse the submission.
    """
    from headnode.apps.server.explain.dry_run import dry_run

    return await dry_run(context, by, request)


@verb(READS)
async def explain_job(context: ServerContext, by: User, request: w.JobIdRequest) -> Explanation:
    """Show why a job waits, when it may start, and which changes would let it start now or sooner."""
    from headnode.apps.server.explain.explain_job import explanation_of

    return await explanation_of(context, by, request.job)
