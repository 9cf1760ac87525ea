"""The rows of the simple properties of a job, nearly all of which may also stand in task groups and tasks.

Source: SSS 3.1.0, Tables 25-2 and 25-3.
"""

from typing import Any

from headnode.core.formats.sss.consumables import Charge
from headnode.core.formats.sss.rows import CATEGORIES, WORK, Concern, Need, Place, Row
from headnode.core.formats.sss.value_types import BOOLEAN, COUNT, FLOAT, INTEGER, MOMENT, SPAN

_MAY, _SHOULD, _MUST = Need.MAY, Need.SHOULD, Need.MUST
_SIMPLE, _CREDENTIALS = "SSS 3.1.0, Table 25-2", "SSS 3.1.0, Table 25-3"


def _row(name: str, support: Need, becomes: str, *, source: str = _SIMPLE, **more: Any) -> Row:
    """Return the row of a property of jobs, task groups and tasks."""
    return Row(name=name, compliance=support, becomes=becomes, source=source, **{"places": WORK, **more})


def _category(name: str, support: Need, becomes: str, *, source: str = _SIMPLE, **more: Any) -> Row:
    """Return the row of a property that may be requested and delivered, too."""
    return _row(name, support, becomes, source=source, **{"places": WORK | CATEGORIES, **more})


IDENTITY_ROWS = (
    _row(
        "Id",
        _MUST,
        "the id in its owner's words; Headnode gives its own",
        name_3_0="JobId",
        places=frozenset({Place.JOB}),
        appearance=_MUST,
    ),
    _row("Name", _SHOULD, "JobSpec.name", name_3_0="JobName", places=frozenset({Place.JOB, Place.TASK})),
    _row(
        "State",
        _MUST,
        "written from the state: Idle queued, Hold held, Running, Suspended, Completed; not input",
        name_3_0="JobState",
    ),
    _row("Type", _MAY, "kept", name_3_0="JobType"),
    _row("GlobalJob", _SHOULD, "kept", name_3_0="GlobalJobId"),
)

PROGRAM_ROWS = (
    _row("Application", _MAY, "kept", shared=True),
    _row(
        "Executable",
        _MUST,
        "the start of TaskSpec.command; #id means the File of that id",
        shared=True,
    ),
    _row("Arguments", _SHOULD, "the end of TaskSpec.command", shared=True),
    _row(
        "InitialWorkingDirectory",
        _SHOULD,
        "TaskSpec.work_directory",
        also=("InitialWorking-Directory",),
        shared=True,
    ),
    _row("Shell", _MAY, "the start of TaskSpec.command; the model has no place of its own", shared=True),
    _row(
        "Interactive",
        _SHOULD,
        "refused when true: Headnode has no interactive jobs",
        type=BOOLEAN,
        also=("IsInteractive",),
        shared=True,
    ),
)

LIFE_ROWS = (
    _row("Charge", _SHOULD, "kept for its owner", type=FLOAT, shape=Charge),
    _row("Checkpointable", _MAY, "kept: Headnode writes no checkpoints", type=BOOLEAN),
    _row("CpuDuration", _SHOULD, "written from accounting; not input", type=SPAN),
    _row("DeadlineTime", _MAY, "refused when impossible; the model lacks a deadline", type=MOMENT),
    _row("EligibleTime", _MAY, "JobSpec.hold_until", type=MOMENT),
    _row("EndTime", _MUST, "written from the end of the job; not input", type=MOMENT),
    _row("ExitCode", _SHOULD, "written from the result; not input", type=INTEGER),
    _row("Hold", _SHOULD, "a hold of that name; the model knows one hold without a name", many=True),
    _row(
        "Priority",
        _SHOULD,
        "the rank in the queue when written; not input, the scale is another's",
        type=INTEGER,
    ),
    _row("Quote", _MAY, "kept for its owner", name_3_0="QuoteId"),
    _row("ReservationTime", _MAY, "written from the plan; not input", type=MOMENT),
    _row("Restartable", _MAY, "TaskSpec.rerunnable", type=BOOLEAN),
    _row("StagedTime", _MAY, "kept", type=MOMENT),
    _row("StartCount", _MAY, "written from the number of attempts; not input", type=COUNT),
    _row("StartTime", _MUST, "written from the start of the job; not input", type=MOMENT),
    _row("StatusMessage", _SHOULD, "written from the reason of waiting or failing; not input"),
    _row(
        "SubmitTime",
        _SHOULD,
        "written from the submission; not input",
        type=MOMENT,
        name_3_0="SubmissionTime",
        also=("SubmitTIme",),
    ),
    _row("SubmitHost", _SHOULD, "kept"),
    _row("Suspendable", _MAY, "whether it may be suspended; the model has no place yet", type=BOOLEAN),
    _row(
        "SuspendDuration",
        _MAY,
        "written from the time spent suspended; not input",
        type=COUNT,
        places=WORK | {Place.DELIVERED},
        source=f"{_SIMPLE}; peers write it in Delivered",
    ),
    _row("TimeCategory", _MAY, "kept for its owner"),
)

WISH_ROWS = (
    _category(
        "Architecture",
        _MAY,
        "a fact that nodes must have; the model has no place yet",
        shared=True,
        concerns=Concern.NODE,
    ),
    _category("Machine", _MUST, "the cluster: refused when it is another", name_3_0="MachineName"),
    _category(
        "NodeCount",
        _MUST,
        "JobSpec.unit node with minimum and maximum",
        type=COUNT,
        shared=True,
        concerns=Concern.COUNT,
    ),
    _category(
        "OperatingSystem",
        _MAY,
        "a fact that nodes must have; the model has no place yet",
        also=("OpSys",),
        shared=True,
        concerns=Concern.NODE,
    ),
    _category("Partition", _MAY, "JobSpec.node_groups", concerns=Concern.NODE),
    _category("QualityOfService", _SHOULD, "JobSpec.template"),
    _category("Queue", _SHOULD, "JobSpec.template"),
    _category("Reservation", _MAY, "kept", name_3_0="ReservationId", also=("RequiredReservation",)),
    _category("ResourceManagerType", _MAY, "the batch system to hand the job to; the model has no place yet"),
    _category(
        "Duration",
        _MUST,
        "requested, the run time limit; delivered, the time the job ran",
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
        "JobSpec.project",
        name_3_0="ProjectId",
        also=("Account",),
        source=f"{_CREDENTIALS}; Account in the examples of Requested",
    ),
    _category("GlobalUser", _SHOULD, "kept", name_3_0="GlobalUserId", source=_CREDENTIALS),
    _category("Group", _MAY, "kept: the group of the user is used", name_3_0="GroupId", source=_CREDENTIALS),
    _category("User", _MUST, "JobSpec.run_as", name_3_0="UserId", source=_CREDENTIALS),
)

JOB_ROWS = (*IDENTITY_ROWS, *PROGRAM_ROWS, *LIFE_ROWS, *WISH_ROWS, *CREDENTIAL_ROWS)
