"""Who may change what: everybody sees all, owners change their own, administrators everything."""

from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.errors import NotAllowed
from headnode.core.model.user import User


def may_change(by: User, record: JobRecord) -> None:
    """Let the owner and administrators through.

    Raises:  NotAllowed ``not-owner``.
    """
    if by.uid != record.uid and not by.administrator:
        raise NotAllowed(
            code="not-owner",
            what=f"job {record.id} belongs to {record.owner!r}, not to {by.name!r}",
            fix="ask its owner or an administrator",
        )


def must_administer(by: User, what: str) -> None:
    """Let administrators through.

    Raises:  NotAllowed ``not-administrator``.
    """
    if not by.administrator:
        raise NotAllowed(
            code="not-administrator",
            what=f"{by.name!r} may not {what}",
            fix="ask an administrator: root, or the user who started the head",
        )
