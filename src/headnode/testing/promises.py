"""The promises by name, what each asks of a plan or of a history, and which policy owes which."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Protocol

from headnode.core.model.quantities import JobId
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.view import View
from headnode.testing import earliest, one_plan, overtaking
from headnode.testing.histories import History, Moment, Policy
from headnode.testing.over_time import EverybodyStarts, NeverLater


class Promise(StrEnum):
    """What a policy may promise, in words."""

    EVERYBODY_IS_DECIDED = "every queued job starts, or waits with a reason"
    WHAT_IS_GIVEN_FITS = "nothing is given that is not free, or not what the job may hold"
    IS_A_FUNCTION = "the same view gives the same plan, and is left as it was"
    LISTING_DOES_NOT_MATTER = "the order in which things are listed changes nothing"
    RESERVATIONS_CAN_BE_KEPT = "what runs and starts leaves all reservations their places"
    EVERYBODY_STARTS = "who could run does run at last"
    NOBODY_STARVES = "a stream of small jobs holds nobody up for ever"
    EQUALS_START_IN_TURN = "of equal jobs the better turn starts first"
    NOBODY_OVERTAKES = "behind the first that must wait nobody starts"
    FIRST_IS_NOT_DELAYED = "the first that must wait has the earliest start, and nobody delays it"
    WHO_IS_OVER_IN_TIME_OVERTAKES = "nobody waits who fits and is over before the first one's reservation"
    WHO_CAN_OVERTAKES = "nobody waits who could start without delaying the first"
    NEVER_LATER_BUT_FOR_BETTER_TURNS = "a reservation moves later only when a better turn comes or grows"
    NEVER_LATER = "a reservation once given never moves later, and its start is not missed"
    EARLIEST_SLOTS = "among equal nodes, everybody has the earliest slot that is left, kept ones first"
    EARLIEST_SLOTS_ANEW = "among equal nodes, everybody has the earliest slot that is left, in turn"


P = Promise
Promises = frozenset[Promise]

SOUND: Promises = frozenset(
    {
        P.EVERYBODY_IS_DECIDED,
        P.WHAT_IS_GIVEN_FITS,
        P.IS_A_FUNCTION,
        P.LISTING_DOES_NOT_MATTER,
        P.RESERVATIONS_CAN_BE_KEPT,
    }
)
"""What is asked of every policy."""

FAIR: Promises = SOUND | {P.EVERYBODY_STARTS, P.NOBODY_STARVES}
"""What users expect of every policy."""

OURS: Mapping[str, Promises] = MappingProxyType(
    {
        "fcfs": FAIR | {P.EQUALS_START_IN_TURN, P.NOBODY_OVERTAKES, P.NEVER_LATER_BUT_FOR_BETTER_TURNS},
        "easy": FAIR
        | {
            P.EQUALS_START_IN_TURN,
            P.FIRST_IS_NOT_DELAYED,
            P.WHO_IS_OVER_IN_TIME_OVERTAKES,
            P.NEVER_LATER_BUT_FOR_BETTER_TURNS,
        },
        "conservative": FAIR | {P.EQUALS_START_IN_TURN, P.NEVER_LATER, P.EARLIEST_SLOTS},
        "conservative-replan": FAIR | {P.EQUALS_START_IN_TURN, P.EARLIEST_SLOTS_ANEW},
    }
)
"""What the policies of Headnode promise."""


class Watcher(Protocol):
    """Sees every pass of a history."""

    def see(self, moment: Moment) -> None:
        """Look at a pass; raise PromiseBroken."""

    def end(self, waiting: list[JobId]) -> None:
        """Look at who never started; raise PromiseBroken."""


OF_A_PLAN: Mapping[Promise, Callable[[View, Plan], None]] = MappingProxyType(
    {
        P.EVERYBODY_IS_DECIDED: one_plan.everybody_is_decided,
        P.WHAT_IS_GIVEN_FITS: one_plan.what_is_given_fits,
        P.RESERVATIONS_CAN_BE_KEPT: one_plan.reservations_can_be_kept,
        P.EQUALS_START_IN_TURN: one_plan.equals_start_in_turn,
        P.NOBODY_OVERTAKES: overtaking.nobody_overtakes,
        P.FIRST_IS_NOT_DELAYED: overtaking.first_blocked_is_not_delayed,
        P.WHO_IS_OVER_IN_TIME_OVERTAKES: overtaking.who_is_over_in_time_overtakes,
        P.WHO_CAN_OVERTAKES: overtaking.whoever_can_overtake_does,
        P.EARLIEST_SLOTS: earliest.slots_are_earliest,
        P.EARLIEST_SLOTS_ANEW: earliest.slots_are_earliest_anew,
    }
)

OF_A_POLICY: Mapping[Promise, Callable[[Policy, View, Plan], None]] = MappingProxyType(
    {
        P.IS_A_FUNCTION: one_plan.is_a_function,
        P.LISTING_DOES_NOT_MATTER: one_plan.listing_does_not_matter,
    }
)

OF_A_HISTORY: Mapping[Promise, Callable[[History], Watcher]] = MappingProxyType(
    {
        P.EVERYBODY_STARTS: EverybodyStarts,
        P.NEVER_LATER: NeverLater,
        P.NEVER_LATER_BUT_FOR_BETTER_TURNS: partial(NeverLater, unless_ahead=True),
    }
)
