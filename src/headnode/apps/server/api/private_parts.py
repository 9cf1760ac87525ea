"""The environment and the scripts of a job, which only its owner and administrators see."""

from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem
from headnode.core.model.job import JobSpec
from headnode.core.model.user import User
from headnode.core.state.permissions import may_copy, may_see, private_parts, without_private_parts


def seen_by(context: ServerContext, by: User, found: FoundJob) -> tuple[JobSpec, FidelityReport]:
    """Return the part of a job that `by` may see, and what was left out."""
    return _parts_of(found, whole=may_see_private(context, by, found))


def copied_by(context: ServerContext, by: User, found: FoundJob) -> tuple[JobSpec, FidelityReport]:
    """Return the part of a job that `by` may copy, and what was left out."""
    return _parts_of(found, whole=may_copy(by, found.record, private=_are_private(context)))


def may_see_private(context: ServerContext, by: User, found: FoundJob) -> bool:
    """Whether `by` may see all of a job, and so the file that it was read from."""
    return may_see(by, found.record, private=_are_private(context))


def _parts_of(found: FoundJob, *, whole: bool) -> tuple[JobSpec, FidelityReport]:
    if whole or not (parts := private_parts(found.spec)):
        return found.spec, ()
    private = f"of job {found.record.id} is private to {found.record.owner!r}, and was left out"
    left_out = [ReportItem(Fidelity.NOT_SUPPORTED, part, f"the {part} {private}") for part in parts]
    return without_private_parts(found.spec), tuple(left_out)


def hides_environment(left_out: FidelityReport) -> bool:
    """Whether the environment is among what was left out."""
    return any(item.where == "environment" for item in left_out)


def _are_private(context: ServerContext) -> bool:
    return context.engine.settings.text("PrivateEnvironments") == "yes"
