"""The verb about the limits of users and projects: what each may have at once, and what it has."""

from collections.abc import Iterable, Iterator, Mapping

from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.owner_limits import (
    EVERY,
    LimitedAmount,
    LimitOwner,
    LimitScope,
    is_limit,
    limit_owner,
)
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_request import job_names
from headnode.core.state.limit_index import LimitIndex
from headnode.core.state.transitions import JobState
from headnode.protocol import requests as w
from headnode.protocol.user_answers import LimitsAnswer, LimitUse

LimitedOwners = Iterator[tuple[LimitScope, str]]
"""Users and projects by their names."""


@verb(READS)
async def limits(context: ServerContext, by: User, request: w.VerbRequest) -> LimitsAnswer:  # noqa: ARG001
    """Show the limits of the requesting user and of the projects of its jobs, and what is in use of each.

    To operators and administrators: of all users and projects with limits of their own or with jobs.
    """
    index = context.cluster.limit_index
    if not index.any:
        return LimitsAnswer(by.oversees, exist=False, limits=[])
    counted = context.engine.view(context.now()).licences
    owners = set(_all_owners(index, counted) if by.oversees else _owners_of(context.cluster, by.name))
    users_first = sorted(owners, key=lambda owner: (owner[0] is LimitScope.PROJECT, owner[1]))
    shown = [use for owner in users_first for use in _uses(context.cluster, *owner, counted)]
    return LimitsAnswer(by.oversees, exist=True, limits=shown)


def _all_owners(index: LimitIndex, counted: Mapping[str, tuple[int, int]]) -> LimitedOwners:
    """Yield all users and projects with limits of their own or with jobs, some twice."""
    yield from ((scope, name) for scope in LimitScope for name in index.entries[scope] if name != EVERY)
    yield from ((owner.scope, owner.name) for owner in map(limit_owner, filter(is_limit, counted)))
    yield from index.submitters()


def _owners_of(cluster: ClusterState, user: str) -> LimitedOwners:
    """Yield a user, and the projects of its jobs.

    Cost:  O(jobs).
    """
    yield LimitScope.USER, user
    for record in cluster.jobs.values() if cluster.limit_index.by_project else ():
        if record.owner == user and record.state is not JobState.CONFIGURING:
            yield LimitScope.PROJECT, job_names(record.spec).project


def _uses(
    cluster: ClusterState, scope: LimitScope, name: str, counted: Mapping[str, tuple[int, int]]
) -> Iterable[LimitUse]:
    """Yield the limits of a user or project, in the order of the amounts.

    counted:  what the scheduler counts by the keys of limits: in all, and free
    """
    index, found = cluster.limit_index, cluster.limit_index.of(scope, name)
    named = index.entries[scope].get(name, {})
    for amount in LimitedAmount:
        if amount not in found:
            continue
        if amount is LimitedAmount.SUBMITTED:
            used = index.submitted(scope, name)
        else:
            most, free = counted.get(LimitOwner(scope, name, amount).key, (0, 0))
            used = most - free
        yield LimitUse(scope.value, name, amount.value, found[amount], used, amount in named)
