"""The calls of an executor: which are open, in which task each is, and how a result file becomes a result."""

import contextlib
import errno
import pickle
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, InvalidStateError
from typing import Any, NamedTuple

from headnode.core.model.errors import BadRequest, HeadnodeError, WrongState
from headnode.sdk.executor.call_files import (
    CALL,
    ENDED,
    RESULT,
    RESULTS,
    STARTED,
    WRITTEN,
    CallDirectory,
    ResultHeader,
)


class HeadnodeFuture(Future[Any]):
    """A call that runs, or will run, as a task.

    Unlike those of other executors, `cancel` also stops a call that runs.
    """

    def __init__(self, number: int, dropped: Callable[[int], None], directory: CallDirectory) -> None:
        """`dropped` is told the number of a canceled call; in `directory` its task says that it runs."""
        super().__init__()
        self.number, self.started = number, False
        self.place = ""  # as `hn task output` names it, JOB.TASK.INSTANCE, once it was submitted
        self._dropped, self._directory, self._once = dropped, directory, threading.RLock()

    def running(self) -> bool:
        """Return True if the call is being executed."""
        if self.done():
            return False
        self.started = self.started or self._directory.has(f"{self.number}{STARTED}")
        return self.started

    def cancel(self) -> bool:
        """Cancel the call, also while it runs; return False if it has ended."""
        with self._once:
            already = self.cancelled()
            if not super().cancel():
                return False
            if not already:
                self.set_running_or_notify_cancel()  # tells those that wait
                self._dropped(self.number)
        return True

    def set_result(self, result: Any) -> None:
        """Give the call its result, unless it was canceled meanwhile."""
        with contextlib.suppress(InvalidStateError):
            super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Give the call its exception, unless it was canceled meanwhile."""
        with contextlib.suppress(InvalidStateError):
            super().set_exception(exception)


class RemoteTraceback(Exception):
    """The traceback of an exception, as the task has seen it: the cause of the exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


def settle(future: HeadnodeFuture, header: ResultHeader, body: bytes) -> None:
    """Give a future the result that a task has written."""
    if header.kind == "value":
        try:
            value = pickle.loads(body)  # noqa: S301  (from a private file of this user)
        except BaseException as error:  # noqa: BLE001  (whatever its classes raise, also SystemExit)
            future.set_exception(_unreadable(future, error))
        else:
            future.set_result(value)
    elif header.kind == "exception":
        future.set_exception(_exception(header, body))
    elif header.kind == ENDED:
        future.set_exception(_ended(future, header))
    else:
        future.set_exception(BadRequest(code=header.kind, what=header.what, fix=header.fix))


def _exception(header: ResultHeader, body: bytes) -> BaseException:
    """Return the exception of the function with its traceback; if it was not pickled, what it said."""
    try:
        error = pickle.loads(body) if body else None  # noqa: S301  (from a private file of this user)
    except BaseException:  # noqa: BLE001  (whatever its classes raise, also SystemExit)
        error = None
    if not isinstance(error, BaseException):
        error = WrongState(
            code="call-raised",
            what=f"the function has raised {header.what}",
            fix="see the cause of this error",
        )
    error.__cause__ = RemoteTraceback(header.traceback)
    return error


def _ended(future: HeadnodeFuture, header: ResultHeader) -> HeadnodeError:
    return WrongState(
        code=ENDED,
        what=f"the task {future.place} of the call ended without a result: the function called {header.what}",
        fix=f"return a value, or raise an exception; see its output: hn task output {future.place}",
    )


def _unreadable(future: HeadnodeFuture, error: BaseException) -> HeadnodeError:
    return BadRequest(
        code="result-unreadable",
        what=f"the result of call {future.place} cannot be unpickled here: {type(error).__name__}: {error}",
        fix="import here the modules of its classes",
    )


class CallPlace(NamedTuple):
    """The instance of a task in which a call runs."""

    job: int
    task: int
    instance: int


