"""The three dialects of HPC job files; every attribute of Job and Task, in the order of exports.

The values of an attribute that is an option have the form that the catalogue of options has for it.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from headnode.core.formats.hpc_values import (
    BY_FORM,
    COUNT,
    FLAG,
    NODES,
    PRIORITY_NAME,
    RUN_TIME,
    TASK_TYPE,
    TEXT,
    UNIT,
    WHEN,
    ValueFormat,
)
from headnode.core.model.field_rows import JobOption
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS

CCS, HPC_2008, HPC = "ccs", "hpcpack-2008", "hpcpack"


class HpcDialect(msgspec.Struct, frozen=True):
    """A dialect.  The defaults are those of what a file does not say."""

    name: str
    title: str
    namespace: str
    version: str
    exclusive: bool  # default of IsExclusive of the job
    rerunnable: bool  # default of IsRerunnable of its tasks


DIALECTS = {
    CCS: HpcDialect(
        CCS, "Compute Cluster Server 2003", "http://www.microsoft.com/ComputeCluster/", "", True, False
    ),
    HPC_2008: HpcDialect(
        HPC_2008,
        "HPC Server 2008",
        "http://schemas.microsoft.com/HPCS2008/scheduler/",
        "2.000",
        False,
        True,
    ),
    HPC: HpcDialect(
        HPC,
        "HPC Pack 2008 R2 and later",
        "http://schemas.microsoft.com/HPCS2008R2/scheduler/",
        "3.000",
        False,
        True,
    ),
}
"""The dialects by the names that jobs and commands give them."""

BY_NAMESPACE = {dialect.namespace: dialect for dialect in DIALECTS.values()}


class HpcRole(Enum):
    """What an attribute is to a reader."""

    FIELD = auto()  # it has a place in the job
    LIVE = auto()  # written by the scheduler into exports; not input
    KEPT = auto()  # it has no effect, but is kept and written back


class HpcRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attribute.  Rows stand in the order in which exports write them."""

    field: str  # of JobSpec or TaskSpec; with a dot: of what is folded from several attributes, or of Live
    hpc: str = ""  # its name in HPC Pack; "" when it has none
    ccs: str = ""  # its name in CCS
    also: tuple[str, ...] = ()  # other spellings that are read
    value: ValueFormat = TEXT
    ccs_value: ValueFormat | None = None  # where CCS writes the same name another way
    source: str
    role: HpcRole = HpcRole.FIELD
    since: str = HPC_2008  # the first HPC dialect that has it
    always: bool = False  # write it even when it is the default
    width: int = 0  # characters in the CCS table; 0: no limit there

    def name_in(self, dialect: str) -> str:
        """Return its name in `dialect`, or "" when the dialect cannot say it."""
        if dialect == CCS:
            return self.ccs
        return self.hpc if dialect == HPC or self.since == HPC_2008 else ""

    def words_in(self, dialect: str) -> ValueFormat:
        """Return how its values are written in `dialect`."""
        return self.ccs_value or self.value if dialect == CCS else self.value


def by_spelling(rows: Iterable[HpcRow]) -> Mapping[str, HpcRow]:
    """Return the rows by every spelling that is read, in lower case."""
    return {name.lower(): row for row in rows for name in (row.hpc, row.ccs, *row.also) if name}


def scheduler_row(
    field: str, hpc: str = "", ccs: str = "", *, value: ValueFormat = TEXT, width: int = 0, source: str = ""
) -> HpcRow:
    """Return the row of something only the scheduler writes."""
    return HpcRow(
        field=f"live.{field}",
        hpc=hpc,
        ccs=ccs,
        value=value,
        role=HpcRole.LIVE,
        width=width,
        source=source or "exports of HPC Pack: written by the scheduler, not input",
    )


def kept_row(hpc: str, source: str, *, since: str = HPC_2008) -> HpcRow:
    """Return the row of something that is kept and has no effect."""
    return HpcRow(field="", hpc=hpc, role=HpcRole.KEPT, source=source, since=since)


_CCS_JOB, _CCS_TASK = "CCS, 'Content format' and job.xsd: ", "CCS, 'Content format' and task.xsd: "
_HPC_JOB, _HPC_TASK = "HPC Pack job property ", "HPC Pack task property "


def _rows_of(options: Iterable[JobOption]) -> Callable[..., HpcRow]:
    forms = {field: option.form for option in options for field in option.fields}

    def row(field: str, hpc: str, source: str, **more: Any) -> HpcRow:
        value = more.pop("value", None) or BY_FORM.get(forms.get(field, ""), TEXT)
        return HpcRow(field=field, hpc=hpc, source=source, value=value, **more)

    return row


