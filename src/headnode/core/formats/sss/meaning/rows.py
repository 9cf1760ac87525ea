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
    KEPT = "kept"  # it is for its owner: no effect here, written back
    UNSUPPORTED = "not supported"  # it should have an effect and has none; kept, and refused under Reject


class Meaning(msgspec.Struct, frozen=True):
    """What a property means.  `tasks` tells whether it has that meaning in task groups and tasks, too."""

    role: Role
    becomes: str
    tasks: bool = False


_ACTED, _OUTCOME, _KEPT, _NOT = Role.ACTED_ON, Role.OUTCOME, Role.KEPT, Role.UNSUPPORTED

MEANINGS: Mapping[str, Meaning] = {
    "Id": Meaning(_KEPT, "extension <Id>; what dependencies in a job group mean"),
    "Name": Meaning(_ACTED, "name", tasks=True),
    "State": Meaning(_OUTCOME, "the state of the job"),
    "Type": Meaning(_KEPT, "its meaning is another's"),
    "GlobalJob": Meaning(_KEPT, "the identifier is another's"),
    "Application": Meaning(_KEPT, "a word for statistics"),
    "Executable": Meaning(_ACTED, "the first word of command; #id: the script of the File", tasks=True),
    "Arguments": Meaning(_ACTED, "the other words of command", tasks=True),
    "InitialWorkingDirectory": Meaning(_ACTED, "work_directory", tasks=True),
    "Shell": Meaning(_ACTED, "the program in command that runs the executable", tasks=True),
    "Interactive": Meaning(_ACTED, "true is refused: there are no interactive jobs", tasks=True),
    "Charge": Meaning(_KEPT, "Headnode charges nobody"),
    "Checkpointable": Meaning(_NOT, "Headnode writes no checkpoints"),
    "CpuDuration": Meaning(_OUTCOME, "the processor time used"),
    "DeadlineTime": Meaning(_NOT, "the job may end later"),
    "EligibleTime": Meaning(_ACTED, "hold_until"),
    "EndTime": Meaning(_OUTCOME, "when the job ended"),
    "ExitCode": Meaning(_OUTCOME, "the exit code"),
    "Hold": Meaning(_ACTED, "hold_until: the last moment that can be said, 2106-02-07"),
    "Priority": Meaning(_ACTED, "priority, when it is from 0 to 4000; else the scale is another's"),
    "Quote": Meaning(_KEPT, "Headnode charges nobody"),
    "ReservationTime": Meaning(_OUTCOME, "the plan"),
    "Restartable": Meaning(_ACTED, "rerunnable", tasks=True),
    "StagedTime": Meaning(_OUTCOME, "when another system took it"),
    "StartCount": Meaning(_OUTCOME, "the number of attempts"),
    "StartTime": Meaning(_OUTCOME, "when the job started"),
    "StatusMessage": Meaning(_OUTCOME, "the reason of waiting or failing"),
    "SubmitTime": Meaning(_OUTCOME, "when the job was submitted"),
    "SubmitHost": Meaning(_KEPT, "where it was submitted first"),
    "Suspendable": Meaning(_NOT, "jobs are not suspended"),
    "SuspendDuration": Meaning(_OUTCOME, "the time spent suspended"),
    "TimeCategory": Meaning(_KEPT, "Headnode charges nobody"),
    "Architecture": Meaning(_NOT, "nodes of any architecture may be taken"),
    "Machine": Meaning(_ACTED, "refused when it is another cluster; kept"),
    "NodeCount": Meaning(
        _ACTED, "minimum and maximum in nodes; 1 beside Processors: single_node", tasks=True
    ),
    "OperatingSystem": Meaning(_NOT, "nodes of any operating system may be taken"),
    "Partition": Meaning(_ACTED, "a node group of that name"),
    "QualityOfService": Meaning(_ACTED, "template, when there is no Queue; else kept"),
    "Queue": Meaning(_ACTED, "template"),
    "Reservation": Meaning(_NOT, "the job runs outside of it"),
    "ResourceManagerType": Meaning(_NOT, "Headnode runs the job itself"),
    "Duration": Meaning(_ACTED, "run_time of the job or task", tasks=True),
    "Project": Meaning(_ACTED, "project"),
    "GlobalUser": Meaning(_KEPT, "the local user is the one that counts"),
    "Group": Meaning(_KEPT, "the group of the user is used"),
    "User": Meaning(_ACTED, "run_as"),
    "Disk": Meaning(_NOT, "disk space is not scheduled"),
    "Memory": Meaning(_ACTED, "memory of every node of the job", tasks=True),
    "Network": Meaning(_NOT, "networks are not scheduled"),
    "Processors": Meaning(_ACTED, "minimum and maximum of the job and of its tasks", tasks=True),
    "Swap": Meaning(_NOT, "swap space is not scheduled"),
    "Resource": Meaning(_ACTED, "License: licences; others are not supported", tasks=True),
    "TaskCount": Meaning(_ACTED, "instances of the task: a sweep from 1", tasks=True),
    "Session": Meaning(_OUTCOME, "the session of the shepherd"),
    "Process": Meaning(_OUTCOME, "the process of the instance"),
    "Node": Meaning(_ACTED, "requested_nodes, excluded_nodes, required_nodes; no patterns", tasks=True),
    "Feature": Meaning(_ACTED, "a node group of that name; no patterns", tasks=True),
    "InputFile": Meaning(_ACTED, "standard_input; Close: nothing is read", tasks=True),
    "OutputFile": Meaning(_ACTED, "standard_output; Append: >> in command; Close: /dev/null", tasks=True),
    "ErrorFile": Meaning(_ACTED, "standard_error; Append: 2>> in command; Merge: that of output", tasks=True),
    "NotificationList": Meaning(_ACTED, "notify_on_start, notify_on_completion, email"),
    "ResourceLimit": Meaning(_NOT, "the limit is not set on the processes"),
    "Environment": Meaning(_ACTED, "environment", tasks=True),
    "TaskDistribution": Meaning(_NOT, "ProcessorsPerTask: the size of the task; else tasks go anywhere"),
    "Dependency": Meaning(_ACTED, "OnSuccess: parents, or a link in a job group; others are not supported"),
    "Extension": Meaning(_KEPT, "extensions; of type Headnode and Property: by its name", tasks=True),
    "Description": Meaning(_KEPT, "extension group.Description of every job"),
    "CreationTime": Meaning(_OUTCOME, "when the group was submitted"),
}
"""By the names of 3.1.0; what is particular to a place is in `PLACED`."""

