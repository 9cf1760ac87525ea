"""The end of an allocation with its command, which runs where it was typed."""

from headnode.apps.server.api.verbs import OVERSEES, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest
from headnode.core.model.job_checks import is_allocation
from headnode.core.model.user import User
from headnode.core.state.permissions import may_change
from headnode.core.state.stop import StopJob
from headnode.protocol.allocations import EndAllocationRequest
from headnode.protocol.answers import JobStateAnswer


@verb(OVERSEES)
async def end_allocation(context: ServerContext, by: User, request: EndAllocationRequest) -> JobStateAnswer:
    """End an allocation after its command; with an exit code other than 0 the job has failed."""
    found = context.lookups.job(request.job)
    may_change(by, found.record)
    if not is_allocation(found.spec):
        raise BadRequest(
            code="no-allocation",
            what=f"job {request.job} does not end with a command of its client",
            fix=f"finish or cancel it: hn job finish {request.job}",
            path=("job",),
        )
    if not found.ended:
        command = StopJob(
            by=by,
            job=found.record.id,
            outcome="failed" if request.exit_code else "finished",
            message=f"the command of salloc ended with exit status {request.exit_code}",
            force=True,
        )
        await context.ask(command)
    return JobStateAnswer(request.job, context.lookups.job(request.job).record.state.value)
