"""Every attribute of Task, in the order in which exports write them."""

from headnode.core.formats.hpc_values import (
    COUNT,
    EXIT_CODES,
    FLAG,
    NAMES,
    NODES,
    RUN_TIME,
    SECONDS,
    TASK_TYPE,
    UNIT,
    WHEN,
)
from headnode.core.formats.hpc_xml.dialects import HPC, HpcRow, by_spelling, scheduler_row

_CCS_TASK = "CCS, 'Content format' and task.xsd: "
_HPC_TASK = "HPC Pack task property "

TASK_ATTRIBUTES: tuple[HpcRow, ...] = (
    scheduler_row("version", "Version"),
    scheduler_row("id", "Id", "Id", value=COUNT, width=10, source=_CCS_TASK + "Id, at most 2147483647"),
    scheduler_row("parent_job", "ParentJobId", "ParentJobId", value=COUNT, source=_CCS_TASK + "ParentJobId"),
    scheduler_row("state", "State", "Status", source=_CCS_TASK + "Status"),
    HpcRow(
        field="size.unit", hpc="UnitType", value=UNIT, source=_HPC_TASK + "UnitType: the same as the job's"
    ),
    scheduler_row("nice_id", "NiceId", value=COUNT),
    HpcRow(
        field="command",
        hpc="CommandLine",
        ccs="CommandLine",
        width=480,
        always=True,
        source=_CCS_TASK + "Cmdline",
    ),
    scheduler_row("request_cancel", "RequestCancel"),
    scheduler_row("requeues", "RequeueCount", value=COUNT),
    scheduler_row("failure_reason", "FailureReason"),
    scheduler_row("pending_reason", "PendingReason"),
    scheduler_row("exit_code", "ExitCode", "ExitCode", value=COUNT, source=_CCS_TASK + "ExitCode"),
    HpcRow(field="start", hpc="StartValue", value=COUNT, source=_HPC_TASK + "StartValue"),
    HpcRow(field="end", hpc="EndValue", value=COUNT, source=_HPC_TASK + "EndValue"),
    HpcRow(field="increment", hpc="IncrementValue", value=COUNT, source=_HPC_TASK + "IncrementValue"),
    HpcRow(field="group", hpc="GroupId", value=COUNT, source=_HPC_TASK + "GroupId: see Dependencies"),
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
    HpcRow(field="name", hpc="Name", ccs="Name", width=80, source=_CCS_TASK + "Name"),
    HpcRow(
        field="size.minimum.processor",
        hpc="MinCores",
        ccs="MinimumNumberOfProcessors",
        value=COUNT,
        source=_CCS_TASK + "MinProcessors; HPC Pack property MinCores",
    ),
    HpcRow(
        field="size.maximum.processor",
        hpc="MaxCores",
        ccs="MaximumNumberOfProcessors",
        value=COUNT,
        source=_CCS_TASK + "Numprocessors; HPC Pack property MaxCores",
    ),
    HpcRow(field="size.minimum.socket", hpc="MinSockets", value=COUNT, source=_HPC_TASK + "MinSockets"),
    HpcRow(field="size.maximum.socket", hpc="MaxSockets", value=COUNT, source=_HPC_TASK + "MaxSockets"),
    HpcRow(field="size.minimum.node", hpc="MinNodes", value=COUNT, source=_HPC_TASK + "MinNodes"),
    HpcRow(field="size.maximum.node", hpc="MaxNodes", value=COUNT, source=_HPC_TASK + "MaxNodes"),
    HpcRow(
        field="run_time",
        hpc="RuntimeSeconds",
        value=SECONDS,
        source=_HPC_TASK + "RuntimeSeconds: whole seconds or Infinite",
    ),
    HpcRow(
        field="run_time",
        ccs="Runtime",
        value=RUN_TIME,
        width=8,
        source=_CCS_TASK + "Runtime: [[dd:]hh:]mm or Infinite",
    ),
    HpcRow(
        field="exclusive",
        hpc="IsExclusive",
        ccs="IsExclusive",
        value=FLAG,
        source=_CCS_TASK + "Exclusive: default false",
    ),
    HpcRow(
        field="rerunnable",
        hpc="IsRerunnable",
        ccs="IsRerunnable",
        value=FLAG,
        always=True,
        source=_CCS_TASK + "Rerunnable: default false;  in HPC Pack true",
    ),
    HpcRow(field="standard_input", hpc="StdInFilePath", ccs="Stdin", width=160, source=_CCS_TASK + "Stdin"),
    HpcRow(
        field="standard_output", hpc="StdOutFilePath", ccs="Stdout", width=160, source=_CCS_TASK + "Stdout"
    ),
    HpcRow(
        field="standard_error", hpc="StdErrFilePath", ccs="Stderr", width=160, source=_CCS_TASK + "Stderr"
    ),
    HpcRow(
        field="work_directory",
        hpc="WorkDirectory",
        ccs="WorkDirectory",
        width=160,
        source=_CCS_TASK + "Workdir",
    ),
    HpcRow(
        field="required_nodes",
        hpc="RequiredNodes",
        ccs="AskedNodes",
        value=NODES,
        width=2080,
        source=_CCS_TASK + "Askednodes; later spelling RequiredNodes",
    ),
    HpcRow(
        field="node_group",
        hpc="RequestedNodeGroup",
        since=HPC,
        source=_HPC_TASK + "RequestedNodeGroup (2012)",
    ),
    HpcRow(
        field="depends_on",
        hpc="DependsOn",
        ccs="Depend",
        value=NAMES,
        width=320,
        source=_CCS_TASK + "Depend: all tasks of these names must have ended first",
    ),
    scheduler_row("auto_requeues", "AutoRequeueCount", value=COUNT),
    HpcRow(field="sweep.type", hpc="Type", value=TASK_TYPE, since=HPC, source=_HPC_TASK + "Type (2008 R2)"),
    HpcRow(
        field="sweep.is_parametric",
        hpc="IsParametric",
        value=FLAG,
        source=_HPC_TASK + "IsParametric: the sweep of 2008; no other Type is possible with it",
    ),
    HpcRow(
        field="valid_exit_codes",
        hpc="TaskValidExitCodes",
        value=EXIT_CODES,
        since=HPC,
        source=_HPC_TASK + "TaskValidExitCodes (2012)",
    ),
    HpcRow(
        field="critical.flag",
        hpc="FailJobOnFailure",
        value=FLAG,
        since=HPC,
        source=_HPC_TASK + "FailJobOnFailure (2008 R2)",
    ),
    HpcRow(
        field="critical.count",
        hpc="FailJobOnFailureCount",
        value=COUNT,
        since=HPC,
        source=_HPC_TASK + "FailJobOnFailureCount: implies FailJobOnFailure",
    ),
)

TASK_SPELLINGS = by_spelling(TASK_ATTRIBUTES)
"""Rows of Task by every spelling, in lower case."""
