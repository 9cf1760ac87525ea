"""The table of properties of a job object: each in both versions, how it is read, and where it stands."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache, partial
from typing import Any

import msgspec

from headnode.core.formats.sss.properties import (
    Charge,
    Consumable,
    Dependency,
    Environment,
    Extension,
    Notifications,
    Resource,
    Selection,
    SssDistribution,
    SssLimit,
    SssProperty,
    SssStream,
)
from headnode.core.formats.sss.value_types import (
    AMOUNT,
    BOOLEAN,
    COUNT,
    FLOAT,
    INTEGER,
    MOMENT,
    SPAN,
    STRING,
    SssVersion,
    ValueType,
)

NODE_PROPERTIES = "NodeProperties"
"""The element of 3.0.3 around the name and the features of a node."""


class ElementPlace(StrEnum):
    """Where an element may stand.  Defaults are places like what they are defaults of."""

    DATA = "Data"
    JOB_GROUP = "JobGroup"
    JOB = "Job"
    TASK_GROUP = "TaskGroup"
    TASK = "Task"
    REQUESTED = "Requested"
    DELIVERED = "Delivered"


class RequirementLevel(StrEnum):
    """The words of the columns Appearance and Compliance."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"


class PropertyRole(StrEnum):
    """What becomes of a property."""

    ACTED_ON = "acted on"
    OUTCOME = "acted on: written, not input"  # it says what became of a job; Headnode says it of its own
    ELSEWHERE = "not supported: neither written nor input"  # what became of it in another system
    KEPT = "kept"  # it is for its owner: no effect here, written back
    UNSUPPORTED = "not supported"  # it should have an effect and has none; kept, and refused under Reject


OUTCOMES = (PropertyRole.OUTCOME, PropertyRole.ELSEWHERE)
"""The roles of what became of a job, which is no input."""


class SssRow(msgspec.Struct, frozen=True, kw_only=True):
    """One property.  Rows are tried in their order; two may share a name in different places."""

    name: str  # in 3.1.0
    role: PropertyRole
    becomes: str  # what it means to Headnode
    field: str = ""  # of a job: its value is that of the property, a text or a flag
    tasks: bool = False  # whether it means that in task groups and tasks, too
    name_3_0: str = ""  # in 3.0.3, when it is another
    also: tuple[str, ...] = ()  # further spellings that are read
    shape: type[SssProperty] = SssProperty
    type: ValueType = STRING
    places: frozenset[ElementPlace]
    many: bool = False  # may stand several times in one place
    wrapped: bool = False  # in 3.0.3 it stands in NodeProperties
    shared: bool = False  # what encloses a task says it for the task, too
    appearance: RequirementLevel = RequirementLevel.MAY
    compliance: RequirementLevel = RequirementLevel.MAY
    source: str

    def name_in(self, version: SssVersion) -> str:
        """Return its name in `version`."""
        return self.name_3_0 or self.name if version is SssVersion.V3_0 else self.name


WORK = frozenset({ElementPlace.JOB, ElementPlace.TASK_GROUP, ElementPlace.TASK})
CATEGORIES = frozenset({ElementPlace.REQUESTED, ElementPlace.DELIVERED})
ANYWHERE = frozenset(ElementPlace) - {ElementPlace.DATA}
_MAY, _SHOULD, _MUST = RequirementLevel.MAY, RequirementLevel.SHOULD, RequirementLevel.MUST
_ACTED, _OUTCOME, _ELSEWHERE, _KEPT, _NOT = PropertyRole


def _row(
    name: str,
    role: PropertyRole,
    becomes: str,
    compliance: RequirementLevel = _MAY,
    *,
    source: str = "SSS 3.1.0, Table 25-2",
    **more: Any,
) -> SssRow:
    """Return the row of a property of jobs, task groups and tasks, if `more` does not say otherwise."""
    fields = {"places": WORK, **more}
    return SssRow(name=name, role=role, becomes=becomes, compliance=compliance, source=source, **fields)


def _section(
    name: str, role: PropertyRole, becomes: str, compliance: RequirementLevel = _MAY, **more: Any
) -> SssRow:
    """Return the row of an element that has a section, not a line in a table."""
    fields = {"shared": True, "source": f"SSS 3.1.0, {name} Element", **more}
    return _row(name, role, becomes, compliance, **fields)


