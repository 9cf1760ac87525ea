"""The shortest job first within each priority, but nobody is overtaken by more than so many.

The order is ours; where jobs fit, who may overtake whom and every reason is left to EASY backfill, which is
asked about the same cluster with the queue in another order.
"""

from collections.abc import Iterable

import msgspec

from headnode.core.model.quantities import QueuePosition
from headnode.core.scheduling import policies
from headnode.testing import Plan, View, WaitingClass

OVERTAKERS = 20  # a job that so many were submitted after goes in the order of submission
LONGEST = 10**9  # seconds; jobs without a limit go last


def plan(view: View) -> Plan:
    """Decide about every queued job."""
    newest = max((turn.order for turn in _turns(view)), default=0)
    real: dict[int, QueuePosition] = {}
    queue = []
    for waiting in view.queue:
        seconds = int(min(waiting.request.run_time, LONGEST))
        turns = []
        for turn in waiting.turns:
            changed = _changed(turn, seconds, patient=newest - turn.order > OVERTAKERS)
            real[turn.job] = turn
            turns.append(changed)
        queue.append(WaitingClass(waiting.request, sorted(turns)))
    made = policies.plan_easy(msgspec.structs.replace(view, queue=queue))
    kept = tuple(msgspec.structs.replace(each, turn=real[each.job]) for each in made.reservations)
    return msgspec.structs.replace(made, reservations=kept)


def _turns(view: View) -> Iterable[QueuePosition]:
    yield from (job.turn for job in view.running)
    yield from (turn for waiting in view.queue for turn in waiting.turns)


def _changed(turn: QueuePosition, seconds: int, *, patient: bool) -> QueuePosition:
    """Return the place in the queue: those who were patient first, then the shortest."""
    return turn._replace(order=turn.order - 2 * LONGEST if patient else seconds)
