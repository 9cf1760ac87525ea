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
        becomes="the id of the job group in its owner's words",
        source=_T1,
    ),
    Row(
        name="Name",
        name_3_0="JobGroupName",
        places=_GROUP,
        compliance=Need.SHOULD,
        becomes="the name of the job group",
        source=_T1,
    ),
    Row(
        name="State",
        name_3_0="JobGroupState",
        places=_GROUP,
        compliance=Need.SHOULD,
        becomes="written from the states of its jobs; not input",
        source=_T1,
    ),
    Row(name="Description", places=_GROUP, becomes="kept", source=_T1),
    Row(
        name="CreationTime",
        type=MOMENT,
        places=_GROUP,
        becomes="when it was submitted; not input",
        source=_T1,
    ),
)

TASK_GROUP_ROWS = (
    Row(
        name="Id",
        name_3_0="TaskGroupId",
        places=_TASKS,
        becomes="kept; what TaskGroup references mean",
        source=_T5,
    ),
    Row(
        name="Name",
        name_3_0="TaskGroupName",
        places=_TASKS,
        compliance=Need.SHOULD,
        becomes="TaskSpec.name",
        source=_T5,
    ),
    Row(
        name="TaskCount",
        type=COUNT,
        places=_TASKS,
        compliance=Need.MUST,
        becomes="the instances of the task",
        source=_T5,
    ),
)

TASK_ROWS = (
    Row(
        name="Id",
        name_3_0="TaskId",
        places=_TASK,
        becomes="the number of the instance, where it is one",
        source=_T6,
    ),
    Row(
        name="Session",
        name_3_0="SessionId",
        type=INTEGER,
        places=_TASK,
        becomes="written from the shepherd's session; not input",
        source=_T6,
    ),
    Row(
        name="Process",
        name_3_0="ProcessId",
        type=INTEGER,
        places=_TASK,
        becomes="written from the process of the instance; not input",
        source="SSS 3.1.0, Example 25-3: in no table",
    ),
)
