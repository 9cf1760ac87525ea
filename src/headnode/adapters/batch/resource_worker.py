"""One resource: asks its scheduler, tells the table of attempts the answers, and does what that wants."""

import queue
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from headnode.adapters.batch.attempt_files import (
    AttemptDesk,
    base_directory,
    files_found,
    look_words,
    not_written,
    submission_answers,
    submit_input,
    submit_words,
)
from headnode.adapters.batch.commands import CommandUser, account_of, own_account, run_command
from headnode.adapters.batch.orders import (
    HandOffChange,
    HandOffOrder,
    ResourceStatus,
)
from headnode.adapters.batch.staging_processes import AttemptStaging, TransferQueue
from headnode.core.batch.dialect import (
    AttemptPlace,
    CommandResult,
    Dialect,
    ForeignAction,
    SubmissionResult,
)
from headnode.core.batch.hand_off import HandOffTable
from headnode.core.batch.tracked import ForeignPhase, HandOffReport, HandOffTimeouts, TrackedAttempt, by_owner
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.resource import BatchResource

AT_ONCE = 32  # commands as users
OF_ONE_USER = 3  # of these
MAX_TOGETHER = 16  # submissions in one shell
QUICK = 5.0  # seconds that these may take, else the next is alone
GATHERS = 1.0  # seconds for which fewer than these wait for an earlier submission of their user
MAX_COMMAND = 60.0  # seconds, of anything but a submission
MAX_EXIT_FILE = 60.0  # seconds until the exit file of an ended job is not waited for any more
TICK = 1.0  # seconds between two looks at what is due
SLOW = 5  # a poll rests so many times as long as the last one took
SLOW_ACCOUNTING = 10.0  # seconds of an answer after which only what is missing is asked for
REST_OF_ACCOUNTING = 600.0  # seconds that this lasts, also after no answer
NEVER = float("inf")
SOON = 3.0  # seconds until the next poll while something waits for it that was just canceled or searched

CLOCK_STEP = 1.0  # seconds; the clock was set if it has moved by so much against the monotonic one

Result = TypeVar("Result")
News = Callable[[Sequence[HandOffReport], ResourceStatus | None], None]


