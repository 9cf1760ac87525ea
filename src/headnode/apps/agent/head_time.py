"""The time of the head: what a node says of its tasks is in it, as the node's own clock may be another."""

import time

import msgspec

from headnode.adapters.clock import MIN_JUMP
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.wire.agent_messages import (
    AttemptResult,
    Hello,
    Results,
    Staging,
    Started,
    Table,
)
from headnode.adapters.wire.messages import FromAgent
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant


class HeadTime:
    """How far the clock of the head is ahead of that of this machine; less than 2 s count as nothing."""

    def __init__(self) -> None:
        self._started: float | None = None  # the time that the head had when this machine was started

    def learn(self, now: Instant) -> None:
        """Take the time of the head from a message that has just come; 0 is none."""
        if now:
            self._started = now - boot_time()

    def in_message(self, message: FromAgent) -> FromAgent:
        """Return a message with its times on the clock of the head."""
        if self._started is None or not isinstance(message, Started | Results | Staging | Hello | Table):
            return message
        ahead = self._started + boot_time() - time.time()
        return message if abs(ahead) < MIN_JUMP else moved(message, ahead)


def moved(message: Started | Results | Staging | Hello | Table, by: float) -> FromAgent:
    """Return a message with all times so many seconds later."""
    replace = msgspec.structs.replace
    match message:
        case Started(started=begun):
            return replace(message, started=tuple(replace(one, at=Instant(one.at + by)) for one in begun))
        case Staging(transfers=transfers):
            return replace(
                message, transfers=tuple(replace(one, at=Instant(one.at + by)) for one in transfers)
            )
        case Results(results=results):
            return replace(message, results=tuple(_result(one, by) for one in results))
        case _:
            since = ((one, _later(one.since, by)) for one in message.live)
            return replace(message, live=tuple(replace(one, since=at) for one, at in since))


def _result(result: AttemptResult, by: float) -> AttemptResult:
    outcome: AttemptOutcome = result.outcome
    at_head = outcome._replace(started=_later(outcome.started, by), ended=_later(outcome.ended, by))
    return msgspec.structs.replace(result, outcome=at_head)


def _later(at: Instant | None, by: float) -> Instant | None:
    return None if at is None else Instant(at + by)
