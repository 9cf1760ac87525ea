"""The jobs in which calls run: batches become sweeps, of a new job or of one with room, and are followed."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from headnode.core.model.errors import HeadnodeError, Refused, Unavailable, WrongState
from headnode.protocol.answers import TaskObject, VerbAnswer, WatchedJob
from headnode.sdk.description import DIALECT, TASKS, job_text, naming_arguments
from headnode.sdk.executor.call_files import ENDED, NO_VALUE
from headnode.sdk.executor.calls import CallPlace, OpenCalls
from headnode.sdk.patience import Patience
from headnode.sdk.synchronous.client import HeadnodeClient
from headnode.sdk.synchronous.connection import pause
from headnode.sdk.verbs.verb_methods import Answer, new_key

MAX_JOBS = 8  # of an executor at the same time
RESULT_TIMEOUT = 60.0  # seconds until a result that a task has written is seen in the directory


class CallJob:
    """A job whose tasks are calls, and the thread that follows it."""

    def __init__(self, id: int, pool: "JobsOfCalls") -> None:  # noqa: A002  (the word of the protocol)
        self.id, self._pool = id, pool
        self.state, self.allocated, self.failed = "", 0, 0
        self.thread = threading.Thread(target=self._follow, name=f"headnode job {id}", daemon=True)

    def _follow(self) -> None:
        """Collect results when the head reports a change, up to the end of the job."""
        try:
            try:
                for now in self._pool.client.watch(self.id):
                    self._changed(now)
                self.state = "Finished"
            finally:
                self._pool.forget(self)  # first: calls that are placed from now on are followed by another
            self._pool.settle_rest(self.id)
        except HeadnodeError as error:
            self._pool.give_up(self.id, error)

    def _changed(self, now: WatchedJob) -> None:
        self.state, self.allocated = now.state, now.allocated
        self._pool.calls.collect()
        failed = now.tasks.failed + now.tasks.canceled
        if failed > self.failed:
            self.failed = failed
            self._pool.settle_failed(self.id)

    def has_room(self, calls: int) -> bool:
        """Return True if so many more processors would be used at once, or when the job starts."""
        return self.state == "Queued" or self.allocated >= calls


class JobsOfCalls:
    """Submits batches of calls, and cancels calls."""

    def __init__(
        self, client: HeadnodeClient, calls: OpenCalls, task: dict[str, Any], options: dict[str, Any]
    ) -> None:
        """`task`: the description of the tasks, `options`: of their jobs."""
        self.client, self.calls = client, calls
        self._task, self._options = task, options
        self._processors = _least(task, options)
        self._jobs: list[CallJob] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def submit(self, numbers: list[int]) -> None:
        """Submit calls as sweeps, each of consecutive numbers; what is refused is the result of its calls."""
        sweeps = _sweeps(numbers)
        text = job_text(
            {**self._options, TASKS: [{**self._task, "sweep": f"{r[0]}-{r[-1]}"} for r in sweeps]}
        )
        try:
            if not self._added(sweeps, text, len(numbers)):
                self._submitted(sweeps, text)
        except HeadnodeError as error:
            self.calls.fail(numbers, error)

    def _added(self, sweeps: list[range], text: str, count: int) -> bool:
        """Add the tasks to a job with room for them; return False if there is none."""
        job = self._job_with_room(count)
        if job is None:
            return False
        key, verbs = new_key(), self.client.verbs
        try:
            answer = self._patiently(lambda: verbs.add_tasks(job.id, jobfile=text, idempotency=key))
        except Refused:
            return False  # it has ended meanwhile
        self._place(job.id, answer.tasks, sweeps)
        with self._lock:
            is_followed = job in self._jobs
        if not is_followed:  # it has ended since it took the tasks
            self._begin(CallJob(job.id, self))
        return True

    def _submitted(self, sweeps: list[range], text: str) -> None:
        key, verbs = new_key(), self.client.verbs
        with naming_arguments():
            answer = self._patiently(lambda: verbs.submit_job(jobfile=text, dialect=DIALECT, idempotency=key))
        self._place(answer.job, list(range(1, len(sweeps) + 1)), sweeps)
        self._begin(CallJob(answer.job, self))

    def _begin(self, job: CallJob) -> None:
        """Follow a job; cancel it if there is no thread for that.

        Raises:  Unavailable ``no-thread``.
        """
        try:
            with self._lock:
                job.thread.start()
                self._jobs.append(job)
                self._threads = [each for each in self._threads if each.is_alive()] + [job.thread]
        except RuntimeError as error:
            self._cancel_quietly(partial(self.client.verbs.cancel_job, job.id, message="it is not followed"))
            what = f"job {job.id} was canceled: this process cannot follow it: {error}"
            raise Unavailable(
                code="no-thread", what=what, fix="raise the limit of processes: ulimit -u"
            ) from None

    def _place(self, job: int, tasks: list[int], sweeps: list[range]) -> None:
        for task, numbers in zip(tasks, sweeps, strict=True):
            self.calls.placed(job, task, numbers)

    def _job_with_room(self, count: int) -> CallJob | None:
        with self._lock:
            jobs = list(self._jobs)
        for job in jobs:
            if job.has_room((self.calls.open_in(job.id) + count) * self._processors):
                return job
        return min(jobs, key=lambda job: self.calls.open_in(job.id)) if len(jobs) >= MAX_JOBS else None

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        """Return the answer to a request that may be repeated; while the head is away, ask again.

        Raises:  the refusal of the head; Unavailable after the patience of the client.
        """
        patience = Patience(self.client.patience, None)
        while True:
            try:
                return ask()
            except Unavailable as away:
                pause(patience.pause_after(away))

    def cancel(self, numbers: list[int]) -> None:
        """Cancel calls; if no others are left in a job, the job."""
        places = [place for number in numbers if (place := self.calls.place_of(number)) is not None]
        for number in numbers:
            self.calls.close(number)
        emptied = {place.job for place in places if not self.calls.open_in(place.job)}
        for job in emptied:
            self._cancel_quietly(partial(self.client.verbs.cancel_job, job, message="calls canceled"))
        for job, task, instance in places:
            if job not in emptied:
                self._cancel_quietly(partial(self.client.verbs.cancel_task, job, task, instance=instance))

    def _cancel_quietly(self, ask: Callable[[], VerbAnswer]) -> None:
        """Cancel what may have ended meanwhile."""
        try:
            self._patiently(ask)
        except HeadnodeError:
            return  # it has ended, or the head is away for good: nobody waits for the answer

    def settle_failed(self, job: int) -> None:
        """Give an error to the open calls of a job whose tasks failed or were canceled without a result."""
        ended: dict[int, TaskObject] = {}
        for task, calls in self.calls.of_job(job).items():
            for found in self.client.job(job).tasks(states=["Failed", "Canceled"], expand=task):
                if found.instance in calls:
                    ended[calls[found.instance]] = found
        self.calls.collect_until(
            [n for n, found in ended.items() if found.exit_code == NO_VALUE], RESULT_TIMEOUT
        )
        for number in self.calls.collect_until(ended, 0.0):
            self.calls.fail([number], _without_result(ended[number]))

    def settle_rest(self, job: int) -> None:
        """Settle the calls of a job that has ended."""
        self.settle_failed(job)
        left = [number for calls in self.calls.of_job(job).values() for number in calls.values()]
        for number in self.calls.collect_until(self.calls.without_result(left), 0.0):
            self.calls.fail([number], _ended_early(self.calls.place_of(number)))
        left = self.calls.collect_until(left, RESULT_TIMEOUT)
        self.calls.fail(left, _missing(job, self.calls.directory.path))

    def give_up(self, job: int, error: HeadnodeError) -> None:
        """Give an error to all calls of a job that can no longer be followed."""
        self.calls.collect()
        self.calls.fail([n for calls in self.calls.of_job(job).values() for n in calls.values()], error)

    def forget(self, job: CallJob) -> None:
        """Add no more calls to a job."""
        with self._lock:
            self._jobs.remove(job)

    def join(self) -> None:
        """Wait for the end of all jobs."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join()


