"""The verbs that ask the policy again.  What answers them is imported with the first question."""

from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.user import User
from headnode.protocol import requests as w
from headnode.protocol.explanation_answers import CheckAnswer, Explanation


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
