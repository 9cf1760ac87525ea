"""The rows of the simple properties of a job, nearly all of which may also stand in task groups and tasks.

Source: SSS 3.1.0, Tables 25-2 and 25-3.
"""

from typing import Any

from headnode.core.formats.sss.consumables import Charge
from headnode.core.formats.sss.rows import CATEGORIES, WORK, Need, Place, Row
from headnode.core.formats.sss.value_types import BOOLEAN, COUNT, FLOAT, INTEGER, MOMENT, SPAN

_MAY, _SHOULD, _MUST = Need.MAY, Need.SHOULD, Need.MUST
_SIMPLE, _CREDENTIALS = "SSS 3.1.0, Table 25-2", "SSS 3.1.0, Table 25-3"


def _row(name: str, support: Need, *, source: str = _SIMPLE, **more: Any) -> Row:
    """Return the row of a property of jobs, task groups and tasks."""
    return Row(name=name, compliance=support, source=source, **{"places": WORK, **more})


def _category(name: str, support: Need, *, source: str = _SIMPLE, **more: Any) -> Row:
    """Return the row of a property that may be requested and delivered, too."""
    return _row(name, support, source=source, **{"places": WORK | CATEGORIES, **more})


IDENTITY_ROWS = (
    _row(
        "Id",
        _MUST,
        name_3_0="JobId",
        places=frozenset({Place.JOB}),
        appearance=_MUST,
    ),
    _row("Name", _SHOULD, name_3_0="JobName", places=frozenset({Place.JOB, Place.TASK})),
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
        places=WORK | {Place.DELIVERED},
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
