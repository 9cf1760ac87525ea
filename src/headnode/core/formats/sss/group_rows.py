"""The rows of properties that belong to a job group, a task group or a task alone.

Source: SSS 3.1.0, Tables 25-1, 25-5 and 25-6, and its examples.
"""

from headnode.core.formats.sss.rows import Need, Place, Row
from headnode.core.formats.sss.value_types import COUNT, INTEGER, MOMENT

_GROUP, _TASKS, _TASK = (frozenset({place}) for place in (Place.JOB_GROUP, Place.TASK_GROUP, Place.TASK))
_T1, _T5, _T6 = (f"SSS 3.1.0, Table 25-{number}" for number in (1, 5, 6))

JOB_GROUP_ROWS = (
    Row(
        name="Id",
        name_3_0="JobGroupId",
        places=_GROUP,
        appearance=Need.MUST,
        compliance=Need.MUST,
        source=_T1,
    ),
    Row(
        name="Name",
        name_3_0="JobGroupName",
        places=_GROUP,
        compliance=Need.SHOULD,
        source=_T1,
    ),
    Row(
        name="State",
        name_3_0="JobGroupState",
        places=_GROUP,
        compliance=Need.SHOULD,
        source=_T1,
    ),
    Row(name="Description", places=_GROUP, source=_T1),
    Row(
        name="CreationTime",
        type=MOMENT,
        places=_GROUP,
        source=_T1,
    ),
)

TASK_GROUP_ROWS = (
    Row(
        name="Id",
        name_3_0="TaskGroupId",
        places=_TASKS,
        source=_T5,
    ),
    Row(
        name="Name",
        name_3_0="TaskGroupName",
        places=_TASKS,
        compliance=Need.SHOULD,
        source=_T5,
    ),
    Row(
        name="TaskCount",
        type=COUNT,
        places=_TASKS,
        compliance=Need.MUST,
        source=_T5,
    ),
)

TASK_ROWS = (
    Row(
        name="Id",
        name_3_0="TaskId",
        places=_TASK,
        source=_T6,
    ),
    Row(
        name="Session",
        name_3_0="SessionId",
        type=INTEGER,
        places=_TASK,
        source=_T6,
    ),
    Row(
        name="Process",
        name_3_0="ProcessId",
        type=INTEGER,
        places=_TASK,
        source="SSS 3.1.0, Example 25-3: in no table",
    ),
)
