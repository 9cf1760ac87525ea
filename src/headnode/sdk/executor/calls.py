"""The calls of an executor: which are open, in which task each is, and what their results are."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from headnode.core.model.errors import HeadnodeError, WrongState
from headnode.sdk.executor.call_files import CALL, RESULT, RESULTS, STARTED, CallDirectory
from headnode.sdk.executor.futures import HeadnodeFuture, settle


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
            if (future := self.close(number)) is not None and not future.cancelled():
                future.set_exception(error)

    def collect(self) -> None:
        """Read the results that are there."""
        with self._collecting:
            for name in sorted(self.directory.names()):
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
        except FileNotFoundError:
            return  # it is seen in the directory before it can be opened: the next look finds it
        except (OSError, HeadnodeError) as error:
            self.fail([number], _unread(name, error))
            return
        future = self.close(number)
        if future is not None and not future.cancelled():
            settle(future, header, body)

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


def _unread(name: str, error: OSError | HeadnodeError) -> HeadnodeError:
    if isinstance(error, HeadnodeError):
        return error
    return WrongState(
        code="result-unread", what=f"the result {name} cannot be read: {error}", fix="run it again"
    )
