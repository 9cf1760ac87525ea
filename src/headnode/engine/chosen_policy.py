"""The policy that plans: the one that the parameters of the cluster name, with their order of the queue."""

from collections.abc import Mapping

from msgspec.structs import replace

from headnode.core.model.errors import WrongState
from headnode.core.model.priority_factors import (
    MAX_AGE_PARAMETER,
    WEIGHTS_PARAMETER,
    PriorityFactor,
    read_weights,
    shares_of,
)
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import OrderedPolicy, OrdersQueue, Policy
from headnode.core.scheduling.view import View
from headnode.core.scheduling.weighted_order import WeightedOrder
from headnode.engine.settings import Settings

REORDERED_AFTER = 300.0
"""Seconds after which the queue is put in order again though nothing has happened: factors change."""


def weighted_order(settings: Settings) -> WeightedOrder | None:
    """Return how weights order the queue; None if there are none."""
    text = settings.text(WEIGHTS_PARAMETER)
    weights = read_weights(text) if text else {}
    if not any(weights.values()):
        return None
    return WeightedOrder(weights, shares_of(settings.values), Seconds(settings.number(MAX_AGE_PARAMETER)))


def order_in_use(policies: Mapping[str, Policy], settings: Settings) -> WeightedOrder | None:
    """Return how weights order the queue; None if they do not, or a plug-in does."""
    is_own = isinstance(policies[settings.text("SchedulingPolicy")], OrdersQueue)
    return None if is_own else weighted_order(settings)


def chosen_policy(policies: Mapping[str, Policy], settings: Settings) -> Policy:
    """Return the policy that plans.  A plug-in that orders the queue itself goes on to do so."""
    policy, order = policies[settings.text("SchedulingPolicy")], order_in_use(policies, settings)
    return policy if order is None else OrderedPolicy(order.keys, policy)


def planning_method(settings: Settings) -> tuple[str, str, str]:
    """Return what a plan must have in common with the one before to keep its reservations."""
    return (
        settings.text("SchedulingPolicy"),
        settings.text("SchedulingMode"),
        settings.text(WEIGHTS_PARAMETER),
    )


def planned_again(plan: Plan, view: View, settings: Settings) -> Plan:
    """Return a plan that is made again after some minutes, if the order of its waiting jobs may change."""
    order = weighted_order(settings)
    if order is None or not order.weights.keys() - {PriorityFactor.SIZE}:
        return plan
    waiting = sum(len(each.turns) for each in view.queue) - len(plan.starts)
    again = Instant(view.now + REORDERED_AFTER)
    return replace(plan, wake=again) if waiting > 1 and plan.wake > again else plan


def check_one_order(policies: Mapping[str, Policy], settings: Settings) -> None:
    """Refuse weights beside a policy that orders the queue itself: one of both would have no effect.

    Raises:  WrongState ``two-orders``.
    """
    name = settings.text("SchedulingPolicy")
    if weighted_order(settings) is not None and isinstance(policies[name], OrdersQueue):
        raise WrongState(
            code="two-orders",
            what=f"the policy {name} orders the queue itself, so {WEIGHTS_PARAMETER} would have no effect",
            fix=f"choose another SchedulingPolicy, or set {WEIGHTS_PARAMETER}= without a value",
        )
