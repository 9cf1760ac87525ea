"""The rows of the simple properties of a job object: each property in both versions."""

from enum import StrEnum
from typing import Any

import msgspec

from headnode.core.formats.sss.properties import Charge, SssProperty
from headnode.core.formats.sss.value_types import (
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


class SssRow(msgspec.Struct, frozen=True, kw_only=True):
    """One property.  Rows are tried in their order; two may share a name in different places."""

    name: str  # in 3.1.0
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
_SIMPLE, _CREDENTIALS = "SSS 3.1.0, Table 25-2", "SSS 3.1.0, Table 25-3"


def _row(name: str, support: RequirementLevel, *, source: str = _SIMPLE, **more: Any) -> SssRow:
    """Return the row of a property of jobs, task groups and tasks."""
    return SssRow(name=name, compliance=support, source=source, **{"places": WORK, **more})


def _category(name: str, support: RequirementLevel, *, source: str = _SIMPLE, **more: Any) -> SssRow:
    """Return the row of a property that may be requested and delivered, too."""
    return _row(name, support, source=source, **{"places": WORK | CATEGORIES, **more})


IDENTITY_ROWS = (
    _row(
        "Id",
        _MUST,
        name_3_0="JobId",
        places=frozenset({ElementPlace.JOB}),
        appearance=_MUST,
    ),
    _row("Name", _SHOULD, name_3_0="JobName", places=frozenset({ElementPlace.JOB, ElementPlace.TASK})),
    _row(
        "State",
        _MUST,
        name_3_0="JobState",
    ),
    _row("Type", _MAY, name_3_0="JobType"),
    _row("GlobalJob", _SHOULD, name_3_0="GlobalJobId"),
)

PROGRAM_ROWS = (
    _row("Application", _MAY, shared=True),
    _row(
        "Executable",
        _MUST,
        shared=True,
    ),
    _row("Arguments", _SHOULD, shared=True),
    _row(
        "InitialWorkingDirectory",
        _SHOULD,
        also=("InitialWorking-Directory",),
        shared=True,
    ),
    _row("Shell", _MAY, shared=True),
    _row(
        "Interactive",
        _SHOULD,
        type=BOOLEAN,
        also=("IsInteractive",),
        shared=True,
    ),
)

LIFE_ROWS = (
    _row("Charge", _SHOULD, type=FLOAT, shape=Charge),
    _row("Checkpointable", _MAY, type=BOOLEAN),
    _row("CpuDuration", _SHOULD, type=SPAN),
    _row("DeadlineTime", _MAY, type=MOMENT),
    _row("EligibleTime", _MAY, type=MOMENT),
    _row("EndTime", _MUST, type=MOMENT),
    _row("ExitCode", _SHOULD, type=INTEGER),
    _row("Hold", _SHOULD, many=True),
    _row(
        "Priority",
        _SHOULD,
        type=INTEGER,
    ),
    _row("Quote", _MAY, name_3_0="QuoteId"),
    _row("ReservationTime", _MAY, type=MOMENT),
    _row("Restartable", _MAY, type=BOOLEAN),
    _row("StagedTime", _MAY, type=MOMENT),
    _row("StartCount", _MAY, type=COUNT),
    _row("StartTime", _MUST, type=MOMENT),
    _row("StatusMessage", _SHOULD),
    _row(
        "SubmitTime",
        _SHOULD,
        type=MOMENT,
        name_3_0="SubmissionTime",
        also=("SubmitTIme",),
    ),
    _row("SubmitHost", _SHOULD),
    _row("Suspendable", _MAY, type=BOOLEAN),
    _row(
        "SuspendDuration",
        _MAY,
        type=COUNT,
        places=WORK | {ElementPlace.DELIVERED},
        source=f"{_SIMPLE}; peers write it in Delivered",
    ),
    _row("TimeCategory", _MAY),
)

WISH_ROWS = (
    _category(
        "Architecture",
        _MAY,
        shared=True,
    ),
    _category("Machine", _MUST, name_3_0="MachineName"),
    _category(
        "NodeCount",
        _MUST,
        type=COUNT,
        shared=True,
    ),
    _category(
        "OperatingSystem",
        _MAY,
        also=("OpSys",),
        shared=True,
    ),
    _category("Partition", _MAY),
    _category("QualityOfService", _SHOULD),
    _category("Queue", _SHOULD),
    _category("Reservation", _MAY, name_3_0="ReservationId", also=("RequiredReservation",)),
    _category("ResourceManagerType", _MAY),
    _category(
        "Duration",
        _MUST,
        type=SPAN,
        name_3_0="WallDuration",
        appearance=_SHOULD,
        shared=True,
    ),
)

CREDENTIAL_ROWS = (
    _category(
        "Project",
        _SHOULD,
        name_3_0="ProjectId",
        also=("Account",),
        source=f"{_CREDENTIALS}; Account in the examples of Requested",
    ),
    _category("GlobalUser", _SHOULD, name_3_0="GlobalUserId", source=_CREDENTIALS),
    _category("Group", _MAY, name_3_0="GroupId", source=_CREDENTIALS),
    _category("User", _MUST, name_3_0="UserId", source=_CREDENTIALS),
)

JOB_ROWS = (*IDENTITY_ROWS, *PROGRAM_ROWS, *LIFE_ROWS, *WISH_ROWS, *CREDENTIAL_ROWS)


_GROUP, _TASKS, _TASK = (
    frozenset({place}) for place in (ElementPlace.JOB_GROUP, ElementPlace.TASK_GROUP, ElementPlace.TASK)
)
_T1, _T5, _T6 = (f"SSS 3.1.0, Table 25-{number}" for number in (1, 5, 6))

JOB_GROUP_ROWS = (
    SssRow(
        name="Id",
        name_3_0="JobGroupId",
        places=_GROUP,
        appearance=RequirementLevel.MUST,
        compliance=RequirementLevel.MUST,
        source=_T1,
    ),
    SssRow(
        name="Name",
        name_3_0="JobGroupName",
        places=_GROUP,
        compliance=RequirementLevel.SHOULD,
        source=_T1,
    ),
    SssRow(
        name="State",
        name_3_0="JobGroupState",
        places=_GROUP,
        compliance=RequirementLevel.SHOULD,
        source=_T1,
    ),
    SssRow(name="Description", places=_GROUP, source=_T1),
    SssRow(
        name="CreationTime",
        type=MOMENT,
        places=_GROUP,
        source=_T1,
    ),
)

TASK_GROUP_ROWS = (
    SssRow(
        name="Id",
        name_3_0="TaskGroupId",
        places=_TASKS,
        source=_T5,
    ),
    SssRow(
        name="Name",
        name_3_0="TaskGroupName",
        places=_TASKS,
        compliance=RequirementLevel.SHOULD,
        source=_T5,
    ),
    SssRow(
        name="TaskCount",
        type=COUNT,
        places=_TASKS,
        compliance=RequirementLevel.MUST,
        source=_T5,
    ),
)

TASK_ROWS = (
    SssRow(
        name="Id",
        name_3_0="TaskId",
        places=_TASK,
        source=_T6,
    ),
    SssRow(
        name="Session",
        name_3_0="SessionId",
        type=INTEGER,
        places=_TASK,
        source=_T6,
    ),
    SssRow(
        name="Process",
        name_3_0="ProcessId",
        type=INTEGER,
        places=_TASK,
        source="SSS 3.1.0, Example 25-3: in no table",
    ),
)
