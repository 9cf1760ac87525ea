"""Limits of users, projects and groups in a replay: jobs above them alone, and limits without jobs."""

from collections.abc import Callable, Iterator, Sequence

from headnode.apps.simulate.machine import SimulatedMachine, pool
from headnode.apps.simulate.scenario import RequestOverrides, Values
from headnode.apps.simulate.submissions import SOMEBODY, LogOwners, idle_nodes, sized_request
from headnode.core.formats.swf import Remark
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import EVERY, GROUP_MARK, LIMIT_PARAMETERS, LimitScope
from headnode.core.model.priority_factors import (
    PROJECT_SHARES,
    USER_SHARES,
    WEIGHTS_PARAMETER,
    read_weights,
    shares_of,
)
from headnode.core.model.workload import Workload
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.view import with_limits
from headnode.core.state.limit_index import LimitIndex, UserGroups


def limit_indexes(parameters: Sequence[Values], groups: UserGroups | None = None) -> list[LimitIndex]:
    """Return the limits that the parameters of each variant set, of those that set any."""
    indexes = [LimitIndex(dict(values), {}, groups) for values in parameters]
    return [index for index in indexes if index.any]


LoggedSize = tuple[int, int, float]
"""The processors of a job of the log, the MB for each, and the seconds where limits count them, else 1."""


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

    def __call__(self, processors: int, memory: int, estimate: float, user: str, group: str) -> Remark | None:
        """Return why a job of the log is left out, or None."""
        size = processors, memory, 1.0
        if self._machine is not None and not self._is_possible(size, ()):
            return Remark.NEVER_FITS
        owner, project = self._owners.user(user), self._owners.project(group)
        for index in self._indexes:
            alike = tuple(tuple(sorted(index.of(*each).items())) for each in index.owners(owner, project))
            if index.counts_time:
                size = processors, memory, estimate
            if any(alike) and not self._is_possible(size, alike, (index, owner, project)):
                return Remark.ABOVE_LIMIT
        return None

    def _is_possible(
        self, size: LoggedSize, alike: tuple[object, ...], of: tuple[LimitIndex, str, str] | None = None
    ) -> bool:
        """Return whether a job of that size fits; jobs with equal limits do alike."""
        key = (size, alike)
        if key not in self._known:
            self._known[key] = self._place(size, of)
        return self._known[key]

    def _place(self, size: LoggedSize, of: tuple[LimitIndex, str, str] | None) -> bool:
        machine, idle = self._machine, self._idle
        if machine is None or idle is None:
            machine = pool(size[0])
            idle = idle_nodes(machine)
        request: JobRequest = sized_request(*size[:2], machine, self._asking, size[2])
        if of is not None:
            index, owner, project = of
            request = index.admit(owner, project, request)
        return place(request, idle, with_limits({}, request)) is not None


def refuse_groups_in_history(names: LogOwners | None) -> None:
    """Refuse limits of groups where the groups of the log are projects.

    Raises:  BadRequest ``simulation-limits`` for the history of a cluster, in which these have names.
    """
    if names is not None:
        raise BadRequest(
            code="simulation-limits",
            what="limits of groups of users cannot be simulated on the history of a cluster: it has "
            "projects, and does not say in which groups users were",
            fix="limit users by their names, or projects; or name a log that has groups (field 13)",
        )


def limit_notes(workload: Workload, indexes: Sequence[LimitIndex], owners: LogOwners) -> Iterator[str]:
    """Yield sentences about limits of what the log does not have, and of jobs without.

    Raises:  BadRequest ``simulation-limits`` if the log names no users, or no groups, but they are limited.
    """
    for scope in LimitScope:
        entries = {entry: None for index in indexes for entry in index.entries[scope]}
        of_members = [each for each in entries if scope is LimitScope.USER and each.startswith(GROUP_MARK)]
        plain = [each for each in entries if each not in of_members]
        if plain:
            column, name = _owners_in(workload, owners, scope)
            yield from _missing(scope.parameter, scope, plain, column, name)
            unknown = column.count("")
            if scope is LimitScope.USER and unknown:
                yield f"{unknown} jobs have no user in the log; they count together, as user {SOMEBODY!r}"
        if of_members:
            column, name = _owners_in(workload, owners, LimitScope.GROUP)
            members = [each.removeprefix(GROUP_MARK) for each in of_members]
            yield from _missing(scope.parameter, LimitScope.GROUP, members, column, name)


def share_notes(workload: Workload, parameters: Sequence[Values], owners: LogOwners) -> Iterator[str]:
    """Yield sentences about shares of users and projects without jobs.

    Raises:  BadRequest ``simulation-limits`` if the log names no users, or no groups, but has to.
    """
    shares = [shares_of(dict(values)) for values in parameters]
    weighted = any(read_weights(dict(values).get(WEIGHTS_PARAMETER, "")) for values in parameters)
    users = [name.rpartition("/")[2] for each in shares for name in each.users]
    projects = [name for each in shares for name in each.projects]
    for parameter, scope, entries in (
        (USER_SHARES if users else WEIGHTS_PARAMETER, LimitScope.USER, users),
        (PROJECT_SHARES, LimitScope.PROJECT, projects),
    ):
        if entries or (weighted and scope is LimitScope.USER):
            column, name = _owners_in(workload, owners, scope)
            yield from _missing(parameter, scope, list(dict.fromkeys(entries)), column, name)


def _owners_in(
    workload: Workload, owners: LogOwners, scope: LimitScope
) -> tuple[Sequence[str], Callable[[str], str]]:
    """Return the numbers that the jobs of a log have as users or groups, and what names them."""
    return (workload.users, owners.user) if scope is LimitScope.USER else (workload.groups, owners.project)


def _missing(
    parameter: str,
    scope: LimitScope,
    entries: Sequence[str],
    column: Sequence[str],
    name: Callable[[str], str],
) -> Iterator[str]:
    if not column:
        raise _no_owners(parameter, scope)
    names = {name(number) for number in set(column)}
    does = "limits" if parameter in LIMIT_PARAMETERS else "names"
    missing = [repr(entry) for entry in entries if entry != EVERY and entry not in names]
    if missing:
        example = next(iter(sorted(names - {SOMEBODY, ""})))
        yield (
            f"{parameter} {does} {', '.join(missing)}, and no job of the log is of such a {scope}; "
            f"a {scope} of this log is, for example, {example!r}"
        )


def _no_owners(parameter: str, scope: LimitScope) -> BadRequest:
    field = {
        LimitScope.USER: "users (field 12)",
        LimitScope.PROJECT: "groups (field 13), which are the projects",
        LimitScope.GROUP: "groups (field 13)",
    }[scope]
    return BadRequest(
        code="simulation-limits",
        what=f"{parameter} changes nothing: this log has no {field}",
        fix=f"name a log that has them, or leave out {parameter}",
    )
