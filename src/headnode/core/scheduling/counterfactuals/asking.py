"""Asking the policy: what it would do for the subject in a world where that is changed.

What cannot be placed on what is free now is not asked, and nothing is asked twice.
"""

from collections.abc import Generator
from typing import TypeVar

from headnode.core.scheduling.board import Board
from headnode.core.scheduling.counterfactuals.subject import (
    Outcome,
    Subject,
    outcome_of,
    with_job,
    without,
)
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.need import need_of
from headnode.core.scheduling.placement import fewest, fit
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import View

T = TypeVar("T")
Probing = Generator[View, Plan | None, T]
"""Yields views to be planned and is sent their plans; None instead of a plan ends the asking."""


class Asking:
    """At most so many plans of the world with the subject changed.  `cut`: one more was wanted."""

    def __init__(self, view: View, subject: Subject, most: int) -> None:
        self.plans = 0
        self.cut = False
        self._most = most
        self._rest = without(view, subject)
        self._known: dict[Subject, Outcome] = {}
        self._terrain = Terrain(view.nodes)
        free = {feature: free for feature, (_, free) in view.licences.items()}
        self._board = Board.now(self._terrain, view.nodes, free)

    def could_start(self, subject: Subject) -> bool:
        """Return whether the subject could be placed if nobody was before it; if not, no policy starts it."""
        options = (subject.request, *subject.request.others)
        return any(fit(fewest(need_of(one, self._terrain)), self._board) is not None for one in options)

    def outcome(self, subject: Subject) -> Probing[Outcome | None]:
        """Return what the policy would do for the subject, or None if no more plans may be asked for."""
        known = self._known.get(subject)
        if known is not None:
            return known
        self.cut = self.cut or self.plans == self._most
        if self.cut:
            return None
        view = with_job(self._rest, subject)
        plan = yield view
        if plan is None:
            self.cut = True
            return None
        self.plans += 1
        known = self._known[subject] = outcome_of(plan, view, subject)
        return known
