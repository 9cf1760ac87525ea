"""The way of one job through a chain of filters: who is next, and who is to undo what.

Source: HPC filters, notes on chains: the first that does not let the job pass ends the chain, and all that
had run are called again in reverse order.
"""

from typing import NamedTuple

from headnode.core.filtering.registration import Chain, Filter


class Call(NamedTuple):
    """A filter that was called, and the paper that it got: the job as it was then."""

    filter: Filter
    paper: bytes


class Walk:
    """What has been called so far."""

    def __init__(self, chain: Chain) -> None:
        self._ahead = list(chain)
        self.called: list[Call] = []

    def next(self) -> Filter | None:
        """Return the filter that is to be called now; None when the job has passed them all."""
        return self._ahead[0] if self._ahead else None

    def ran(self, paper: bytes) -> None:
        """Note that it was called with this paper, whatever it answered."""
        self.called.append(Call(self._ahead.pop(0), paper))

    def to_undo(self) -> list[Call]:
        """Return the calls that are to be undone, the last first, each with the paper that it saw."""
        return [call for call in reversed(self.called) if call.filter.reverts]
