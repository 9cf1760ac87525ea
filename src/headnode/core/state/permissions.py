"""Permissions on a job: its owner, changes, and reading of its private parts."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from headnode.core.model.errors import NotAllowed, NotFound, WrongState
from headnode.core.model.field_rows import OPERATORS, fields_that, option_names
from headnode.core.model.fields import OPTIONS_OF_JOBS
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec, public_command
from headnode.core.model.user import User
from headnode.core.state import job_events as e
from headnode.core.state.job_record import JobRecord

_STREAMS, _FILES = ("standard_input", "standard_output", "standard_error"), ("stage_in", "stage_out")
OPERATORS_CHANGE = fields_that(OPERATORS, OPTIONS_OF_JOBS)
"""The fields of other people's jobs that an operator may change: where and when, and nothing that runs."""


def may_change(by: User, record: JobRecord) -> None:
    """Allow a change of the job by its owner, an operator or an administrator.

    Raises:  NotAllowed ``not-owner``.
    """
    if by.uid != record.uid and not by.oversees:
        raise _not_owner(by, record, "ask its owner, an operator or an administrator")


def may_rewrite(by: User, record: JobRecord, fields: Collection[str]) -> None:
    """Allow a change of these fields of the job; operators may not change what runs as another user.

    Raises:  NotAllowed ``not-owner``.
    """
    may_change(by, record)
    if by.uid != record.uid and not by.administrator and (kept := sorted(set(fields) - OPERATORS_CHANGE)):
        names = ", ".join(option_names(kept, OPTIONS_OF_JOBS))
        raise NotAllowed(
            code="not-owner",
            what=f"job {record.id} belongs to {record.owner!r}: an operator may not change its {names}",
            fix="ask its owner or an administrator",
            path=(kept[0],),
        )


def may_read_output(by: User, record: JobRecord) -> None:
    """Allow only the owner and administrators.

    Raises:  NotAllowed ``not-owner``.
    """
    if by.uid != record.uid and not by.administrator:
        raise _not_owner(by, record, "ask its owner or an administrator")


def _not_owner(by: User, record: JobRecord, fix: str) -> NotAllowed:
    return NotAllowed(
        code="not-owner", what=f"job {record.id} belongs to {record.owner!r}, not to {by.name!r}", fix=fix
    )


def must_administer(by: User, what: str) -> None:
    """Allow only administrators.

    Raises:  NotAllowed ``not-administrator``.
    """
    if not by.administrator:
        asked = (
            "ask an administrator: `hn cluster params Administrators`, root, or the user who started the head"
        )
        raise NotAllowed(
            code="not-administrator",
            what=f"{by.name!r} may not {what}" + (" from inside a task" if by.by_node else ""),
            fix="administrators do that on the head's machine, or after `hn login`" if by.by_node else asked,
        )


def plain_name(written: str) -> str:
    """Return the name of a user as written in a job, without the domain that Windows puts before it.

    >>> plain_name("CORP\\\\ann"), plain_name("ann")
    ('ann', 'ann')
    """
    return written.rpartition("\\")[2].strip()


def is_other(by: User, spec: JobSpec) -> bool:
    """Return whether a job is to run as a user other than `by`."""
    if not spec.run_as:  # as of most jobs
        return False
    name = plain_name(spec.run_as)
    return bool(name) and name.casefold() != by.name.casefold()


def owner_of(by: User, spec: JobSpec, users: Mapping[str, User]) -> User:
    """Return the owner of the job; `users` are the users of the head's machine that it names, by name.

    Raises:  NotAllowed ``run-as``; NotFound ``no-such-user``.
    """
    if not is_other(by, spec):
        return by
    name = plain_name(spec.run_as)
    if not by.administrator:
        raise NotAllowed(
            code="run-as",
            what=f"{by.name!r} may not submit jobs for {name!r}: only administrators may",
            fix=f"run it as yourself: hn job submit --user {by.name} FILE; or ask an administrator",
            path=("run_as",),
        )
    if name not in users:
        raise NotFound(
            code="no-such-user",
            what=f"there is no user {name!r} on the head's machine",
            fix="name an existing user: --user NAME, also in place of the one in a job file",
            path=("run_as",),
        )
    return users[name]


