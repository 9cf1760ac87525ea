"""The meaning of every property and part of a job object for Headnode, and how far it is covered."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from headnode.core.formats.sss.property_rows import NODE_PROPERTIES, ElementPlace, RequirementLevel, SssRow
from headnode.core.formats.sss.tables import CHILDREN, ROWS
from headnode.core.formats.sss.value_types import SssVersion


class PropertyRole(StrEnum):
    """What becomes of a property."""

    ACTED_ON = "acted on"
    OUTCOME = "acted on: written, not input"  # it says what became of a job; Headnode says it of its own
    ELSEWHERE = "not supported: neither written nor input"  # what became of it in another system
    KEPT = "kept"  # it is for its owner: no effect here, written back
    UNSUPPORTED = "not supported"  # it should have an effect and has none; kept, and refused under Reject


OUTCOMES = (PropertyRole.OUTCOME, PropertyRole.ELSEWHERE)
"""The roles of what became of a job, which is no input."""


class PropertyMeaning(msgspec.Struct, frozen=True):
    """What a property means.  `tasks` tells whether it has that meaning in task groups and tasks, too."""

    role: PropertyRole
    becomes: str
    tasks: bool = False


_ACTED, _OUTCOME, _KEPT, _NOT = (
    PropertyRole.ACTED_ON,
    PropertyRole.OUTCOME,
    PropertyRole.KEPT,
    PropertyRole.UNSUPPORTED,
)
_ELSEWHERE = PropertyRole.ELSEWHERE

MEANINGS: Mapping[str, PropertyMeaning] = {
    "Id": PropertyMeaning(_KEPT, "extension <Id>; what dependencies in a job group mean"),
    "Name": PropertyMeaning(_ACTED, "name", tasks=True),
    "State": PropertyMeaning(_OUTCOME, "the state of the job, or of its group"),
    "Type": PropertyMeaning(_KEPT, "its meaning is another's"),
    "GlobalJob": PropertyMeaning(_KEPT, "the identifier is another's"),
    "Application": PropertyMeaning(_KEPT, "a word for statistics"),
    "Executable": PropertyMeaning(
        _ACTED, "the first word of command; #id: the script of the File", tasks=True
    ),
    "Arguments": PropertyMeaning(_ACTED, "the other words of command", tasks=True),
    "InitialWorkingDirectory": PropertyMeaning(_ACTED, "work_directory", tasks=True),
    "Shell": PropertyMeaning(_ACTED, "the program in command that runs the executable", tasks=True),
    "Interactive": PropertyMeaning(_ACTED, "interactive; of a task alone, true is refused", tasks=True),
    "Charge": PropertyMeaning(_KEPT, "Headnode charges nobody"),
    "Checkpointable": PropertyMeaning(_NOT, "Headnode writes no checkpoints"),
    "CpuDuration": PropertyMeaning(_OUTCOME, "the processor time used"),
    "DeadlineTime": PropertyMeaning(_ACTED, "end_by: when it must have ended"),
    "EligibleTime": PropertyMeaning(_ACTED, "hold_until"),
    "EndTime": PropertyMeaning(_OUTCOME, "when the job ended"),
    "ExitCode": PropertyMeaning(_OUTCOME, "of the first task that failed, else of the last"),
    "Hold": PropertyMeaning(_ACTED, "holds: each by its name, in small letters"),
    "Priority": PropertyMeaning(_ACTED, "priority, when it is from 0 to 4000; else the scale is another's"),
    "Quote": PropertyMeaning(_KEPT, "Headnode charges nobody"),
    "ReservationTime": PropertyMeaning(_ELSEWHERE, "Headnode keeps no moment at which it reserved nodes"),
    "Restartable": PropertyMeaning(_ACTED, "rerunnable", tasks=True),
    "StagedTime": PropertyMeaning(_KEPT, "when another system took it"),
    "StartCount": PropertyMeaning(_OUTCOME, "how often the job started"),
    "StartTime": PropertyMeaning(_OUTCOME, "when the job started"),
    "StatusMessage": PropertyMeaning(_OUTCOME, "the reason of waiting or failing"),
    "SubmitTime": PropertyMeaning(_OUTCOME, "when the job was submitted"),
    "SubmitHost": PropertyMeaning(_KEPT, "else written: the host from which it was submitted here"),
    "Suspendable": PropertyMeaning(_ACTED, "suspendable"),
    "SuspendDuration": PropertyMeaning(_OUTCOME, "the time spent suspended"),
    "TimeCategory": PropertyMeaning(_KEPT, "Headnode charges nobody"),
    "Architecture": PropertyMeaning(_ACTED, "needs: one of these architectures", tasks=True),
    "Machine": PropertyMeaning(
        _ACTED, "refused when it is another cluster; kept; written once the job has started"
    ),
    "NodeCount": PropertyMeaning(
        _ACTED,
        "minimum and maximum in whole nodes; beside Processors, the nodes to spread over; 1: single_node",
        tasks=True,
    ),
    "OperatingSystem": PropertyMeaning(_ACTED, "needs: one of these systems", tasks=True),
    "Partition": PropertyMeaning(_ACTED, "node_groups: one of that name"),
    "QualityOfService": PropertyMeaning(_ACTED, "template, when there is no Queue; no effect beside one"),
    "Queue": PropertyMeaning(_ACTED, "template"),
    "Reservation": PropertyMeaning(_ACTED, "reservation: the job runs in it, and nowhere else"),
    "ResourceManagerType": PropertyMeaning(_NOT, "Headnode runs the job itself"),
    "Duration": PropertyMeaning(_ACTED, "run_time of the job or task", tasks=True),
    "Project": PropertyMeaning(_ACTED, "project"),
    "GlobalUser": PropertyMeaning(_KEPT, "the local user is the one that counts"),
    "Group": PropertyMeaning(_NOT, "the job runs with the groups of its user; written in Delivered"),
    "User": PropertyMeaning(_ACTED, "run_as"),
    "Disk": PropertyMeaning(
        _ACTED, "held: disk of every node, which must have it, in MB, rounded up", tasks=True
    ),
    "Memory": PropertyMeaning(
        _ACTED,
        "held, and minimum_memory or needs of a task: memory of every node; upper bound: maximum_memory",
        tasks=True,
    ),
    "Network": PropertyMeaning(_NOT, "networks are not scheduled"),
    "Processors": PropertyMeaning(_ACTED, "minimum and maximum of the job and of its tasks", tasks=True),
    "Swap": PropertyMeaning(
        _ACTED, "held: swap of every node, which must have it, in MB, rounded up", tasks=True
    ),
    "Resource": PropertyMeaning(
        _ACTED, "licences: of a License the type, of others name:type; whole numbers, rounded up", tasks=True
    ),
    "TaskCount": PropertyMeaning(_ACTED, "instances of the task: a sweep from 1", tasks=True),
    "Session": PropertyMeaning(_ELSEWHERE, "sessions are of nodes, which do not tell them"),
    "Process": PropertyMeaning(_ELSEWHERE, "processes are of nodes, which do not tell them"),
    "Node": PropertyMeaning(
        _ACTED, "requested_nodes and excluded_nodes; patterns, and all of tasks: needs", tasks=True
    ),
    "Feature": PropertyMeaning(_ACTED, "needs: features that nodes have, or lack; patterns, too", tasks=True),
    "InputFile": PropertyMeaning(_ACTED, "standard_input; Close: nothing is read", tasks=True),
    "OutputFile": PropertyMeaning(
        _ACTED, "standard_output; Append: append_output; Close: /dev/null", tasks=True
    ),
    "ErrorFile": PropertyMeaning(
        _ACTED, "standard_error; Append: append_error; Merge: that of output", tasks=True
    ),
    "NotificationList": PropertyMeaning(_ACTED, "notify_on_start, notify_on_completion, email"),
    "ResourceLimit": PropertyMeaning(
        _ACTED, "resource_limits: those that the system keeps for a process; others are kept", tasks=True
    ),
    "Environment": PropertyMeaning(_ACTED, "environment", tasks=True),
    "TaskDistribution": PropertyMeaning(
        _ACTED, "distribution; ProcessorsPerTask: the size of the task; of rules RoundRobin", tasks=True
    ),
    "Dependency": PropertyMeaning(
        _ACTED,
        "a link between jobs of the document, else a job of the cluster: by its number parents, "
        "after_failure, after_exit, after_start; by its name or the Id it was submitted with named_parents",
    ),
    "Extension": PropertyMeaning(_KEPT, "extensions; of type Headnode and Property: by its name", tasks=True),
    "Description": PropertyMeaning(_ACTED, "description of every job"),
    "CreationTime": PropertyMeaning(_OUTCOME, "when the first job of the group was made"),
}
"""By the names of 3.1.0; what is particular to a place is in `PLACED`."""

PLACED: Mapping[tuple[ElementPlace, str], PropertyMeaning] = {
    (ElementPlace.JOB_GROUP, "Id"): PropertyMeaning(
        _ACTED, "job_group of every job, or extension group.Id beside a Name"
    ),
    (ElementPlace.JOB_GROUP, "Name"): PropertyMeaning(_ACTED, "job_group of every job"),
    (ElementPlace.TASK_GROUP, "Id"): PropertyMeaning(_KEPT, "extension <Id> of the task", tasks=True),
    (ElementPlace.TASK, "Id"): PropertyMeaning(_OUTCOME, "the number of the instance"),
    (ElementPlace.TASK, "Node"): PropertyMeaning(_OUTCOME, "the node the instance ran on"),
}

PARTS: Mapping[str, PropertyMeaning] = {
    "JobGroup": PropertyMeaning(_ACTED, "its jobs, with links between them"),
    "JobDefaults": PropertyMeaning(_ACTED, "what its jobs do not say themselves"),
    "Job": PropertyMeaning(_ACTED, "a job; one defined elsewhere is not supported"),
    "TaskGroupDefaults": PropertyMeaning(_ACTED, "what task groups do not say themselves"),
    "TaskGroup": PropertyMeaning(_ACTED, "a task; all tasks of the job start together"),
    "TaskDefaults": PropertyMeaning(_ACTED, "what tasks do not say themselves"),
    "Task": PropertyMeaning(_ACTED, "an instance; a task of its own where it differs from its group"),
    "Requested": PropertyMeaning(
        _ACTED, "what the job asks for at best; alternatives, in the order of preference"
    ),
    "Delivered": PropertyMeaning(_OUTCOME, "what the job used"),
    "Variable": PropertyMeaning(_ACTED, "one variable of environment; a value without signs takes it away"),
    "File": PropertyMeaning(_ACTED, "the script that an Executable #id means, in command"),
    "NodeProperties": PropertyMeaning(_ACTED, "Node and Feature in 3.0.3"),
}


def meaning_of(name: str, place: ElementPlace) -> PropertyMeaning:
    """Return what the property called `name` in 3.1.0 means in `place`."""
    return PLACED.get((place, name)) or MEANINGS[name]


_PLACES = (ElementPlace.JOB_GROUP, ElementPlace.JOB, ElementPlace.TASK_GROUP, ElementPlace.TASK)
_PART_SOURCES = {
    "Variable": "SSS 3.1.0, Variable Element",
    "File": "SSSRMAP, File; SSS 3.1.0, Table 25-2, note on Executable",
    NODE_PROPERTIES: "SSS 3.0.3, its examples",
}


class CoverageRow(msgspec.Struct, frozen=True, kw_only=True):
    """One property or part by its names in both versions, with the word of the column Compliance."""

    name: str
    name_3_0: str
    parent: str
    compliance: RequirementLevel | None  # None: a part, of which the tables do not say it
    coverage: str  # a word of `Role`
    becomes: str
    source: str


def coverage() -> tuple[CoverageRow, ...]:
    """Return a row for every property of the tables and every element with parts, in their order."""
    return (*(row for one in ROWS for row in _of_row(one)), *_of_parts())


def _of_row(row: SssRow) -> Iterator[CoverageRow]:
    """Yield one row, and one more for each place where the property means something else."""
    own = {
        place: meaning
        for (place, name), meaning in PLACED.items()
        if name == row.name and place in row.places
    }
    usual = [place for place in _PLACES if place in row.places and place not in own]
    if usual:
        yield _coverage(row, ", ".join(usual), MEANINGS[row.name])
    for place, meaning in own.items():
        yield _coverage(row, place.value, meaning)


def _coverage(row: SssRow, parent: str, meaning: PropertyMeaning) -> CoverageRow:
    return CoverageRow(
        name=row.name,
        name_3_0=row.name_in(SssVersion.V3_0),
        parent=parent,
        compliance=row.compliance,
        coverage=meaning.role.value,
        becomes=meaning.becomes,
        source=row.source,
    )


def _of_parts() -> Iterator[CoverageRow]:
    sources = {child.name: child.source for child in CHILDREN} | _PART_SOURCES
    parents = {
        child.name: ", ".join(place for place in ElementPlace if place in child.parents) for child in CHILDREN
    }
    for name, meaning in PARTS.items():
        yield CoverageRow(
            name=name,
            name_3_0=name,
            parent=parents.get(name, ""),
            compliance=None,
            coverage=meaning.role.value,
            becomes=meaning.becomes,
            source=sources[name],
        )
