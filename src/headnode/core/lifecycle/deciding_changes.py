"""Decide about changes to a job's description: what may change in which state.

Source: HPC Pack, which properties may change when.
"""

import msgspec

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_jobs import check_hold, check_privileges, wished_job
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.permission import may_change
from headnode.core.lifecycle.records import JobRecord, encode_record, encode_spec
from headnode.core.lifecycle.states import JobState
from headnode.core.model.checks import check, check_runnable
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant

IN_PLACE_WHEN_QUEUED = frozenset(
    {"priority", "hold_until", "notify_on_start", "notify_on_completion", "email", "run_as", "tasks"}
)
BY_CONFIGURING_WHEN_QUEUED = frozenset(
    {
        "template", "name", "project", "run_time", "run_until_canceled", "fail_on_task_failure", "unit",
        "minimum", "maximum", "exclusive", "licences", "node_groups", "node_group_op", "minimum_memory",
        "minimum_processors_per_node", "requested_nodes", "order_by", "process_memory", "task_retry_limit",
    }
)  # fmt: skip
WHEN_RUNNING = frozenset(
    {"project", "run_time", "name", "run_until_canceled", "priority", "notify_on_completion", "email",
     "hold_until", "tasks"}
)  # fmt: skip


def modify(cluster: Cluster, command: c.ModifyJob, now: Instant) -> list[Event]:
    """Replace a job's description where its state allows it."""
    record = wished_job(cluster, command)
    may_change(command.by, record)
    if not command.fields:
        return []
    spec = _merged(record, cluster.spec(record), command)
    if spec.priority != record.priority:
        check_privileges(spec, command.by)
    check(spec)
    modified = e.JobModified(
        at=now,
        job=record.id,
        spec=encode_spec(spec),
        by=command.by.name,
        what=", ".join(command.fields),
    )
    if record.state in (JobState.FAILED, JobState.CANCELED):
        revived = e.JobRevived(at=now, job=record.id, record=encode_record(record), by=command.by.name)
        return [revived, e.JobConfigured(at=now, job=record.id, by=command.by.name), modified]
    _refuse_fields(record, _changeable(record), command.fields)
    if record.state is JobState.RUNNING:
        _check_running(record, command)
    if record.state is not JobState.CONFIGURING:
        check_hold(spec, now)
        check_runnable(spec)
    return [modified]


def _merged(record: JobRecord, now: JobSpec, command: c.ModifyJob) -> JobSpec:
    """Return the description as it is now, with what is named changed: changes of others hold too."""
    unknown = sorted(set(command.fields) - set(JobSpec.__struct_fields__))
    if unknown:
        raise BadRequest(
            code="no-such-field", what=f"a job has no {', '.join(unknown)}", fix="see `hn help job modify`"
        )
    if "tasks" in command.fields:
        _check_added(record, now, command.spec)
    return msgspec.structs.replace(now, **{name: getattr(command.spec, name) for name in command.fields})


def _check_added(record: JobRecord, now: JobSpec, wished: JobSpec) -> None:
    """Tasks are added behind those there are; whoever saw fewer must look again, or one would be lost."""
    known = len(now.tasks)
    if len(wished.tasks) <= known or wished.tasks[:known] != now.tasks:
        raise WrongState(
            code="stale-tasks",
            what=f"job {record.id} has {known} tasks by now, and the new ones do not follow them",
            fix="do it again: somebody else changed the job in the same moment",
        )


def _changeable(record: JobRecord) -> frozenset[str] | None:
    """Return the fields that may change in this state; None for all."""
    if record.state is JobState.CONFIGURING:
        return None
    if record.state is JobState.QUEUED:
        return IN_PLACE_WHEN_QUEUED | BY_CONFIGURING_WHEN_QUEUED
    return WHEN_RUNNING if record.state is JobState.RUNNING else frozenset()


def _refuse_fields(record: JobRecord, allowed: frozenset[str] | None, fields: tuple[str, ...]) -> None:
    if allowed is None:
        return
    wrong = sorted(set(fields) - allowed)
    if wrong:
        raise WrongState(
            code="not-modifiable",
            what=f"{', '.join(wrong)} of job {record.id} cannot change while it is {record.state.value}",
            fix=f"make a changed copy: hn job clone {record.id}"
            if not allowed
            else f"in this state only these can: {', '.join(sorted(allowed))}",
        )


def _check_running(record: JobRecord, command: c.ModifyJob) -> None:
    run = record.run
    if "run_time" in command.fields and run is not None and run.backfilled:
        raise WrongState(
            code="backfilled",
            what=f"the run time limit of job {record.id} cannot change: it was backfilled because of it",
            fix="let it end, or cancel it and submit it again",
        )
    if run is not None and run.outcome is not None and not run.requeue and "tasks" in command.fields:
        raise WrongState(
            code="ending",
            what=f"job {record.id} takes no new tasks: it was asked to end",
            fix="submit them as a job of their own",
        )
