"""The verbs about users, projects and groups: limits, shares, and what each has and had."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.priority_list import list_priorities
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import OWNER_PAGE, PAST_PAGE
from headnode.core.model.errors import BadRequest
from headnode.core.model.owner_limits import (
    EVERY,
    GROUP_MARK,
    LimitedAmount,
    LimitOwner,
    LimitScope,
    entry_of,
    is_limit,
    is_of_one_job,
    is_spent,
    limit_owner,
)
from headnode.core.model.priority_factors import JobScore, PriorityFactor, shares_of
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.core.scheduling.fair_share import FairShare
from headnode.core.scheduling.weighted_order import share_tree
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_request import job_names
from headnode.core.state.owner_usage import HALF_LIFE_PARAMETER, usage_weights
from headnode.core.state.transitions import JobState
from headnode.engine.policy_registry import order_in_use
from headnode.protocol.user_answers import (
    FactorWeights,
    LimitsAnswer,
    LimitUse,
    ListLimitsRequest,
    ListPrioritiesRequest,
    ListSharesRequest,
    PrioritiesAnswer,
    PriorityScore,
    ShareObject,
    SharesAnswer,
    WaitingJobPriority,
)

_SCOPES: Final = tuple(LimitScope)  # in the order of the list
LimitedOwners = Iterator[tuple[LimitScope, str]]
"""Users, projects and groups by their names."""


@verb(READS)
async def limits(context: ServerContext, by: User, request: ListLimitsRequest) -> LimitsAnswer:
    """Show the limits of the requesting user, its groups and the projects of its jobs, with use.

    To operators and administrators: of all users, projects and groups with limits of their own or with
    jobs, and of each name that they ask for.
    """
    index = context.cluster.limit_index
    if not index.any:
        return LimitsAnswer(by.oversees, exist=False, limits=[], more=None)
    counted = context.engine.view(context.now()).licences
    cluster = context.cluster
    owners = set(_all_owners(cluster, counted) if by.oversees else _owners_of(cluster, by.name))
    if request.names:
        owners = _named(owners, request.names, every=by.oversees)
    after = _place_after(request.after)
    ordered = sorted(owner for owner in map(_place, owners) if after is None or owner > after)
    page = ordered[: min(max(1, request.limit), OWNER_PAGE.most)]
    spent = _minutes(cluster, page, context.now())
    uses = [use for scope, name in page for use in _uses(cluster, _SCOPES[scope], name, counted, spent)]
    more = ",".join(map(str, page[-1])) if len(page) < len(ordered) else None
    return LimitsAnswer(by.oversees, exist=True, limits=uses, more=more)


def _place(owner: tuple[LimitScope, str]) -> tuple[int, str]:
    """Return the place of an owner in the list: users first, then by name."""
    return _SCOPES.index(owner[0]), owner[1]


def _place_after(text: str) -> tuple[int, str] | None:
    """Return the place behind which a page begins; None for the first page.

    Raises:  BadRequest ``page``.
    """
    if not text:
        return None
    number, comma, name = text.partition(",")
    if not comma or number not in map(str, range(len(_SCOPES))):
        raise BadRequest(
            code="page",
            what=f"{text[:80]!r} is not the end of a page",
            fix="pass `more` of the page before",
            path=("after",),
        )
    return int(number), name


def _named(
    owners: set[tuple[LimitScope, str]], names: Iterable[str], *, every: bool
) -> set[tuple[LimitScope, str]]:
    """Return the owners with these names; for whom may see `every` limit, others too, as users."""
    wanted = set(names)
    named = {owner for owner in owners if owner[1] in wanted}
    if every:
        named |= {(LimitScope.USER, name) for name in wanted - {name for _, name in named} if name}
    return named


def _all_owners(cluster: ClusterState, counted: Mapping[str, tuple[int, int]]) -> LimitedOwners:
    """Yield all users, projects and groups with limits of their own, with jobs or with usage, some twice."""
    index = cluster.limit_index
    for scope in LimitScope:
        of_users = scope is LimitScope.USER  # whose parameter has entries for members of groups
        names = (name for name in index.entries[scope] if not (of_users and name.startswith(GROUP_MARK)))
        yield from ((scope, name) for name in names if name != EVERY)
    yield from ((owner.scope, owner.name) for owner in map(limit_owner, filter(is_limit, counted)))
    yield from index.submitters()
    if index.counts_usage:
        yield from cluster.usage.users_and_projects()


def _owners_of(cluster: ClusterState, user: str) -> LimitedOwners:
    """Yield a user, its groups with limits, and the projects of its jobs.

    Cost:  O(jobs).
    """
    yield LimitScope.USER, user
    yield from ((LimitScope.GROUP, group) for group in cluster.limit_index.groups.get(user, ()))
    for record in cluster.jobs.values() if cluster.limit_index.by_project else ():
        if record.owner == user and record.state is not JobState.CONFIGURING:
            yield LimitScope.PROJECT, job_names(record.spec).project


def _minutes(cluster: ClusterState, page: Iterable[tuple[int, str]], now: Instant) -> dict[str, int]:
    """Return the seconds that are used or reserved of limits of these owners."""
    if not cluster.limit_index.counts_time:
        return {}
    from headnode.core.state.limit_use import limits_in_use  # few clusters have limits

    owners = (LimitOwner(_SCOPES[scope], name, each) for scope, name in page for each in LimitedAmount)
    keys = [owner.key for owner in owners if is_spent(owner.key)]
    return limits_in_use(cluster, keys, now)


def _uses(
    cluster: ClusterState,
    scope: LimitScope,
    name: str,
    counted: Mapping[str, tuple[int, int]],
    spent: Mapping[str, int],
) -> Iterable[LimitUse]:
    """Yield the limits of a user, project or group, in the order of the amounts.

    counted:  what the scheduler counts by the keys of limits: in all, and free
    spent:    by such keys, the seconds that are used or reserved
    """
    index, limits = cluster.limit_index, cluster.limit_index.of(scope, name)
    groups = index.groups.get(name, ()) if scope is LimitScope.USER else ()
    for amount in LimitedAmount:
        if amount not in limits:
            continue
        if amount is LimitedAmount.SUBMITTED:
            used = index.submitted(scope, name)
        elif is_spent(key := LimitOwner(scope, name, amount).key):
            used = amount.shown(spent[key])
        elif is_of_one_job(key):
            used = 0  # each job has it for itself
        else:
            most, free = counted.get(key, (0, 0))
            used = most - free
        entry = entry_of(index.entries[scope], name, groups, amount)
        yield LimitUse(scope.value, name, amount.value, limits[amount], used, entry)


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
