"""The verb about the limits of users and projects: what each may have at once, and what it has."""

from collections.abc import Iterable, Iterator, Mapping

from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.owner_limits import EVERY, LimitedAmount, LimitOwner, LimitScope
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_request import job_names
from headnode.core.state.transitions import JobState
from headnode.protocol import requests as w
from headnode.protocol.user_answers import LimitsAnswer, LimitUse


@verb(READS)
async def limits(context: ServerContext, by: User, request: w.VerbRequest) -> LimitsAnswer:  # noqa: ARG001
    """Show the limits of the requesting user and of the projects of its jobs, and what is in use of each.

    To operators and administrators: of all users and projects with limits of their own or with jobs.
    """
    index = context.cluster.limit_index
    if not index.any:
        return LimitsAnswer(by.oversees, exist=False, limits=[])
    counted = context.engine.view(context.now()).licences
    owners = set(_owners(context.cluster, None if by.oversees else by.name))
    users_first = sorted(owners, key=lambda owner: (owner[0] is LimitScope.PROJECT, owner[1]))
    shown = [use for owner in users_first for use in _uses(context.cluster, *owner, counted)]
    return LimitsAnswer(by.oversees, exist=True, limits=shown)


def _owners(cluster: ClusterState, user: str | None) -> Iterator[tuple[LimitScope, str]]:
    """Yield the users and projects to show, some twice; all of them if no user is given."""
    entries, by_project = cluster.limit_index.entries, cluster.limit_index.by_project
    if user is None:
        named = ((scope, name) for scope in LimitScope for name in entries[scope] if name != EVERY)
        yield from named
    else:
        yield LimitScope.USER, user
    for record in cluster.jobs.values():
        if record.state is JobState.CONFIGURING or record.state.is_final or user not in (None, record.owner):
            continue
        yield LimitScope.USER, record.owner
        if by_project and (project := job_names(record.spec).project):
            yield LimitScope.PROJECT, project


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