class OpenCalls:
    """The calls that have no result yet.  Threads may share it."""

    def __init__(self, directory: CallDirectory, largest_result: int) -> None:
        """`largest_result`: bytes."""
        self.directory, self.largest_result = directory, largest_result
        self._futures: dict[int, HeadnodeFuture] = {}
        self._places: dict[int, CallPlace] = {}
        self._open_in: Counter[int] = Counter()  # calls of each job
        self._lock, self._collecting = threading.RLock(), threading.Lock()

    def open(self, future: HeadnodeFuture) -> None:
        """Add a call."""
        with self._lock:
            self._futures[future.number] = future

    def all(self) -> list[HeadnodeFuture]:
        """Return the futures of all open calls."""
        with self._lock:
            return list(self._futures.values())

    def waiting(self, numbers: Iterable[int]) -> list[int]:
        """Return those of the calls that are still open."""
        with self._lock:
            return [number for number in numbers if number in self._futures]

    def placed(self, job: int, task: int, numbers: range) -> None:
        """Note that calls are the instances of a task, in this order."""
        with self._lock:
            for instance, number in enumerate(numbers, 1):
                if number in self._futures:
                    self._futures[number].place = f"{job}.{task}.{instance}"
                    self._places[number] = CallPlace(job, task, instance)
                    self._open_in[job] += 1

    def place_of(self, number: int) -> CallPlace | None:
        """Return where a call runs; None if it has ended or was not submitted."""
        with self._lock:
            return self._places.get(number)

    def of_job(self, job: int) -> dict[int, dict[int, int]]:
        """Return the open calls of a job: {task: {instance: number}}."""
        found: dict[int, dict[int, int]] = defaultdict(dict)
        with self._lock:
            for number, place in self._places.items():
                if place.job == job:
                    found[place.task][place.instance] = number
        return found

    def open_in(self, job: int) -> int:
        """Return how many calls of a job are open."""
        with self._lock:
            return self._open_in[job]

    def close(self, number: int) -> HeadnodeFuture | None:
        """Take a call out, with its files; None if it was taken out before."""
        with self._lock:
            future, place = self._futures.pop(number, None), self._places.pop(number, None)
            if place is not None:
                self._open_in[place.job] -= 1
        for kind in (CALL, STARTED, RESULT):
            self.directory.remove(f"{number}{kind}")
        return future

    def fail(self, numbers: Iterable[int], error: HeadnodeError) -> None:
        """Give calls an error as their result."""
        for number in list(numbers):
            if (future := self.close(number)) is not None:
                future.set_exception(error)

    def collect(self) -> None:
        """Read the results that are there.  If the directory cannot be read now, the next look finds them."""
        with self._collecting:
            try:
                names = sorted(self.directory.names())
            except OSError:
                return
            for name in names:
                number, _, kind = name.partition(".")
                if number.isdigit() and f".{kind}" == STARTED:
                    self._mark_started(int(number))
                elif number.isdigit() and f".{kind}" == RESULT:
                    self._take(int(number), name)

    def _mark_started(self, number: int) -> None:
        with self._lock:
            future = self._futures.get(number)
        if future is not None:
            future.started = True

    def _take(self, number: int, name: str) -> None:
        try:
            header, body = self.directory.read(name, RESULTS, self.largest_result)
        except (OSError, HeadnodeError) as error:
            if isinstance(error, OSError) and error.errno in _PASSING:
                return  # the next look finds it
            self.fail([number], _unread(name, error))
            return
        future = self.close(number)
        if future is not None and not future.cancelled():  # a pickle that nobody wants is not read
            settle(future, header, body)

    def without_result(self, numbers: Iterable[int]) -> list[int]:
        """Return those of the calls that have started and will have no result, as their tasks have ended."""
        return [number for number in numbers if self._has_written(number) is False]

    def _has_written(self, number: int) -> bool | None:
        """Return whether a task has written the result of its call; None if that is not seen here."""
        try:
            _, mark = self.directory.read(f"{number}{STARTED}", RESULTS, len(WRITTEN))
        except (OSError, HeadnodeError):
            return None
        return mark == WRITTEN

    def collect_until(self, numbers: Iterable[int], patience: float) -> list[int]:
        """Collect until none of the calls is open, or for so many seconds; return those that are open.

        A file that a node has written may be seen here later: directories of NFS are cached.
        """
        deadline, pause = time.monotonic() + patience, 0.05
        wanted = list(numbers)
        while True:
            self.collect()
            wanted = self.waiting(wanted)
            if not wanted or time.monotonic() >= deadline:
                return wanted
            time.sleep(pause)
            pause = min(2 * pause, 2.0)


_PASSING = (errno.ENOENT, errno.ESTALE, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Why a result cannot be opened now: it is only seen in the directory yet, or too many files are open."""


def _unread(name: str, error: OSError | HeadnodeError) -> HeadnodeError:
    if isinstance(error, HeadnodeError):
        return error
    return WrongState(
        code="result-unread", what=f"the result {name} cannot be read: {error}", fix="run it again"
    )