def _only_in(place: ElementPlace, table: str) -> partial[SssRow]:
    return partial(_row, places=frozenset({place}), source=f"SSS 3.1.0, Table {table}")


_of_group = _only_in(ElementPlace.JOB_GROUP, "25-1")
_of_task_group = _only_in(ElementPlace.TASK_GROUP, "25-5")
_of_task = _only_in(ElementPlace.TASK, "25-6")
_category = partial(_row, places=WORK | CATEGORIES)  # may be requested and delivered, too
_consumable = partial(  # several with different metrics may stand together
    _category,
    source="SSS 3.1.0, Table 25-4",
    shape=Consumable,
    type=AMOUNT,
    many=True,
    shared=True,
    tasks=True,
)

NETWORK = _consumable("Network", _NOT, "networks are not scheduled", tasks=False)
"""Network with a number, a unit or a metric is a consumable."""

ADAPTER = _category("Network", _NOT, "networks are not scheduled", shared=True)
"""Network with a word is the type of adapter."""

ROWS: tuple[SssRow, ...] = (
    _of_group("Id", _ACTED, "job_group of every job, or extension group.Id beside a Name", _MUST,
        name_3_0="JobGroupId", appearance=_MUST),
    _of_group("Name", _ACTED, "job_group of every job", _SHOULD, name_3_0="JobGroupName"),
    _of_group("State", _OUTCOME, "the state of the job, or of its group", _SHOULD, name_3_0="JobGroupState"),
    _of_group("Description", _ACTED, "description of every job"),
    _of_group("CreationTime", _OUTCOME, "when the first job of the group was made", type=MOMENT),
    _row("Id", _KEPT, "extension <Id>; what dependencies in a job group mean", _MUST, name_3_0="JobId",
        places=frozenset({ElementPlace.JOB}), appearance=_MUST),
    _row("Name", _ACTED, "name", _SHOULD, field="name", name_3_0="JobName",
        places=frozenset({ElementPlace.JOB, ElementPlace.TASK}), tasks=True),
    _row("State", _OUTCOME, "the state of the job, or of its group", _MUST, name_3_0="JobState"),
    _row("Type", _KEPT, "its meaning belongs to another system", name_3_0="JobType"),
    _row("GlobalJob", _KEPT, "the identifier belongs to another system", _SHOULD, name_3_0="GlobalJobId"),
    _row("Application", _KEPT, "used for statistics only", shared=True),
    _row("Executable", _ACTED,
        "the first word of command; #id: the script of the File; file: its path; other URLs are transferred",
        _MUST, shared=True, tasks=True),
    _row("Arguments", _ACTED, "the other words of command", _SHOULD, shared=True, tasks=True),
    _row("InitialWorkingDirectory", _ACTED, "work_directory", _SHOULD, also=("InitialWorking-Directory",),
        shared=True, tasks=True),
    _row("Shell", _ACTED, "the program in command that runs the executable", shared=True, tasks=True),
    _row("Interactive", _ACTED, "interactive; of a task alone, true is refused", _SHOULD, field="interactive",
        also=("IsInteractive",), type=BOOLEAN, shared=True, tasks=True),
    _row("Charge", _KEPT, "Headnode charges no accounts", _SHOULD, shape=Charge, type=FLOAT),
    _row("Checkpointable", _NOT, "Headnode writes no checkpoints", type=BOOLEAN),
    _row("CpuDuration", _OUTCOME, "the processor time used", _SHOULD, type=SPAN),
    _row("DeadlineTime", _ACTED, "end_by: when it must have ended", type=MOMENT),
    _row("EligibleTime", _ACTED, "hold_until", type=MOMENT),
    _row("EndTime", _OUTCOME, "when the job ended", _MUST, type=MOMENT),
    _row("ExitCode", _OUTCOME, "of the first task that failed, else of the last", _SHOULD, type=INTEGER),
    _row("Hold", _ACTED, "holds: each by its name, in lower case", _SHOULD, many=True),
    _row("Priority", _ACTED, "priority, from 0 to 4000; other numbers belong to another scale", _SHOULD,
        type=INTEGER),
    _row("Quote", _KEPT, "Headnode charges no accounts", name_3_0="QuoteId"),
    _row("ReservationTime", _ELSEWHERE, "Headnode does not record when it reserved nodes", type=MOMENT),
    _row("Restartable", _ACTED, "rerunnable", type=BOOLEAN, tasks=True),
    _row("StagedTime", _KEPT, "when another system accepted it", type=MOMENT),
    _row("StartCount", _OUTCOME, "how often the job started", type=COUNT),
    _row("StartTime", _OUTCOME, "when the job started", _MUST, type=MOMENT),
    _row("StatusMessage", _OUTCOME, "the reason of waiting or failing", _SHOULD),
    _row("SubmitTime", _OUTCOME, "when the job was submitted", _SHOULD, name_3_0="SubmissionTime",
        also=("SubmitTIme",), type=MOMENT),
    _row("SubmitHost", _KEPT, "else written: the host from which it was submitted here", _SHOULD),
    _row("Suspendable", _ACTED, "suspendable", field="suspendable", type=BOOLEAN),
    _row("SuspendDuration", _OUTCOME, "the time spent suspended", type=COUNT,
        places=WORK | {ElementPlace.DELIVERED}, source="SSS 3.1.0, Table 25-2; peers write it in Delivered"),
    _row("TimeCategory", _KEPT, "Headnode charges no accounts"),
    _category("Architecture", _ACTED, "needs: one of these architectures", shared=True, tasks=True),
    _category("Machine", _ACTED, "resource, if one has that name; refused when it is another cluster; kept; "
        "written once the job has started", _MUST, name_3_0="MachineName"),
    _category("NodeCount", _ACTED,
        "minimum and maximum in whole nodes; beside Processors, the nodes to spread over; 1: single_node",
        _MUST, type=COUNT, shared=True, tasks=True),
    _category("OperatingSystem", _ACTED, "needs: one of these systems", also=("OpSys",), shared=True,
        tasks=True),
    _category("Partition", _ACTED, "node_groups: one of that name"),
    _category("QualityOfService", _ACTED, "template, when there is no Queue; no effect beside one", _SHOULD),
    _category("Queue", _ACTED, "template", _SHOULD),
    _category("Reservation", _ACTED, "reservation: the job runs in it, and nowhere else",
        name_3_0="ReservationId", also=("RequiredReservation",)),
    _category("ResourceManagerType", _ACTED,
        "resource: those with that scheduler; Headnode: own nodes; refused when none has it; kept"),
    _category("Duration", _ACTED, "run_time of the job or task; a range: minimum_run_time, too",
        _MUST, name_3_0="WallDuration", type=SPAN, shared=True, tasks=True, appearance=_SHOULD),
    _category("Project", _ACTED, "project", _SHOULD, name_3_0="ProjectId", also=("Account",),
        source="SSS 3.1.0, Table 25-3; Account in the examples of Requested"),
    _category("GlobalUser", _KEPT, "only the local user is used", _SHOULD, name_3_0="GlobalUserId",
        source="SSS 3.1.0, Table 25-3"),
    _category("Group", _NOT, "not an input: the job has the groups of its user; written in Delivered",
        name_3_0="GroupId", source="SSS 3.1.0, Table 25-3"),
    _category("User", _ACTED, "run_as", _MUST, name_3_0="UserId", source="SSS 3.1.0, Table 25-3"),
    ADAPTER,
    _consumable("Disk", _ACTED, "held: disk of every node, which must have it, in MB, rounded up", _SHOULD),
    _consumable("Memory", _ACTED,
        "held, and minimum_memory or needs of a task: memory of every node; upper bound: maximum_memory",
        _SHOULD),
    _consumable("Processors", _ACTED, "minimum and maximum of the job and of its tasks", _MUST, type=COUNT),
    _consumable("Swap", _ACTED, "held: swap of every node, which must have it, in MB, rounded up",
        also=("NodeSwap",)),
    _consumable("Resource", _ACTED,
        "licences: of a License the type, of others name:type; whole numbers, rounded up", shape=Resource,
        source="SSS 3.1.0, Resource Element"),
    NETWORK,
    _of_task_group("Id", _KEPT, "extension <Id> of the task", name_3_0="TaskGroupId", tasks=True),
    _of_task_group("Name", _ACTED, "name", _SHOULD, name_3_0="TaskGroupName", tasks=True),
    _of_task_group("TaskCount", _ACTED, "instances of the task: a sweep from 1", _MUST, type=COUNT,
        tasks=True),
    _of_task("Id", _OUTCOME, "the number of the instance", name_3_0="TaskId"),
    _of_task("Session", _ELSEWHERE, "nodes do not report sessions", name_3_0="SessionId",
        type=INTEGER),
    _of_task("Process", _ELSEWHERE, "nodes do not report processes", name_3_0="ProcessId",
        type=INTEGER, source="SSS 3.1.0, Example 25-3: in no table"),
    _section("Node", _ACTED, "requested_nodes and excluded_nodes; patterns, and all of tasks: needs", _MUST,
        name_3_0="Name", shape=Selection, places=WORK | CATEGORIES, many=True, wrapped=True, tasks=True,
        source="SSS 3.1.0, Node Element and Table 25-6"),
    _section("Feature", _ACTED, "needs: features that nodes have, or lack; patterns, too", shape=Selection,
        places=WORK | CATEGORIES, many=True, wrapped=True, tasks=True),
    _section("InputFile", _ACTED, "standard_input; Close: nothing is read", shape=SssStream, tasks=True),
    _section("OutputFile", _ACTED, "standard_output; Append: append_output; Close: /dev/null",
        shape=SssStream, tasks=True),
    _section("ErrorFile", _ACTED, "standard_error; Append: append_error; Merge: that of output",
        shape=SssStream, tasks=True),
    _section("NotificationList", _ACTED, "notify_on_start, notify_on_completion, email",
        also=("Notification",), shape=Notifications, many=True, shared=False),
    _section("ResourceLimit", _ACTED,
        "resource_limits: those that the system enforces for a process; others are kept", shape=SssLimit,
        many=True, tasks=True),
    _section("Environment", _ACTED, "environment", shape=Environment, many=True, tasks=True),
    _section("TaskDistribution", _ACTED,
        "distribution; ProcessorsPerTask: the size of the task; of rules RoundRobin", shape=SssDistribution,
        places=frozenset({ElementPlace.JOB, ElementPlace.TASK_GROUP}), tasks=True),
    _section("Dependency", _ACTED,
        "a link between jobs of the document, else a job of the cluster: by its number parents, "
        "after_failure, after_exit, after_start, after_corresponding; by its name or the Id it was submitted "
        "with named_parents",
        _SHOULD, shape=Dependency, many=True, shared=False),
    _section("Extension", _KEPT, "extensions; of type Headnode and Property: by its name", shape=Extension,
        places=ANYWHERE, many=True, shared=False, tasks=True),
)  # fmt: skip

