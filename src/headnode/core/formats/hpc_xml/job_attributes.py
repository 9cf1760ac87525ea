"""Every attribute of Job, in the order in which exports write them."""

from headnode.core.formats.hpc_values import (
    COUNT,
    EXIT_CODES,
    FLAG,
    GROUP_OP,
    IDS,
    LEAST,
    LICENCES,
    NAMES,
    NODES,
    ORDER,
    PRIORITY,
    PRIORITY_NAME,
    RUN_TIME,
    SECONDS,
    UNIT,
    WHEN,
)
from headnode.core.formats.hpc_xml.dialects import HPC, HpcRow, by_spelling, kept_row, scheduler_row

_CCS_JOB = "CCS, 'Content format' and job.xsd: "
_HPC_JOB = "HPC Pack job property "

JOB_ATTRIBUTES: tuple[HpcRow, ...] = (
    scheduler_row("version", "Version"),
    scheduler_row("id", "Id", "Id", value=COUNT, width=10, source=_CCS_JOB + "Id, at most 2147483647"),
    scheduler_row("state", "State", "Status", source=_CCS_JOB + "Status"),
    scheduler_row("submitted", "SubmitTime", value=WHEN),
    scheduler_row("created", "CreateTime", value=WHEN),
    scheduler_row("started", "StartTime", value=WHEN),
    scheduler_row("ended", "EndTime", value=WHEN),
    scheduler_row("changed", "ChangeTime", value=WHEN),
    HpcRow(field="name", hpc="Name", ccs="Name", width=80, source=_CCS_JOB + "Jobname"),
    HpcRow(
        field="exclusive",
        hpc="IsExclusive",
        ccs="IsExclusive",
        value=FLAG,
        always=True,
        source=_CCS_JOB + "exclusive: default true;  in HPC Pack false",
    ),
    HpcRow(
        field="run_until_canceled",
        hpc="RunUntilCanceled",
        ccs="RuntillCancelled",
        also=("RunTillCanceled", "RunUntilCancelled"),
        value=FLAG,
        always=True,
        source=_CCS_JOB + "runtillcancelled",
    ),
    HpcRow(field="size.unit", hpc="UnitType", value=UNIT, source=_HPC_JOB + "UnitType: Core, Socket or Node"),
    HpcRow(
        field="run_time",
        hpc="RuntimeSeconds",
        value=SECONDS,
        source=_HPC_JOB + "RuntimeSeconds: whole seconds or Infinite",
    ),
    HpcRow(
        field="run_time",
        ccs="Runtime",
        value=RUN_TIME,
        width=8,
        source=_CCS_JOB + "runtime: [[dd:]hh:]mm or Infinite",
    ),
    scheduler_row(
        "owner", "Owner", "SubmittedBy", width=80, source=_CCS_JOB + "SubmittedBy: the submission user"
    ),
    scheduler_row("user", "UserName"),
    HpcRow(
        field="run_as",
        hpc="User",
        ccs="User",
        width=80,
        source=_CCS_JOB + "User: the job will run as this user",
    ),
    HpcRow(
        field="project", hpc="Project", ccs="Project", width=80, always=True, source=_CCS_JOB + "Projectname"
    ),
    HpcRow(field="fixed.job_type", hpc="JobType", source=_HPC_JOB + "JobType: always Batch in job files"),
    HpcRow(field="template", hpc="JobTemplate", source=_HPC_JOB + "JobTemplate"),
    HpcRow(
        field="priority",
        hpc="Priority",
        ccs="Priority",
        value=PRIORITY,
        ccs_value=PRIORITY_NAME,
        always=True,
        source=_CCS_JOB + "Priority; HPC Pack adds Normal+150 and numbers",
    ),
    scheduler_row("expanded_priority", "ExpandedPriority"),
    HpcRow(
        field="requested_nodes",
        hpc="RequestedNodes",
        ccs="AskedNodes",
        value=NODES,
        width=2080,
        source=_CCS_JOB + "Askednodes",
    ),
    HpcRow(
        field="excluded_nodes", hpc="ExcludedNodes", value=NODES, since=HPC, source=_HPC_JOB + "ExcludedNodes"
    ),
    HpcRow(field="node_groups", hpc="NodeGroups", value=NAMES, source=_HPC_JOB + "NodeGroups"),
    HpcRow(
        field="licences",
        hpc="SoftwareLicense",
        ccs="SoftwareLicense",
        value=LICENCES,
        width=160,
        source=_CCS_JOB + "License; HPC filters: feature:*",
    ),
    HpcRow(field="order_by", hpc="OrderBy", value=ORDER, source=_HPC_JOB + "OrderBy"),
    scheduler_row("request_cancel", "RequestCancel"),
    scheduler_row("requeues", "RequeueCount", value=COUNT),
    scheduler_row("auto_requeues", "AutoRequeueCount", value=COUNT),
    scheduler_row("failure_reason", "FailureReason"),
    scheduler_row("pending_reason", "PendingReason"),
    scheduler_row("message", "ErrorMessage", "Message", width=320, source=_CCS_JOB + "Message"),
    scheduler_row("error_code", "ErrorCode"),
    scheduler_row("error_params", "ErrorParams"),
    scheduler_row(
        "allocated_nodes", "AllocatedNodes", "AllocatedNodes", value=NODES, source=_CCS_JOB + "AllocatedNodes"
    ),
    scheduler_row("backfilled", "IsBackfill", "IsBackfill", value=FLAG, source=_CCS_JOB + "IsBackfill"),
    HpcRow(
        field="size.auto_maximum",
        hpc="AutoCalculateMax",
        value=FLAG,
        source=_HPC_JOB + "AutoCalculateMax: a given maximum is then ignored",
    ),
    HpcRow(
        field="size.auto_minimum",
        hpc="AutoCalculateMin",
        value=FLAG,
        source=_HPC_JOB + "AutoCalculateMin: a given minimum is then ignored",
    ),
    HpcRow(
        field="fail_on_task_failure",
        hpc="FailOnTaskFailure",
        value=FLAG,
        always=True,
        source=_HPC_JOB + "FailOnTaskFailure",
    ),
    HpcRow(
        field="fail_dependent_tasks",
        hpc="FailDependentTasks",
        value=FLAG,
        since=HPC,
        source=_HPC_JOB + "FailDependentTasks (2012)",
    ),
    scheduler_row("progress", "Progress"),
    scheduler_row("progress_message", "ProgressMessage"),
    HpcRow(
        field="size.minimum.processor",
        hpc="MinCores",
        ccs="MinimumNumberOfProcessors",
        value=COUNT,
        source=_CCS_JOB + "Minprocessors; HPC Pack property MinCores",
    ),
    HpcRow(
        field="size.maximum.processor",
        hpc="MaxCores",
        ccs="MaximumNumberOfProcessors",
        value=COUNT,
        source=_CCS_JOB + "MaxProcessors; HPC Pack property MaxCores",
    ),
    HpcRow(field="size.minimum.socket", hpc="MinSockets", value=COUNT, source=_HPC_JOB + "MinSockets"),
    HpcRow(field="size.maximum.socket", hpc="MaxSockets", value=COUNT, source=_HPC_JOB + "MaxSockets"),
    HpcRow(field="size.minimum.node", hpc="MinNodes", value=COUNT, source=_HPC_JOB + "MinNodes"),
    HpcRow(field="size.maximum.node", hpc="MaxNodes", value=COUNT, source=_HPC_JOB + "MaxNodes"),
    HpcRow(
        field="minimum_memory", hpc="MinMemory", value=LEAST, source=_HPC_JOB + "MinMemory: MB of each node"
    ),
    HpcRow(
        field="maximum_memory", hpc="MaxMemory", value=LEAST, source=_HPC_JOB + "MaxMemory: MB of each node"
    ),
    HpcRow(
        field="minimum_processors_per_node",
        hpc="MinCoresPerNode",
        value=LEAST,
        source=_HPC_JOB + "MinCoresPerNode",
    ),
    HpcRow(
        field="maximum_processors_per_node",
        hpc="MaxCoresPerNode",
        value=LEAST,
        source=_HPC_JOB + "MaxCoresPerNode",
    ),
    HpcRow(
        field="notify_on_start", hpc="NotifyOnStart", value=FLAG, since=HPC, source=_HPC_JOB + "NotifyOnStart"
    ),
    HpcRow(
        field="notify_on_completion",
        hpc="NotifyOnCompletion",
        value=FLAG,
        since=HPC,
        source=_HPC_JOB + "NotifyOnCompletion",
    ),
    HpcRow(field="email", hpc="EmailAddress", since=HPC, source=_HPC_JOB + "EmailAddress"),
    HpcRow(
        field="hold_until",
        hpc="HoldUntil",
        value=WHEN,
        since=HPC,
        source=_HPC_JOB + "HoldUntil: UTC without a time zone",
    ),
    HpcRow(
        field="node_group_op",
        hpc="NodeGroupOp",
        value=GROUP_OP,
        since=HPC,
        source=_HPC_JOB + "NodeGroupOp (2012): Intersect, Uniform or Union",
    ),
    HpcRow(
        field="single_node", hpc="SingleNode", value=FLAG, since=HPC, source=_HPC_JOB + "SingleNode (2012)"
    ),
    HpcRow(
        field="valid_exit_codes",
        hpc="JobValidExitCodes",
        value=EXIT_CODES,
        since=HPC,
        source=_HPC_JOB + "JobValidExitCodes (2012): for example -1..10,min..-100",
    ),
    HpcRow(
        field="parents", hpc="ParentJobIds", value=IDS, since=HPC, source=_HPC_JOB + "ParentJobIds (2012)"
    ),
    HpcRow(
        field="process_memory",
        hpc="EstimatedProcessMemory",
        value=LEAST,
        since=HPC,
        source=_HPC_JOB + "EstimatedProcessMemory (2012): MB; 0 means none",
    ),
    HpcRow(
        field="task_retry_limit",
        hpc="TaskExecutionFailureRetryLimit",
        value=COUNT,
        since=HPC,
        source=_HPC_JOB + "TaskExecutionFailureRetryLimit (2012)",
    ),
    kept_row("ServiceName", _HPC_JOB + "ServiceName"),
    kept_row("CanGrow", _HPC_JOB + "CanGrow"),
    kept_row("CanShrink", _HPC_JOB + "CanShrink"),
    HpcRow(field="preemptable", hpc="Preemptable", value=FLAG, source=_HPC_JOB + "Preemptable"),
    kept_row("RequiredNodes", _HPC_JOB + "RequiredNodes (2008)"),
    kept_row("Pool", _HPC_JOB + "Pool (2008 R2)", since=HPC),
)

JOB_SPELLINGS = by_spelling(JOB_ATTRIBUTES)
"""Rows of Job by every spelling, in lower case."""
