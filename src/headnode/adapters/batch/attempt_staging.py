"""The staged files of the attempts at one resource: begins and ends their transfers as the table says."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from headnode.adapters.batch.commands import account_of
from headnode.adapters.batch.orders import HandOffOrder
from headnode.adapters.batch.staging_processes import (
    Direction,
    ForeignTransfer,
    TransferCallbacks,
    TransferQueue,
)
from headnode.core.batch.dialect import AttemptPlace
from headnode.core.batch.hand_off import HandOffTable
from headnode.core.batch.phases import ForeignPhase
from headnode.core.batch.staged_files import TransferProgress, TransferResult
from headnode.core.batch.tracked import HandOffReport, TrackedAttempt, hand_off_report
from headnode.core.model.quantities import Instant

Post = Callable[[Callable[[Instant], None]], None]


class AttemptStaging:
    """All transfers of one resource.  `post` lets the thread of the resource do something."""

    def __init__(
        self,
        table: HandOffTable,
        orders: Mapping[AttemptPlace, HandOffOrder],
        transfers: TransferQueue,
        post: Post,
        report: Callable[[Sequence[HandOffReport]], None],
    ) -> None:
        self._table, self._orders, self._transfers = table, orders, transfers
        self._post, self._report = post, report
        self._running: dict[AttemptPlace, ForeignTransfer] = {}

    def turn(self) -> None:
        """Begin what is due, and end what nobody wants any more."""
        for one in self._table.staged.to_bring():
            self._begin(one, "in")
        for one, takes in self._table.staged.to_clear():
            self._begin(one, "out" if takes else "")
        for key, transfer in list(self._running.items()):
            if transfer.direction and not transfer.stopped and self._is_unwanted(key, transfer.direction):
                self._transfers.stop(transfer)
        if self._running:
            self._transfers.fill()

    def _is_unwanted(self, key: AttemptPlace, direction: Direction) -> bool:
        one = self._table.attempts.get(key)
        if one is None or one.stop:
            return True
        return direction == "in" and one.phase not in (ForeignPhase.INTENDED, ForeignPhase.DOUBTFUL)

    def _begin(self, one: TrackedAttempt, direction: Direction) -> None:
        order, key = self._orders[one.key], one.key
        if one.staged is None or order.staged is None:
            return
        one.staged.under_way = True

        def progress(progress: TransferProgress) -> None:
            self._report([hand_off_report(one, "staging", progress=progress)])

        def waits(why: str) -> None:
            self._post(lambda _now: self._report(self._table.waits_for_files(key, why)))

        def over(result: TransferResult) -> None:
            self._post(partial(self._over, key, direction, result))

        try:
            if order.problem:
                raise LookupError(order.problem)
            account = account_of(order.owner, order.uid, order.gid)
        except (LookupError, PermissionError) as error:
            over(TransferResult("failed", str(error)))
            return
        callbacks = TransferCallbacks(progress, waits, over)
        self._running[key] = ForeignTransfer(key, account, direction, order.staged, callbacks)
        self._transfers.begin(self._running[key])

    def _over(self, key: AttemptPlace, direction: Direction, result: TransferResult, now: Instant) -> None:
        self._running.pop(key, None)
        if direction == "in":
            self._table.staged.brought(key, result)
        else:
            self._report(self._table.cleared(key, result, now))
