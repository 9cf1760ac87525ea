"""Policies of other packages, to be tried on a log: a failure ends the replay, nobody steps in."""

import sys
from collections.abc import Mapping
from functools import cache

from headnode.adapters.plug_ins.policies import installed_policies
from headnode.core.model.errors import BadRequest
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import View
from headnode.engine.plan_shape import fault


@cache
def plug_ins() -> Mapping[str, Policy]:
    """Return the policies of installed packages by name; say on standard error which cannot be used."""
    found = installed_policies()
    for name, why in found.troubles.items():
        sys.stderr.write(f"hn: the policy {name} cannot be used: {why}\n")
    return {name: _strict(name, policy) for name, policy in found.policies.items()}


def _strict(name: str, policy: Policy) -> Policy:
    def plan(view: View, /) -> Plan:
        try:
            made = policy(view)
            wrong = fault(made, view)
        except Exception as error:  # a stranger's code may raise anything
            raise _failed(name, f"{type(error).__name__}: {error}") from error
        if wrong:
            raise _failed(name, wrong)
        return made

    return plan


def _failed(name: str, what: str) -> BadRequest:
    return BadRequest(
        code="policy-failed",
        what=f"the policy {name!r} has failed: {what}",
        fix="choose another, or report it to its author, who can test it with headnode.testing.check_policy",
    )
