"""Who may change what: everybody sees all jobs, owners change their own, operators and administrators more.

An operator sees to where and when the jobs of others run, and to their end; but what runs as somebody else
is not his to say, and neither is their output his to read.
"""

from collections.abc import Collection

from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.errors import NotAllowed
from headnode.core.model.user import User

OPERATORS_CHANGE = frozenset(
    {
        "priority", "name", "description", "project", "run_time", "hold_until", "end_by", "suspendable",
        "preemptable",
        "unit", "minimum", "maximum", "exclusive", "single_node", "licences", "node_groups", "node_group_op",
        "requested_nodes", "excluded_nodes", "order_by", "minimum_memory", "maximum_memory",
        "minimum_processors_per_node", "maximum_processors_per_node",
    }
)  # fmt: skip
"""The fields of other people's jobs that an operator may change: where and when, and nothing that runs."""


def may_change(by: User, record: JobRecord) -> None:
    """Let the owner through, and whoever sees to everybody's jobs.

    Raises:  NotAllowed ``not-owner``.
    """
    if by.uid != record.uid and not by.oversees:
        raise _not_owner(by, record, "ask its owner, an operator or an administrator")


def may_rewrite(by: User, record: JobRecord, fields: Collection[str]) -> None:
    """Let through who may change these fields of a job; operators not what runs as somebody else.

    Raises:  NotAllowed ``not-owner``.
    """
    may_change(by, record)
    if by.uid != record.uid and not by.administrator and (kept := sorted(set(fields) - OPERATORS_CHANGE)):
        raise NotAllowed(
            code="not-owner",
            what=f"an operator may not change {', '.join(kept)} of job {record.id} of {record.owner!r}",
            fix="ask its owner or an administrator",
        )


def may_read_output(by: User, record: JobRecord) -> None:
    """Let the owner and administrators through.

    Raises:  NotAllowed ``not-owner``.
    """
    if by.uid != record.uid and not by.administrator:
        raise _not_owner(by, record, "ask its owner or an administrator")


def _not_owner(by: User, record: JobRecord, fix: str) -> NotAllowed:
    return NotAllowed(
        code="not-owner", what=f"job {record.id} belongs to {record.owner!r}, not to {by.name!r}", fix=fix
    )


def must_administer(by: User, what: str) -> None:
    """Let administrators through.

    Raises:  NotAllowed ``not-administrator``.
    """
    if not by.administrator:
        asked = (
            "ask an administrator: `hn cluster params Administrators`, root, or the user who started the head"
        )
        raise NotAllowed(
            code="not-administrator",
            what=f"{by.name!r} may not {what}" + (" from inside a task" if by.by_node else ""),
            fix="administrators do that on the head's machine, or after `hn login`" if by.by_node else asked,
        )