class ResourceWorker:
    """A thread for one resource, and some that submit."""

    def __init__(
        self, resource: BatchResource, dialect: Dialect, on_reports: News, transfers: TransferQueue
    ) -> None:
        self._resource, self._dialect, self._changed = resource, dialect, on_reports
        self.system = dialect.system
        self._table = HandOffTable(dialect.system.full_name, _timeout(resource))
        self._orders: dict[AttemptPlace, HandOffOrder] = {}
        self._inbox: queue.SimpleQueue[Callable[[Instant], None]] = queue.SimpleQueue()
        self._staging = AttemptStaging(self._table, self._orders, transfers, self._inbox.put, self._report)
        self._users = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="users")
        self._own = ThreadPoolExecutor(2, thread_name_prefix="own")  # a poll, and a look into the history
        self._under_way: Counter[str] = Counter()  # commands of each user
        self._together = MAX_TOGETHER
        self._submitting: dict[str, list[float]] = {}  # by user, when each submission under way began
        self._looking: set[str] = set()
        self._polling = self._remembering = False
        self._next_poll, self._next_history, self._rests_until = 0.0, NEVER, 0.0
        self._ahead = time.time() - time.monotonic()  # of the clock that nobody sets
        self._is_over = False
        self._thread = threading.Thread(target=self._work, name=resource.name, daemon=True)
        self._thread.start()

    def change(self, resource: BatchResource) -> None:
        """The resource is to be asked as this says."""

        def do(_now: Instant) -> None:
            self._resource, self._table.timeout = resource, _timeout(resource)

        self._inbox.put(do)

    def end(self) -> None:
        """End the threads; nothing that was handed over may be there."""

        def do(_now: Instant) -> None:
            self._is_over = True

        self._inbox.put(do)

    def order(self, order: HandOffOrder) -> None:
        """Hand an attempt over, or find it."""

        def do(now: Instant) -> None:
            self._orders[order.key] = order
            self._table.add(
                order.key,
                order.submission.marker,
                order.owner,
                job=order.foreign,
                may_be_there=order.may_be_there,
                now=now,
                limit=order.submission.limit,
                has_results=order.staged.has_results if order.staged is not None else None,
            )
            self._table.change(order.key, held=order.held, limit=order.submission.limit)
            if order.stop:
                self._table.stop(order.key)

        self._inbox.put(do)

    def change_attempt(self, change: HandOffChange) -> None:
        """Hold an attempt or release it, or change its time limit."""

        def do(_now: Instant) -> None:
            order = self._orders.get(change.key)
            if order is not None:
                self._orders[change.key] = replace(order, submission=change.submission)
                self._table.change(change.key, held=change.held, limit=change.submission.limit)

        self._inbox.put(do)

    def stop(self, key: AttemptPlace) -> None:
        """Cancel an attempt."""
        self._inbox.put(lambda _now: self._table.stop(key))

    def drop(self, key: AttemptPlace) -> None:
        """Forget an attempt."""

        def do(_now: Instant) -> None:
            self._table.drop(key)
            self._orders.pop(key, None)

        self._inbox.put(do)

    @property
    def desk(self) -> AttemptDesk:
        """What answers questions about its attempts."""
        return AttemptDesk(self._resource, self._dialect)

    def _work(self) -> None:
        while not self._is_over:
            try:
                job: Callable[[Instant], None] | None = self._inbox.get(timeout=TICK)
            except queue.Empty:
                job = None
            while job is not None:
                job(self._now())
                try:
                    job = self._inbox.get_nowait()
                except queue.Empty:
                    job = None
            self._turn()
        for threads in (self._users, self._own):
            threads.shutdown(wait=False)

    def _now(self) -> Instant:
        """Return the time. If the clock was set, the table learns by how much first."""
        now = time.time()
        moved = now - time.monotonic() - self._ahead
        if abs(moved) >= CLOCK_STEP:
            self._ahead += moved
            self._table.clock_set(Seconds(moved))
        return Instant(now)

    def _turn(self) -> None:
        """Start what is due; nothing here waits for a command."""
        now = self._now()
        self._report(self._table.never_there(now))
        self._staging.turn()
        for owner, attempts in by_owner(self._table.to_submit(now)).items():
            while attempts and self._may_submit(owner, len(attempts)):
                self._submit(owner, attempts[: self._together], now)
                attempts = attempts[self._together :]
        for action, attempts in self._table.to_act(now).items():
            for owner, those in by_owner(attempts).items():
                one_by_one = action is ForeignAction.LIMIT
                for some in [[each] for each in those] if one_by_one else [those]:
                    if self._under_way[owner] < OF_ONE_USER:
                        self._act(action, owner, some, now)
        is_due = not self._polling and time.monotonic() >= self._next_poll
        if is_due and (owners := self._table.owners()):
            self._poll(owners)
        if not self._remembering and time.monotonic() >= self._next_history:
            self._remember()

    def _may_submit(self, owner: str, count: int) -> bool:
        """Whether so many attempts are submitted now, or wait for others to share a shell with."""
        if self._under_way[owner] >= OF_ONE_USER:
            return False
        began = max(self._submitting.get(owner, ()), default=-GATHERS)
        return count >= self._together or time.monotonic() >= began + GATHERS

    def _report(self, reports: Sequence[HandOffReport]) -> None:
        if reports:
            self._changed(reports, None)

    def _run(
        self, account: CommandUser, argv: Sequence[str], stdin: bytes = b"", seconds: float = 0.0
    ) -> CommandResult:
        return run_command(
            self._resource,
            self._dialect.system.settings_variable,
            account,
            argv,
            stdin=stdin,
            seconds=seconds or MAX_COMMAND,
        )

    def _beside(
        self, owner: str, work: Callable[[], Result], then: Callable[[Result, Instant], None]
    ) -> None:
        """Do work for a user in another thread, and then the rest in this one."""
        self._under_way[owner] += 1

        def do() -> None:
            result = work()

            def finish(now: Instant) -> None:
                self._under_way[owner] -= 1
                then(result, now)

            self._inbox.put(finish)

        (self._users if owner else self._own).submit(do).add_done_callback(_end_if_failed)

    def _run_as_owner(self, order: HandOffOrder, argv: Sequence[str]) -> CommandResult | None:
        """Run a command as the user of an attempt; None if none can be."""
        try:
            return self._run(account_of(order.owner, order.uid, order.gid), argv)
        except (LookupError, PermissionError):
            return None

    # Submission.

    def _submit(self, owner: str, attempts: Sequence[TrackedAttempt], now: Instant) -> None:
        """Submit some attempts of one user in one shell."""
        orders = {one.marker: self._orders[one.key] for one in attempts}
        for one in attempts:
            self._table.sent(one.key, now)
        began = time.monotonic()
        self._submitting.setdefault(owner, []).append(began)

        def answered(answers: Mapping[str, SubmissionResult], now: Instant) -> None:
            self._submitting[owner].remove(began)
            quick = time.monotonic() - began < QUICK
            clear = all(answer.kind != "doubtful" for answer in answers.values())
            self._together = MAX_TOGETHER if quick and clear else 1
            reports: list[HandOffReport] = []
            for marker, order in orders.items():
                if answers[marker].kind == "queued" and order.key in self._orders:  # nobody needs it again
                    self._orders[order.key] = order.without_input()
                reports += self._table.submitted(order.key, answers[marker], now)
            self._report(reports)

        self._beside(owner, lambda: self._submitted(orders), answered)

    def _submitted(self, orders: Mapping[str, HandOffOrder]) -> dict[str, SubmissionResult]:
        by_marker = {
            marker: SubmissionResult("refused", message=order.problem)
            for marker, order in orders.items()
            if order.problem
        }
        wanted = {marker: order for marker, order in orders.items() if marker not in by_marker}
        if not wanted:
            return by_marker
        order = next(iter(wanted.values()))
        try:
            account = account_of(order.owner, order.uid, order.gid)
        except (LookupError, PermissionError) as error:
            return by_marker | dict.fromkeys(wanted, SubmissionResult("refused", message=str(error)))
        base, token = base_directory(self._resource, order.owner), secrets.token_hex(8)
        hidden = {marker: one.secret for marker, one in wanted.items() if one.secret}
        commands = {m: (one.script, self._dialect.submit(one.submission)) for m, one in wanted.items()}
        seconds = min(MAX_COMMAND, self._resource.settle * 2 / 3)
        result = self._run(
            account, submit_words(base, token, wanted), submit_input(commands, hidden), seconds
        )
        for marker, one in submission_answers(result, token, wanted).items():
            by_marker[marker] = not_written(one) or self._dialect.submitted(one)
        return by_marker

    # What is there.

    def _act(
        self, action: ForeignAction, owner: str, attempts: Sequence[TrackedAttempt], now: Instant
    ) -> None:
        order, keys = self._orders[attempts[0].key], [one.key for one in attempts]
        argv = self._dialect.act(action, [one.id for one in attempts], order.submission)
        self._table.begun(action, attempts, now)

        def acted(result: CommandResult | None, now: Instant) -> None:
            if result is not None:
                self._report(self._table.acted(action, keys, result, now))
            self._poll_soon()

        self._beside(owner, lambda: self._run_as_owner(order, argv), acted)

    def _poll_soon(self) -> None:
        self._next_poll = min(self._next_poll, time.monotonic() + min(SOON, self._resource.poll))

    def _poll(self, owners: Sequence[str]) -> None:
        clock, argv = time.monotonic(), self._dialect.poll(owners)
        self._polling = True

        def polled(result: CommandResult, now: Instant) -> None:
            took, rows = time.monotonic() - clock, self._dialect.polled(result)
            began = Instant(now - took)
            self._polling = False
            self._next_poll = time.monotonic() + max(self._resource.poll, SLOW * took)
            problem = "" if rows is not None else result.complaint
            status = ResourceStatus(self._resource.key, began, took, len(rows or ()), problem)
            self._changed(self._table.polled(rows, began, now), status)
            self._look()
            if any(each.phase is ForeignPhase.DOUBTFUL for each in self._table.attempts.values()):
                wait = max(1.0, self._resource.settle / 3)
                self._next_poll = min(self._next_poll, time.monotonic() + wait)

        self._beside("", lambda: self._run(own_account(), argv), polled)

    def _look(self) -> None:
        """Look at the files of attempts; a home that does not answer keeps nobody but its user waiting."""
        for owner, attempts in by_owner(self._table.to_look_at()).items():
            if owner in self._looking:
                continue
            markers = [each.marker for each in attempts]
            argv = look_words(base_directory(self._resource, owner), markers)
            order = self._orders[attempts[0].key]
            self._looking.add(owner)
            looked = partial(self._looked, owner, markers, time.monotonic())
            self._beside(owner, partial(self._run_as_owner, order, argv), looked)

    def _looked(
        self, owner: str, markers: Sequence[str], clock: float, result: CommandResult | None, now: Instant
    ) -> None:
        self._looking.discard(owner)
        if result is not None:
            began = Instant(now - (time.monotonic() - clock))
            self._report(self._table.looked(files_found(result, markers), began, now))
        self._next_history = 0.0

    def _remember(self) -> None:
        """Ask the accounting for attempts that have ended; where it is slow, only for what is missing."""
        asked, clock = self._table.to_remember(), time.monotonic()
        self._next_history = NEVER
        if not asked:
            return
        if clock < self._rests_until and all(each.report is not None for each in asked):
            self._report(self._table.remembered(None, self._now()))
            return
        self._remembering = True
        known = [each.id for each in asked if each.id]
        argv = self._dialect.history([each.marker for each in asked], known)

        def remembered(result: CommandResult, now: Instant) -> None:
            self._remembering = False
            rows, took = self._dialect.remembered(result), time.monotonic() - clock
            if rows is None or took > SLOW_ACCOUNTING:
                self._rests_until = time.monotonic() + REST_OF_ACCOUNTING
            self._report(self._table.remembered(rows, now))
            if any(each.report is not None for each in self._table.attempts.values()):
                self._next_history = time.monotonic() + max(SOON, SLOW * took)

        self._beside("", lambda: self._run(own_account(), argv), remembered)


def _end_if_failed(future: "Future[None]") -> None:
    """Fail the process where the work of a thread has failed: else its attempts would wait for ever."""
    error = future.exception()
    if error is not None:
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, None)))


def _timeout(resource: BatchResource) -> HandOffTimeouts:
    exit_file = Seconds(min(MAX_EXIT_FILE, max(1.0, resource.lost_after / 5)))
    return HandOffTimeouts(resource.poll, resource.settle, resource.lost_after, exit_file)