PLACED: Mapping[tuple[Place, str], Meaning] = {
    (Place.JOB_GROUP, "Id"): Meaning(_KEPT, "extension group.Id of every job"),
    (Place.JOB_GROUP, "Name"): Meaning(_KEPT, "extension group.Name of every job"),
    (Place.TASK_GROUP, "Id"): Meaning(_KEPT, "extension <Id> of the task", tasks=True),
    (Place.TASK, "Id"): Meaning(_OUTCOME, "the number of the instance"),
    (Place.TASK, "Node"): Meaning(_OUTCOME, "the node the instance ran on"),
}

PARTS: Mapping[str, Meaning] = {
    "JobGroup": Meaning(_ACTED, "its jobs, with links between them"),
    "JobDefaults": Meaning(_ACTED, "what its jobs do not say themselves"),
    "Job": Meaning(_ACTED, "a job; one defined elsewhere is not supported"),
    "TaskGroupDefaults": Meaning(_ACTED, "what task groups do not say themselves"),
    "TaskGroup": Meaning(_ACTED, "a task; the job waits until all of its tasks can start together"),
    "TaskDefaults": Meaning(_ACTED, "what tasks do not say themselves"),
    "Task": Meaning(_ACTED, "an instance; a task of its own where it differs from its group"),
    "Requested": Meaning(_ACTED, "its best alternative that can be said"),
    "Delivered": Meaning(_OUTCOME, "what the job used"),
    "Variable": Meaning(_ACTED, "one variable of environment; a value without signs takes it away"),
    "File": Meaning(_ACTED, "the script that an Executable #id means, in command"),
    "NodeProperties": Meaning(_ACTED, "Node and Feature in 3.0.3"),
}


def meaning_of(name: str, place: Place) -> Meaning:
    """Return what the property called `name` in 3.1.0 means in `place`."""
    return PLACED.get((place, name)) or MEANINGS[name]
