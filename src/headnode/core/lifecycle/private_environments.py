"""Who sees the environments of jobs: variables often hold passwords, tokens and paths of their owner.

Names, command lines and owners of jobs are public; values of variables are for the owner and administrators,
unless the cluster parameter PrivateEnvironments is no.
"""

from msgspec.structs import replace

from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.job import JobSpec
from headnode.core.model.user import User


def may_see(by: User, record: JobRecord, *, private: bool) -> bool:
    """Whether somebody sees the environment of a job."""
    return not private or by.uid == record.uid or by.administrator


def may_copy(by: User, record: JobRecord, *, private: bool) -> bool:
    """Whether a copy of a job carries its environment.

    Administrators see the environments of others, but their own jobs do not run with them.
    """
    return not private or by.uid == record.uid


def has_environment(spec: JobSpec) -> bool:
    """Whether a job or one of its tasks has variables of its own."""
    return bool(spec.environment) or any(task.environment for task in spec.tasks)


def without_environment(spec: JobSpec) -> JobSpec:
    """Return a job without the variables of the job and of its tasks."""
    tasks = tuple(replace(task, environment={}) if task.environment else task for task in spec.tasks)
    return replace(spec, environment={}, tasks=tasks)
