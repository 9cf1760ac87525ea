"""The verbs about what users and projects have used of their shares, and how that orders waiting jobs."""

from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.priority_list import list_priorities
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import OWNER_PAGE, PAST_PAGE
from headnode.core.model.owner_limits import EVERY, LimitScope
from headnode.core.model.priority_factors import JobScore, PriorityFactor, shares_of
from headnode.core.model.user import User
from headnode.core.scheduling.fair_share import FairShare
from headnode.core.scheduling.weighted_order import share_tree
from headnode.core.state.job_request import job_names
from headnode.core.state.owner_usage import HALF_LIFE_PARAMETER, usage_weights
from headnode.engine.policy_registry import order_in_use
from headnode.protocol.shares import (
    FactorWeights,
    ListPrioritiesRequest,
    ListSharesRequest,
    PrioritiesAnswer,
    PriorityScore,
    ShareObject,
    SharesAnswer,
    WaitingJobPriority,
)


@verb(READS)
async def shares(context: ServerContext, by: User, request: ListSharesRequest) -> SharesAnswer:
    """Show the shares of the requesting user and of the projects of its jobs, with what is used of them.

    To operators and administrators: of all users and projects.
    """
    engine, cluster, after = context.engine, context.cluster, tuple(request.after.partition(",")[::2])
    order = order_in_use(engine.policies, engine.settings)
    wanted = shares_of(engine.settings.values)
    known = {*cluster.limit_index.entries[LimitScope.PROJECT], *wanted.projects} - {EVERY}
    open_to_all = {(by.name, project) for project in known}  # any user may name them
    view, counted = engine.owners(context.now()), usage_weights(engine.settings.values)
    tree = share_tree(wanted, view, counted, charged=False, also=open_to_all)
    own = sorted(open_to_all | {key for key in tree.owners() if by.oversees or key[0] == by.name})
    seen = [key for key in own if key > after]
    page = seen[: min(max(1, request.limit), OWNER_PAGE.most)]
    members = {project for user, project in tree.owners() if by.oversees or user == by.name}
    named = [tree.of_project(name) for name in sorted({project for _, project in page} - {""})]
    return SharesAnswer(
        every=by.oversees,
        weighted=order is not None and bool(order.weights.get(PriorityFactor.FAIR_SHARE)),
        total=sum(view.usage.values()),
        half_life=float(engine.settings.number(HALF_LIFE_PARAMETER)),
        projects=[_object(each) for each in named if each.project in members or not each.used],
        users=[_object(tree.of(key)) for key in page],
        more=",".join(page[-1]) if len(page) < len(seen) else None,
    )


@verb(READS)
async def priorities(context: ServerContext, by: User, request: ListPrioritiesRequest) -> PrioritiesAnswer:  # noqa: ARG001
    """Show the priorities of waiting jobs, and what orders them within these.

    Cost:  O(jobs), as a scheduling pass, for the first page; further ones of the next minute are of its time.
    """
    cluster, now, kept = context.cluster, context.now(), context.priority_list
    if kept is None or not kept.serves(request.after, now):
        kept = list_priorities(context.engine, now)
    page, more = kept.page(context.engine, request.after, min(max(1, request.limit), PAST_PAGE.most))
    context.priority_list = None if more is None else kept
    return PrioritiesAnswer(
        weights=FactorWeights(*(kept.weights.get(factor, 0) for factor in PriorityFactor)),
        jobs=[
            WaitingJobPriority(
                job,
                cluster.jobs[job].owner,
                job_names(cluster.jobs[job].spec).project,
                cluster.jobs[job].priority,
                score_object(kept.scores.get(job)),
            )
            for job in page
        ],
        more=more,
    )


def score_object(score: JobScore | None) -> PriorityScore | None:
    """Return what orders a job, as clients get it."""
    return None if score is None else PriorityScore(score.fair_share, score.age, score.size)


def _object(of: FairShare) -> ShareObject:
    return ShareObject(
        of.user,
        of.project,
        of.shares,
        of.part,
        of.used,
        of.used_part,
        of.level if of.part else None,
        of.factor,
    )
