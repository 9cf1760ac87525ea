"""The attempts with staged files in one other scheduler: which transfers are due."""

from headnode.core.batch.dialect import AttemptPlace
from headnode.core.batch.phases import ForeignPhase
from headnode.core.batch.staged_files import StagedFiles, TransferResult
from headnode.core.batch.tracked import TrackedAttempt
from headnode.core.model.outcome import AttemptOutcome


class StagedAttempts:
    """All attempts with staged files."""

    def __init__(self) -> None:
        self._known: dict[AttemptPlace, tuple[TrackedAttempt, StagedFiles]] = {}

    def add(self, one: TrackedAttempt, *, has_results: bool) -> None:
        """Files of this attempt are staged."""
        one.staged = StagedFiles(has_results=has_results)
        self._known[one.key] = (one, one.staged)

    def drop(self, key: AttemptPlace) -> None:
        """Forget an attempt."""
        self._known.pop(key, None)

    def to_bring(self) -> list[TrackedAttempt]:
        """Return the attempts whose input is to be brought now.

        Also of one that may be there: whoever brings it finds out whether all was there before.
        """
        before = (ForeignPhase.INTENDED, ForeignPhase.DOUBTFUL)
        wanted = [one for one, staged in self._known.values() if staged.are_to_come and one.phase in before]
        return [one for one in wanted if not one.stop and not one.held]

    def to_clear(self) -> list[tuple[TrackedAttempt, bool]]:
        """Return the attempts whose files are to be removed now, and whether results are taken away first."""
        keys = []
        for one, staged in self._known.values():
            if one.phase is ForeignPhase.CLEARING and not staged.under_way:
                if one.stop:
                    staged.stopped()
                keys.append((one, staged.takes))
        return keys

    def brought(self, key: AttemptPlace, result: TransferResult) -> None:
        """Bringing the input of an attempt has ended."""
        if key in self._known:
            self._known[key][1].brought(result)

    def cleared(
        self, key: AttemptPlace, result: TransferResult
    ) -> tuple[TrackedAttempt, AttemptOutcome] | None:
        """Return an attempt with its outcome, if taking away its results and its files has ended."""
        if key not in self._known:
            return None
        one, staged = self._known[key]
        outcome = staged.cleared(result)
        return None if outcome is None else (one, outcome)
