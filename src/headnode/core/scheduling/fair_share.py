"""Fair share: how much users and projects have used of the cluster, compared with their shares.

The projects, and the users who name none, share the cluster; the users of a project share what it gets.  Only
those with jobs now are compared: what others leave is shared in the same ratio.
Source:  Slurm, "Multifactor Priority Plugin", "Fair Tree Fairshare Algorithm" (levels), "Classic Fairshare
         Algorithm" (2 to the power of minus usage by share).
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from headnode.core.model.priority_factors import Shares

Owner = tuple[str, str]
"""A user and a project, which is empty for jobs without one."""

OF_PROJECT = 0.75
"""How much of the factor of a user is that of its project.  New users would else help a project that has used
far more than its share."""


class FairShare(NamedTuple):
    """The share of a user in a project, or of a project, whose user is empty, and what was used of it.

    shares:     the number that was set
    part:       of the cluster, which that is among those with jobs now: 0 to 1
    used:       processor-seconds
    used_part:  of what these have used, which that is
    level:      what was used, by the share: 1 is as much as its part, among the projects or in its project
    factor:     1 if nothing was used, 1/2 if as much as the share, 1/4 if twice as much
    """

    user: str
    project: str
    shares: int
    part: float
    used: float
    used_part: float
    level: float
    factor: float


class _Level:
    """Who shares the cluster, or a project: the sums of those with jobs now."""

    def __init__(self, shares: int, used: float, least: float) -> None:
        self.shares, self.used = shares, max(used, least, 1.0)

    def parts(self, shares: int, used: float, *, active: bool) -> tuple[float, float]:
        """Return which part one of them should have, and which it has used; one without jobs as if it had."""
        all_shares = self.shares + (0 if active else shares)
        return shares / all_shares if all_shares else 0.0, used / (self.used + (0.0 if active else used))


class SharedAccount:
    """What was used of a share, which may be charged in advance, and how much is as much as the share.

    Unit:  processor-seconds
    """

    __slots__ = ("due", "used")

    def __init__(self, used: float, due: float) -> None:
        self.used, self.due = used, due

    @property
    def factor(self) -> float:
        """1 if nothing was used, 1/2 if as much as the share, 1/4 if twice as much; 0 without a share."""
        return float(2.0 ** -(self.used / self.due)) if self.due else 0.0


class ShareTree:
    """The users and projects that share a cluster, with what they have used.

    used:    processor-seconds by user and project
    active:  the users and projects with jobs now
    least:   processor-seconds as which all usage counts at least: the first job of a new cluster is little
    """

    def __init__(
        self, shares: Shares, used: Mapping[Owner, float], active: Collection[Owner], *, least: float
    ) -> None:
        self._shares, self._active = shares, dict.fromkeys(sorted(active))  # sums do not depend on its order
        self._used = {owner: used.get(owner, 0.0) for owner in (*used, *self._active)}
        self._of_project: dict[str, float] = {}
        for (_, project), amount in self._used.items():
            if project:
                self._of_project[project] = self._of_project.get(project, 0.0) + amount
        self._active_projects = dict.fromkeys(project for _, project in self._active if project)
        alone = [user for user, project in self._active if not project]
        named = sum(map(shares.of_project, self._active_projects))
        all_shares = named + sum(shares.of_user(user, "") for user in alone)
        all_used = sum(self._of_project[project] for project in self._active_projects)
        self._cluster = _Level(all_shares, all_used + sum(self._used[user, ""] for user in alone), least)
        self._in_project = self._levels_of_projects()

    def _levels_of_projects(self) -> dict[str, _Level]:
        members: dict[str, tuple[int, float]] = dict.fromkeys(self._of_project, (0, 0.0))
        for owner in self._active:
            user, project = owner
            if project:
                shares, used = members[project]
                members[project] = shares + self._shares.of_user(user, project), used + self._used[owner]
        least = {project: self._cluster.used * self._project_parts(project)[0] for project in members}
        return {project: _Level(*sums, least[project]) for project, sums in members.items()}

    def account(self, owner: Owner) -> "SharedAccount":
        """Return what a user has used, of its project or of the cluster, and how much is its part."""
        user, project = owner
        level = self._in_project[project] if project else self._cluster
        part, _ = level.parts(self._shares.of_user(user, project), 0.0, active=owner in self._active)
        return SharedAccount(self._used[owner], part * level.used)

    def account_of_project(self, name: str) -> "SharedAccount":
        """Return what a project has used, and how much is its part."""
        part, _ = self._project_parts(name)
        return SharedAccount(self._of_project[name], part * self._cluster.used)

    def of(self, owner: Owner) -> FairShare:
        """Return the share of a user in a project, and what was used of it."""
        user, project = owner
        shares, used = self._shares.of_user(user, project), self._used.get(owner, 0.0)
        active = owner in self._active
        if not project:
            part, used_part = self._cluster.parts(shares, used, active=active)
            level = _level(part, used_part)
            return FairShare(user, project, shares, part, used, used_part, level, _factor(level))
        above = self.of_project(project)
        members = self._in_project.get(project) or _Level(0, 0.0, 1.0)
        part, used_part = members.parts(shares, used, active=active)
        level = _level(part, used_part)
        own = (1.0 - OF_PROJECT) * _factor(level)
        factor = OF_PROJECT * above.factor + own if part and above.part else 0.0
        of_all = above.used_part * used / above.used if above.used else 0.0
        return FairShare(user, project, shares, above.part * part, used, of_all, level, factor)

    def of_project(self, name: str) -> FairShare:
        """Return the share of a project, and what its users have used of it."""
        part, used_part = self._project_parts(name)
        level, used = _level(part, used_part), self._of_project.get(name, 0.0)
        return FairShare(
            "", name, self._shares.of_project(name), part, used, used_part, level, _factor(level)
        )

    def _project_parts(self, name: str) -> tuple[float, float]:
        shares, used = self._shares.of_project(name), self._of_project.get(name, 0.0)
        return self._cluster.parts(shares, used, active=name in self._active_projects)

    def owners(self) -> Collection[Owner]:
        """Return the users with usage or with jobs, in each of their projects."""
        return self._used.keys()

    def projects(self) -> list[str]:
        """Return the projects with usage or with jobs, by name."""
        return sorted(self._of_project)


def _level(part: float, used_part: float) -> float:
    """Return what was used by the share; without a share whatever was used is too much."""
    return used_part / part if part else float("inf")


def _factor(level: float) -> float:
    return float(2.0**-level)
