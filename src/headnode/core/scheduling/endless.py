"""The first waiting job that no end of a limit will help, and its place among jobs without a limit."""

from headnode.core.model.quantities import NEVER, Instant
from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.future import release_of
from headnode.core.scheduling.need import at_some_time
from headnode.core.scheduling.placement import fewest, fit
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import View
from headnode.core.scheduling.wishes import Wish, options


class Endless:
    """Keeps jobs without a limit from piling up in front of it; others end, and are no hindrance."""

    def __init__(self, view: View, terrain: Terrain) -> None:
        self.head: Wish | None = None
        self._view, self._terrain = view, terrain
        licences = {feature: total for feature, (total, _) in view.licences.items()}
        self._empty = Board.empty(terrain, licences)
        self._last = self._empty.copy()

    def can_run(self, wish: Wish) -> bool:
        """Return whether the wish would fit on the open nodes if nothing else ran there."""
        return self._fits(wish, self._empty)

    def _fits(self, wish: Wish, board: Board) -> bool:
        under = options(wish, self._view.now, self._terrain)
        return any(fit(fewest(at_some_time(each.need, self._terrain)), board) is not None for each in under)

    def wait(self, wish: Wish) -> None:
        """Let this job be the one, if there is none, with jobs behind it that were given its place before."""
        if self.head is not None or not self.can_run(wish):
            return
        self.head = wish
        for job in self._view.running:
            if job.end == NEVER and job.turn > wish.turn:
                self._last.put(release_of(job, Instant(self._view.now), self._terrain).piece)

    def allows(self, wish: Wish, found: Fit) -> bool:
        """Return whether the wish leaves the job its place, and if so count what it takes.

        A job that would do with several requests has its place where it fits under one of them.
        """
        if self.head is None or wish.end < NEVER:
            return True
        then = self._last.copy()
        then.put(wish.need.piece(found))
        if not self._fits(self.head, then):
            return False
        self._last = then
        return True
