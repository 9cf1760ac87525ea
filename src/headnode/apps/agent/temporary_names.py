"""Names of the temporary directories of attempts that start on this node."""

from headnode.adapters.processes.job_journal import Key
from headnode.adapters.wire.messages import OpenJob
from headnode.apps.agent.task_tools import LaunchPlaces
from headnode.core.launching.environment import temporary_name
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.state.job_record import decode_spec

TEMPORARY = "temporary directory of"  # beside an attempt: what a secret is for


def temporary_name_in(opened: OpenJob, key: Key, places: LaunchPlaces) -> str:
    """Return the name of the temporary directory of an attempt that starts here; empty: it has none.

    Raises:  OSError.
    """
    return (
        attempt_directory_name(decode_spec(opened.spec), opened.job, key, places) if opened.temporary else ""
    )


def attempt_directory_name(spec: JobSpec, job: JobId, key: Key, places: LaunchPlaces) -> str:
    """Return the name, which the next agent of this node knows, too, and no other user.

    Raises:  OSError.
    """
    if not spec.tasks[key[0] - 1].has_temporary_directory(spec.dialect):
        return ""
    attempt = ".".join(map(str, (job, *key)))
    return temporary_name(attempt, places.secret(f"{TEMPORARY} {attempt}"))
