"""What each property of an SSS job object means to Headnode; the rows are those of the job object itself.

Source: SSS 3.1.0, Tables 25-1 to 25-6 and the sections of each element.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from headnode.core.formats.sss.rows import Place


class Role(StrEnum):
    """What becomes of a property."""

    ACTED_ON = "acted on"
    OUTCOME = "acted on: written, not input"  # it says what became of a job; Headnode says it of its own
    ELSEWHERE = "not supported: neither written nor input"  # what became of it in another system
    KEPT = "kept"  # it is for its owner: no effect here, written back
    UNSUPPORTED = "not supported"  # it should have an effect and has none; kept, and refused under Reject


OUTCOMES = (Role.OUTCOME, Role.ELSEWHERE)
"""The roles of what became of a job, which is no input."""


class Meaning(msgspec.Struct, frozen=True):
    """What a property means.  `tasks` tells whether it has that meaning in task groups and tasks, too."""

    role: Role
    becomes: str
    tasks: bool = False


_ACTED, _OUTCOME, _KEPT, _NOT = Role.ACTED_ON, Role.OUTCOME, Role.KEPT, Role.UNSUPPORTED
_ELSEWHERE = Role.ELSEWHERE

MEANINGS: Mapping[str, Meaning] = {
    "Id": Meaning(_KEPT, "extension <Id>; what dependencies in a job group mean"),
    "Name": Meaning(_ACTED, "name", tasks=True),
    "State": Meaning(_OUTCOME, "the state of the job, or of its group"),
    "Type": Meaning(_KEPT, "its meaning is another's"),
    "GlobalJob": Meaning(_KEPT, "the identifier is another's"),
    "Application": Meaning(_KEPT, "a word for statistics"),
    "Executable": Meaning(_ACTED, "the first word of command; #id: the script of the File", tasks=True),
    "Arguments": Meaning(_ACTED, "the other words of command", tasks=True),
    "InitialWorkingDirectory": Meaning(_ACTED, "work_directory", tasks=True),
    "Shell": Meaning(_ACTED, "the program in command that runs the executable", tasks=True),
    "Interactive": Meaning(_ACTED, "interactive; of a task alone, true is refused", tasks=True),
    "Charge": Meaning(_KEPT, "Headnode charges nobody"),
    "Checkpointable": Meaning(_NOT, "Headnode writes no checkpoints"),
    "CpuDuration": Meaning(_OUTCOME, "the processor time used"),
    "DeadlineTime": Meaning(_ACTED, "end_by: when it must have ended"),
    "EligibleTime": Meaning(_ACTED, "hold_until"),
    "EndTime": Meaning(_OUTCOME, "when the job ended"),
    "ExitCode": Meaning(_OUTCOME, "of the first task that failed, else of the last"),
    "Hold": Meaning(_ACTED, "holds: each by its name, in small letters"),
    "Priority": Meaning(_ACTED, "priority, when it is from 0 to 4000; else the scale is another's"),
    "Quote": Meaning(_KEPT, "Headnode charges nobody"),
    "ReservationTime": Meaning(_ELSEWHERE, "Headnode keeps no moment at which it reserved nodes"),
    "Restartable": Meaning(_ACTED, "rerunnable", tasks=True),
    "StagedTime": Meaning(_KEPT, "when another system took it"),
    "StartCount": Meaning(_OUTCOME, "how often the job started"),
    "StartTime": Meaning(_OUTCOME, "when the job started"),
    "StatusMessage": Meaning(_OUTCOME, "the reason of waiting or failing"),
    "SubmitTime": Meaning(_OUTCOME, "when the job was submitted"),
    "SubmitHost": Meaning(_KEPT, "else written: the host from which it was submitted here"),
    "Suspendable": Meaning(_ACTED, "suspendable"),
    "SuspendDuration": Meaning(_OUTCOME, "the time spent suspended"),
    "TimeCategory": Meaning(_KEPT, "Headnode charges nobody"),
    "Architecture": Meaning(_ACTED, "needs: one of these architectures", tasks=True),
    "Machine": Meaning(_ACTED, "refused when it is another cluster; kept; written once the job has started"),
    "NodeCount": Meaning(
        _ACTED,
        "minimum and maximum in whole nodes; beside Processors, the nodes to spread over; 1: single_node",
        tasks=True,
    ),
    "OperatingSystem": Meaning(_ACTED, "needs: one of these systems", tasks=True),
    "Partition": Meaning(_ACTED, "node_groups: one of that name"),
    "QualityOfService": Meaning(_ACTED, "template, when there is no Queue; no effect beside one"),
    "Queue": Meaning(_ACTED, "template"),
    "Reservation": Meaning(_ACTED, "reservation: the job runs in it, and nowhere else"),
    "ResourceManagerType": Meaning(_NOT, "Headnode runs the job itself"),
    "Duration": Meaning(_ACTED, "run_time of the job or task", tasks=True),
    "Project": Meaning(_ACTED, "project"),
    "GlobalUser": Meaning(_KEPT, "the local user is the one that counts"),
    "Group": Meaning(_NOT, "the job runs with the groups of its user; written in Delivered"),
    "User": Meaning(_ACTED, "run_as"),
    "Disk": Meaning(_ACTED, "held: disk of every node, which must have it, in MB, rounded up", tasks=True),
    "Memory": Meaning(
        _ACTED,
        "held, and minimum_memory or needs of a task: memory of every node; upper bound: maximum_memory",
        tasks=True,
    ),
    "Network": Meaning(_NOT, "networks are not scheduled"),
    "Processors": Meaning(_ACTED, "minimum and maximum of the job and of its tasks", tasks=True),
    "Swap": Meaning(_ACTED, "held: swap of every node, which must have it, in MB, rounded up", tasks=True),
    "Resource": Meaning(
        _ACTED, "licences: of a License the type, of others name:type; whole numbers, rounded up", tasks=True
    ),
    "TaskCount": Meaning(_ACTED, "instances of the task: a sweep from 1", tasks=True),
    "Session": Meaning(_ELSEWHERE, "sessions are of nodes, which do not tell them"),
    "Process": Meaning(_ELSEWHERE, "processes are of nodes, which do not tell them"),
    "Node": Meaning(
        _ACTED, "requested_nodes and excluded_nodes; patterns, and all of tasks: needs", tasks=True
    ),
    "Feature": Meaning(_ACTED, "needs: features that nodes have, or lack; patterns, too", tasks=True),
    "InputFile": Meaning(_ACTED, "standard_input; Close: nothing is read", tasks=True),
    "OutputFile": Meaning(_ACTED, "standard_output; Append: append_output; Close: /dev/null", tasks=True),
    "ErrorFile": Meaning(_ACTED, "standard_error; Append: append_error; Merge: that of output", tasks=True),
    "NotificationList": Meaning(_ACTED, "notify_on_start, notify_on_completion, email"),
    "ResourceLimit": Meaning(
        _ACTED, "resource_limits: those that the system keeps for a process; others are kept", tasks=True
    ),
    "Environment": Meaning(_ACTED, "environment", tasks=True),
    "TaskDistribution": Meaning(
        _ACTED, "distribution; ProcessorsPerTask: the size of the task; of rules RoundRobin", tasks=True
    ),
    "Dependency": Meaning(
        _ACTED,
        "a link between jobs of the document, else a job of the cluster: by its number parents, "
        "after_failure, after_exit, after_start; by its name or the Id it was submitted with named_parents",
    ),
    "Extension": Meaning(_KEPT, "extensions; of type Headnode and Property: by its name", tasks=True),
    "Description": Meaning(_ACTED, "description of every job"),
    "CreationTime": Meaning(_OUTCOME, "when the first job of the group was made"),
}
"""By the names of 3.1.0; what is particular to a place is in `PLACED`."""

PLACED: Mapping[tuple[Place, str], Meaning] = {
    (Place.JOB_GROUP, "Id"): Meaning(_ACTED, "job_group of every job, or extension group.Id beside a Name"),
    (Place.JOB_GROUP, "Name"): Meaning(_ACTED, "job_group of every job"),
    (Place.TASK_GROUP, "Id"): Meaning(_KEPT, "extension <Id> of the task", tasks=True),
    (Place.TASK, "Id"): Meaning(_OUTCOME, "the number of the instance"),
    (Place.TASK, "Node"): Meaning(_OUTCOME, "the node the instance ran on"),
}

PARTS: Mapping[str, Meaning] = {
    "JobGroup": Meaning(_ACTED, "its jobs, with links between them"),
    "JobDefaults": Meaning(_ACTED, "what its jobs do not say themselves"),
    "Job": Meaning(_ACTED, "a job; one defined elsewhere is not supported"),
    "TaskGroupDefaults": Meaning(_ACTED, "what task groups do not say themselves"),
    "TaskGroup": Meaning(_ACTED, "a task; all tasks of the job start together"),
    "TaskDefaults": Meaning(_ACTED, "what tasks do not say themselves"),
    "Task": Meaning(_ACTED, "an instance; a task of its own where it differs from its group"),
    "Requested": Meaning(_ACTED, "what the job asks for at best; alternatives, in the order of preference"),
    "Delivered": Meaning(_OUTCOME, "what the job used"),
    "Variable": Meaning(_ACTED, "one variable of environment; a value without signs takes it away"),
    "File": Meaning(_ACTED, "the script that an Executable #id means, in command"),
    "NodeProperties": Meaning(_ACTED, "Node and Feature in 3.0.3"),
}


def meaning_of(name: str, place: Place) -> Meaning:
    """Return what the property called `name` in 3.1.0 means in `place`."""
    return PLACED.get((place, name)) or MEANINGS[name]
