"""For authors of scheduling policies: small clusters as values, and promises to hold a policy to.

>>> from headnode.testing import FAIR, QUICK, check_policy
>>> from headnode.core.scheduling.policies import POLICIES
>>> check_policy(POLICIES["fcfs"], FAIR, effort=QUICK._replace(every=500, histories=1))
"""

from headnode.core.model.held import Held
from headnode.core.model.job import JobRequest, Licence, NodeGroupOp, OrderKey, Part, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.scheduling.decision import Grow, Plan, Reason, Reservation, Start, Wait, Why
from headnode.core.scheduling.view import NodeView, RunningJob, View, WaitingClass
from headnode.testing.broken import PromiseBroken
from headnode.testing.checking import (
    QUICK,
    THOROUGH,
    Effort,
    check_history,
    check_policy,
    check_scene,
    check_small_worlds,
    check_streams,
)
from headnode.testing.histories import Arrival, History, Moment, Policy, live
from headnode.testing.promises import FAIR, OURS, SOUND, Promise
from headnode.testing.random_histories import MANNERS, Manner, random_histories, random_history
from headnode.testing.scenes import (
    INF,
    MINUTE,
    NOW,
    asks,
    gang,
    node,
    part,
    reserved,
    runs,
    scene,
    start,
    started,
    turn_of,
)
from headnode.testing.showing import show_history, show_plan, show_scene
from headnode.testing.small_worlds import SMALL_WORLDS

__all__ = [
    "FAIR", "INF", "MANNERS", "MINUTE", "NOW", "OURS", "QUICK", "SMALL_WORLDS", "SOUND", "THOROUGH",
    "Arrival", "Effort", "Grow", "Held", "History", "JobRequest", "Licence", "Manner", "Moment",
    "NodeGroupOp", "NodeNeeds", "NodeView", "OrderKey", "Part", "Plan", "Policy", "Promise", "PromiseBroken",
    "Reason", "Reservation", "RunningJob", "Start", "UnitType", "View", "Wait", "WaitingClass", "Why",
    "asks", "check_history", "check_policy", "check_scene", "check_small_worlds", "check_streams", "gang",
    "live", "node", "part", "random_histories", "random_history", "reserved", "runs", "scene", "show_history",
    "show_plan", "show_scene", "start", "started", "turn_of",
]  # fmt: skip
