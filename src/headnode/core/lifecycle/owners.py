"""Whose a job is: his who asks for it, or as an administrator says.

A job belongs to whom it runs as: he sees to it as if he had made it himself.
Source:  CCS, "Standard job and task options", row *user*; HPC Pack ``/user``.
"""

from collections.abc import Mapping

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.errors import NotAllowed, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.user import User


def plain_name(written: str) -> str:
    """Return the name of a user as written in a job, without the domain that Windows puts before it.

    >>> plain_name("CORP\\\\ann"), plain_name("ann")
    ('ann', 'ann')
    """
    return written.rpartition("\\")[2].strip()


def is_other(by: User, spec: JobSpec) -> bool:
    """Whether a job is to run as somebody else than the one who asks."""
    name = plain_name(spec.run_as)
    return bool(name) and name.casefold() != by.name.casefold()


def owner_of(by: User, spec: JobSpec, known: Mapping[str, User]) -> User:
    """Return whose the job is; `known` are the users of the head's machine who are named, by their names.

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
        )
    if name not in known:
        raise NotFound(
            code="no-such-user",
            what=f"there is no user {name!r} on the head's machine",
            fix="name an existing user instead of the file's: hn job submit --user NAME FILE",
        )
    return known[name]


def created(
    by: User, job: JobId, spec: JobSpec, encoded: bytes, known: Mapping[str, User], now: Instant
) -> e.JobCreated:
    """Return that a job was made.

    Raises:  NotAllowed ``run-as``; NotFound ``no-such-user``.
    """
    owner = owner_of(by, spec, known)
    return e.JobCreated(
        at=now,
        job=job,
        owner=owner.name,
        uid=owner.uid,
        gid=owner.gid,
        spec=encoded,
        by=by.name if owner is not by else "",
    )


def given(
    by: User, record: JobRecord, spec: JobSpec, known: Mapping[str, User], now: Instant, *, may: bool
) -> list[e.JobGiven]:
    """Return that a job whose user was changed is somebody else's; `may`: it is in a state where that can be.

    Raises:  NotAllowed ``run-as``; NotFound ``no-such-user``; WrongState ``not-modifiable``.
    """
    name = plain_name(spec.run_as)
    if not name or name.casefold() == record.owner.casefold():
        return []
    owner = owner_of(by, spec, known)
    if not may:
        raise WrongState(
            code="not-modifiable",
            what=f"the owner of job {record.id} can no longer change: it was submitted",
            fix=f"make a copy for the other user: hn job clone {record.id}; hn job modify COPY --user {name}",
        )
    return [e.JobGiven(at=now, job=record.id, owner=owner.name, uid=owner.uid, gid=owner.gid, by=by.name)]
