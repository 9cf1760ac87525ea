"""The policies a head can choose from: its own, and those of other packages, each behind a guard.

A plug-in may raise, or answer with what is no plan: then the default policy makes this plan, and the
failure is told.  It sees a copy of the view, so it cannot change what the head remembers.
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.policies import DEFAULT, POLICIES, Policy
from headnode.core.scheduling.view import View, WaitingClass
from headnode.engine.plan_shape import fault
from headnode.engine.ports import Clock

log = logging.getLogger("headnode.engine")

BETWEEN_COMPLAINTS = 60.0  # seconds


class Roster(dict[str, Policy]):
    """Policies by name.  A name that is not there is the default policy, and a complaint.

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
            self[name] = _Guarded(name, policy, self)
        for name, why in unusable.items():
            log.error("the policy %s cannot be used: %s", name, why)

    def __missing__(self, name: str) -> Policy:
        """Return the default policy in the place of one that is not there."""
        self._complain(name, f"the policy {name} is not installed; {DEFAULT} plans instead")
        return POLICIES[DEFAULT]

    def failed(self, name: str, what: str) -> None:
        """Remember that a plug-in failed, and say so; not more than once a minute."""
        self._failures[name] = what
        self._complain(name, f"the policy {name} has failed: {what}; {DEFAULT} plans instead")

    def worked(self, name: str) -> None:
        """Forget that a plug-in failed."""
        self._failures.pop(name, None)

    def trouble(self, name: str) -> str:
        """Return why this policy does not plan, or an empty string if it does."""
        if name in self._failures:
            return f"failed: {self._failures[name]}; {DEFAULT} plans instead"
        return "" if name in self else f"not installed; {DEFAULT} plans instead"

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

    def __init__(self, name: str, policy: Policy, roster: Roster) -> None:
        self._name, self._policy, self._roster = name, policy, roster

    def __call__(self, view: View, /) -> Plan:
        try:
            plan = self._policy(_copy(view))
            wrong = fault(plan, view)
        except Exception as error:  # noqa: BLE001  (a stranger's code may raise anything, and must not stop the head)
            wrong = f"{type(error).__name__}: {error}".rstrip(": ")
        if not wrong:
            self._roster.worked(self._name)
            return plan
        self._roster.failed(self._name, wrong)
        return POLICIES[DEFAULT](view)


def _copy(view: View) -> View:
    """Return the view over copies of what the head goes on with."""
    return msgspec.structs.replace(
        view,
        nodes=MappingProxyType(dict(view.nodes)),
        queue=tuple(WaitingClass(each.request, tuple(each.turns)) for each in view.queue),
        running=tuple(view.running),
        licences=MappingProxyType(dict(view.licences)),
        ground=None,
    )