def created_event(
    by: User,
    job: JobId,
    spec: JobSpec,
    encoded: bytes,
    users: Mapping[str, User],
    now: Instant,
    source: tuple[bytes, int] = (b"", 0),
) -> e.JobCreated:
    """Return that a job was made.  `source`: its job file, compressed, or the job that has it.

    Raises:  NotAllowed ``run-as``; NotFound ``no-such-user``.
    """
    owner = owner_of(by, spec, users)
    return e.JobCreated(
        at=now,
        job=job,
        owner=owner.name,
        uid=owner.uid,
        gid=owner.gid,
        spec=encoded,
        by=by.name if owner is not by else "",
        source=source[0],
        source_job=source[1],
    )


def owner_change_event(
    by: User, record: JobRecord, spec: JobSpec, users: Mapping[str, User], now: Instant, *, may: bool
) -> list[e.JobOwnerChanged]:
    """Return the change of owner of a job whose user was changed; `may`: the state of the job allows it.

    Raises:  NotAllowed ``run-as``; NotFound ``no-such-user``; WrongState ``not-modifiable``.
    """
    name = plain_name(spec.run_as)
    if not name or name.casefold() == record.owner.casefold():
        return []
    owner = owner_of(by, spec, users)
    if not may:
        raise WrongState(
            code="not-modifiable",
            what=f"the owner of job {record.id} can no longer change: it was submitted",
            fix=f"make a copy for the other user: hn job clone {record.id}; hn job modify COPY --user {name}",
            path=("run_as",),
        )
    return [
        e.JobOwnerChanged(at=now, job=record.id, owner=owner.name, uid=owner.uid, gid=owner.gid, by=by.name)
    ]


def may_see(by: User, record: JobRecord, *, private: bool) -> bool:
    """Return whether `by` may see the environment and the scripts of a job."""
    return not private or by.uid == record.uid or by.administrator


def may_copy(by: User, record: JobRecord, *, private: bool) -> bool:
    """Whether a copy of a job carries its environment and its scripts.

    Administrators see those of others, but their own jobs do not run with them.
    """
    return not private or by.uid == record.uid


def private_parts(spec: JobSpec) -> tuple[str, ...]:
    """Return the private parts that a job or one of its tasks has: `environment`, `script`, and others."""
    environment = bool(spec.environment) or any(task.environment for task in spec.tasks)
    script = any(task.script for task in spec.tasks)
    signed = any(_without_queries(task) is not task for task in spec.tasks)
    return ("environment",) * environment + ("script",) * script + ("query of a URL",) * signed


def without_private_parts(spec: JobSpec) -> JobSpec:
    """Return a job without variables and scripts of its own, and without what is after ``?`` in its URLs."""
    tasks = tuple(
        replace(task, environment={}, script="") if task.environment or task.script else task
        for task in map(_without_queries, spec.tasks)
    )
    return replace(spec, environment={}, tasks=tasks)


def _without_queries(task: TaskSpec) -> TaskSpec:
    """Return a task without the queries of its URLs, in which keys and signatures are; itself without any."""
    streams = {name: url for name in _STREAMS if "?" in (url := getattr(task, name)) and "://" in url}
    files = {name: getattr(task, name) for name in _FILES}
    signed = {name: found for name, found in files.items() if any("?" in file.url for file in found)}
    command = public_command(task.command)
    if not streams and not signed and command == task.command:
        return task
    bare = {
        name: tuple(replace(file, url=file.url.partition("?")[0]) for file in found)
        for name, found in signed.items()
    }
    bare_streams = {name: url.partition("?")[0] for name, url in streams.items()}
    return replace(task, command=command, **bare_streams, **bare)