TEXT_FIELDS: Mapping[str, str] = {row.name: row.field for row in ROWS if row.field and row.type is STRING}
FLAG_FIELDS: Mapping[str, str] = {row.name: row.field for row in ROWS if row.field and row.type is BOOLEAN}
"""The properties whose value is a field of the job, and that field."""

NODE_OF_TASK = _of_task("Node", _OUTCOME, "the node the instance ran on")
"""What Node means outside of Requested in a task."""

_MEANINGS: Mapping[tuple[ElementPlace, str], SssRow] = {
    **{(place, row.name): row for row in ROWS for place in row.places},
    (ElementPlace.TASK, "Node"): NODE_OF_TASK,
}
_ELSEWHERE_ROWS = {row.name: row for row in reversed(ROWS)}


def meaning_of(name: str, place: ElementPlace) -> SssRow:
    """Return the row that says what the property called `name` in 3.1.0 means in `place`."""
    return _MEANINGS.get((place, name)) or _ELSEWHERE_ROWS[name]


class ChildElement(msgspec.Struct, frozen=True, kw_only=True):
    """An element that holds others, and the field of its parent that it fills."""

    name: str
    parents: frozenset[ElementPlace]
    place: ElementPlace  # where what is in it stands
    field: str
    least: int = 0
    many: bool = False
    reference: bool = False  # may be an id alone
    defaults: bool = False
    source: str


