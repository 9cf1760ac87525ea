"""The users that jobs name, as the head's machine knows them."""

from collections.abc import Iterable

from headnode.adapters.identity.users import account
from headnode.core.lifecycle.owners import is_other, plain_name
from headnode.core.model.errors import NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.user import User


def users_named(by: User, specs: Iterable[JobSpec]) -> dict[str, User]:
    """Return those that are known; only for administrators, who alone may name others."""
    if not by.administrator:
        return {}
    found: dict[str, User] = {}
    for name in {plain_name(spec.run_as) for spec in specs if is_other(by, spec)}:
        try:
            known = account(name)
        except NotFound:
            continue  # it is refused where the job is known
        found[name] = User(name=known.name, uid=known.uid, gid=known.gid)
    return found