def _sweeps(numbers: list[int]) -> list[range]:
    """Return ascending numbers as ranges.

    >>> _sweeps([3, 4, 5, 8])
    [range(3, 6), range(8, 9)]
    """
    found: list[range] = []
    for number in numbers:
        if found and found[-1].stop == number:
            found[-1] = range(found[-1].start, number + 1)
        else:
            found.append(range(number, number + 1))
    return found


def _least(task: dict[str, Any], options: dict[str, Any]) -> int:
    """Return the processors of a call, at least; 1 if it counts nodes or sockets.

    >>> _least({"processors": "2-4"}, {}), _least({"gpus": 2}, {"processors_per_gpu": 8}), _least({}, {})
    (2, 16, 1)
    """
    each = int(options.get("processors_per_gpu", 1)) if "gpus" in task else 1
    text = str(task.get("gpus" if "gpus" in task else "processors", 1)).partition("-")[0].strip()
    return int(text) * each if text.isdigit() else 1


def _without_result(task: TaskObject) -> HeadnodeError:
    name = f"{task.job}.{task.task}.{task.instance}"
    if task.state == "Canceled" or task.cause == "request":
        what = f"the task {name} of the call was canceled" + (f": {task.message}" if task.message else "")
        return WrongState(code="call-canceled", what=what, fix=f"see hn job view {task.job}")
    how = f"killed by signal {task.signal}" if task.signal else f"exit status {task.exit_code}"
    what = f"the task {name} of the call ended without a result: {how}"
    what += f": {task.message}" if task.message else ""
    return WrongState(code="call-failed", what=what, fix=f"see its output: hn task output {name}")


def _ended_early(place: CallPlace | None) -> HeadnodeError:
    name = ".".join(map(str, place or ()))
    return WrongState(
        code=ENDED,
        what=f"the task {name} of the call ended without a result: the function has ended its process with "
        "exit status 0, by exit() of a library or as another program (exec)",
        fix=f"return a value, or start programs with subprocess; see its output: hn task output {name}",
    )


def _missing(job: int, path: str) -> HeadnodeError:
    return WrongState(
        code="result-missing",
        what=f"job {job} has ended, but a result is not in {path!r}",
        fix="name a directory that the nodes share with this machine: HeadnodeExecutor(directory=...)",
    )
