"""Fair share: how much users and projects have used of the cluster, compared with their shares.

The projects, and the users who name none, share the cluster.  The users of a project share what it gets.
Source:  Slurm, "Classic Fairshare Algorithm" (effective usage, normalized shares).
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headnode.core.model.priority_factors import EVERY_OTHER, Shares

Owner = tuple[str, str]
"""A user and a project, which is empty for jobs without one."""


class FairShare(NamedTuple):
    """The share of a user in a project, or of a project whose user is empty, and what was used of it.

    shares:     the number that was set
    part:       of the cluster, which the share is: 0 to 1
    used:       processor-seconds
    effective:  the part of all usage that counts as its own: of a user in a project also some of what the
                other users of the project have used
    factor:     1 if nothing was used, 1/2 if as much as the share, 1/4 if twice as much
    """

    user: str
    project: str
    shares: int
    part: float
    used: float
    effective: float
    factor: float


class ShareTree:
    """The users and projects that share a cluster, with what they have used.

    used:   processor-seconds by user and project; those who are to have a part of the cluster are in it
    least:  processor-seconds as which all usage counts at least: the first job is little, not all
    """

    def __init__(self, shares: Shares, used: Mapping[Owner, float], *, least: float = 1.0) -> None:
        self._shares = shares
        self._used = dict(used)
        self._of_project: dict[str, float] = {}
        self._members: dict[str, int] = {}  # the sum of the shares of its users
        for (user, project), amount in used.items():
            self._members[project] = self._members.get(project, 0) + shares.of_user(user, project)
            if project:
                self._of_project[project] = self._of_project.get(project, 0.0) + amount
        for name in shares.projects:
            if name != EVERY_OTHER:
                self._of_project.setdefault(name, 0.0)
        self._all_shares = self._members.get("", 0) + sum(map(shares.of_project, self._of_project))
        self._all_used = max(sum(used.values()), least)

    def charge(self, owner: Owner, amount: float) -> None:
        """Count so many processor-seconds more for a user in a project, without more for the cluster."""
        self._used[owner] += amount
        if owner[1]:
            self._of_project[owner[1]] += amount

    def factor(self, owner: Owner) -> float:
        """Return the factor of a user in a project."""
        return self.of(owner).factor

    def of(self, owner: Owner) -> FairShare:
        """Return the share of a user in a project, and what was used of it."""
        user, project = owner
        shares, used = self._shares.of_user(user, project), self._used.get(owner, 0.0)
        of_siblings = self._members.get(project, 0)
        fraction = shares / of_siblings if of_siblings else 0.0
        own = used / self._all_used
        if project:
            above = self.of_project(project)
            part, effective = above.part * fraction, own + (above.effective - own) * fraction
        else:
            part, effective = shares / self._all_shares if self._all_shares else 0.0, own
        return FairShare(user, project, shares, part, used, effective, _factor(effective, part))

    def of_project(self, name: str) -> FairShare:
        """Return the share of a project, and what its users have used of it."""
        shares, used = self._shares.of_project(name), self._of_project.get(name, 0.0)
        part = shares / self._all_shares if self._all_shares else 0.0
        own = used / self._all_used
        return FairShare("", name, shares, part, used, own, _factor(own, part))

    def owners(self) -> Iterable[Owner]:
        """Return the users with usage or with jobs, in each of their projects."""
        return self._used.keys()

    def projects(self) -> list[str]:
        """Return the projects with a share of their own, with usage or with jobs, by name."""
        return sorted(self._of_project)


def _factor(used: float, part: float) -> float:
    return 2.0 ** (-used / part) if part else 0.0
