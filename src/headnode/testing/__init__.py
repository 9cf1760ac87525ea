"""For authors of scheduling policies: small clusters as values, and promises to hold a policy to.

>>> from headnode.testing import FAIR, QUICK, check_policy
>>> from headnode.core.scheduling.policies import POLICIES
>>> check_policy(POLICIES["fcfs"], FAIR, effort=QUICK._replace(every=500, histories=1))
"""

from headnode.core.model.job import (
    HeldAmounts,
    JobRequest,
    Licence,
    NodeGroupOp,
    OrderKey,
    RequestPart,
    UnitType,
)
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.owner_limits import LimitShare
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Grow, Plan, Reason, Reservation, Start, Wait, Why
from headnode.core.scheduling.view import RunningJob, View, WaitingClass
from headnode.testing.checking import (
    MANNERS,
    QUICK,
    THOROUGH,
    Effort,
    Manner,
    check_history,
    check_policy,
    check_scene,
    check_small_worlds,
    check_streams,
    random_histories,
    random_history,
)
from headnode.testing.histories import (
    Arrival,
    History,
    Moment,
    Policy,
    live,
    show_history,
    show_plan,
    show_scene,
)
from headnode.testing.promises import FAIR, OURS, SOUND, Promise
from headnode.testing.scenes import (
    INF,
    MINUTE,
    NOW,
    asks,
    gang,
    limited,
    node,
    on_gpus,
    part,
    reserved,
    runs,
    scene,
    start,
    started,
    turn_of,
)
from headnode.testing.small_worlds import SMALL_WORLDS
from headnode.testing.specification import PromiseBroken

__all__ = [
    "FAIR",
    "INF",
    "MANNERS",
    "MINUTE",
    "NOW",
    "OURS",
    "QUICK",
    "SMALL_WORLDS",
    "SOUND",
    "THOROUGH",
    "Arrival",
    "Effort",
    "Grow",
    "HeldAmounts",
    "History",
    "JobRequest",
    "Licence",
    "LimitShare",
    "Manner",
    "Moment",
    "NodeGroupOp",
    "NodeNeeds",
    "NodeView",
    "OrderKey",
    "Plan",
    "Policy",
    "Promise",
    "PromiseBroken",
    "Reason",
    "RequestPart",
    "Reservation",
    "RunningJob",
    "Start",
    "UnitType",
    "View",
    "Wait",
    "WaitingClass",
    "Why",
    "asks",
    "check_history",
    "check_policy",
    "check_scene",
    "check_small_worlds",
    "check_streams",
    "gang",
    "limited",
    "live",
    "node",
    "on_gpus",
    "part",
    "random_histories",
    "random_history",
    "reserved",
    "runs",
    "scene",
    "show_history",
    "show_plan",
    "show_scene",
    "start",
    "started",
    "turn_of",
]  # fmt: skip
