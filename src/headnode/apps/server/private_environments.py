"""Answers about jobs of others leave their environments out, and say so."""

from headnode.apps.server.desk import Desk
from headnode.apps.server.lookups import Found
from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.lifecycle.private_environments import (
    has_environment,
    may_copy,
    may_see,
    without_environment,
)
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.job import JobSpec
from headnode.core.model.user import User


def seen_by(desk: Desk, by: User, found: Found) -> tuple[JobSpec, Report]:
    """Return a job as somebody may see it, and what was left out."""
    if may_see(by, found.record, private=_private(desk)) or not has_environment(found.spec):
        return found.spec, ()
    return without_environment(found.spec), (_left_out(found.record),)


def copied_by(desk: Desk, by: User, found: Found) -> tuple[JobSpec, Report]:
    """Return a job as somebody may copy it, and what was left out."""
    if may_copy(by, found.record, private=_private(desk)) or not has_environment(found.spec):
        return found.spec, ()
    return without_environment(found.spec), (_left_out(found.record),)


def _private(desk: Desk) -> bool:
    return desk.engine.settings.text("PrivateEnvironments") == "yes"


def _left_out(record: JobRecord) -> Item:
    what = f"the environment of job {record.id} is private to {record.owner!r}, and was left out"
    return Item(Kind.NOT_SUPPORTED, "environment", what)