def _child(
    name: str, parents: Iterable[ElementPlace], place: ElementPlace, field: str, section: str, **more: Any
) -> ChildElement:
    source = f"SSS 3.1.0, {section} Element"
    return ChildElement(
        name=name, parents=frozenset(parents), place=place, field=field, source=source, **more
    )


_DATA, _GROUP, _JOB, _TASKS, _TASK, *_ = ElementPlace
_MANY = {"many": True, "reference": True}
_DEFAULTS = {"many": True, "defaults": True}
CHILDREN = (
    _child("Requested", WORK, ElementPlace.REQUESTED, "requested", "Requested"),
    _child("Delivered", WORK, ElementPlace.DELIVERED, "delivered", "Delivered"),
    _child("JobDefaults", [_GROUP], _JOB, "job_defaults", "JobGroup", defaults=True),
    _child("Job", [_GROUP, _DATA], _JOB, "jobs", "JobGroup", least=1, **_MANY),
    _child("JobGroup", [_DATA], _GROUP, "entries", "JobGroup", **_MANY),
    _child("TaskGroupDefaults", [_JOB], _TASKS, "task_group_defaults", "Job", **_DEFAULTS),
    _child("TaskGroup", [_JOB], _TASKS, "task_groups", "Job", **_MANY),
    _child("TaskDefaults", [_TASKS], _TASK, "task_defaults", "TaskGroup", **_DEFAULTS),
    _child("Task", [_TASKS], _TASK, "tasks", "TaskGroup", **_MANY),
)
"""In the order of the published examples."""


