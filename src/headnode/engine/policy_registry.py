"""The policies a head can choose from, its own and those of other packages, each behind a guard; and the one
that plans, with the order that parameters of the cluster give its queue.

A plug-in may raise, or answer with what is no plan: then the default policy makes this plan, and the
failure is reported.  It sees a copy of the view, so it cannot change what the head remembers."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import (
    MAX_AGE_PARAMETER,
    WEIGHTS_PARAMETER,
    PriorityFactor,
    read_weights,
    shares_of,
)
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.scheduling.limit_checks import fewest_processors
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import (
    DEFAULT_POLICY,
    POLICIES,
    OrderedPolicy,
    OrdersQueue,
    Policy,
    plan_easy,
    plan_fcfs,
)
from headnode.core.scheduling.view import View, WaitingClass
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.owner_usage import usage_weights
from headnode.engine.activation_pending import PendingOffers
from headnode.engine.ports import Clock
from headnode.engine.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.core.scheduling.weighted_order import WeightedOrder

log = logging.getLogger("headnode.engine")

BETWEEN_COMPLAINTS = 60.0  # seconds


class PolicyRegistry(dict[str, Policy]):
    """Policies by name.  An unknown name gives the default policy and a log message.

    `unusable` says why plug-ins could not be loaded, by name.
    """

    def __init__(self, plug_ins: Mapping[str, Policy], unusable: Mapping[str, str], clock: Clock) -> None:
        self._clock = clock
        self._unusable = dict(unusable)
        self._failures: dict[str, str] = {}
        self._told: dict[str, float] = {}
        super().__init__(POLICIES)
        self.plug_ins = tuple(plug_ins)
        for name, policy in plug_ins.items():
            guard = _GuardedOrder if isinstance(policy, OrdersQueue) else _Guarded
            self[name] = guard(name, policy, self)
        for name, why in unusable.items():
            log.error("the policy %s cannot be used: %s", name, why)

    def __missing__(self, name: str) -> Policy:
        """Return the default policy for a name that does not exist."""
        self._complain(name, f"the policy {name} is not installed; {DEFAULT_POLICY} plans instead")
        return POLICIES[DEFAULT_POLICY]

    def failed(self, name: str, what: str) -> None:
        """Remember that a plug-in failed, and say so; not more than once a minute."""
        self._failures[name] = what
        self._complain(name, f"the policy {name} has failed: {what}; {DEFAULT_POLICY} plans instead")

    def worked(self, name: str) -> None:
        """Forget that a plug-in failed."""
        self._failures.pop(name, None)

    def trouble(self, name: str) -> str:
        """Return why this policy does not plan, or an empty string if it does."""
        if name in self._failures:
            return f"failed: {self._failures[name]}; {DEFAULT_POLICY} plans instead"
        return "" if name in self else f"not installed; {DEFAULT_POLICY} plans instead"

    def troubles(self) -> dict[str, str]:
        """Return every plug-in with what is wrong with it; an empty string if nothing is."""
        return {name: self.trouble(name) for name in self.plug_ins} | self._unusable

    def _complain(self, name: str, what: str) -> None:
        now, told = self._clock.now(), self._told.get(name)
        if told is None or not told <= now < told + BETWEEN_COMPLAINTS:
            self._told[name] = now
            log.error("%s", what)


class _Guarded:
    """A policy that always gives a plan."""

    def __init__(self, name: str, policy: Policy, registry: PolicyRegistry) -> None:
        self._name, self._policy, self._registry = name, policy, registry

    def __call__(self, view: View, /) -> Plan:
        from headnode.core.scheduling.verify_plan import plan_fault  # most heads have no plug-ins

        try:
            plan = self._policy(_copy(view))
            wrong = plan_fault(plan, view)
        except Exception as error:  # noqa: BLE001  (a stranger's code may raise anything, and must not stop the head)
            wrong = f"{type(error).__name__}: {error}".rstrip(": ")
        if not wrong:
            self._registry.worked(self._name)
            return plan
        self._registry.failed(self._name, wrong)
        return POLICIES[DEFAULT_POLICY](view)


class _GuardedOrder(_Guarded, OrdersQueue):
    """The same of a policy that orders the queue.  If its order fails, so does its plan, which reports it."""

    def ordered(self, view: View, /) -> View:
        if not isinstance(self._policy, OrdersQueue):
            return view
        try:
            seen = self._policy.ordered(_copy(view))
        except Exception:  # noqa: BLE001  (as above)
            return view
        return msgspec.structs.replace(view, queue=seen.queue, running=seen.running, positions=seen.positions)


def _copy(view: View) -> View:
    """Return the view over copies of what the head goes on with."""
    return msgspec.structs.replace(
        view,
        nodes=MappingProxyType(dict(view.nodes)),
        queue=tuple(
            WaitingClass(each.request, tuple(each.turns), each.owner, each.project) for each in view.queue
        ),
        running=tuple(view.running),
        licences=MappingProxyType(dict(view.licences)),
        usage=MappingProxyType(dict(view.usage)),
        waiting_since=MappingProxyType(dict(view.waiting_since)),
        ground=None,
    )


REORDERED_AFTER = 300.0
"""Seconds after which the queue is put in order again though nothing has happened: factors change."""


def weighted_order(settings: Settings) -> "WeightedOrder | None":
    """Return how weights order the queue; None if there are none."""
    text = settings.text(WEIGHTS_PARAMETER)
    weights = read_weights(text) if text else {}
    if not any(weights.values()):
        return None
    from headnode.core.scheduling.weighted_order import WeightedOrder  # few clusters have weights

    max_age = Seconds(settings.number(MAX_AGE_PARAMETER))
    return WeightedOrder(weights, shares_of(settings.values), max_age, usage_weights(settings.values))


def order_in_use(policies: Mapping[str, Policy], settings: Settings) -> "WeightedOrder | None":
    """Return how weights order the queue; None if they do not, or a plug-in does."""
    is_own = isinstance(policies[settings.text("SchedulingPolicy")], OrdersQueue)
    return None if is_own else weighted_order(settings)


class PassRules(NamedTuple):
    """What the cluster parameters say about passes, read once for all passes until one of them is set.

    `values` are the parameters of which they are the rules.  `method` is what a plan must have in common with
    the one before to keep its reservations.
    """

    values: Mapping[str, str]
    policy: str
    method: tuple[str, str, str]
    order: "WeightedOrder | None"
    depth: int
    balanced: bool
    preempts: bool

    def planner(self, policies: Mapping[str, Policy]) -> Policy:
        """Return the policy that plans.  A plug-in that orders the queue itself goes on to do so."""
        policy = policies[self.policy]
        if self.order is None or isinstance(policy, OrdersQueue):
            return policy
        return OrderedPolicy(self.order.keys, policy)

    def planned_again(self, plan: Plan, view: View) -> Plan:
        """Return a plan that is made again after some minutes, if the order of waiting jobs may change."""
        if self.order is None or not self.order.weights.keys() - {PriorityFactor.SIZE}:
            return plan
        waiting = sum(len(each.turns) for each in view.queue) - len(plan.starts)
        again = Instant(view.now + REORDERED_AFTER)
        return msgspec.structs.replace(plan, wake=again) if waiting > 1 and plan.wake > again else plan


def pass_rules(settings: Settings) -> PassRules:
    """Read what the parameters say about passes."""
    policy, mode = settings.text("SchedulingPolicy"), settings.text("SchedulingMode")
    return PassRules(
        values=dict(settings.values),
        policy=policy,
        method=(policy, mode, settings.text(WEIGHTS_PARAMETER)),
        order=weighted_order(settings),
        depth=settings.depth(),
        balanced=mode == "Balanced",
        preempts=settings.text("PreemptionType") != "None",
    )


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


_FORGETFUL = (plan_easy, plan_fcfs)
"""Policies whose plans do not depend on the plan before, where no limits are set."""


def starts_nothing(
    cluster: ClusterState, policies: Mapping[str, Policy], rules: PassRules, offers: PendingOffers
) -> bool:
    """Return whether a pass surely starts nothing, takes nothing from a job, and time alone changes nothing.

    False where jobs may give up processors, or where filters or limits have a say.
    A plan also says why jobs wait.  Only readers need that, so it is made when it is read.
    Cost:  O(kinds of waiting job).
    """
    if rules.balanced or rules.preempts or rules.order is not None or cluster.releasing:
        return False
    if offers.chains.rules or offers.are_in_play or cluster.limit_index.any:
        return False
    if policies[rules.policy] not in _FORGETFUL or not cluster.waiting.isdisjoint(cluster.running):
        return False
    free = cluster.cores.count
    for request in cluster.queue.by_request:
        if (request.minimum <= free or request.alternatives) and _fewest(request) <= free:
            return False
    return True


def _fewest(request: JobRequest) -> int:
    """Return how many processors a job has at least, whichever alternative it gets."""
    return min(map(fewest_processors, (request, *request.alternatives)))
