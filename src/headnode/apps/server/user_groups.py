"""Notes in the journal in which groups with limits users are; imported where limits name groups."""

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from headnode.adapters.identity.users import Account, groups_of
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.owner_limits import LIMIT_PARAMETERS, groups_in, read_owner_limits
from headnode.core.model.user import User
from headnode.core.state.nodes import SetUserGroups


async def note_groups(context: ServerContext, users: Iterable[User]) -> None:
    """Note the groups of users who change something, before they do, where these are not known yet."""
    limits = context.cluster.limit_index
    changed = {
        user.name: limits.limited_groups(user.groups)
        for user in users
        if not limits.are_known(user.name, user.groups)
    }
    if changed:
        await context.ask(SetUserGroups(groups=changed))


async def note_owners(
    context: ServerContext, parameter: str, value: str, seen: AbstractSet[Account] = frozenset()
) -> AbstractSet[Account]:
    """Note the groups of the owners of all jobs, before a parameter with limits gets a value; return these.

    So the limits apply at once to jobs that were submitted before.  Called again when the value is set, it
    finds the owners whose first jobs came meanwhile: those that were not `seen`.
    """
    scope = LIMIT_PARAMETERS[parameter]
    named = groups_in({**context.cluster.limit_index.entries, scope: read_owner_limits(value)})
    jobs = context.cluster.jobs.values() if named else ()
    owners = {Account(job.owner, job.uid, job.gid) for job in jobs} - seen
    if owners:
        groups = await asyncio.to_thread(_groups_among, owners, named)
        await context.ask(SetUserGroups(groups=groups))
    return owners


def _groups_among(owners: Iterable[Account], named: AbstractSet[str]) -> dict[str, tuple[str, ...]]:
    return {owner.name: tuple(sorted(named & groups_of(owner))) for owner in owners}