class Spelling(msgspec.Struct, frozen=True):
    """A row as one of its names says it.  `version` is None when both versions, or neither, say it so."""

    row: SssRow
    version: SssVersion | None
    alias: bool = False  # read, but in neither version


def stands_wrapped(row: SssRow, place: ElementPlace) -> bool:
    """Whether 3.0.3 puts the property into NodeProperties there; the node of a task is its own element."""
    return row.wrapped and not (place is ElementPlace.TASK and row.name == "Node")


def _spellings(place: ElementPlace) -> dict[str, Spelling]:
    """Return the names of a place; where two rows share a name, the later one has it."""
    rows = [row for row in ROWS if place in row.places]
    found = {name: Spelling(row, None, alias=True) for row in rows for name in row.also}
    for row in rows:
        if row.wrapped:
            version = SssVersion.V3_1 if stands_wrapped(row, place) else None
        else:
            version = SssVersion.V3_1 if row.name_3_0 else None
        if row.name_3_0 and not row.wrapped:
            found[row.name_3_0] = Spelling(row, SssVersion.V3_0)
        found[row.name] = Spelling(row, version)
    return found


SPELLINGS: Mapping[ElementPlace, Mapping[str, Spelling]] = {
    place: _spellings(place) for place in ElementPlace
}
"""The properties of each place by every name that is read; Network as a consumable."""

WRAPPED: Mapping[str, SssRow] = {row.name_3_0 or row.name: row for row in ROWS if row.wrapped}
"""The properties inside of NodeProperties, by their names there."""

CHILDREN_OF: Mapping[ElementPlace, Mapping[str, ChildElement]] = {
    place: {child.name: child for child in CHILDREN if place in child.parents} for place in ElementPlace
}
"""The elements with content of their own that may stand in each place, by their names."""

ROW_OF: Mapping[tuple[ElementPlace, str], SssRow] = {
    (place, row.name): row for row in ROWS for place in row.places if row is not ADAPTER
}
"""The row of each property by its place and its name in 3.1.0; of Network the consumable."""


@cache
def names_in(place: ElementPlace, version: SssVersion) -> list[str]:
    """Return the names of all that may stand in `place`, for hints."""
    names = [row.name_in(version) for row in ROWS if place in row.places]
    wrapper = (
        [NODE_PROPERTIES] if version is SssVersion.V3_0 and place in WORK | {ElementPlace.REQUESTED} else []
    )
    return [*dict.fromkeys(names), *CHILDREN_OF[place], *wrapper]