_of_job, _of_task = _rows_of(OPTIONS_OF_JOBS), _rows_of(OPTIONS_OF_TASKS)

JOB_ATTRIBUTES: tuple[HpcRow, ...] = (
    scheduler_row("version", "Version"),
    scheduler_row("id", "Id", "Id", value=COUNT, width=10, source=_CCS_JOB + "Id, at most 2147483647"),
    scheduler_row("state", "State", "Status", source=_CCS_JOB + "Status"),
    scheduler_row("submitted", "SubmitTime", value=WHEN),
    scheduler_row("created", "CreateTime", value=WHEN),
    scheduler_row("started", "StartTime", value=WHEN),
    scheduler_row("ended", "EndTime", value=WHEN),
    scheduler_row("changed", "ChangeTime", value=WHEN),
    _of_job("name", "Name", _CCS_JOB + "Jobname", ccs="Name", width=80),
    _of_job("exclusive", "IsExclusive", _CCS_JOB + "exclusive: default true;  in HPC Pack false",
        ccs="IsExclusive", always=True),
    _of_job("run_until_canceled", "RunUntilCanceled", _CCS_JOB + "runtillcancelled", ccs="RuntillCancelled",
        also=("RunTillCanceled", "RunUntilCancelled"), always=True),
    _of_job("size.unit", "UnitType", _HPC_JOB + "UnitType: Core, Socket, Node, Gpu", value=UNIT),
    _of_job("run_time", "RuntimeSeconds", _HPC_JOB + "RuntimeSeconds: whole seconds or Infinite"),
    _of_job("run_time", "", _CCS_JOB + "runtime: [[dd:]hh:]mm or Infinite", ccs="Runtime", value=RUN_TIME,
        width=8),
    scheduler_row("owner", "Owner", "SubmittedBy", width=80,
        source=_CCS_JOB + "SubmittedBy: the submission user"),
    scheduler_row("user", "UserName"),
    _of_job("run_as", "User", _CCS_JOB + "User: the job will run as this user", ccs="User", width=80),
    _of_job("project", "Project", _CCS_JOB + "Projectname", ccs="Project", width=80, always=True),
    _of_job("fixed.job_type", "JobType", _HPC_JOB + "JobType: always Batch in job files"),
    _of_job("template", "JobTemplate", _HPC_JOB + "JobTemplate"),
    _of_job("priority", "Priority", _CCS_JOB + "Priority; HPC Pack adds Normal+150 and numbers",
        ccs="Priority", ccs_value=PRIORITY_NAME, always=True),
    scheduler_row("expanded_priority", "ExpandedPriority"),
    _of_job("requested_nodes", "RequestedNodes", _CCS_JOB + "Askednodes", ccs="AskedNodes", width=2080),
    _of_job("excluded_nodes", "ExcludedNodes", _HPC_JOB + "ExcludedNodes", since=HPC),
    _of_job("node_groups", "NodeGroups", _HPC_JOB + "NodeGroups"),
    _of_job("licences", "SoftwareLicense", _CCS_JOB + "License; HPC filters: feature:*",
        ccs="SoftwareLicense", width=160),
    _of_job("order_by", "OrderBy", _HPC_JOB + "OrderBy"),
    scheduler_row("request_cancel", "RequestCancel"),
    scheduler_row("requeues", "RequeueCount", value=COUNT),
    scheduler_row("auto_requeues", "AutoRequeueCount", value=COUNT),
    scheduler_row("failure_reason", "FailureReason"),
    scheduler_row("pending_reason", "PendingReason"),
    scheduler_row("message", "ErrorMessage", "Message", width=320, source=_CCS_JOB + "Message"),
    scheduler_row("error_code", "ErrorCode"),
    scheduler_row("error_params", "ErrorParams"),
    scheduler_row("allocated_nodes", "AllocatedNodes", "AllocatedNodes", value=NODES,
        source=_CCS_JOB + "AllocatedNodes"),
    scheduler_row("backfilled", "IsBackfill", "IsBackfill", value=FLAG, source=_CCS_JOB + "IsBackfill"),
    _of_job("size.auto_maximum", "AutoCalculateMax",
        _HPC_JOB + "AutoCalculateMax: a given maximum is then ignored", value=FLAG),
    _of_job("size.auto_minimum", "AutoCalculateMin",
        _HPC_JOB + "AutoCalculateMin: a given minimum is then ignored", value=FLAG),
    _of_job("fail_on_task_failure", "FailOnTaskFailure", _HPC_JOB + "FailOnTaskFailure", always=True),
    _of_job("fail_dependent_tasks", "FailDependentTasks", _HPC_JOB + "FailDependentTasks (2012)", since=HPC),
    scheduler_row("progress", "Progress"),
    scheduler_row("progress_message", "ProgressMessage"),
    _of_job("size.minimum.processor", "MinCores", _CCS_JOB + "Minprocessors; HPC Pack property MinCores",
        ccs="MinimumNumberOfProcessors", value=COUNT),
    _of_job("size.maximum.processor", "MaxCores", _CCS_JOB + "MaxProcessors; HPC Pack property MaxCores",
        ccs="MaximumNumberOfProcessors", value=COUNT),
    _of_job("size.minimum.socket", "MinSockets", _HPC_JOB + "MinSockets", value=COUNT),
    _of_job("size.maximum.socket", "MaxSockets", _HPC_JOB + "MaxSockets", value=COUNT),
    _of_job("size.minimum.node", "MinNodes", _HPC_JOB + "MinNodes", value=COUNT),
    _of_job("size.maximum.node", "MaxNodes", _HPC_JOB + "MaxNodes", value=COUNT),
    _of_job("minimum_memory", "MinMemory", _HPC_JOB + "MinMemory: MB of each node"),
    _of_job("maximum_memory", "MaxMemory", _HPC_JOB + "MaxMemory: MB of each node"),
    _of_job("minimum_processors_per_node", "MinCoresPerNode", _HPC_JOB + "MinCoresPerNode"),
    _of_job("maximum_processors_per_node", "MaxCoresPerNode", _HPC_JOB + "MaxCoresPerNode"),
    _of_job("notify_on_start", "NotifyOnStart", _HPC_JOB + "NotifyOnStart", since=HPC),
    _of_job("notify_on_completion", "NotifyOnCompletion", _HPC_JOB + "NotifyOnCompletion", since=HPC),
    _of_job("email", "EmailAddress", _HPC_JOB + "EmailAddress", since=HPC),
    _of_job("hold_until", "HoldUntil", _HPC_JOB + "HoldUntil: UTC without a time zone", since=HPC),
    _of_job("node_group_op", "NodeGroupOp", _HPC_JOB + "NodeGroupOp (2012): Intersect, Uniform or Union",
        since=HPC),
    _of_job("single_node", "SingleNode", _HPC_JOB + "SingleNode (2012)", since=HPC),
    _of_job("valid_exit_codes", "JobValidExitCodes",
        _HPC_JOB + "JobValidExitCodes (2012): for example -1..10,min..-100", since=HPC),
    _of_job("parents", "ParentJobIds", _HPC_JOB + "ParentJobIds (2012)", since=HPC),
    _of_job("process_memory", "EstimatedProcessMemory",
        _HPC_JOB + "EstimatedProcessMemory (2012): MB; 0 means none", since=HPC),
    _of_job("task_retry_limit", "TaskExecutionFailureRetryLimit",
        _HPC_JOB + "TaskExecutionFailureRetryLimit (2012)", since=HPC),
    kept_row("ServiceName", _HPC_JOB + "ServiceName"),
    kept_row("CanGrow", _HPC_JOB + "CanGrow"),
    kept_row("CanShrink", _HPC_JOB + "CanShrink"),
    _of_job("preemptable", "Preemptable", _HPC_JOB + "Preemptable"),
    kept_row("RequiredNodes", _HPC_JOB + "RequiredNodes (2008)"),
    kept_row("Pool", _HPC_JOB + "Pool (2008 R2)", since=HPC),
)  # fmt: skip

