"""Who may use which verb, and which verbs change something: one row for each.

What is an owner's is checked where the job is known, in core; what is an administrator's here, too.
A verb without a row is for administrators, and counts as a change.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from headnode.core.lifecycle.permission import must_administer
from headnode.core.model.errors import NotAllowed
from headnode.core.model.user import User


class Who(StrEnum):
    """Who may."""

    EVERYBODY = "everybody"
    OVERSEER = "its owner, operators, administrators"  # of the job that it is about
    OWNER = "its owner, administrators"
    OPERATOR = "operators, administrators"
    ADMINISTRATOR = "administrators"


class Access(NamedTuple):
    """The row of a verb.

    changes: it is written to the audit log, and refused when that cannot be written
    near:    only from the head's own machine
    """

    who: Who
    changes: bool = False
    near: bool = False


_LOOKS = Access(Who.EVERYBODY)
_MAKES = Access(Who.EVERYBODY, changes=True)
_SEES_TO = Access(Who.OVERSEER, changes=True)
_ADMINISTERS = Access(Who.ADMINISTRATOR, changes=True)

ACCESS: Mapping[str, Access] = MappingProxyType(
    {
        "ping": _LOOKS,
        "whoami": _LOOKS,
        "defaults": _LOOKS,
        "create_job": _MAKES,
        "run_everywhere": _ADMINISTERS,
        "run_here": Access(Who.ADMINISTRATOR),  # a part of what was asked for
        "shell": Access(Who.OWNER, changes=True),
        "submit_job": _MAKES,
        "check_job": _LOOKS,
        "add_tasks": Access(Who.OWNER, changes=True),
        "modify_job": _SEES_TO,
        "set_progress": _SEES_TO,
        "cancel_job": _SEES_TO,
        "finish_job": _SEES_TO,
        "requeue_job": _SEES_TO,
        "suspend_job": _SEES_TO,
        "resume_job": _SEES_TO,
        "hold_job": _SEES_TO,
        "release_job": _SEES_TO,
        "clone_job": _MAKES,
        "job": _LOOKS,
        "jobs": _LOOKS,
        "watch_job": _LOOKS,
        "group": _LOOKS,
        "submit_group": _SEES_TO,
        "cancel_group": _SEES_TO,
        "finish_group": _SEES_TO,
        "history": _LOOKS,
        "past_jobs": _LOOKS,
        "predictions": _LOOKS,
        "explain_job": _LOOKS,
        "export_job": _LOOKS,
        "tasks": _LOOKS,
        "task": _LOOKS,
        "cancel_task": _SEES_TO,
        "finish_task": _SEES_TO,
        "modify_task": Access(Who.OWNER, changes=True),
        "requeue_task": _SEES_TO,
        "output": _LOOKS,
        "read_output": Access(Who.OWNER),
        "nodes": _LOOKS,
        "node": _LOOKS,
        "node_history": _LOOKS,
        "approve_node": _ADMINISTERS,
        "pause_node": _ADMINISTERS,
        "drain_node": _ADMINISTERS,
        "reservations": _LOOKS,
        "reservation": _LOOKS,
        "make_reservation": _ADMINISTERS,
        "change_reservation": _ADMINISTERS,
        "cancel_reservation": _ADMINISTERS,
        "resume_node": _ADMINISTERS,
        "invite_node": _ADMINISTERS,
        "set_node": _ADMINISTERS,
        "remove_node": _ADMINISTERS,
        "cluster": _LOOKS,
        "params": _LOOKS,
        "set_params": _ADMINISTERS,
        "params_history": _LOOKS,
        "new_token": Access(Who.EVERYBODY, changes=True, near=True),
        "tokens": _LOOKS,
        "revoke_token": _MAKES,
        "audit": Access(Who.ADMINISTRATOR),
        "filters": _LOOKS,
        "test_filter": _ADMINISTERS,
        "templates": _LOOKS,
        "template": _LOOKS,
        "set_template": _ADMINISTERS,
        "remove_template": _ADMINISTERS,
        "backup": Access(Who.ADMINISTRATOR, changes=True, near=True),
        "down": _ADMINISTERS,
    }
)
_UNLISTED = _ADMINISTERS


def access_to(verb: str) -> Access:
    """Return the row of a verb."""
    return ACCESS.get(verb, _UNLISTED)


def admit(by: User, verb: str, *, near: bool) -> None:
    """Let through who may use a verb at all.

    Raises:  NotAllowed ``not-administrator``, ``not-operator`` or ``not-here``.
    """
    access, name = access_to(verb), verb.replace("_", " ")
    if access.near and not near:
        raise NotAllowed(
            code="not-here",
            what=f"{name!r} is not for clients of other machines",
            fix="log in on the head's machine and do it there",
        )
    if access.who is Who.ADMINISTRATOR:
        must_administer(by, f"ask for {name!r}")
    if access.who is Who.OPERATOR and not by.oversees:
        raise NotAllowed(
            code="not-operator",
            what=f"{by.name!r} may not ask for {name!r}",
            fix="ask an operator or an administrator",
        )
