"""Why a job waits in Slurm, in plain words; and in Grid Engine, which has one word for it.

Source:  Slurm, squeue(1), "JOB REASON CODES"; resource_limits.html.
"""

import re
from typing import Final

_WORDS: Final = {
    "Priority": "jobs with a higher priority are ahead of it in its partition",
    "Resources": "it is first in its partition, and waits until enough processors, memory or nodes are free",
    "Dependency": "a job that it depends on has not satisfied the dependency yet",
    "DependencyNeverSatisfied": "its dependency can no longer be satisfied: cancel it",
    "BeginTime": "its earliest start time has not come, or Slurm waits before it starts it again",
    "JobHeldUser": "its user holds it there: scontrol release ID",
    "JobHeldAdmin": "an administrator there holds it",
    "JobHoldMaxRequeue": "it was requeued too often, so Slurm holds it: scontrol release ID",
    "JobArrayTaskLimit": "its array has as many elements running as its limit allows",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition is inactive",
    "PartitionNodeLimit": "it requests more nodes than its partition allows, so it cannot start",
    "PartitionTimeLimit": "its time limit is longer than its partition allows, so it cannot start",
    "PartitionConfig": "it requests more than its partition has, so it cannot start",
    "BadConstraints": "no node meets its requirements, so it cannot start",
    "ReqNodeNotAvail": "nodes that it needs are down, drained, or reserved for maintenance",
    "Reservation": "its reservation has not begun, or has no free resources",
    "ReservationDeleted": "its reservation was removed",
    "Licenses": "it waits for licences",
    "InvalidAccount": "its account is not valid there",
    "InvalidQOS": "its quality of service (QOS) is not valid there",
    "NodeDown": "a node that it needs is down",
    "Prolog": "the prolog of its nodes runs",
    "Cleaning": "it is being cleaned up after an earlier run",
    "SchedDefer": "Slurm considers it in the next pass only",
    "FrontEndDown": "no front end node is available to start it",
    "AccountNotAllowed": "its account may not use this partition or QOS",
    "QOSNotAllowed": "its QOS may not be used in this partition",
    "QOSUsageThreshold": "its QOS has used more than its threshold",
    "AssociationJobLimit": "its account has reached its limit of jobs",
    "AssociationResourceLimit": "its account has reached its limit of resources",
    "AssociationTimeLimit": "its account has reached its limit of time",
    "QOSJobLimit": "its QOS has reached its limit of jobs",
    "QOSResourceLimit": "its QOS has reached its limit of resources",
    "QOSTimeLimit": "its QOS has reached its limit of time",
    "BurstBufferResources": "it waits for burst buffer space",
    "BurstBufferStageIn": "its burst buffer is being filled",
    "qw": "it waits for its turn, and for free slots of a queue",
}
_LIMIT = re.compile(
    r"(Assoc|QOS)(Max|Grp)(C(?:pu|PU)(?:Run)?Minutes|Cpu|CPU|GRES(?:Run)?Minutes|GRES|Mem|Node|Jobs?|Submit|Wall|Billing|BB|Lic\w*)?(.*)"
)
_OF: Final = {
    "cpuminutes": "processor-minutes", "cpu": "processors", "gres": "generic resources", "mem": "memory",
    "gresminutes": "minutes of generic resources", "cpurunminutes": "processor-minutes of running jobs",
    "gresrunminutes": "minutes of generic resources of running jobs",
    "node": "nodes", "job": "jobs", "jobs": "jobs", "submit": "submitted jobs", "wall": "run time",
    "billing": "billing units",
}  # fmt: skip
_CAN_START: Final = frozenset({"", "None", "Priority", "Resources", "Prolog", "SchedDefer", "Cleaning", "qw"})
_BY_NODES: Final = "nodes required for job are down"


def reason_in_words(reason: str) -> str:
    """Return why a job waits, in a sentence that goes on; empty for no reason.

    >>> reason_in_words("Priority")
    'jobs with a higher priority are ahead of it in its partition (Priority)'
    >>> reason_in_words("AssocGrpCpuLimit")
    'its account has reached a limit of processors for all its users (AssocGrpCpuLimit)'
    >>> reason_in_words("AssocGrpCPUMinutesLimit")
    'its account has reached a limit of processor-minutes for all its users (AssocGrpCPUMinutesLimit)'
    >>> reason_in_words("QOSGrpGRESMinutes")
    'its QOS has reached a limit of minutes of generic resources for all its users (QOSGrpGRESMinutes)'
    """
    known = _WORDS.get(code_of(reason))
    if known is not None:
        return f"{known} ({reason})"
    limit = _LIMIT.match(reason)
    if limit is not None:
        whose = "account" if limit[1] == "Assoc" else "QOS"
        of = _OF.get((limit[3] or "").lower(), "resources")
        scope = "for all its users" if limit[2] == "Grp" else "for one user or job"
        return f"its {whose} has reached a limit of {of} {scope} ({reason})"
    return reason


def code_of(reason: str) -> str:
    """Return the code of a reason without what Slurm adds to it.

    >>> code_of("ReqNodeNotAvail, UnavailableNodes:n[1-4]")
    'ReqNodeNotAvail'
    """
    return re.split(r"[,( ]", reason, maxsplit=1)[0]


def may_start(reason: str) -> bool:
    """Return whether a job with this reason only waits for its turn and for free nodes."""
    return code_of(reason) in _CAN_START or reason.replace("_", " ").lower().startswith(_BY_NODES)