TASK_ATTRIBUTES: tuple[HpcRow, ...] = (
    scheduler_row("version", "Version"),
    scheduler_row("id", "Id", "Id", value=COUNT, width=10, source=_CCS_TASK + "Id, at most 2147483647"),
    scheduler_row("parent_job", "ParentJobId", "ParentJobId", value=COUNT, source=_CCS_TASK + "ParentJobId"),
    scheduler_row("state", "State", "Status", source=_CCS_TASK + "Status"),
    _of_task("size.unit", "UnitType", _HPC_TASK + "UnitType: the same as the job's", value=UNIT),
    scheduler_row("nice_id", "NiceId", value=COUNT),
    _of_task("command", "CommandLine", _CCS_TASK + "Cmdline", ccs="CommandLine", width=480, always=True),
    scheduler_row("request_cancel", "RequestCancel"),
    scheduler_row("requeues", "RequeueCount", value=COUNT),
    scheduler_row("failure_reason", "FailureReason"),
    scheduler_row("pending_reason", "PendingReason"),
    scheduler_row("exit_code", "ExitCode", "ExitCode", value=COUNT, source=_CCS_TASK + "ExitCode"),
    _of_task("start", "StartValue", _HPC_TASK + "StartValue"),
    _of_task("end", "EndValue", _HPC_TASK + "EndValue"),
    _of_task("increment", "IncrementValue", _HPC_TASK + "IncrementValue"),
    _of_task("group", "GroupId", _HPC_TASK + "GroupId: see Dependencies"),
    scheduler_row("submitted", "SubmitTime", value=WHEN),
    scheduler_row("started", "StartTime", value=WHEN),
    scheduler_row("ended", "EndTime", value=WHEN),
    scheduler_row("created", "CreateTime", value=WHEN),
    scheduler_row("changed", "ChangeTime", value=WHEN),
    scheduler_row("message", "ErrorMessage", "Message", source=_CCS_TASK + "Message"),
    scheduler_row("error_code", "ErrorCode"),
    scheduler_row("error_params", "ErrorParams"),
    scheduler_row("allocated_nodes", "AllocatedNodes"),
    scheduler_row("allocated_cores", "AllocatedCoreIds"),
    scheduler_row("output", "Output"),
    _of_task("name", "Name", _CCS_TASK + "Name", ccs="Name", width=80),
    _of_task("size.minimum.processor", "MinCores", _CCS_TASK + "MinProcessors; HPC Pack property MinCores",
        ccs="MinimumNumberOfProcessors", value=COUNT),
    _of_task("size.maximum.processor", "MaxCores", _CCS_TASK + "Numprocessors; HPC Pack property MaxCores",
        ccs="MaximumNumberOfProcessors", value=COUNT),
    _of_task("size.minimum.socket", "MinSockets", _HPC_TASK + "MinSockets", value=COUNT),
    _of_task("size.maximum.socket", "MaxSockets", _HPC_TASK + "MaxSockets", value=COUNT),
    _of_task("size.minimum.node", "MinNodes", _HPC_TASK + "MinNodes", value=COUNT),
    _of_task("size.maximum.node", "MaxNodes", _HPC_TASK + "MaxNodes", value=COUNT),
    _of_task("run_time", "RuntimeSeconds", _HPC_TASK + "RuntimeSeconds: whole seconds or Infinite"),
    _of_task("run_time", "", _CCS_TASK + "Runtime: [[dd:]hh:]mm or Infinite", ccs="Runtime", value=RUN_TIME,
        width=8),
    _of_task("exclusive", "IsExclusive", _CCS_TASK + "Exclusive: default false", ccs="IsExclusive"),
    _of_task("rerunnable", "IsRerunnable", _CCS_TASK + "Rerunnable: default false;  in HPC Pack true",
        ccs="IsRerunnable", always=True),
    _of_task("standard_input", "StdInFilePath", _CCS_TASK + "Stdin", ccs="Stdin", width=160),
    _of_task("standard_output", "StdOutFilePath", _CCS_TASK + "Stdout", ccs="Stdout", width=160),
    _of_task("standard_error", "StdErrFilePath", _CCS_TASK + "Stderr", ccs="Stderr", width=160),
    _of_task("work_directory", "WorkDirectory", _CCS_TASK + "Workdir", ccs="WorkDirectory", width=160),
    _of_task("required_nodes", "RequiredNodes", _CCS_TASK + "Askednodes; later spelling RequiredNodes",
        ccs="AskedNodes", width=2080),
    _of_task("node_group", "RequestedNodeGroup", _HPC_TASK + "RequestedNodeGroup (2012)", since=HPC),
    _of_task("depends_on", "DependsOn", _CCS_TASK + "Depend: all tasks of these names must have ended first",
        ccs="Depend", width=320),
    scheduler_row("auto_requeues", "AutoRequeueCount", value=COUNT),
    _of_task("sweep.type", "Type", _HPC_TASK + "Type (2008 R2)", value=TASK_TYPE, since=HPC),
    _of_task("sweep.is_parametric", "IsParametric",
        _HPC_TASK + "IsParametric: the sweep of 2008; no other Type is possible with it", value=FLAG),
    _of_task("valid_exit_codes", "TaskValidExitCodes", _HPC_TASK + "TaskValidExitCodes (2012)", since=HPC),
    _of_task("critical.flag", "FailJobOnFailure", _HPC_TASK + "FailJobOnFailure (2008 R2)", value=FLAG,
        since=HPC),
    _of_task("critical.count", "FailJobOnFailureCount",
        _HPC_TASK + "FailJobOnFailureCount: implies FailJobOnFailure", value=COUNT, since=HPC),
)  # fmt: skip

JOB_SPELLINGS, TASK_SPELLINGS = by_spelling(JOB_ATTRIBUTES), by_spelling(TASK_ATTRIBUTES)
"""Rows by every spelling, in lower case."""
