"""The limits of users, projects and groups: what each job takes of them, and how many jobs are submitted.

Who is in a group is in the journal (`UserGroupsSet`), and only of groups that have limits: a replay must not
depend on the operating system.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import (
    LimitedAmount,
    LimitOwner,
    Limits,
    LimitScope,
    LimitShare,
    groups_in,
    limits_of,
    read_owner_limits,
    timed,
)
from headnode.core.model.quantities import JobId
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobCreated, JobUnarchived
from headnode.core.state.job_record import JobRecord, decode_record
from headnode.core.state.job_request import gpus_while_suspended, job_names
from headnode.core.state.transitions import JobState

_MAX_MADE = 10_000  # requests with their limits, and pairs of user and project, that are remembered
Owner = tuple[str, str]
"""A user and a project; an empty one for jobs without."""

SubmissionCounts = dict[tuple[LimitScope, str], int]
"""How many jobs of each user and project there are."""

UserGroups = dict[str, tuple[str, ...]]
"""The groups with limits that each user is in, ascending; without users that are in none."""


class LimitIndex:
    """The limits that the cluster parameters set.  They are read again when such a parameter is set."""

    def __init__(
        self,
        parameters: Mapping[str, str],
        jobs: Mapping[JobId, JobRecord],
        groups: UserGroups | None = None,
    ) -> None:
        self._jobs = jobs
        self.groups: UserGroups = {} if groups is None else groups
        self._submitted: dict[JobId, Owner] | None = None  # counted as long as a limit asks for it
        self._counts: SubmissionCounts = {}
        self._owners: dict[Owner, Owner] = {}
        self.read(parameters)

    # Reading

    def of(self, scope: LimitScope, name: str) -> dict[LimitedAmount, int]:
        """Return the limits of a user, project or group, which has none if its name is empty."""
        groups = self.groups.get(name, ()) if scope is LimitScope.USER else ()
        return limits_of(self.entries[scope], name, groups) if name else {}

    def limited_groups(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return those of some groups that limits name, ascending."""
        return tuple(sorted(self.group_names.intersection(groups)))

    def are_known(self, user: str, groups: Iterable[str]) -> bool:
        """Return whether it is known already in which groups with limits a user is."""
        return self.limited_groups(groups) == self.limited_groups(self.groups.get(user, ()))

    def owners(self, user: str, project: str) -> tuple[tuple[LimitScope, str], ...]:
        """Return whose limits count for a job of a user and a project."""
        groups = self.groups.get(user, ()) if self.group_names else ()
        of_groups = ((LimitScope.GROUP, group) for group in groups)
        return ((LimitScope.USER, user), (LimitScope.PROJECT, project), *of_groups)

    def admit_job(self, record: JobRecord, request: JobRequest) -> JobRequest:
        """Return the request of a job with what it takes of the limits of its user and project."""
        if not self.any:
            return request
        project = job_names(record.spec).project if self.by_project else ""
        gpus = gpus_while_suspended(record) if self.counts_gpu_time and not request.processors_per_gpu else 0
        return self.admit(record.owner, project, request, gpus)

    def admit(self, owner: str, project: str, request: JobRequest, gpus: int = 0) -> JobRequest:
        """Return a request with what it takes of the limits of its user and project.

        gpus:  that a job which waits to go on has already, and will use again
        """
        if not self.any:
            return request
        asked = request, owner, project, gpus
        known = self._made.get(asked)
        if known is None:
            if len(self._made) >= _MAX_MADE:
                self._made.clear()
                self._alike.clear()
            known = self._made[asked] = self._admitted(owner, project, request, gpus)
        return known

    def _admitted(self, owner: str, project: str, request: JobRequest, gpus: int) -> JobRequest:
        others = tuple(self._admitted(owner, project, other, gpus) for other in request.alternatives)
        shares = [
            share
            for scope, name in self.owners(owner, project)
            for amount, limit in self.of(scope, name).items()
            for share in _shares(LimitOwner(scope, name, amount), limit, request, gpus)
        ]
        limits = tuple(shares)
        return replace(request, limits=self._alike.setdefault(limits, limits), alternatives=others)

    def submitted(self, scope: LimitScope, name: str) -> int:
        """Return how many jobs of a user, project or group have been submitted and are not over.

        Cost:  O(users in groups with limits) for a group.
        """
        if self._submitted is None:
            self._submitted = {}
            for record in self._jobs.values():
                self.note(record)
        if scope is LimitScope.GROUP:
            return sum(self._counts.get((LimitScope.USER, user), 0) for user in self.members(name))
        return self._counts.get((scope, name), 0)

    def members(self, group: str) -> Iterator[str]:
        """Yield the users that are known to be in a group with limits."""
        return (user for user, groups in self.groups.items() if group in groups)

    def submitters(self) -> Iterable[tuple[LimitScope, str]]:
        """Return the users and projects with submitted jobs, if any limit counts these."""
        if not self.counts_submitted:
            return ()
        self.submitted(LimitScope.USER, "")  # counts them for the first time
        return self._counts.keys()

    def check_submission(self, owners: Iterable[Owner], before: SubmissionCounts | None = None) -> None:
        """Refuse the submission of jobs, each of a user and project, that is above a limit.

        before:  jobs that are to be submitted before these, counted; these are added to it
        Raises:  WrongState ``limit``; its path is the scope: ``user``, ``project`` or ``group``.
        Cost:    O(jobs) for the first one; then O(1) for each job.
        """
        if not self.counts_submitted:
            return
        before = {} if before is None else before
        more: SubmissionCounts = {}
        for owner, project in owners:
            for each in self.owners(owner, project):
                more[each] = more.get(each, 0) + 1
        for (scope, name), count in more.items():
            most = self.of(scope, name).get(LimitedAmount.SUBMITTED)
            there = 0 if most is None else self.submitted(scope, name) + before.get((scope, name), 0)
            if most is not None and there + count > most:
                jobs = "1 submitted job" if most == 1 else f"{most} submitted jobs"
                wanted = f"; the request has {count} more" if count > 1 else ""
                raise WrongState(
                    code="limit",
                    what=f"{scope} {name!r} may have {jobs} at once and has {there}{wanted}",
                    fix="submit again when some jobs have ended; a sweep counts as one job",
                    path=(scope.value,),
                )
        for each, count in more.items():
            before[each] = before.get(each, 0) + count

    def check_events(self, events: Iterable[Event], before: SubmissionCounts | None = None) -> None:
        """Refuse events that make jobs to submit, or bring ended jobs back, as `check_submission` does."""
        if self.counts_submitted:
            self.check_submission(_owners_of(events), before)

    # For `apply_events` only

    def read(self, parameters: Mapping[str, str]) -> None:
        """Read the limits from the cluster parameters, which were checked when they were set."""
        self.entries: dict[LimitScope, dict[str, Limits]] = {
            scope: dict(read_owner_limits(parameters.get(scope.parameter, ""))) for scope in LimitScope
        }
        self.any = any(self.entries.values())
        self.by_project = bool(self.entries[LimitScope.PROJECT])
        self.group_names = groups_in(self.entries)
        limited = {
            amount for entries in self.entries.values() for limits in entries.values() for amount in limits
        }
        self.counts_submitted = LimitedAmount.SUBMITTED in limited
        self.counts_usage = any(amount.counts_usage for amount in limited)
        self.counts_time = any(amount.counts_time for amount in limited)
        self.counts_gpu_time = any(amount.counts_time and amount.counts_gpus for amount in limited)
        self._made: dict[tuple[JobRequest, str, str, int], JobRequest] = {}
        self._alike: dict[tuple[LimitShare, ...], tuple[LimitShare, ...]] = {}  # equal ones are one object
        if not self.counts_submitted:
            self._submitted, self._counts, self._owners = None, {}, {}

    def set_groups(self, user: str, groups: tuple[str, ...]) -> None:
        """Set in which groups with limits a user is."""
        if groups:
            self.groups[user] = groups
        else:
            self.groups.pop(user, None)
        self._made.clear()
        self._alike.clear()

    def note(self, record: JobRecord) -> None:
        """Count a job that is new, or has another state or project."""
        if self._submitted is None:
            return
        before = self._submitted.get(record.id)
        over = record.state.is_final or record.state is JobState.CONFIGURING
        now = None if over else self._shared((record.owner, job_names(record.spec).project))
        if now == before:
            return
        self._count(before, -1)
        self._count(now, 1)
        if now is None:
            del self._submitted[record.id]
        else:
            self._submitted[record.id] = now

    def _shared(self, owner: Owner) -> Owner:
        """Return the one object for a user and project that many jobs have."""
        if len(self._owners) >= _MAX_MADE:
            self._owners.clear()
        return self._owners.setdefault(owner, owner)

    def _count(self, owner: Owner | None, more: int) -> None:
        if owner is None:
            return
        for key in ((LimitScope.USER, owner[0]), (LimitScope.PROJECT, owner[1])):
            left = self._counts.get(key, 0) + more
            if left:
                self._counts[key] = left
            else:
                del self._counts[key]


def _owners_of(events: Iterable[Event]) -> Iterator[Owner]:
    for event in events:
        match event:
            case JobCreated(owner=owner, spec=spec):
                yield owner, job_names(spec).project
            case JobUnarchived(record=data):
                record = decode_record(data)
                yield record.owner, job_names(record.spec).project


def _shares(owner: LimitOwner, limit: int, request: JobRequest, gpus: int) -> Iterator[LimitShare]:
    """Yield what a request takes of a limit.  A job that owns its nodes has the GPUs that it asks for."""
    amount = owner.amount
    share = LimitShare(owner.key, limit)
    if amount is LimitedAmount.SUBMITTED:
        return
    if amount is LimitedAmount.JOBS:
        share = replace(share, amount=1)
    elif amount.counts_gpus:
        each = request.processors_per_gpu
        if not each and not (gpus and amount.counts_time):
            return
        share = replace(share, size=each) if each and not request.exclusive else replace(share, amount=gpus)
        if each and request.exclusive:
            share = replace(share, amount=request.maximum)
    yield timed(share, amount, request.run_time) if amount.counts_time else share
