"""Scheduling policies of other packages: the entry points ``headnode.policies``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from headnode.adapters.installed_packages import offered
from headnode.core.scheduling.policies import POLICIES, Policy

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "headnode.policies"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


class FoundPolicies(NamedTuple):
    """The policies that can be used, and why others cannot, by name."""

    policies: Mapping[str, Policy]
    troubles: Mapping[str, str]


class _UnusablePolicy(Exception):
    """Why a plug-in cannot be used, and what to do."""


def installed_policies() -> FoundPolicies:
    """Load every policy that an installed package offers."""
    return load(offered(GROUP))


def load(points: Iterable[EntryPoint]) -> FoundPolicies:
    """Load the policies behind these entry points, and report those that cannot be loaded."""
    policies: dict[str, Policy] = {}
    troubles: dict[str, str] = {}
    for name, offers in _by_name(points).items():
        try:
            policies[name] = _loaded(name, offers)
        except _UnusablePolicy as trouble:
            troubles[name] = str(trouble)
    return FoundPolicies(policies, troubles)


def _by_name(points: Iterable[EntryPoint]) -> dict[str, dict[str, EntryPoint]]:
    """Return the policies of each name, by the package that has them; a package may be on the path twice."""
    by_name: dict[str, dict[str, EntryPoint]] = {}
    for point in points:
        package = point.dist.name if point.dist is not None else "?"
        by_name.setdefault(point.name, {})[f"{package} ({point.value})"] = point
    return dict(sorted(by_name.items()))


def _loaded(name: str, offers: Mapping[str, EntryPoint]) -> Policy:
    packages = " and ".join(sorted(offers))
    if name.casefold() in POLICIES:
        raise _UnusablePolicy(
            f"{packages} names its policy {name!r}, which is a policy of Headnode; rename it there"
        )
    if not _NAME.fullmatch(name):
        raise _UnusablePolicy(
            f"{packages} calls its policy {name!r}; use small letters, digits and .-_ in a name"
        )
    if len(offers) > 1:
        raise _UnusablePolicy(f"{packages} both offer a policy {name!r}; uninstall one of them")
    (point,) = offers.values()
    policy = _imported(point, packages)
    if not callable(policy) or not _takes_a_view(policy):
        raise _UnusablePolicy(
            f"{packages} is not a function of one view; a policy is: def plan(view: View) -> Plan"
        )

    loaded: Policy = policy
    return loaded


def _imported(point: EntryPoint, packages: str) -> object:
    try:
        loaded: object = point.load()
    except (Exception, SystemExit) as error:  # a stranger's module
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        raise _UnusablePolicy(
            f"{packages} does not load: {what}; correct or uninstall it, then restart"
        ) from error
    return loaded


def _takes_a_view(policy: object) -> bool:
    try:
        inspect.signature(policy).bind(object())  # type: ignore[arg-type]
    except ValueError:  # what is not written in Python may not tell
        return True
    except TypeError:
        return False
    return True
