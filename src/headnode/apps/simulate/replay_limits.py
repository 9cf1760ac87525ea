"""Limits of users and projects in a replay: jobs that are above them alone, and limits without jobs."""

from collections import Counter
from collections.abc import Iterator, Sequence

from headnode.apps.simulate.machine import SimulatedMachine, pool
from headnode.apps.simulate.scenario import RequestOverrides, Values
from headnode.apps.simulate.submissions import SOMEBODY, LogOwners, idle_nodes, sized_request
from headnode.core.formats.swf import Remark
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import EVERY, LimitScope
from headnode.core.model.workload import Workload
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.view import with_limits
from headnode.core.state.limit_index import LimitIndex


def limit_indexes(parameters: Sequence[Values]) -> list[LimitIndex]:
    """Return the limits that the parameters of each variant set, of those that set any."""
    indexes = [LimitIndex(dict(values), {}) for values in parameters]
    return [index for index in indexes if index.any]


class NeverRunsCheck:
    """Says of a job why it could never run, even if nothing else did: placement itself finds out.

    machine:  None is a pool, on which every job fits that is not larger
    """

    def __init__(
        self,
        machine: SimulatedMachine | None,
        asking: RequestOverrides,
        indexes: Sequence[LimitIndex],
        owners: LogOwners,
    ) -> None:
        self._machine, self._asking, self._owners = machine, asking, owners
        self._indexes = indexes
        self._idle = None if machine is None else idle_nodes(machine)
        self._known: dict[tuple[object, ...], bool] = {}

    def __call__(self, processors: int, memory: int, user: str, group: str) -> Remark | None:
        """Return why a job of the log is left out, or None."""
        size = processors, memory
        if self._machine is not None and not self._is_possible(size, ()):
            return Remark.NEVER_FITS
        owner, project = self._owners.user(user), self._owners.project(group)
        for index in self._indexes:
            limits = index.of(LimitScope.USER, owner), index.of(LimitScope.PROJECT, project)
            alike = tuple(tuple(sorted(each.items())) for each in limits)
            if any(alike) and not self._is_possible(size, alike, (index, owner, project)):
                return Remark.ABOVE_LIMIT
        return None

    def _is_possible(
        self, size: tuple[int, int], alike: tuple[object, ...], of: tuple[LimitIndex, str, str] | None = None
    ) -> bool:
        """Return whether a job of that size fits; jobs with equal limits do alike."""
        key = (size, alike)
        if key not in self._known:
            self._known[key] = self._place(size, of)
        return self._known[key]

    def _place(self, size: tuple[int, int], of: tuple[LimitIndex, str, str] | None) -> bool:
        machine, idle = self._machine, self._idle
        if machine is None or idle is None:
            machine = pool(size[0])
            idle = idle_nodes(machine)
        request: JobRequest = sized_request(*size, machine, self._asking)
        if of is not None:
            index, owner, project = of
            request = index.admit(owner, project, request)
        return place(request, idle, with_limits({}, request)) is not None


def limit_notes(workload: Workload, indexes: Sequence[LimitIndex], owners: LogOwners) -> Iterator[str]:
    """Yield sentences about limits of users and projects that the log does not have, and jobs without.

    Raises:  BadRequest ``simulation-limits`` if the log names no users, or no groups, but they are limited.
    """
    for scope, column, name in (
        (LimitScope.USER, workload.users, owners.user),
        (LimitScope.PROJECT, workload.groups, owners.project),
    ):
        entries = {entry: None for index in indexes for entry in index.entries[scope]}
        if not entries:
            continue
        counts = Counter(column)
        if not column:
            raise _no_owners(scope)
        names = {name(number) for number in counts}
        missing = [repr(entry) for entry in entries if entry != EVERY and entry not in names]
        if missing:
            example = next(iter(sorted(names - {SOMEBODY, ""})))
            yield (
                f"{scope.parameter} limits {', '.join(missing)}, and no job of the log is of such a {scope}; "
                f"a {scope} of this log is, for example, {example!r}"
            )
        if scope is LimitScope.USER and counts[""]:
            yield f"{counts['']} jobs have no user in the log; they count together, as user {SOMEBODY!r}"


def _no_owners(scope: LimitScope) -> BadRequest:
    field = "users (field 12)" if scope is LimitScope.USER else "groups (field 13), which are the projects"
    return BadRequest(
        code="simulation-limits",
        what=f"{scope.parameter} changes nothing: this log has no {field}",
        fix=f"name a log that has them, or leave out {scope.parameter}",
    )
